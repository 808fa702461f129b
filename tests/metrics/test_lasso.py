# SPDX-License-Identifier: Apache-2.0
"""Lasso in batches: closed form, scikit-learn with its own tolerance and with a tight one, hard
columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from unbraid.metrics import _lasso
from unbraid.metrics._standardise import standardise


def lasso(gram: np.ndarray, cross: np.ndarray, alpha: float) -> np.ndarray:
    return _lasso.lasso(torch.from_numpy(gram), torch.from_numpy(cross), alpha).numpy()


def lasso_to_gap(
    gram: np.ndarray, cross: np.ndarray, squares: np.ndarray, alpha: float, tolerance: float
) -> np.ndarray:
    return _lasso.lasso_to_gap(
        *map(torch.from_numpy, (gram, cross, squares)), alpha, tolerance
    ).numpy()


KINDS = ("plain", "mixed", "nearly repeated", "repeated", "constant")


def regressions(kind: str, batch: int = 3, targets: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Standardised columns `(batch, n, 6)` of one kind and targets `(batch, n, targets)` that
    depend on them.
    """
    generator = np.random.default_rng(KINDS.index(kind))
    columns = generator.normal(size=(batch, 200, 6))
    match kind:
        case "mixed":
            mixing = generator.normal(size=(batch, 3, 6))
            columns = columns[..., :3] @ mixing + 0.1 * columns
        case "nearly repeated":
            columns[..., 1] = columns[..., 0] + 0.01 * columns[..., 1]
            columns[..., 5] = columns[..., 2] - columns[..., 3] + 0.001 * columns[..., 5]
        case "repeated":
            columns[..., 4:] = columns[..., :2]
        case "constant":
            columns[..., 2] = 0.1
    noise = generator.normal(size=(batch, 200, targets))
    return standardise(columns), standardise(
        columns @ generator.normal(size=(6, targets)) + 0.3 * noise
    )


