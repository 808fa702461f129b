# SPDX-License-Identifier: Apache-2.0
"""Kim-Mnih score (Mathieu et al. 2019, experiments): the FactorVAE score with large batches.

A vote: choose a factor and one of its values, draw 1,000 different rows with that value (all rows
if there are fewer), and take the latent whose variance there is smallest after division by its
standard deviation over all rows. Of `V`, the votes counted by factor and latent, the score is `sum
over j of max over k of V[k, j] / 20,000`: the votes that fix a factor for each latent are also the
ones that are scored. All latents take part. For a Student-t prior with `student_t_df` degrees of
freedom the codes are first carried to the scale of a Gaussian, `z -> Phi^-1(F_t(z))`; divide them
by the prior's scale before where that is not 1.

Traps: with large batches, and scored on its own training votes, it lies above the FactorVAE score:
twelve rotations of five factors have 0.60 to 1.00, on average 0.90, beside 0.70 to 1.00 and 0.85,
and noise 0.28 beside 0.21. Latents with next to no spread vote like any other. Where every value
has at most 1,000 rows every batch is all of them, and no more votes make the score more certain:
there are as many different votes as values, and noise in 200 rows of factors with 2 and 3 values,
five votes, can score 1.0.

Not in disentanglement_lib: follows the authors' published code. Departs from it: factors and their
values take turns instead of being drawn; constant factors are never chosen, nor values that a
single row has (its variance, 0/0, counts as the smallest there); an exactly constant latent never
votes (there it takes every vote); batches of one value are cut from shuffles of its rows, so that
those of one shuffle have no row in common.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.citations import MATHIEU_2019
from unbraid.core.errors import invalid
from unbraid.core.grid import FactorGrid
from unbraid.metrics._arrays import check_codes_grid, check_counts
from unbraid.metrics._describe import describe
from unbraid.metrics._least_samples import Drawn
from unbraid.metrics._sharing import SharedFactor
from unbraid.metrics._voting import ROWS_AT_ONCE, Spread


@dataclass(frozen=True)
class KimMnihScore:
    """The share of votes that agree with the majority of their latent, with the votes."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    votes: NDArray[np.int64]
    """`(factors, latents)`."""
    factor_of_latent: NDArray[np.int64]
    """The factor each latent stands for; the lowest where votes tie, or where there are none."""
    active: NDArray[np.bool_]
    """Latents that vote: all that are not constant."""
    constant_factors: tuple[int, ...]
    """Columns never chosen because they take one value."""


@describe(
    label="Kim-Mnih score",
    needs="grid",
    compares_factors=True,
    citation=MATHIEU_2019,
    result=KimMnihScore,
    least_samples=Drawn(1_000),
)
def kim_mnih_score(
    codes: ArrayLike,
    grid: FactorGrid | ArrayLike,
    *,
    votes: int = 20_000,
    batch: int = 1_000,
    student_t_df: float | str | None = None,
    seed: int = 0,
) -> KimMnihScore:
    """How well the latent that varies least where a factor is fixed tells which factor it is.

    *grid* is the `FactorGrid` whose points the rows of *codes* are, in C order, or the factor
    values `(n, factors)` of the rows. With *student_t_df* the codes belong to a Student-t prior of
    that many degrees of freedom; where models are scored, `prior` takes those of each model's own
    prior, and leaves the codes as they are under any other. Without any active latent the score is
    0.

    >>> grid = FactorGrid(("x", "y"), (8, 8))
    >>> kim_mnih_score(grid.to_factors(range(64)) * 1.0, grid).score
    1.0
    """
    check_counts(votes=(votes, 1), batch=(batch, 2), seed=(seed, 0))
    if isinstance(student_t_df, str):
        rule = "must be a number above 0, or None: `prior` is for models, which know theirs"
        raise invalid("student_t_df", rule, student_t_df)
    if student_t_df is not None and not 0.0 < student_t_df < np.inf:
        raise invalid("student_t_df", "must be above 0 and finite, or None", student_t_df)
    rows = check_codes_grid(codes, grid)
    shared = SharedFactor.of(rows)
    values = rows.codes if student_t_df is None else _to_gaussian(rows.codes, student_t_df)
    spread = Spread.of(values)
    counted = np.zeros((len(rows.sizes), len(spread.active)), dtype=np.int64)
    if spread.active.any():
        generator = np.random.default_rng(seed)
        table = spread.table(values)
        for place, level, share in _turns(shared, votes, generator):
            for row, weight in _batches(shared.rows_of(place, level), share, batch, generator):
                np.add.at(counted[shared.factors[place]], spread.least_varying(table, row), weight)
    score = float(counted.max(axis=0).sum() / votes)
    return KimMnihScore(
        score, counted, counted.argmax(axis=0), spread.active, rows.constant_factors
    )


def _to_gaussian(codes: NDArray[np.float64], df: float) -> NDArray[np.float64]:
    """Codes at the same quantile of a Gaussian as of Student's t, by the lower tail."""
    from scipy.special import ndtri, stdtr

    tail = np.maximum(stdtr(df, -np.abs(codes)), np.finfo(np.float64).tiny)
    return np.sign(codes) * -ndtri(tail)


def _turns(
    shared: SharedFactor, votes: int, generator: np.random.Generator
) -> Iterator[tuple[int, int, int]]:
    """Place of a factor, level and its number of *votes*: factors take turns, and so do values."""
    first = generator.integers(len(shared.factors))
    for place in range(len(shared.factors)):
        mine = len(range((place - first) % len(shared.factors), votes, len(shared.factors)))
        levels = generator.permutation(np.flatnonzero(shared.count[place] > 1))
        whole, rest = divmod(mine, len(levels))
        for turn, level in enumerate(levels):
            if share := whole + (turn < rest):
                yield place, int(level), share


def _batches(
    rows: NDArray[np.int64], votes: int, batch: int, generator: np.random.Generator
) -> Iterator[tuple[NDArray[np.int64], int]]:
    """Batches `(some, batch)` of different *rows*, and the votes that each counts for."""
    if len(rows) <= batch:
        yield rows[None, :], votes
        return
    fitting = min(len(rows) // batch, max(1, ROWS_AT_ONCE // batch))
    while votes > 0:
        some = min(fitting, votes)
        yield generator.permutation(rows)[: some * batch].reshape(some, batch), 1
        votes -= some
