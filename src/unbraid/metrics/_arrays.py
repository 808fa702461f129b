# SPDX-License-Identifier: Apache-2.0
"""Codes and factors as metrics want them, checked with every problem named at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.arrays import to_numpy
from unbraid.core.errors import InputError, Problem, Problems, Shown
from unbraid.core.grid import FactorGrid, relabel

# Predictors work in single precision, which ends at 3e38; nothing that a network says comes near
# it.
LARGEST_CODE = 1e30
MOST_BINS = 10_000


@dataclass(frozen=True)
class Labelled:
    """Checked codes and factors; `levels` are the values renumbered 0..size-1 in their order."""

    codes: NDArray[np.float64]
    factors: NDArray[np.int64]
    levels: NDArray[np.int64]
    sizes: tuple[int, ...]

    @property
    def varying(self) -> NDArray[np.bool_]:
        """Which factors take more than one value; the others say nothing about codes."""
        return np.array(self.sizes) > 1

    @property
    def constant_factors(self) -> tuple[int, ...]:
        """Columns of the factors that take a single value and are left out of every mean."""
        return tuple(int(column) for column in np.flatnonzero(~self.varying))


def read_numbers(values: ArrayLike, name: str, problems: Problems) -> NDArray[np.float64] | None:
    """*values* in double precision; None, with the problem recorded, where they are no numbers."""
    numbers = to_numpy(values)
    if numbers.dtype.kind not in "fiub":
        problems.add(name, "must be numbers", Shown(f"dtype {numbers.dtype}"))
        return None
    with np.errstate(all="ignore"):  # long doubles may be too large, or no numbers at all
        return numbers.astype(np.float64, copy=False)


def check_finite(
    codes: NDArray[np.float64], name: str, axes: tuple[str, ...], problems: Problems
) -> None:
    """Record where the first of *codes* stands, by its *axes*, that is not finite or too large."""
    fine = np.abs(codes) <= LARGEST_CODE  # false for NaN and infinity too
    if not fine.all():
        place = tuple(np.argwhere(~fine)[0])
        shown = Shown(
            f"{codes[place]} at "
            + ", ".join(f"{axis} {at}" for axis, at in zip(axes, place, strict=True))
        )
        rule = f"must be finite and at most {LARGEST_CODE:g} in size"
        problems.add(name, rule, shown, "Leave out such rows, or models that diverged.")


def _read_codes(
    values: ArrayLike, name: str, least_rows: int, problems: Problems
) -> NDArray[np.float64]:
    codes = read_numbers(values, name, problems)
    if codes is None:
        return np.empty(np.shape(values))
    if codes.ndim != 2 or codes.shape[1] == 0:
        problems.add(
            name,
            "must have the shape (n, latents) with at least one latent",
            Shown(f"shape {codes.shape}"),
        )
    elif codes.shape[0] < least_rows:
        problems.add(
            name,
            f"must have at least {least_rows} row{'s' * (least_rows > 1)}",
            Shown(f"shape {codes.shape}"),
        )
    else:
        check_finite(codes, name, ("row", "latent"), problems)
    return codes


def _read_factors(values: ArrayLike, name: str, problems: Problems) -> NDArray[np.int64]:
    factors = to_numpy(values)
    if factors.dtype.kind not in "iub":
        remedy = (
            "Number the values of each factor, as np.unique(column, return_inverse=True)[1] does."
        )
        problems.add(name, "must be whole numbers", Shown(f"dtype {factors.dtype}"), remedy)
        return np.empty(factors.shape, dtype=np.int64)
    if factors.ndim != 2 or factors.shape[1] == 0:
        problems.add(
            name,
            "must have the shape (n, factors) with at least one factor",
            Shown(f"shape {factors.shape}"),
        )
    if factors.dtype.kind == "u" and factors.size and factors.max() > np.iinfo(np.int64).max:
        remedy = "Number the values of each factor 0, 1, 2, ..."
        rule = f"must be whole numbers of at most {np.iinfo(np.int64).max}"
        problems.add(name, rule, Shown(str(factors.max())), remedy)
    return factors.astype(np.int64, copy=False)


def _length_problem(
    codes: NDArray, factors: NDArray, names: tuple[str, str], problems: Problems
) -> None:
    if codes.ndim == 2 and factors.ndim == 2 and len(codes) != len(factors):
        shown = Shown(f"{len(codes)} and {len(factors)}")
        problems.add(
            f"{names[0]} and {names[1]}",
            "must have the same number of rows",
            shown,
            "Pass samples first: (n, ...).",
        )


def _labelled(codes: NDArray[np.float64], factors: NDArray[np.int64]) -> Labelled:
    levels, sizes = relabel(factors)
    if max(sizes) == 1:
        raise InputError(_nothing_varies(len(sizes)))
    return Labelled(codes, factors, levels, sizes)


def _nothing_varies(factors: int) -> Problem:
    shown = Shown(f"one value in each of {factors} column{'s' * (factors > 1)}")
    return Problem("factors", "must take at least two values in some column", shown)


def check_codes_factors(codes: ArrayLike, factors: ArrayLike) -> Labelled:
    """Codes `(n, latents)` and whole factors `(n, factors)`; every problem at once.

    Constant factors pass as long as one factor varies; a caller leaves them out by `varying`.
    """
    problems = Problems()
    code_rows = _read_codes(codes, "codes", 2, problems)
    factor_rows = _read_factors(factors, "factors", problems)
    _length_problem(code_rows, factor_rows, ("codes", "factors"), problems)
    problems.raise_if_any()
    return _labelled(code_rows, factor_rows)


def check_codes(
    codes: ArrayLike, *, least_rows: int = 2, name: str = "codes"
) -> NDArray[np.float64]:
    """Codes `(n, latents)` alone, refused where they are no finite numbers or too few."""
    problems = Problems()
    rows = _read_codes(codes, name, least_rows, problems)
    problems.raise_if_any()
    return rows


def check_posterior(
    mean: ArrayLike, logvar: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Posterior means and log-variances, both `(n, latents)`; every problem at once."""
    problems = Problems()
    means, logvars = (
        _read_codes(mean, "mean", 1, problems),
        _read_codes(logvar, "logvar", 1, problems),
    )
    if means.shape != logvars.shape:
        problems.add(
            "mean and logvar",
            "must have the same shape",
            Shown(f"{means.shape} and {logvars.shape}"),
        )
    problems.raise_if_any()
    return means, logvars


