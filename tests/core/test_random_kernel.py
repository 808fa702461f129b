# SPDX-License-Identifier: Apache-2.0
"""The kernels of `random` bit for bit: by Triton's interpreter on a CPU, and on CUDA."""

from __future__ import annotations

import math

import pytest
import torch

from unbraid.core import random

pytest.importorskip("triton")

import triton
import triton.language as tl

from unbraid.core import random_kernel

DEVICES = pytest.mark.parametrize(
    "device",
    [
        pytest.param(
            "cpu",
            marks=pytest.mark.skipif(
                torch.cuda.is_available(), reason="kernels run on the device here"
            ),
        ),
        pytest.param("cuda", marks=pytest.mark.gpu),
    ],
)
SEEDS = torch.tensor([0, 5, 2**40 + 3, -7, -(2**63), 2**63 - 1])
STEPS = torch.tensor([[0, 1, 15], [2**32 - 1, 2**33 + 1, 2**62]])
KINDS = {
    "words": (random.words, random_kernel.WORDS.value),
    "uniform": (random.uniform, random_kernel.UNIFORM.value),
    "normal": (random.normal, random_kernel.NORMAL.value),
}


def same_bits(found: torch.Tensor, expected: torch.Tensor) -> bool:
    return found.dtype == expected.dtype and torch.equal(
        found.cpu().view(torch.uint8), expected.view(torch.uint8)
    )


@DEVICES
@pytest.mark.parametrize("shape", [(1,), (5, 7), (64, 10), (1025,), (0, 3)])
@pytest.mark.parametrize("kind", list(KINDS))
def test_the_same_numbers(device, kind, shape):
    plain, number = KINDS[kind]
    # Many numbers of a seed and step test how they are cut into blocks, few all seeds and steps.
    many = math.prod(shape) > 100
    seeds, steps = (SEEDS[2:5], STEPS[:, 1:2]) if many else (SEEDS, STEPS)
    found = random_kernel.draw(seeds.to(device), steps.to(device), 3, shape, number)
    assert same_bits(found, plain(seeds, steps, 3, shape))


@DEVICES
@pytest.mark.parametrize("high", [1, 2, 7, 737_280, 3 * 2**29, 2**31])
def test_the_same_whole_numbers(device, high):
    found = random_kernel.draw(
        SEEDS.to(device), STEPS.to(device), 1, (300,), random_kernel.INTEGERS.value, high
    )
    assert same_bits(found, random.integers(SEEDS, STEPS, 1, (300,), high))


@DEVICES
def test_one_step_without_an_axis(device):
    found = random_kernel.draw(
        SEEDS.to(device), torch.tensor(9, device=device), 6, (11,), random_kernel.NORMAL.value
    )
    assert same_bits(found, random.normal(SEEDS, 9, 6, (11,)))


@triton.jit
def quantile_kernel(word_ptr, out_ptr, COUNT: tl.constexpr):
    at = tl.arange(0, COUNT)
    tl.store(out_ptr + at, random_kernel._normal_quantile(tl.load(word_ptr + at)).to(tl.float32))


@DEVICES
def test_the_same_quantiles_where_draws_seldom_fall(device):
    """Both ends, and around the words where the centre meets the tails; float32, as they are drawn.

    In float64 some tails differ in the last bit: torch's square root on a CPU is not rounded
    exactly.
    """
    meet = [math.floor((0.5 + side * 0.425) * 2**32) for side in (-1, 1)]
    centres = (0, 2**31, 2**32 - 1, 2**16, 2**32 - 2**16, *meet)
    words = torch.tensor(
        sorted({min(max(centre + k, 0), 2**32 - 1) for centre in centres for k in range(-20, 20)})
    )
    words = torch.cat([words, words.new_full((512 - len(words),), 3)])
    out = torch.zeros(512, device=device)
    quantile_kernel[(1,)](words.to(device), out, COUNT=512, enable_fp_fusion=False)
    assert same_bits(out, random.normal_quantile(words).to(torch.float32))


@triton.jit
def multiply_kernel(
    upper_ptr,
    lower_ptr,
    out_ptr,
    refused_ptr,
    HIGH: tl.constexpr,
    REST: tl.constexpr,
    COUNT: tl.constexpr,
):
    at = tl.arange(0, COUNT)
    out, refused = random_kernel._multiply_shift(
        tl.load(upper_ptr + at), tl.load(lower_ptr + at), HIGH, REST
    )
    tl.store(out_ptr + at, out)
    tl.store(refused_ptr + at, refused.to(tl.int64))


@DEVICES
def test_the_same_words_are_refused(device):
    high = 3_000_000
    # The first word of a stretch is the only one ever refused; no draw of a test meets one.
    picks = [-(-(2**64 * k) // high) + off for k in range(1, 20) for off in (0, 1)] + [
        0,
        1,
        2**63,
        2**64 - 1,
    ]
    picks += [7] * (64 - len(picks))
    upper, lower = (
        torch.tensor([p >> 32 for p in picks]),
        torch.tensor([p & 0xFFFFFFFF for p in picks]),
    )
    out, refused = (torch.zeros(64, dtype=torch.int64, device=device) for _ in range(2))
    multiply_kernel[(1,)](
        upper.to(device), lower.to(device), out, refused, HIGH=high, REST=2**64 % high, COUNT=64
    )
    expected, expected_refused = random._multiply_shift(upper, lower, high)
    assert torch.equal(out.cpu(), expected)
    assert torch.equal(refused.cpu().bool(), expected_refused)
    assert 0 < int(expected_refused.sum()) < 64


@pytest.mark.gpu
def test_random_itself_has_the_same_bits_on_cuda():
    seed = SEEDS.cuda()
    for step in (7, STEPS):
        given = step if isinstance(step, int) else step.cuda()
        for plain, _ in KINDS.values():
            assert same_bits(plain(seed, given, 2, (33, 3)), plain(SEEDS, step, 2, (33, 3)))
        assert same_bits(
            random.integers(seed, given, 2, (33,), 737_280),
            random.integers(SEEDS, step, 2, (33,), 737_280),
        )
        assert same_bits(
            random.permutations(seed, given, 2, 5, 33), random.permutations(SEEDS, step, 2, 5, 33)
        )


@pytest.mark.gpu
def test_more_steps_than_an_axis_of_the_grid_holds():
    seeds, steps = torch.tensor([3, 4]), torch.arange(70_000)
    found = random_kernel.draw(seeds.cuda(), steps.cuda(), 7, (3,), random_kernel.UNIFORM.value)
    assert same_bits(found, random.uniform(seeds, steps, 7, (3,)))
