# SPDX-License-Identifier: Apache-2.0
"""DIP-VAE-I with a few labels, against disentanglement_lib's numbers for both halves of the loss."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from unbraid.objectives.objective import total_loss
from unbraid.objectives.s2_dip_vae_i import S2DIPVAEI

RECORD = json.loads(
    (Path(__file__).resolve().parents[1] / "golden" / "few_labels.json").read_text()
)


def labelled(golden, shift: float = 0.0) -> dict[str, torch.Tensor]:
    """The golden labels, for images whose means are those of the batch."""
    labels = torch.tensor(RECORD["labels"], dtype=torch.float32).unsqueeze(0)
    return {
        "labelled_mean": golden.forward.mean + shift,
        "labels": labels,
        "label_sizes": torch.tensor([RECORD["factor_sizes"]]).float(),
    }


@pytest.mark.parametrize(("loss", "gamma_sup"), [("xent", 2.0), ("cov", 16.0)])
def test_golden_regulariser_and_supervised_term(golden, loss, gamma_sup):
    objective = S2DIPVAEI(lambda_od=5, lambda_d_factor=10, gamma_sup=gamma_sup, label_loss=loss)
    found = total_loss(objective.terms(replace(golden.forward, **labelled(golden))))
    expected = (
        golden.values["regularizer"]["dip_i_od=5_factor=10"] + gamma_sup * RECORD["values"][loss]
    )
    assert found.item() == pytest.approx(expected, rel=golden.relative)


def test_labelled_images_are_no_part_of_the_covariance(golden):
    objective = S2DIPVAEI()
    alone, moved = (
        objective.terms(replace(golden.forward, **given))["moment_penalty"]
        for given in (labelled(golden), labelled(golden, 3.0))
    )
    assert torch.equal(alone.value, moved.value)