def check_split(
    codes: ArrayLike, factors: ArrayLike, test_codes: ArrayLike, test_factors: ArrayLike
) -> tuple[Labelled, Labelled]:
    """Training and test part, refused with every problem at once.

    Both parts are numbered by the training part's values; a test value that training never showed
    has level -1, which no prediction equals.
    """
    problems = Problems()
    train_codes = _read_codes(codes, "codes", 2, problems)
    train_factors = _read_factors(factors, "factors", problems)
    _length_problem(train_codes, train_factors, ("codes", "factors"), problems)
    held_codes = _read_codes(test_codes, "test_codes", 1, problems)
    held_factors = _read_factors(test_factors, "test_factors", problems)
    _length_problem(held_codes, held_factors, ("test_codes", "test_factors"), problems)
    if train_codes.ndim == held_codes.ndim == 2 and train_codes.shape[1] != held_codes.shape[1]:
        shown = Shown(f"{train_codes.shape[1]} and {held_codes.shape[1]}")
        problems.add("codes and test_codes", "must have the same latents", shown)
    if (
        train_factors.ndim == held_factors.ndim == 2
        and train_factors.shape[1] != held_factors.shape[1]
    ):
        shown = Shown(f"{train_factors.shape[1]} and {held_factors.shape[1]}")
        problems.add("factors and test_factors", "must have the same factors", shown)
    problems.raise_if_any()
    train = _labelled(train_codes, train_factors)
    levels = np.empty_like(held_factors)
    for column in range(held_factors.shape[1]):
        values, asked = np.unique(train.factors[:, column]), held_factors[:, column]
        place = np.minimum(np.searchsorted(values, asked), len(values) - 1)
        levels[:, column] = np.where(values[place] == asked, place, -1)
    return train, Labelled(held_codes, held_factors, levels, train.sizes)


def check_codes_grid(codes: ArrayLike, grid: FactorGrid | ArrayLike) -> Labelled:
    """Codes of a whole `FactorGrid` in C order, or of rows with factor values as *grid*."""
    if not isinstance(grid, FactorGrid):
        return check_codes_factors(codes, grid)
    problems = Problems()
    code_rows = _read_codes(codes, "codes", 1, problems)
    if code_rows.ndim == 2 and len(code_rows) != grid.size:
        remedy = "For a part of the grid pass the factor values (n, factors) of the rows instead."
        problems.add(
            "codes",
            f"must have {grid.size} rows, one for each point of the grid",
            len(code_rows),
            remedy,
        )
    if grid.size == 1:
        problems.say(_nothing_varies(len(grid.sizes)))
    problems.raise_if_any()
    factors = grid.to_factors(np.arange(grid.size))
    return Labelled(code_rows, factors, factors, grid.sizes)


def check_counts(**options: tuple[int, int]) -> None:
    """Refuse options `name=(value, least)` that are no whole numbers or too small, all at once.

    Of bins there may be `MOST_BINS`: each costs memory for every value of every factor.
    """
    problems = Problems()
    for name, (value, least) in options.items():
        whole = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
        if not whole or value < least:
            problems.add(name, f"must be a whole number of at least {least}", value)
        elif name == "bins" and value > MOST_BINS:
            remedy = "With more bins than samples every sample would be alone in its own."
            problems.add(name, f"must be at most {MOST_BINS}", value, remedy)
    problems.raise_if_any()
