# SPDX-License-Identifier: Apache-2.0
"""The generator against its published vectors, its distributions, and its independence of shape and
neighbours.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unbraid.core import random as ub_random
from unbraid.core.errors import InputError
from unbraid.core.random import Stream

# Known-answer vectors of Philox4x32-10, Random123 1.14 (D. E. Shaw Research), file
# tests/kat_vectors.
KNOWN = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers(counter, key, answer):
    as_tensors = [tuple(torch.tensor([word]) for word in part) for part in (counter, key)]
    assert tuple(int(word) for word in ub_random.philox(*as_tensors)) == answer


def seeds(*values: int) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.int64)


def test_words_are_philox_of_block_step_and_stream():
    drawn = ub_random.words(seeds(7, (5 << 32) + 9), (3 << 32) + 11, 6, (5,))
    for member, key in enumerate([(7, 0), (9, 5)]):
        for block in range(2):
            expected = ub_random.philox(
                tuple(torch.tensor([w]) for w in (block, 11, 3, 6)),
                tuple(torch.tensor([w]) for w in key),
            )
            take = min(4, 5 - 4 * block)
            assert (
                drawn[member, 4 * block : 4 * block + take].tolist()
                == [int(w) for w in expected][:take]
            )


def test_negative_seeds_are_seeds_of_their_own():
    assert not torch.equal(
        ub_random.words(seeds(-1), 0, 0, (8,)), ub_random.words(seeds(1), 0, 0, (8,))
    )


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(-(2**62), 2**62), min_size=2, max_size=5, unique=True),
    st.integers(0, 2**40),
    st.integers(1, 40),
)
def test_a_member_does_not_see_its_neighbours(values, step, count):
    together = ub_random.normal(seeds(*values), step, Stream.LATENT_NOISE, (count,))
    for row, value in enumerate(values):
        assert torch.equal(
            together[row : row + 1],
            ub_random.normal(seeds(value), step, Stream.LATENT_NOISE, (count,)),
        )


@pytest.mark.parametrize(
    "draw",
    [
        lambda seed, step: ub_random.uniform(seed, step, 1, (3, 5)),
        lambda seed, step: ub_random.normal(seed, step, 1, (3, 5)),
        lambda seed, step: ub_random.integers(seed, step, 1, (3, 5), 1000),
        lambda seed, step: ub_random.permutations(seed, step, 1, 3, 5),
    ],
)
def test_many_steps_at_once_equal_one_by_one(draw):
    steps = torch.tensor([4, 9, 2**33 + 1])
    block = draw(seeds(1, 2), steps)
    assert block.shape == (2, 3, 3, 5)
    for position, step in enumerate(steps.tolist()):
        assert torch.equal(block[:, position], draw(seeds(1, 2), step))


def test_uniform_range_and_distribution():
    values = ub_random.uniform(seeds(3), 0, 0, (200_000,))[0].double().numpy()
    assert values.min() >= 0.0
    assert values.max() < 1.0
    assert stats.kstest(values, "uniform").pvalue > 1e-3


def test_normal_quantile_matches_scipy_over_the_whole_range():
    edges = torch.tensor([0, 1, 2, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1])
    spread = torch.cat(
        [edges, torch.linspace(0, 2**32 - 1, 100_001, dtype=torch.float64).to(torch.int64)]
    )
    expected = stats.norm.ppf((spread.double().numpy() + 0.5) / 2**32)
    np.testing.assert_allclose(
        ub_random.normal_quantile(spread).numpy(), expected, rtol=2e-14, atol=2e-15
    )


def test_normal_moments_and_distribution():
    values = ub_random.normal(seeds(11), 5, 2, (400_000,))[0].double().numpy()
    assert stats.kstest(values, "norm").pvalue > 1e-3
    count = len(values)
    for power, moment, spread in [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)]:
        assert abs(np.mean(values**power) - moment) < 4 * np.sqrt(spread / count)


def test_integers_are_uniform_where_a_modulo_would_be_biased():
    # 3 * 2^29 does not divide 2^32: a plain remainder of 32-bit words would give the lower third
    # twice the weight.
    high = 3 * 2**29
    values = ub_random.integers(seeds(2), 0, 0, (90_000,), high)[0].numpy()
    counts = np.histogram(values, bins=3, range=(0, high))[0]
    assert stats.chisquare(counts).pvalue > 1e-3
    assert values.min() >= 0
    assert values.max() < high


@pytest.mark.parametrize("high", [1, 2, 3, 7, 737_280, 2**31])
def test_integers_stay_in_range(high):
    values = ub_random.integers(seeds(1, 2), 3, 1, (1000,), high)
    assert int(values.min()) >= 0
    assert int(values.max()) < high


def test_integers_small_range_distribution():
    values = ub_random.integers(seeds(5), 0, 0, (70_000,), 7)[0].numpy()
    assert stats.chisquare(np.bincount(values, minlength=7)).pvalue > 1e-3


def test_multiply_shift_agrees_with_exact_arithmetic_and_refuses_the_incomplete_stretch():
    high = 3_000_000
    picks = [
        0,
        1,
        2**64 - 1,
        2**63,
        *(int(w) for w in np.random.default_rng(0).integers(0, 2**63, 200)),
    ]
    threshold = 2**64 % high
    picks += [
        -(-(2**64 * k) // high) for k in (1, 5, high - 1)
    ]  # first word of a stretch: the only ones ever refused
    upper, lower = (
        torch.tensor([p >> 32 for p in picks]),
        torch.tensor([p & 0xFFFFFFFF for p in picks]),
    )
    result, refused = ub_random._multiply_shift(upper, lower, high)
    assert result.tolist() == [p * high >> 64 for p in picks]
    assert refused.tolist() == [(p * high) % 2**64 < threshold for p in picks]
    assert any(refused.tolist())


def test_integers_take_the_second_try_where_the_first_is_refused(monkeypatch):
    zero, high_word = (
        torch.zeros(1, 1, dtype=torch.int64),
        torch.full((1, 1), 2**31, dtype=torch.int64),
    )
    monkeypatch.setattr(ub_random, "_blocks", lambda *args: (zero, zero, high_word, zero))
    assert ub_random.integers(seeds(0), 0, 0, (1,), 10).tolist() == [[5]]


def test_integers_refuse_an_impossible_range():
    with pytest.raises(InputError, match=r"^high must lie in 1\.\.2\^31; got 0\.$"):
        ub_random.integers(seeds(1), 0, 0, (1,), 0)


def test_permutations_are_permutations_and_uniform():
    drawn = ub_random.permutations(seeds(4), torch.arange(6000), 3, 1, 3)[0, :, 0]
    assert torch.equal(drawn.sort(-1).values, torch.arange(3).expand(6000, 3))
    kinds = np.unique(drawn.numpy() @ [9, 3, 1], return_counts=True)[1]
    assert len(kinds) == 6
    assert stats.chisquare(kinds).pvalue > 1e-3


def test_streams_steps_and_members_are_independent():
    count = 50_000
    base = ub_random.normal(seeds(1), 0, 0, (count,))[0]
    others = {
        "stream": ub_random.normal(seeds(1), 0, 1, (count,))[0],
        "step": ub_random.normal(seeds(1), 1, 0, (count,))[0],
        "member": ub_random.normal(seeds(2), 0, 0, (count,))[0],
        "lag": torch.roll(base, 1),
        "lag of four": torch.roll(base, 4),
    }
    for name, other in others.items():
        correlation = float(torch.corrcoef(torch.stack([base, other]))[0, 1])
        assert abs(correlation) < 4 / np.sqrt(count), name
        squares = float(torch.corrcoef(torch.stack([base**2, other**2]))[0, 1])
        assert abs(squares) < 4 / np.sqrt(count), name


def test_seed_must_be_a_member_axis():
    with pytest.raises(
        InputError,
        match=(
            r"^seed must be an int64 tensor with one entry per member; got \(torch.float32,"
            r" \(1,\)\)\.$"
        ),
    ):
        ub_random.words(torch.zeros(1), 0, 0, (1,))


@pytest.mark.gpu
def test_same_bits_on_cpu_and_cuda():
    steps = torch.arange(50)
    for draw in (
        lambda s, t: ub_random.words(s, t, 1, (1001,)),
        lambda s, t: ub_random.uniform(s, t, 1, (1001,)),
        lambda s, t: ub_random.normal(s, t, 1, (1001,)),
        lambda s, t: ub_random.integers(s, t, 1, (1001,), 737_280),
        lambda s, t: ub_random.permutations(s, t, 1, 10, 64),
    ):
        on_cpu = draw(seeds(1, -5, 2**40), steps)
        on_cuda = draw(seeds(1, -5, 2**40).cuda(), steps.cuda())
        assert torch.equal(on_cpu, on_cuda.cpu())
