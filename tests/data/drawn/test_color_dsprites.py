# SPDX-License-Identifier: Apache-2.0
"""Color-dSprites: dSprites' own images times a colour, uniform on [0.5, 1] in each channel."""

from __future__ import annotations

import numpy as np
import torch
from scipy import stats

from unbraid.core import random
from unbraid.core.random import Stream
from unbraid.data import load

INDICES = np.random.default_rng(5).integers(0, 737_280, 600)


def colours(samples: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """The one colour of each sprite, `(n, 3)`; fails where a sprite has two or its surroundings
    any.
    """
    painted = samples.amax(dim=(-2, -1))
    assert torch.equal(samples, masks * painted[:, :, None, None])
    return painted


def test_sprites_are_dsprites_in_one_colour_on_black():
    dataset, plain = load("color_dsprites"), load("dsprites")
    indices = torch.from_numpy(INDICES)
    found = colours(dataset.sampler("cpu")(indices), plain.sampler("cpu")(indices))
    assert float(found.min()) >= 0.5
    assert float(found.max()) < 1.0
    assert dataset.factor_names == plain.factor_names
    assert np.array_equal(dataset.factors(INDICES), plain.factors(INDICES))


def test_colours_are_uniform_and_channels_independent():
    dataset, indices = load("color_dsprites"), torch.from_numpy(INDICES)
    masks = load("dsprites").sampler("cpu")(indices)
    found = colours(dataset.sampler("cpu")(indices, torch.arange(600)), masks).numpy()
    for channel in range(3):
        assert stats.kstest(found[:, channel], "uniform", args=(0.5, 0.5)).pvalue > 1e-3
    assert np.abs(np.corrcoef(found.T) - np.eye(3)).max() < 0.15


def test_a_colour_is_a_function_of_seed_index_and_number():
    indices, numbers = torch.tensor([[3, 3], [70_000, 3]]), torch.tensor([[0, 9], [9, 2**31 - 1]])
    drawn = load("color_dsprites", seed=7).sampler("cpu")(indices, numbers)
    for row, column in np.ndindex(2, 2):
        step = int(indices[row, column]) + (int(numbers[row, column]) << 32)
        colour = 0.5 + 0.5 * random.uniform(torch.tensor([7]), step, Stream.IMAGE_NOISE, (3,))[0]
        assert torch.equal(drawn[row, column].amax(dim=(-2, -1)), colour)
    other = load("color_dsprites", seed=8).sampler("cpu")(indices, numbers)
    assert not torch.equal(drawn, other)


def test_few_images_need_not_the_whole_set():
    dataset = load("color_dsprites")
    images = dataset.images([5, 700_000])
    assert dataset._sprites._packed is None
    assert images.shape == (2, 64, 64, 3)
    assert dataset.images([[5], [700_000]]).shape == (2, 1, 64, 64, 3)
