# SPDX-License-Identifier: Apache-2.0
"""Trees of many members grown together are LightGBM's: few rounds in Triton's interpreter, all of
them on a GPU.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from unbraid.core.grid import FactorGrid
from unbraid.metrics import _trees, _trees_on_gpu, dci
from unbraid.metrics._arrays import check_split
from unbraid.metrics._trees import Fit, fit_lightgbm
from unbraid.metrics._trees_on_gpu import fit_on_gpu
from unbraid.metrics.dci import DCI

pytest.importorskip("triton")

ON_GPU = torch.cuda.is_available()
DEVICE = torch.device("cuda" if ON_GPU else "cpu")
ROUNDS, SAMPLES, DECIMALS = (_trees.ROUNDS, 300, 1) if ON_GPU else (2, 24, 0)
NEAR = 5e-3 if ON_GPU else 1e-12
"""In later rounds residuals differ much in size, and the rounding of their sums decides ties."""
LEVELS = [2, 3, 5]


@pytest.fixture(autouse=True)
def rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_trees, "ROUNDS", ROUNDS)


def mixture(seed: int, samples: int, sizes: list[int], latents: int = 3):
    """Rounded codes, with many ties, and factors of *sizes* values."""
    generator = np.random.default_rng(seed)
    factors = generator.integers(sizes, size=(samples, len(sizes)))
    codes = factors @ generator.normal(size=(len(sizes), latents))
    return np.round(codes + 0.5 * generator.normal(size=codes.shape), DECIMALS), factors


def with_copies(seed: int, samples: int, sizes: list[int]):
    """A latent mirrored, one bent, one constant, one of two values."""
    codes, factors = mixture(seed, samples, sizes)
    others = [-codes[:, 0], codes[:, 1] ** 3, np.full(samples, 4.0), codes[:, 2] > 0]
    return np.column_stack([codes, *others]), factors


def with_gaps(seed: int, samples: int, sizes: list[int]):
    """Values that skip numbers and are not alike in both parts."""
    codes, factors = mixture(seed, samples, sizes)
    return codes, factors * 7 - 3


def constant(seed: int, samples: int, sizes: list[int]):
    """Codes that say nothing."""
    _, factors = mixture(seed, samples, sizes)
    return np.full((samples, 2), 1.5), factors


CASES = {
    "ties": (mixture, LEVELS),
    "copies": (with_copies, LEVELS),
    "gaps": (with_gaps, [3, 9]),
    "two values": (mixture, [2]),
    "more values than a block": (mixture, [40, 2]),
    "one latent": (partial(mixture, latents=1), LEVELS),
    "constant": (constant, LEVELS),
}


def fits(members: list[np.ndarray], factors: np.ndarray, seed: int = 0) -> list[list[Fit]]:
    cut = len(factors) * 2 // 3
    train, test = [codes[:cut] for codes in members], [codes[cut:] for codes in members]
    return list(fit_on_gpu(train, factors[:cut], test, seed, DEVICE, ROUNDS))


def check_against_lightgbm(members: list[np.ndarray], factors: np.ndarray, seed: int = 0) -> None:
    cut = len(factors) * 2 // 3
    for codes, found in zip(members, fits(members, factors, seed), strict=True):
        for factor, ours in enumerate(found):
            theirs = fit_lightgbm(codes[:cut], factors[:cut, factor], codes[cut:], seed)
            assert ours.importance == pytest.approx(theirs.importance, abs=NEAR)
            for part in ("train_prediction", "test_prediction"):
                wrong = getattr(ours, part) != getattr(theirs, part)
                assert np.count_nonzero(wrong) <= max(1, 0.01 * len(wrong))


@pytest.mark.parametrize("case", CASES)
def test_trees_are_those_of_lightgbm(case: str) -> None:
    make, sizes = CASES[case]
    codes, factors = make(1, SAMPLES, sizes)
    check_against_lightgbm([codes], factors)


def test_members_may_differ_in_what_is_alike() -> None:
    codes, factors = with_copies(2, SAMPLES, LEVELS)
    other = np.column_stack([codes[:, ::-1][:, :6], codes[:, 2] ** 2])
    check_against_lightgbm([codes, other, np.zeros_like(codes)], factors, seed=3)


def test_bits_repeat_and_no_member_feels_another() -> None:
    codes, factors = mixture(4, SAMPLES, LEVELS)
    other = codes[:, ::-1].copy()
    both, again, alone = (
        fits(which, factors) for which in ([codes, other], [codes, other], [other])
    )
    for one, two, three in zip(both[1], again[1], alone[0], strict=True):
        for part in ("importance", "train_prediction", "test_prediction"):
            assert np.array_equal(getattr(one, part), getattr(two, part))
            assert np.array_equal(getattr(one, part), getattr(three, part))


def dci_on_gpu(split: tuple[np.ndarray, ...]) -> DCI:
    assert dci.on_gpu is not None
    assert dci.on_gpu.rest is None
    (found,) = dci.on_gpu.part([check_split(*split)], DEVICE)
    return found


def test_dci_leaves_constant_factors_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_trees_on_gpu, "fit_on_gpu", partial(fit_on_gpu, rounds=ROUNDS))
    codes, factors = mixture(5, SAMPLES, LEVELS)
    factors[:, 1] = 4
    split = codes[:-8], factors[:-8], codes[-8:], factors[-8:]
    found = dci_on_gpu(split)
    expected = dci(*split)
    assert found.constant_factors == (1,)
    assert found.score == pytest.approx(expected.score, abs=NEAR)
    assert found.importance == pytest.approx(expected.importance, abs=NEAR)
    assert np.isnan(found.completeness_per_factor).tolist() == [False, True, False]


@pytest.mark.gpu
class TestOnGpu:
    """All rounds, on as many samples as runs have."""

    @settings(deadline=None, max_examples=8, phases=[Phase.generate])
    @given(st.integers(0, 10_000), st.sampled_from(sorted(CASES)), st.integers(30, 300))
    def test_any_codes(self, seed: int, case: str, samples: int) -> None:
        make, sizes = CASES[case]
        codes, factors = make(seed, samples, sizes)
        factors[: len(sizes) * 2 : 2], factors[1 : len(sizes) * 2 : 2] = 0, 7
        check_against_lightgbm([codes, -codes], factors, seed)

    @pytest.mark.parametrize("latents", [3, 10])
    def test_continuous_codes(self, latents: int) -> None:
        generator = np.random.default_rng(latents)
        factors = generator.integers([3, 6, 40], size=(4500, 3))
        members = [
            factors @ generator.normal(size=(3, latents)) + generator.normal(size=(4500, latents))
            for _ in range(3)
        ]
        cut = 3000
        found = fits(members, factors)
        for codes, (ours, *_) in zip(members, found, strict=True):
            theirs = fit_lightgbm(codes[:cut], factors[:cut, 0], codes[cut:], 0)
            assert ours.importance == pytest.approx(theirs.importance, abs=1e-4)

    def test_perfect_codes(self) -> None:
        factors = np.tile(FactorGrid(("a", "b"), (2, 3)).to_factors(np.arange(6)), (10, 1))
        codes = factors[:, ::-1] * 1.5
        ((one, two),) = fits([codes], factors)
        assert one.importance == pytest.approx([0.0, 1.0], abs=1e-6)
        assert two.importance == pytest.approx([1.0, 0.0], abs=1e-6)

    def test_golden(self, golden_case) -> None:
        found = dci_on_gpu(golden_case.split)
        expected = golden_case.expected["dci"]
        assert found.disentanglement == pytest.approx(expected["disentanglement"], abs=5e-3)
        assert found.completeness == pytest.approx(expected["completeness"], abs=5e-3)
        assert found.informativeness == pytest.approx(expected["informativeness_test"], abs=1e-2)
