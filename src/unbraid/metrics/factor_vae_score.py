# SPDX-License-Identifier: Apache-2.0
"""FactorVAE score (Kim and Mnih 2018, section 4): which latent stands still when a factor does.

A vote: choose a factor, draw a batch of rows that share its value, take the latent whose variance in the batch is smallest
beside its variance over all rows. The training votes fix a factor for each latent, and the score is the share of test
votes that agree. Votes and the threshold `active_std = 0.05` follow disentanglement_lib. Departs: the variance over all
rows is exact instead of estimated from 10,000 draws; a latent that is exactly constant never votes (with threshold 0 the
reference gives it all votes, and a perfect code with one constant latent falls from 1.0 to 0.19); constant factors are
never chosen. Trap: the threshold is absolute, so rescaling a latent can change the score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.errors import InputError, problem
from unbraid.grid import FactorGrid
from unbraid.metrics._arrays import check_codes_grid, check_counts
from unbraid.metrics._describe import describe
from unbraid.metrics._sharing import SharedFactor
from unbraid.registry import Citation

ROWS_AT_ONCE = 1 << 20
"""Rows drawn in one piece; bounds the memory at any number of votes."""


@dataclass(frozen=True)
class FactorVAEScore:
    """Test accuracy of the majority vote, with the training votes and the latents that took part."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    train_accuracy: float
    votes: NDArray[np.int64]
    """`(factors, latents)`: training votes."""
    factor_of_latent: NDArray[np.int64]
    """The factor each latent stands for; the lowest where votes tie, or where there are none."""
    active: NDArray[np.bool_]
    """Latents that vote: not constant, and with a standard deviation of at least the threshold."""
    constant_factors: tuple[int, ...]
    """Columns never chosen because they take one value."""


@describe(
    label="FactorVAE score",
    needs="grid",
    compares_factors=True,
    citation=Citation("Kim and Mnih", 2018, "Disentangling by Factorising", "ICML"),
    result=FactorVAEScore,
)
def factor_vae_score(
    codes: ArrayLike,
    grid: FactorGrid | ArrayLike,
    *,
    train_votes: int = 10_000,
    test_votes: int = 5_000,
    batch: int = 64,
    active_std: float = 0.05,
    seed: int = 0,
) -> FactorVAEScore:
    """How well the latent that varies least in a batch tells which factor the batch shares.

    *grid* is the `FactorGrid` whose points the rows of *codes* are, in C order, or the factor values `(n, factors)` of the
    rows. Without any active latent the score is 0.

    >>> grid = FactorGrid(("x", "y"), (8, 8))
    >>> factor_vae_score(grid.to_factors(range(64)) * 1.0, grid, train_votes=200, test_votes=100).score
    1.0
    """
    check_counts(train_votes=(train_votes, 1), test_votes=(test_votes, 1), batch=(batch, 2), seed=(seed, 0))
    if not 0.0 <= active_std < np.inf:
        raise InputError(problem("active_std", "must be at least 0 and finite", active_std))
    rows = check_codes_grid(codes, grid)
    shared = SharedFactor.of(rows)
    active = (np.ptp(rows.codes, axis=0) > 0) & (rows.codes.std(axis=0, ddof=1) >= active_std)
    shape = (len(rows.sizes), rows.codes.shape[1])
    if not active.any():
        nobody = np.zeros(shape, dtype=np.int64)
        return FactorVAEScore(0.0, 0.0, nobody, nobody[0], active, rows.constant_factors)

    generator = np.random.default_rng(seed)
    standard = _standardise(rows.codes[:, active])
    train_factor, train_winner = _votes(standard, shared, train_votes, batch, generator)
    test_factor, test_winner = _votes(standard, shared, test_votes, batch, generator)
    voter = np.flatnonzero(active)
    votes = np.zeros(shape, dtype=np.int64)
    np.add.at(votes, (train_factor, voter[train_winner]), 1)
    factor_of_latent = votes.argmax(axis=0)
    train_accuracy = float(np.mean(factor_of_latent[voter[train_winner]] == train_factor))
    score = float(np.mean(factor_of_latent[voter[test_winner]] == test_factor))
    return FactorVAEScore(score, train_accuracy, votes, factor_of_latent, active, rows.constant_factors)


def _standardise(codes: NDArray[np.float64]) -> NDArray[np.float64]:
    return (codes - codes.mean(axis=0)) / codes.std(axis=0, ddof=1)


def _votes(
    standard: NDArray[np.float64], shared: SharedFactor, count: int, batch: int, generator: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The factor shared in each of *count* batches, and the column of the *standard* codes that varied least.

    On standardised codes the local variance already is the ratio to the variance over all rows; centred, the sum of squares
    minus the square of the sum loses nothing.
    """
    from scipy.sparse import csr_array

    table = np.concatenate([standard, standard**2], axis=1)
    factors, winners = [], []
    for piece in _pieces(count, max(1, ROWS_AT_ONCE // batch)):
        factor, row = shared.draw(piece, batch, generator)
        # Summing rows of a table by index is a product with a matrix of ones, done without copying the rows.
        ones = np.ones(row.size)
        member = csr_array((ones, row.ravel(), np.arange(0, row.size + 1, batch)), shape=(piece, len(table)))
        total = member @ table
        value_sum, square_sum = np.split(total, 2, axis=1)
        factors.append(factor)
        winners.append((square_sum - value_sum**2 / batch).argmin(axis=1))
    return np.concatenate(factors), np.concatenate(winners)


def _pieces(count: int, largest: int) -> list[int]:
    whole, rest = divmod(count, largest)
    return [largest] * whole + ([rest] if rest else [])
