# SPDX-License-Identifier: Apache-2.0
"""Noisy-dSprites: white sprites, and noise that is uniform and independent between pixels, channels
and images.
"""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats

from unbraid.data import load

INDICES = torch.from_numpy(np.random.default_rng(6).integers(0, 737_280, 100))


def drawn(seed: int = 0, numbers: torch.Tensor | None = None) -> tuple[np.ndarray, np.ndarray]:
    samples = load("noisy_dsprites", seed=seed).sampler("cpu")(
        INDICES, *([] if numbers is None else [numbers])
    )
    return (
        samples.numpy(),
        load("dsprites").sampler("cpu")(INDICES).expand(-1, 3, -1, -1).numpy() > 0,
    )


def test_sprites_are_white():
    samples, sprites = drawn()
    assert (samples[sprites] == 1.0).all()


def test_the_background_is_uniform_and_independent():
    samples, sprites = drawn()
    levels = np.rint(samples * 255).astype(int)
    counts = np.bincount(levels[~sprites], minlength=256)
    assert stats.chisquare(counts).pvalue > 1e-3
    noise = np.where(sprites, np.nan, samples)
    for one, other in (
        (noise[:, 0], noise[:, 1]),
        (noise[:, 1], noise[:, 2]),
        (noise[..., :-1], noise[..., 1:]),
        (noise[..., :-4], noise[..., 4:]),
        (noise[:, :, :-1], noise[:, :, 1:]),
        (noise[:-1], noise[1:]),
    ):
        both = np.isfinite(one) & np.isfinite(other)
        assert abs(np.corrcoef(one[both], other[both])[0, 1]) < 5 / np.sqrt(both.sum())


def test_seeds_and_numbers_give_other_noise():
    first = drawn()[0]
    assert np.array_equal(first, drawn()[0])
    assert not np.array_equal(first, drawn(seed=1)[0])
    assert not np.array_equal(first, drawn(numbers=torch.ones_like(INDICES))[0])
