# SPDX-License-Identifier: Apache-2.0
"""The latent that varies least in a batch: one vote of the FactorVAE score and its kin."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

ROUNDING_SHARE = 1e-12
"""Of the sum of squares: a variance below it is rounding."""
ROWS_AT_ONCE = 1 << 20
"""Rows drawn in one piece; bounds the memory at any number of votes."""


@dataclass(frozen=True)
class Spread:
    """How each latent lies over all rows, and which latents vote."""

    mean: NDArray[np.float64]
    std: NDArray[np.float64]
    """With n - 1; exactly 0 for a constant latent."""
    active: NDArray[np.bool_]

    @classmethod
    def of(
        cls, codes: NDArray[np.float64], *, active_std: float = 0.0, constant_too: bool = False
    ) -> Spread:
        """The spread of *codes*; latents of at least *active_std* vote, constant ones if asked."""
        # Computed, the spread of a constant need not be 0: 0.1 has no exact mean in binary.
        std = np.where(np.ptp(codes, axis=0) > 0, codes.std(axis=0, ddof=1), 0.0)
        return cls(codes.mean(axis=0), std, ((std > 0) | constant_too) & (std >= active_std))

    @property
    def constant_voter(self) -> int | None:
        """The first constant latent that votes: 0/0, which the reference takes for the least."""
        constant = np.flatnonzero(self.active & (self.std == 0))
        return int(constant[0]) if len(constant) else None

    def table(self, codes: NDArray[np.float64]) -> NDArray[np.float64]:
        """Standardised active latents and their squares, side by side, for `least_varying`."""
        standard = codes[:, self.active] - self.mean[self.active]
        standard /= np.where(self.std > 0, self.std, 1.0)[self.active]
        # Rows lie together in memory, unlike chosen columns.
        table = np.empty((len(codes), 2 * standard.shape[1]))
        table[:, : standard.shape[1]] = standard
        table[:, standard.shape[1] :] = standard**2
        return table

    def least_varying(
        self, table: NDArray[np.float64], row: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The latent that varies least in each batch of rows *row* `(votes, batch)` of the *table*.

        On standardised codes the variance in the batch already is the ratio to the variance over
        all rows. What rounding leaves of the variance of a latent that stands still is taken for 0,
        and of several such latents the first wins, as in the reference.
        """
        from scipy.sparse import csr_array

        votes, batch = row.shape
        if self.constant_voter is not None:
            return np.full(votes, self.constant_voter)
        # Summing rows of a table by index is a product with a matrix of ones, done without copying
        # the rows.
        member = csr_array(
            (np.ones(row.size), row.ravel(), np.arange(0, row.size + 1, batch)),
            shape=(votes, len(table)),
        )
        value_sum, square_sum = np.split(member @ table, 2, axis=1)
        variance = square_sum - value_sum**2 / batch
        variance[variance <= ROUNDING_SHARE * square_sum] = 0.0
        return np.flatnonzero(self.active)[variance.argmin(axis=1)]


def pieces(count: int, batch: int) -> list[int]:
    """*count* batches cut into pieces of about `ROWS_AT_ONCE` rows."""
    largest = max(1, ROWS_AT_ONCE // batch)
    whole, rest = divmod(count, largest)
    return [largest] * whole + ([rest] if rest else [])


def tally(
    factor: NDArray[np.int64], latent: NDArray[np.int64], shape: tuple[int, int]
) -> NDArray[np.int64]:
    """Votes `(factors, latents)`."""
    votes = np.zeros(shape, dtype=np.int64)
    np.add.at(votes, (factor, latent), 1)
    return votes
