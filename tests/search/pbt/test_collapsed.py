# SPDX-License-Identifier: Apache-2.0
"""Active latents of a model while it trains: as the tables of a run count them, on few images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from unbraid.data import load
from unbraid.search.pbt.collapsed import MOST_POINTS, collapsed_winner, counted
from unbraid.search.pbt.scorer import SURROGATES, Scorer
from unbraid.search.rpu.surrogate_labels import SurrogateLabels, write_surrogates

SIGNAL = np.array([0.95, 0.6, 0.1, 0.0])
"""Shares of the variance of four latents that the image makes: two are active."""


@pytest.mark.parametrize("points", [100, 10 * MOST_POINTS])
def test_latents_are_active_by_their_share_of_signal_however_many_images(points: int):
    # In the order of a grid: every fifth image alone would see the first latent stand still.
    first = np.sqrt(3) * (np.arange(points) % 5 / 2 - 1) * np.sqrt(2 / 3)
    others = np.random.default_rng(0).normal(size=(points, 3))
    mean = np.column_stack([first, others]).astype(np.float32) * np.sqrt(SIGNAL, dtype=np.float32)
    logvar = np.broadcast_to(np.log(1 - SIGNAL), mean.shape).astype(np.float32)
    assert counted(mean, logvar, noisy=True) == 2
    assert counted(mean, logvar, noisy=False) == 3, "the fourth stands still"


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_codes_that_are_not_finite_have_no_active_latent(value: float):
    mean = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32)
    logvar = np.full_like(mean, -3.0)
    assert counted(mean, logvar, noisy=True) == 2
    mean[7, 1] = value
    assert counted(mean, logvar, noisy=True) == 0
    assert (
        counted(np.zeros((50, 2), np.float32), np.full((50, 2), 2000, np.float32), noisy=True) == 0
    )


def test_by_surrogate_labels_the_leaf_run_with_fewest_decides(tmp_path: Path):
    def level(latents: int) -> SurrogateLabels:
        return SurrogateLabels(np.arange(20), np.zeros((20, latents), np.float32))

    write_surrogates(tmp_path / "s", [(level(2), level(3)), (level(2), level(1))])
    scorer = Scorer(SURROGATES, 0, surrogates="s")
    assert scorer.known_factors(load("sprites", x=4, y=4, scale=1, image_size=16), tmp_path) == 3


def test_the_sentence_counts_what_is_there_and_what_must_be():
    assert "of its 10 latents none is active, and 3 must be" in collapsed_winner(0, 10, 3)
    assert "of its 10 latents 2 are active, and 3 must be" in collapsed_winner(2, 10, 3)