def products(columns: np.ndarray, targets: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    samples = columns.shape[1]
    return columns.swapaxes(1, 2) @ columns / samples, columns.swapaxes(1, 2) @ targets / samples


def scikit_learn(
    columns: np.ndarray, targets: np.ndarray, alpha: float, **options: float
) -> np.ndarray:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import Lasso

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        fits = [
            Lasso(alpha=alpha, **options).fit(x, y).coef_.T
            for x, y in zip(columns, targets, strict=True)
        ]
    return np.stack(fits)


def test_uncorrelated_columns_shrink_by_alpha() -> None:
    cross = np.array([[[0.9, -0.05], [-0.5, 0.1], [0.02, -0.11]]])
    expected = np.array([[[0.8, 0.0], [-0.4, 0.0], [0.0, -0.01]]])
    gram = np.eye(3)[None]
    assert lasso(gram, cross, 0.1) == pytest.approx(expected, abs=1e-15)
    assert lasso_to_gap(gram, cross, np.ones(2), 0.1, 1e-4) == pytest.approx(expected, abs=1e-15)


def test_two_correlated_columns_by_hand() -> None:
    # Both stay above 0, so G w = c - alpha.
    gram, cross = np.array([[[1.0, 0.5], [0.5, 1.0]]]), np.array([[[0.8], [0.7]]])
    assert lasso(gram, cross, 0.1)[0, :, 0] == pytest.approx([8 / 15, 1 / 3], abs=1e-10)


@pytest.mark.parametrize("alpha", [0.1, 0.01])
@pytest.mark.parametrize("kind", KINDS)
def test_minimum_is_that_of_scikit_learn_with_a_tight_tolerance(kind: str, alpha: float) -> None:
    columns, targets = regressions(kind)
    expected = scikit_learn(columns, targets, alpha, tol=1e-12, max_iter=1_000_000)
    assert lasso(*products(columns, targets), alpha) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("alpha", [0.1, 0.01])
@pytest.mark.parametrize("kind", KINDS)
def test_gap_stops_where_scikit_learn_stops(kind: str, alpha: float) -> None:
    columns, targets = regressions(kind)
    found = lasso_to_gap(*products(columns, targets), np.ones(4), alpha, 1e-4)
    assert found == pytest.approx(scikit_learn(columns, targets, alpha), abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_optimality_conditions_hold_at_the_minimum(kind: str) -> None:
    gram, cross = products(*regressions(kind))
    found = lasso(gram, cross, 0.05)
    slope = cross - gram @ found
    assert np.abs(slope).max() <= 0.05 + 1e-10
    assert slope[found != 0] == pytest.approx(0.05 * np.sign(found[found != 0]), abs=1e-10)


def dependent_regressions(problems: int) -> Iterator[tuple[np.ndarray, np.ndarray, str]]:
    """Columns `(1, n, d)` that share sources, some of them linear functions of others, with targets
    and their kind.
    """
    generator = np.random.default_rng(8)
    kinds = (
        "difference",
        "sum of all",
        "repeated",
        "nearly repeated",
        "sums of repeated",
        "few rows",
    )
    for number in range(problems):
        kind = kinds[number % len(kinds)]
        samples = 8 if kind == "few rows" else int(generator.choice([50, 300]))
        width = int(generator.choice([6, 10]))
        sources = generator.normal(size=(samples, width // 2))
        noise = 10.0 ** -generator.integers(0, 9)
        columns = sources @ generator.normal(size=(width // 2, width)) + noise * generator.normal(
            size=(samples, width)
        )
        match kind:
            case "difference":
                columns[:, 5] = columns[:, 0] - columns[:, 1]
            case "sum of all":
                columns[:, -1] = columns[:, :-1].sum(axis=1)
            case "repeated":
                columns[:, -2:] = columns[:, :2] * [-2.0, 1.0]
            case "nearly repeated":
                columns[:, -1] = columns[:, 0] + 1e-7 * generator.normal(size=samples)
            case "sums of repeated":
                columns[:, -1] = columns[:, 0]
                columns[:, -2] = columns[:, 1] + columns[:, 0]
        targets = sources @ generator.normal(size=(width // 2, 6)) + 0.1 * generator.normal(
            size=(samples, 6)
        )
        yield standardise(columns[None]), standardise(targets[None]), kind


def violation(gram: np.ndarray, cross: np.ndarray, found: np.ndarray, alpha: float) -> float:
    slope = cross - gram @ found
    resting = np.abs(slope).max() - alpha
    return max(resting, float(np.abs(slope - alpha * np.sign(found))[found != 0].max(initial=0.0)))


def objective(gram: np.ndarray, cross: np.ndarray, found: np.ndarray, alpha: float) -> np.ndarray:
    return (0.5 * found * (gram @ found) - cross * found + alpha * np.abs(found)).sum(axis=1)


@pytest.mark.parametrize("alpha", [0.1, 0.01, 1e-3])
def test_columns_that_depend_on_each_other_do_not_stop_short_of_the_minimum(alpha: float) -> None:
    for columns, targets, kind in dependent_regressions(150):
        gram, cross = products(columns, targets)
        assert violation(gram, cross, lasso(gram, cross, alpha), alpha) <= 1e-10, kind


@pytest.mark.parametrize("alpha", [0.1, 0.01])
def test_objective_of_columns_that_depend_on_each_other_is_that_of_scikit_learn(
    alpha: float,
) -> None:
    for columns, targets, kind in dependent_regressions(12):
        gram, cross = products(columns, targets)
        reached = objective(gram, cross, lasso(gram, cross, alpha), alpha)
        theirs = objective(
            gram, cross, scikit_learn(columns, targets, alpha, tol=1e-12, max_iter=20_000), alpha
        )
        # Theirs can stop short; ours must not, and nothing lies below a minimum.
        assert (reached <= theirs + 1e-12).all(), kind
        assert reached == pytest.approx(theirs, abs=1e-4)


def test_a_sum_of_two_columns_takes_over_where_it_costs_less() -> None:
    # y = x1 + x2, and x3 is their sum, standardised: it alone explains y, at 1/sqrt(2) of the
    # penalty.
    raw = np.random.default_rng(0).normal(size=(100, 2))
    white = np.linalg.qr(raw - raw.mean(axis=0))[0] * 10.0
    columns = standardise(np.column_stack([white, white.sum(axis=1)]))[None]
    gram, cross = products(columns, columns[..., 2:])
    assert lasso(gram, cross, 0.1)[0, :, 0] == pytest.approx([0.0, 0.0, 0.9], abs=1e-12)


def test_curvature_of_nearly_repeated_columns_is_used() -> None:
    # An eigenvalue of 2e-10 still has its minimum, at signs that differ: G w = c - alpha sign(w) by
    # hand.
    gram = np.array([[[1.0, 1.0 - 2e-10], [1.0 - 2e-10, 1.0]]])
    wanted = np.array([0.6, -0.3])
    cross = (gram[0] @ wanted + 0.01 * np.sign(wanted))[None, :, None]
    assert lasso(gram, cross, 0.01)[0, :, 0] == pytest.approx(wanted, abs=1e-5)


def test_a_step_without_coefficients_in_use_stays_and_is_whole() -> None:
    gram, cross = (
        torch.eye(2, dtype=torch.float64)[..., None],
        torch.tensor([[0.5], [0.3]], dtype=torch.float64),
    )
    found, whole = _lasso._newton_step(gram, cross, torch.zeros_like(cross), 0.1)
    assert found.tolist() == [[0.0], [0.0]]
    assert whole.tolist() == [True]


def test_a_constant_target_and_a_constant_column_get_nothing() -> None:
    gram, cross = products(*regressions("constant"))
    cross[..., 1] = 0.0
    squares = np.array([1.0, 0.0, 1.0, 1.0])
    for found in (lasso(gram, cross, 0.1), lasso_to_gap(gram, cross, squares, 0.1, 1e-4)):
        assert not found[:, 2].any()
        assert not found[..., 1].any()
        assert found.any()


@pytest.mark.parametrize("tolerance", [1e-4, 0.0])
def test_no_regression_feels_its_neighbours(tolerance: float) -> None:
    # Bit for bit, though they stop at different times and lie at different places of the batch.
    def solve(gram: np.ndarray, cross: np.ndarray, squares: np.ndarray) -> np.ndarray:
        return (
            lasso_to_gap(gram, cross, squares, 0.01, tolerance)
            if tolerance
            else lasso(gram, cross, 0.01)
        )

    each = [products(*regressions(kind)) for kind in KINDS]
    gram, cross = (np.concatenate(parts) for parts in zip(*each, strict=True))
    squares = np.random.default_rng(0).uniform(1.0, 2.0, size=(len(gram), 4))
    together = solve(gram, cross, squares)
    for number in range(len(gram)):
        alone = solve(
            gram[number : number + 1], cross[number : number + 1], squares[number : number + 1]
        )
        assert alone.tobytes() == together[number : number + 1].tobytes()
    for target in range(4):
        column = slice(target, target + 1)
        alone = solve(
            gram, np.ascontiguousarray(cross[..., column]), np.ascontiguousarray(squares[:, column])
        )
        assert alone.tobytes() == together[..., column].tobytes()


def test_squares_of_each_target_scale_its_tolerance() -> None:
    # A target ten times larger, with a penalty ten times larger, stops where the original does.
    columns, targets = regressions("mixed")
    gram, cross = products(columns, targets)
    found = lasso_to_gap(gram, cross, np.ones((3, 4)), 0.05, 1e-4)
    tenfold = lasso_to_gap(gram, 10.0 * cross, np.full((3, 4), 100.0), 0.5, 1e-4)
    assert tenfold == pytest.approx(10.0 * found, abs=1e-12)
    assert lasso_to_gap(gram, 10.0 * cross, np.ones(4), 0.5, 1e-4) != pytest.approx(
        10.0 * found, abs=1e-9
    )


def test_linear_systems_are_solved_as_lapack_does() -> None:
    generator = np.random.default_rng(0)
    roots = generator.normal(size=(7, 5, 9))
    matrices, right = roots @ roots.swapaxes(1, 2), generator.normal(size=(7, 5))
    solution = _lasso._solve(torch.from_numpy(matrices).permute(1, 2, 0), torch.from_numpy(right).T)
    assert solution.T.numpy() == pytest.approx(
        np.linalg.solve(matrices, right[..., None])[..., 0], rel=1e-9
    )


def test_a_direction_without_curvature_gets_a_long_step_downhill() -> None:
    # Two copies of a column: along their difference nothing but the penalty counts.
    copies, right = (
        torch.ones(2, 2, 1, dtype=torch.float64),
        torch.tensor([[0.1], [-0.1]], dtype=torch.float64),
    )
    step = _lasso._solve(copies, right)
    assert float((step * right).sum()) > 1e6
    assert step.sum() == pytest.approx(0.1, abs=1e-2)
