# SPDX-License-Identifier: Apache-2.0
"""Labels from the winner of a search: those of the model that agrees best, of the latents that say
something, made once.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from unbraid.codes.codes import CodeStore
from unbraid.commands.run import open_run
from unbraid.core.errors import InputError
from unbraid.metrics.udr import udr
from unbraid.search.pbt.search import SearchRun
from unbraid.search.rpu import labelling
from unbraid.search.rpu.labelling import Labelling, label

from ..pbt.test_search import created, finished

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> SearchRun:
    """A search without labels whose models say something."""
    return finished(
        tmp_path_factory.mktemp("udr") / "run",
        score="udr:alpha=0.05",
        models=3,
        epochs=2,
        epoch_images=640,
        hyper={"beta": "0.2..0.5"},
        learning_rate="5e-3..1e-2",
    )


@pytest.fixture
def forgotten(searched: SearchRun) -> SearchRun:
    """The search before its labels were made."""
    (searched.path / "labels.safetensors").unlink(missing_ok=True)
    return searched


def test_labels_are_the_means_of_the_active_latents_of_the_model_that_agrees_best(
    forgotten: SearchRun,
):
    run = forgotten.winner()
    CodeStore(run).encode(CPU)
    stored = [CodeStore(run).load(member) for member in range(3)]
    scores = udr(
        np.stack([codes.mean.astype(np.float64) for codes in stored]),
        np.stack([codes.kl_per_latent() for codes in stored]),
        alpha=0.05,
    ).per_model
    found = label(forgotten, CPU, active_nats=0.3)
    assert found.model == int(np.argmax(scores))
    assert len(set(scores)) > 1
    np.testing.assert_allclose(found.model_scores, scores, atol=1e-6)
    assert np.mean(found.model_scores) == pytest.approx(found.score, abs=1e-6)
    assert found.score == forgotten.winner_record()["score"]
    codes = stored[found.model]
    in_order = np.argsort(codes.indices)  # stored in a random order
    kl = codes.kl_per_latent()
    np.testing.assert_allclose(found.kl_per_latent, kl, rtol=1e-5)
    assert set(found.latents) == set(np.flatnonzero(kl > 0.3).tolist())
    assert found.latents, "a model without active latents would show nothing"
    assert list(found.latents) == sorted(found.latents, key=lambda latent: -kl[latent])
    np.testing.assert_allclose(
        found.values, codes.mean[in_order][:, list(found.latents)], rtol=1e-5, atol=1e-6
    )
    assert (found.values.dtype, found.values.shape) == (np.float32, (24, len(found.latents)))


@pytest.mark.parametrize("best", [0, 1, 2])
def test_the_model_with_the_highest_score_gives_the_labels(
    forgotten: SearchRun, best: int, monkeypatch: pytest.MonkeyPatch
):
    scores = np.where(np.arange(3) == best, 0.8, 0.2)
    monkeypatch.setattr(
        labelling,
        "udr",
        lambda codes, kl, **options: replace(udr(codes, kl, **options), per_model=scores),
    )
    found = label(forgotten, CPU, active_nats=0.0)
    assert found.model == best
    direct = (
        open_run(forgotten.path, device="cpu")
        .model(best)
        .encode(forgotten.dataset.images(np.arange(24)))
    )
    np.testing.assert_allclose(found.values, direct[:, list(found.latents)], rtol=1e-4, atol=1e-5)


def test_the_threshold_decides_which_latents_are_active(forgotten: SearchRun):
    usual = label(forgotten, CPU)
    assert usual.active_nats == 1.0
    assert set(usual.latents) == set(np.flatnonzero(usual.kl_per_latent > 1.0).tolist())
    every = label(forgotten, CPU, active_nats=0.0)
    assert sorted(every.latents) == [0, 1, 2]
    nats = every.kl_per_latent[list(every.latents)]
    assert (np.diff(nats) <= 0).all()
    between = float(nats[:2].mean())
    assert label(forgotten, CPU, active_nats=between).latents == every.latents[:1]
    none = label(forgotten, CPU, active_nats=1e6)
    assert none.latents == ()
    assert none.values.shape == (24, 0)
    again = Labelling.load(forgotten.path / "labels.safetensors")
    assert again.values.shape == (24, 0)


def test_labels_are_made_once(forgotten: SearchRun, monkeypatch: pytest.MonkeyPatch):
    made = label(forgotten, CPU)
    monkeypatch.setattr(labelling, "encode_run", lambda *_: pytest.fail("encoded again"))
    again = label(SearchRun.open(forgotten.path), CPU)
    assert (again.score, again.model, again.model_scores, again.latents) == (
        made.score,
        made.model,
        made.model_scores,
        made.latents,
    )
    np.testing.assert_array_equal(again.values, made.values)
    np.testing.assert_array_equal(again.kl_per_latent, made.kl_per_latent)


def test_damaged_labels_are_made_again(forgotten: SearchRun):
    made = label(forgotten, CPU)
    path = forgotten.path / "labels.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    np.testing.assert_array_equal(label(forgotten, CPU).values, made.values)
    assert path.read_bytes() == content


@pytest.mark.parametrize(
    ("score", "failed"), [(0.0, True), (0.0999, True), (0.1, False), (0.9, False), (math.nan, True)]
)
def test_a_best_agreement_below_a_tenth_is_none(score: float, failed: bool):
    one = Labelling(score, 0, (score,), np.ones(1), (0,), np.ones((4, 1), dtype=np.float32))
    assert one.failed is failed


def test_an_unfinished_search_has_no_labels(tmp_path: Path):
    run = created(tmp_path / "run", score="udr", models=2)
    with pytest.raises(InputError) as caught:
        label(run, CPU)
    (problem,) = caught.value.problems
    assert (problem.name, problem.rule) == ("run", "must be a finished search")


def test_a_collapsed_model_labels_only_where_all_are(
    forgotten: SearchRun, monkeypatch: pytest.MonkeyPatch
):
    best = label(forgotten, CPU).model
    for alive, taken in (([False, False, False], best), ([True] * 3, best)):
        counts = iter(alive)
        monkeypatch.setattr(labelling, "counted", lambda *codes, noisy, at=counts: int(next(at)))
        (forgotten.path / "labels.safetensors").unlink()
        assert label(forgotten, CPU).model == taken
    counts = iter([model != best for model in range(3)])
    monkeypatch.setattr(labelling, "counted", lambda *codes, noisy: int(next(counts)))
    (forgotten.path / "labels.safetensors").unlink()
    found = label(forgotten, CPU)
    others = [score if model != best else -1.0 for model, score in enumerate(found.model_scores)]
    assert found.model == int(np.argmax(others))
