# SPDX-License-Identifier: Apache-2.0
"""UDR: closed forms, golden numbers, scikit-learn and SciPy pair by pair, invariants, degenerate
input.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.grid import FactorGrid
from unbraid.metrics import udr
from unbraid.metrics._agreement import agreement_scores, pair_scores
from unbraid.metrics._standardise import standardise

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
NUMBERS: dict[str, Any] = json.loads((GOLDEN / "metrics_extras.json").read_text())["udr"]
SETTINGS = [key for key in NUMBERS if "thr=" in key]
# Latents over a whole grid are uncorrelated exactly, and so are their ranks.
GRID = FactorGrid(("a", "b", "c"), (3, 4, 5)).to_factors(np.arange(60)) * 1.0


def agreement(similarity: np.ndarray, counted: np.ndarray) -> np.ndarray:
    return pair_scores(torch.from_numpy(similarity), torch.from_numpy(counted)).numpy()


def white(latents: int, samples: int = 500) -> np.ndarray:
    """Codes with mean exactly 0 and covariance exactly the identity."""
    raw = np.random.default_rng(0).normal(size=(samples, latents))
    return np.linalg.qr(raw - raw.mean(axis=0))[0] * np.sqrt(samples)


def golden_population() -> tuple[np.ndarray, np.ndarray]:
    with np.load(GOLDEN / "metrics_udr.npz") as file:
        return file["codes"], file["kl"]


def options_of(key: str) -> dict[str, Any]:
    method, filtering, threshold = key.split("_")
    return {
        "method": method,
        "filter_low_kl": filtering == "filter=True",
        "kl_threshold": float(threshold.removeprefix("thr=")),
    }


@pytest.mark.parametrize(("method", "ceiling"), [("lasso", 0.9), ("spearman", 1.0)])
def test_equal_codes_up_to_order_sign_and_scale_reach_the_ceiling(
    method: str, ceiling: float
) -> None:
    codes = np.stack([GRID, -GRID[:, [2, 0, 1]], GRID[:, [1, 0, 2]] * [5.0, -0.01, 300.0] + 7.0])
    result = udr(codes, np.ones((3, 3)), method=method)
    assert result.per_model == pytest.approx([ceiling] * 3, abs=1e-12)
    assert result.score == pytest.approx(ceiling, abs=1e-12)
    expected = ceiling * (1 - np.eye(3))
    assert result.pairwise == pytest.approx(expected, abs=1e-12)
    assert result.similarity[0, 1] == pytest.approx(ceiling * np.eye(3)[:, [2, 0, 1]], abs=1e-12)


def test_the_ceiling_is_one_minus_alpha() -> None:
    assert udr(np.stack([GRID, GRID]), np.ones((2, 3)), alpha=0.25).score == pytest.approx(
        0.75, abs=1e-12
    )


@pytest.mark.parametrize("degrees", [0, 10, 30, 45])
def test_a_rotation_of_two_latents_in_closed_form(degrees: float) -> None:
    cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    codes = white(2)
    turned = codes @ np.array([[cosine, -sine], [sine, cosine]])
    large, small = cosine - 0.1, max(sine - 0.1, 0.0)
    assert udr(np.stack([codes, turned]), np.ones((2, 2))).score == pytest.approx(
        large**2 / (large + small), abs=1e-9
    )


def test_a_rotation_that_spreads_every_latent_over_all() -> None:
    # Each of four coefficients is 1/2 - 0.1.
    hadamard = np.array([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2
    codes = white(4)
    assert udr(np.stack([codes, codes @ hadamard]), np.ones((2, 4))).score == pytest.approx(
        0.4**2 / 1.6, abs=1e-9
    )


def test_random_rotations_score_what_the_docstring_says() -> None:
    generator = np.random.default_rng(0)
    for latents, expected, spread in ((2, 0.61, 0.12), (5, 0.31, 0.03), (10, 0.16, 0.02)):
        rotations = np.linalg.qr(generator.normal(size=(10, 5, latents, latents)))[0]
        scores = [
            udr(generator.normal(size=(1000, latents)) @ five, np.ones((5, latents))).score
            for five in rotations
        ]
        assert np.mean(scores) == pytest.approx(expected, abs=spread)


def test_unrelated_codes_score_zero() -> None:
    codes = np.random.default_rng(0).normal(size=(4, 5_000, 6))
    assert udr(codes, np.ones((4, 6))).score == 0.0
    assert udr(codes, np.ones((4, 6)), method="spearman").score < 0.02


def test_the_model_is_the_one_predicted() -> None:
    # The third mixes the latents of the others; predicting it from them is not the same as
    # predicting them from it.
    codes = np.stack(
        [GRID, GRID, GRID @ np.array([[1.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.5, 1.0]])]
    )
    result = udr(codes, np.ones((3, 3)))
    for model in range(3):
        others = [other for other in range(3) if other != model]
        assert result.per_model[model] == pytest.approx(
            np.median(result.pairwise[others, model]), abs=1e-15
        )
    assert result.pairwise[0, 2] != pytest.approx(result.pairwise[2, 0], abs=1e-3)
    assert int(np.argmin(result.per_model)) == 2


def test_agreement_of_a_pair_by_hand() -> None:
    # Columns: 0.8^2 / 1.2, 0.6^2 / 0.6; rows: 0.8^2 / 0.8, 0.6^2 / 1.0; the third row and column
    # are not counted.
    matrix = np.array([[0.8, 0.0, 0.9], [0.4, 0.6, 0.9], [0.9, 0.9, 0.9]])
    counted = np.array([[True, True, False], [True, True, False]])
    similarity = np.zeros((2, 2, 3, 3))
    similarity[0, 1] = matrix
    expected = 0.5 * ((0.64 / 1.2 + 0.6) / 2 + (0.8 + 0.36) / 2)
    assert agreement(similarity, counted)[0, 1] == pytest.approx(expected, abs=1e-12)
    assert agreement(similarity, counted)[1, 0] == 0.0


@pytest.mark.parametrize("method", ["lasso", "spearman"])
def test_dead_latents_are_ignored_but_count_without_the_filter(method: str) -> None:
    dead = np.random.default_rng(0).normal(size=(3, 60, 2))
    codes, kl = (
        np.concatenate([np.stack([GRID] * 3), dead], axis=2),
        np.tile([1.0, 2.0, 3.0, 0.005, 0.01], (3, 1)),
    )
    alone = udr(codes[..., :3], kl[:, :3], method=method).score
    result = udr(codes, kl, method=method)
    assert result.score == pytest.approx(alone, abs=1e-12)
    assert result.informative.tolist() == [[True, True, True, False, False]] * 3
    assert not result.similarity[..., 3:].any()
    assert udr(codes, kl, method=method, filter_low_kl=False).score == pytest.approx(
        alone * 3 / 5, abs=1e-12
    )


def test_a_model_without_live_latents_scores_zero() -> None:
    codes, kl = np.stack([GRID] * 4), np.ones((4, 3))
    kl[2] = 0.001
    result = udr(codes, kl)
    assert result.per_model == pytest.approx([0.9, 0.9, 0.0, 0.9], abs=1e-12)
    assert not result.pairwise[2].any()
    assert udr(codes, np.zeros((4, 3))).score == 0.0


@pytest.mark.parametrize("method", ["lasso", "spearman"])
def test_a_constant_latent_agrees_with_nothing(method: str) -> None:
    codes = np.stack([GRID] * 2)
    codes[0, :, 1] = 0.1
    result = udr(codes, np.ones((2, 3)), method=method)
    assert np.isfinite(result.similarity).all()
    assert not result.similarity[0, 1, 1].any()
    assert 0 < result.score < 0.9


def test_ranks_of_rounding_are_no_agreement() -> None:
    # One unit in the last place orders the samples, but nothing encoded them so.
    codes = np.stack([GRID] * 2)
    codes[0, :, 1] = 1.0 + GRID[:, 1] * np.finfo(float).eps
    result = udr(codes, np.ones((2, 3)), method="spearman")
    assert not result.similarity[0, 1, 1].any()
    assert result.pairwise[0, 1] == pytest.approx(2 / 3, abs=1e-12)


def test_ranks_of_a_constant_latent_are_nan_in_the_reference() -> None:
    codes = np.stack([GRID] * 2)
    codes[0, :, 1] = 0.1
    result = udr(codes, np.ones((2, 3)), method="spearman", compat="disentanglement_lib")
    assert np.isnan(result.similarity[0, 1]).tolist() == [[False] * 3, [True] * 3, [False] * 3]
    # Every column then holds a NaN and counts 0, as does the row; the two other rows count 1.
    assert result.per_model == pytest.approx([1 / 3, 1 / 3], abs=1e-12)


def test_a_threshold_below_that_of_the_reference_is_honoured() -> None:
    codes, kl = np.stack([GRID] * 2), np.full((2, 3), 0.005)
    assert udr(codes, kl, kl_threshold=0.001).score == pytest.approx(0.9, abs=1e-12)
    # The reference blanks latents up to 0.01 all the same.
    assert udr(codes, kl, kl_threshold=0.001, compat="disentanglement_lib").score == 0.0


@pytest.mark.parametrize("key", SETTINGS)
def test_golden_with_compat(key: str) -> None:
    result = udr(*golden_population(), **options_of(key), compat="disentanglement_lib")
    _check_golden(result, NUMBERS[key])
    if "raw_correlations" in NUMBERS[key]:
        raw = np.array(NUMBERS[key]["raw_correlations"], dtype=float)
        assert result.similarity == pytest.approx(raw, abs=1e-9, nan_ok=True)


@pytest.mark.parametrize(
    "key", [key for key in SETTINGS if key != "spearman_filter=False_thr=0.01"]
)
def test_golden(key: str) -> None:
    _check_golden(udr(*golden_population(), **options_of(key)), NUMBERS[key])


def dependent_models(seed: int) -> np.ndarray:
    """Codes of three models, each with two latents of one source, their exact sum, and two mixtures
    of all sources.
    """
    generator = np.random.default_rng(seed)
    sources = generator.normal(size=(1000, 3))
    models = []
    for _ in range(3):
        mixed = sources @ generator.normal(size=(3, 2))
        pair = sources[:, :1] @ generator.normal(size=(1, 2)) + 0.1 * generator.normal(
            size=(1000, 2)
        )
        models.append(np.column_stack([pair, pair.sum(axis=1), mixed]))
    return np.stack(models)


def test_exactly_dependent_latents_reach_the_minimum_without_a_tolerance() -> None:
    from sklearn.linear_model import Lasso

    for seed in (0, 5, 10):
        codes = dependent_models(seed)
        scaled, similarity = standardise(codes), np.zeros((3, 3, 5, 5))
        for source, target in np.argwhere(~np.eye(3, dtype=bool)):
            fit = Lasso(alpha=0.1, tol=1e-13, max_iter=1_000_000).fit(
                scaled[source], scaled[target]
            )
            similarity[source, target] = np.abs(fit.coef_).T
        expected = agreement(similarity, np.ones((3, 5), dtype=bool))
        assert udr(codes, np.ones((3, 5)), tolerance=0).pairwise == pytest.approx(
            expected, abs=1e-8
        )


def test_what_the_default_tolerance_costs_is_as_the_docstring_says() -> None:
    codes = torch.from_numpy(np.stack([dependent_models(seed) for seed in range(30)]))
    kl = torch.ones(30, 3, 5, dtype=torch.float64)
    early, late = (agreement_scores(codes, kl, tolerance=tolerance) for tolerance in (1e-4, 0))
    costs = (early - late).abs().amax(dim=1).numpy()
    assert 0.1 < max(costs) < 0.2
    assert np.median(costs) == pytest.approx(0.009, abs=0.006)


@pytest.mark.parametrize(
    ("latents", "samples", "expected"), [(5, 1_000, 0.91), (5, 10_000, 0.97), (10, 1_000, 0.82)]
)
def test_chance_correlations_lower_the_ceiling_of_ranks(
    latents: int, samples: int, expected: float
) -> None:
    scores = []
    for seed in range(5):
        generator = np.random.default_rng(seed)
        codes = generator.normal(size=(samples, latents))
        pair = np.stack([codes, codes[:, generator.permutation(latents)]])
        scores.append(udr(pair, np.ones((2, latents)), method="spearman").score)
        assert udr(pair, np.ones((2, latents))).score == pytest.approx(0.9, abs=1e-9)
    assert np.mean(scores) == pytest.approx(expected, abs=0.02)


def test_golden_to_convergence_is_within_a_ten_thousandth() -> None:
    for key in SETTINGS:
        if key.startswith("lasso"):
            result = udr(*golden_population(), **options_of(key), tolerance=0)
            assert result.per_model == pytest.approx(
                np.array(NUMBERS[key]["model_scores"]), abs=1e-4
            )


def test_without_the_filter_ours_departs_where_theirs_is_nan() -> None:
    codes, kl = golden_population()
    key = "spearman_filter=False_thr=0.01"
    ours = udr(codes, kl, **options_of(key))
    assert np.array(NUMBERS[key]["model_scores"])[[0, 1, 2, 5]].tolist() == [0.0] * 4
    filtered = udr(codes, kl, method="spearman").pairwise
    # Of a pair with 5 live latents of 10 in both, the filter doubles the score.
    assert ours.pairwise[0, 1] == pytest.approx(filtered[0, 1] / 2, abs=1e-12)


def _check_golden(result: Any, expected: dict[str, Any]) -> None:
    assert result.per_model == pytest.approx(np.array(expected["model_scores"]), abs=1e-9)
    assert result.pairwise == pytest.approx(
        np.array(expected["pairwise_disentanglement_scores"])[..., 0], abs=1e-9
    )


@pytest.mark.parametrize("method", ["lasso", "spearman"])
def test_peer_is_the_definition_pair_by_pair(method: str) -> None:
    from scipy.stats import spearmanr
    from sklearn.linear_model import Lasso
    from sklearn.preprocessing import StandardScaler

    generator = np.random.default_rng(4)
    sources = generator.normal(size=(300, 3))
    codes = np.stack(
        [
            sources @ generator.normal(size=(3, 4)) + 0.5 * generator.normal(size=(300, 4))
            for _ in range(4)
        ]
    )
    kl = np.full((4, 4), 0.5)
    kl[1, 2] = 0.004
    result = udr(codes, kl, method=method)
    scaled = (
        np.stack([StandardScaler().fit_transform(model) for model in codes]) * (kl > 0.01)[:, None]
    )
    for source, target in np.argwhere(~np.eye(4, dtype=bool)):
        if method == "lasso":
            matrix = np.abs(Lasso(alpha=0.1).fit(scaled[source], scaled[target]).coef_).T
        else:
            rank = [
                [spearmanr(codes[source, :, a], codes[target, :, b]).statistic for b in range(4)]
                for a in range(4)
            ]
            matrix = np.abs(rank)
        matrix = matrix[kl[source] > 0.01][:, kl[target] > 0.01]
        parts = [
            np.mean([max(line) ** 2 / sum(line) if sum(line) else 0.0 for line in lines])
            for lines in (matrix, matrix.T)
        ]
        assert result.pairwise[source, target] == pytest.approx(np.mean(parts), abs=1e-9)


@settings(deadline=None, max_examples=20)
@given(st.integers(0, 10_000))
def test_invariants(seed: int) -> None:
    generator = np.random.default_rng(seed)
    sources = generator.normal(size=(80, 3))
    codes = np.stack(
        [
            sources @ generator.normal(size=(3, 3)) + 0.3 * generator.normal(size=(80, 3))
            for _ in range(4)
        ]
    )
    kl = generator.uniform(0.0, 0.05, size=(4, 3))
    order, latents = generator.permutation(4), generator.permutation(3)
    for options in ({"tolerance": 0}, {"method": "spearman"}):
        result = udr(codes, kl, **options)
        turned = udr(codes[..., latents] * [-2.0, 0.5, 30.0] + 1.0, kl[:, latents], **options)
        assert turned.per_model == pytest.approx(result.per_model, abs=1e-7)
        assert udr(codes[order], kl[order], **options).per_model == pytest.approx(
            result.per_model[order], abs=1e-7
        )
        assert udr(np.tile(codes, (1, 2, 1)), kl, **options).per_model == pytest.approx(
            result.per_model, abs=1e-7
        )


def test_ranks_ignore_monotone_warps() -> None:
    codes, kl = golden_population()
    warped = np.sinh(codes / np.abs(codes).max(axis=1, keepdims=True))
    assert udr(warped, kl, method="spearman").per_model == pytest.approx(
        udr(codes, kl, method="spearman").per_model, abs=1e-12
    )


def test_one_latent() -> None:
    codes = np.stack([GRID[:, :1], -GRID[:, :1]])
    assert udr(codes, np.ones((2, 1))).score == pytest.approx(0.9, abs=1e-12)


def test_a_model_alone_is_refused(refused) -> None:
    assert refused(udr, GRID[None], np.ones((1, 3))) == [
        (
            "codes",
            "must have the shape (models, n, latents) with at least two models",
            "shape (1, 60, 3)",
        )
    ]


def test_bad_arrays_are_refused_together(refused) -> None:
    codes = np.stack([GRID] * 3)
    codes[0, 4, 1], codes[2, 5, 0] = np.nan, np.inf
    assert refused(udr, codes, np.ones((3, 2))) == [
        ("codes[0]", "must be finite and at most 1e+30 in size", "nan at row 4, latent 1"),
        ("codes[2]", "must be finite and at most 1e+30 in size", "inf at row 5, latent 0"),
        ("kl", "must have the shape (models, latents), here (3, 3)", "shape (3, 2)"),
    ]


def test_bad_kl_and_one_row_are_refused(refused) -> None:
    assert refused(udr, np.zeros((2, 1, 1)), np.array([[1.0], [np.nan]])) == [
        ("codes[0]", "must have at least 2 rows", "shape (1, 1)"),
        ("codes[1]", "must have at least 2 rows", "shape (1, 1)"),
        ("kl", "must be finite numbers", "nan at model 1, latent 0"),
    ]


def test_bad_options_are_refused_together(refused) -> None:
    assert refused(
        udr,
        np.stack([GRID] * 2),
        np.ones((2, 3)),
        method="pearson",
        kl_threshold=-1.0,
        alpha=0.0,
        tolerance=float("nan"),
    ) == [
        ("method", "is unknown", "pearson"),
        ("kl_threshold", "must be a finite number of at least 0", "-1.0"),
        ("tolerance", "must be a finite number of at least 0", "nan"),
        ("alpha", "must be a finite number above 0", "0.0"),
    ]
    assert refused(
        udr,
        np.stack([GRID] * 2),
        np.ones((2, 3)),
        method=["lasso"],
        kl_threshold=None,
        alpha="0.1",
        tolerance="x",
    ) == [
        ("method", "is unknown", "['lasso']"),
        ("kl_threshold", "must be a finite number of at least 0", "None"),
        ("tolerance", "must be a finite number of at least 0", "x"),
        ("alpha", "must be a finite number above 0", "0.1"),
    ]
    assert refused(udr, np.stack([GRID] * 2), np.ones((2, 3)), compat="dlib") == [
        ("compat", "is unknown", "dlib")
    ]


def test_latents_count_from_a_hundredth_of_a_nat_on_unless_told() -> None:
    codes = np.stack([GRID] * 2)
    for nats, counted in ((0.0099, False), (0.0101, True), (0.049, True)):
        found = udr(codes, np.full((2, 3), nats))
        assert found.informative.all() == found.informative.any() == counted
