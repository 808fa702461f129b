# SPDX-License-Identifier: Apache-2.0
"""Certainty: 1 for what others have under any order, sign and scale, 0 for what they do not, and
the closed form of a rotation.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from unbraid.core.errors import InputError
from unbraid.search.discover.certainty import SEEN, certainties, confirmed
from unbraid.search.discover.findings import Certainty

N = 20_000


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


def ones(codes: np.ndarray) -> np.ndarray:
    return np.ones((codes.shape[0], codes.shape[2]))


def test_identical_models_are_certain():
    codes = np.stack([drawn(500, 4)] * 5)
    assert (
        certainties(codes, ones(codes), 2) == [Certainty(pytest.approx(1.0, abs=1e-12), 4, 4)] * 4
    )


def test_order_sign_and_scale_do_not_matter():
    code = drawn(500, 3)
    other = np.exp(-2.0 * code[:, [2, 0, 1]])
    codes = np.stack([code, other])
    assert (
        certainties(codes, ones(codes), 0) == [Certainty(pytest.approx(1.0, abs=1e-12), 1, 1)] * 3
    )


def test_unrelated_models_are_not():
    codes = drawn(4, N, 3)
    for certainty in certainties(codes, ones(codes), 1):
        assert certainty.agreement < 5 / math.sqrt(N)
        assert (certainty.seen_in, certainty.others) == (0, 3)
        assert not confirmed(certainty)


@pytest.mark.parametrize("degrees", [0, 10, 30, 45, 60, 90])
def test_a_rotation_has_the_rank_correlation_of_two_normals(degrees):
    turn = math.radians(degrees)
    code = drawn(N, 2)
    codes = np.stack(
        [
            code,
            code @ np.array([[math.cos(turn), -math.sin(turn)], [math.sin(turn), math.cos(turn)]]),
        ]
    )
    # Spearman's of two normals with correlation r is 6/pi asin(r/2) (Pearson 1907); the nearer axis
    # has r = max(cos, sin).
    expected = 6 / math.pi * math.asin(max(math.cos(turn), math.sin(turn)) / 2)
    for certainty in certainties(codes, ones(codes), 0):
        assert certainty.agreement == pytest.approx(expected, abs=0.01)
        assert certainty.seen_in == (expected >= SEEN)


def test_the_median_is_over_models_and_half_of_them_confirm():
    code = drawn(N, 1)
    noise = drawn(5, N, 1, seed=1)
    # Spearman's of code and code + s noise is 6/pi asin(1 / (2 sqrt(1 + s^2))).
    spreads = (0.1, 0.3, 1.0, 3.0, 9.0)
    codes = np.stack([code, *(code + spread * noise[at] for at, spread in enumerate(spreads))])
    expected = [6 / math.pi * math.asin(0.5 / math.sqrt(1 + spread**2)) for spread in spreads]
    (certainty,) = certainties(codes, ones(codes), 0)
    assert certainty.agreement == pytest.approx(expected[2], abs=0.01)
    assert (certainty.seen_in, certainty.others) == (2, 5)
    assert not confirmed(certainty)
    (without_the_worst,) = certainties(codes[:-1], ones(codes[:-1]), 0)
    assert without_the_worst.agreement == pytest.approx((expected[1] + expected[2]) / 2, abs=0.01)
    assert (without_the_worst.seen_in, without_the_worst.others) == (2, 4)
    assert confirmed(without_the_worst)
    assert not confirmed(Certainty(0.0, 0, 0))


def test_a_correlation_of_exactly_seen_counts():
    # Four values with two neighbours exchanged: 1 - 6 * 2 / (4 * 15).
    codes = np.array([[[1.0], [2.0], [3.0], [4.0]], [[2.0], [1.0], [3.0], [4.0]]])
    assert spearmanr(codes[0, :, 0], codes[1, :, 0])[0] == pytest.approx(0.8)
    assert certainties(codes, ones(codes), 0) == [Certainty(pytest.approx(0.8), 1, 1)]


def test_latents_that_a_model_does_not_use_are_not_looked_at():
    code = drawn(300, 2)
    codes = np.stack([code, code])
    kl = np.array([[1.0, 1.0], [0.01, 2.0]])
    first, second = certainties(codes, kl, 0)
    assert first.agreement == pytest.approx(abs(spearmanr(code[:, 0], code[:, 1])[0]))
    assert second.agreement == pytest.approx(1.0)
    assert [one.seen_in for one in certainties(codes, kl, 0, kl_threshold=0.001)] == [1, 1]
    assert certainties(codes, np.zeros((2, 2)), 0) == [Certainty(0.0, 0, 1)] * 2


def test_constant_latents_agree_with_nothing():
    code = drawn(300, 2)
    code[:, 0] = 3.25
    codes = np.stack([code, code])
    assert certainties(codes, ones(codes), 0) == [
        Certainty(0.0, 0, 1),
        Certainty(pytest.approx(1.0), 1, 1),
    ]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 5),
    st.integers(1, 4),
    st.integers(2, 40),
    st.booleans(),
    st.data(),
)
def test_what_may_not_matter_does_not(seed, models, latents, n, ties, draw):
    chance = np.random.default_rng(seed)
    codes = (
        chance.integers(0, 4, (models, n, latents)).astype(float)
        if ties
        else chance.normal(size=(models, n, latents))
    )
    kl = chance.choice([0.0, 0.5], (models, latents))
    chosen = draw.draw(st.integers(0, models - 1))
    found = certainties(codes, kl, chosen)
    assert all(
        0.0 <= one.agreement <= 1.0 and 0 <= one.seen_in <= one.others == models - 1
        for one in found
    )
    # Against SciPy, pair by pair.
    for latent, one in enumerate(found):
        closest = []
        for other in (m for m in range(models) if m != chosen):
            sizes = [0.0]
            for i in np.flatnonzero(kl[other] > 0.01):
                pair = codes[chosen, :, latent], codes[other, :, i]
                if all(len(np.unique(values)) > 1 for values in pair):
                    sizes.append(abs(spearmanr(*pair)[0]))
            closest.append(max(sizes))
        assert one.agreement == pytest.approx(np.median(closest), abs=1e-9)
    # Samples in another order, the others in another order, latents turned round and stretched.
    shuffled = codes[:, chance.permutation(n)]
    order = chance.permutation(models)
    signs = chance.choice([-1.0, 1.0], (models, 1, latents))
    again = certainties(
        (signs * np.exp(shuffled))[order], kl[order], int(np.flatnonzero(order == chosen)[0])
    )
    for one, other in zip(found, again, strict=True):
        assert other.agreement == pytest.approx(one.agreement, abs=1e-9)
        assert (other.seen_in, other.others) == (one.seen_in, one.others)


def problems(make: Callable[[], object]) -> list[tuple[str, str]]:
    with pytest.raises(InputError) as caught:
        make()
    return [(problem.name, problem.rule) for problem in caught.value.problems]


def test_bad_input_is_refused_by_name():
    codes = drawn(3, 10, 2)
    kl = ones(codes)
    rule = "must have the shape (models, n, latents) with at least two models"
    assert problems(lambda: certainties(codes[:1], kl[:1], 0)) == [("codes", rule)]
    assert problems(lambda: certainties(codes[0], kl, 0)) == [("codes", rule)]
    broken = codes.copy()
    broken[1, 4, 1] = np.nan
    whole = ("chosen", "must be a whole number in 0..2, the place of a model in codes")
    assert problems(lambda: certainties(broken, kl[:, :1], 3, kl_threshold=-1.0)) == [
        ("codes[1]", "must be finite and at most 1e+30 in size"),
        ("kl", "must have the shape (models, latents), here (3, 2)"),
        whole,
        ("kl_threshold", "must be a finite number of at least 0"),
    ]
    infinite = [[1, 1], [1, np.inf], [1, 1]]
    assert problems(lambda: certainties(codes, infinite, 0)) == [("kl", "must be finite numbers")]
    assert problems(lambda: certainties(codes, kl, True)) == [whole]
    few = problems(lambda: certainties(codes[:, :1], kl, 0))
    assert few[0] == ("codes[0]", "must have at least 2 rows")
