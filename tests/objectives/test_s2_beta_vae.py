# SPDX-License-Identifier: Apache-2.0
"""β-VAE with a few labels: disentanglement_lib's numbers for both halves of the loss; a hundred
labels are worth having.
"""

from __future__ import annotations

import importlib.util
import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from unbraid.objectives.s2_beta_vae import S2BetaVAE

from unbraid.objectives.objective import total_loss

ROOT = Path(__file__).resolve().parents[2]
RECORD = json.loads((ROOT / "tests" / "golden" / "few_labels.json").read_text())


def labelled(golden) -> dict[str, torch.Tensor]:
    """The golden labels, for images whose means are those of the batch."""
    labels = torch.tensor(RECORD["labels"], dtype=torch.float32).unsqueeze(0)
    return {
        "labelled_mean": golden.forward.mean,
        "labels": labels,
        "label_sizes": torch.tensor([RECORD["factor_sizes"]]).float(),
    }


@pytest.mark.parametrize(("loss", "gamma_sup"), [("xent", 2.0), ("cov", 16.0)])
def test_golden_regulariser_and_supervised_term(golden, loss, gamma_sup):
    objective = S2BetaVAE(beta=4, gamma_sup=gamma_sup, label_loss=loss)
    found = total_loss(objective.terms(replace(golden.forward, **labelled(golden))))
    expected = golden.values["regularizer"]["beta_vae_beta=4"] + gamma_sup * RECORD["values"][loss]
    assert found.item() == pytest.approx(expected, rel=golden.relative)


def test_loss_by_hand(make_forward):
    # Means and variances of 1: half a nat for each of 3 latents. One labelled image, its mean 0:
    # log 2 for each of 2 factors.
    parts = {
        "mean": torch.ones(1, 4, 3),
        "logvar": torch.zeros(1, 4, 3),
        "reconstruction": torch.full((1, 4), 7.0),
    }
    labelled = {
        "labelled_mean": torch.zeros(1, 1, 3),
        "labels": torch.tensor([[[2.0, 1.0]]]),
        "label_sizes": torch.tensor([[3.0, 4.0]]),
    }
    terms = S2BetaVAE(beta=2, gamma_sup=5).terms(
        make_forward(members=1, batch=4, latents=3, **parts, **labelled)
    )
    assert total_loss(terms).item() == pytest.approx(7 + 2 * 1.5 + 5 * 2 * math.log(2), rel=1e-6)


def test_the_study_s_strengths_are_a_sweep():
    swept = S2BetaVAE(beta=[1, 16], gamma_sup=[1, 2, 4, 6, 8, 16], label_count=[100, 1000]).sweep()
    assert len(swept) == 2 * 6 * 2
    assert {(one.gamma_sup, one.label_count) for one in swept} == {
        (g, n) for g in (1, 2, 4, 6, 8, 16) for n in (100, 1000)
    }


def assert_labels_help(mig: dict[str, list[float]]) -> None:
    """A hundred perfect labels: the worst seed beats the best without labels, and by 0.3 on
    average.
    """
    without = [*mig["no labels, β 1"], *mig["no labels, β 4"]]
    assert min(mig["perfect"]) > max(without), mig
    assert (
        np.mean(mig["perfect"])
        > max(np.mean(mig["no labels, β 1"]), np.mean(mig["no labels, β 4"])) + 0.3
    ), mig


def test_labels_help_in_the_recorded_numbers():
    rows = json.loads((ROOT / "benchmarks" / "results" / "few_labels.json").read_text("utf-8"))[
        "rows"
    ]
    mig = {row["labels"]: row["mig"] for row in rows}
    assert_labels_help(mig)
    means = {name: np.mean(scores) for name, scores in mig.items()}
    # Coarse, wrong or missing labels are worth less than the truth, and more than none.
    for worse in ("binned", "noisy", "partial", "permuted, embed"):
        assert means["no labels, β 4"] < means[worse] < means["perfect"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_labels_help_when_trained_again(tmp_path):
    spec = importlib.util.spec_from_file_location(
        "few_labels", ROOT / "benchmarks" / "few_labels.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    names = ("no labels, β 1", "no labels, β 4", "perfect")
    assert_labels_help(
        {
            name: module.scores_of_seeds(module.SETTINGS[name], 3, 1500, tmp_path / name)["mig"]
            for name in names
        }
    )
