# SPDX-License-Identifier: Apache-2.0
"""FactorVAE score (Kim and Mnih 2018, section 4): a vote of the latent that varies least.

A vote: choose a factor, draw a batch of 64 rows that share its value, and take the latent whose
variance in the batch is smallest beside its variance over all rows, `argmin over j of
Var_batch(z_j) / Var(z_j)`. 10,000 training votes give each latent the factor that it was chosen for
most often; the score is the share of 5,000 fresh votes whose latent stands for their factor. Chance
is one over the number of factors. Counts, batch and the threshold `active_std = 0.05`, below which
a latent has no vote, are those of disentanglement_lib's studies. With a `FactorGrid` rows are drawn
from the whole grid, as in the paper; `factor_vae_score_of_batches` takes batches that were drawn
elsewhere.

Traps: the threshold is absolute, so rescaling a latent can silence it, and perfect codes at a
hundredth of their scale score 0: pass `active_std=0` for codes that do not come from a standard
normal prior (the default is not relative, since it is there to silence latents that a VAE switched
off); a factor that no latent holds costs only its share (0.79 with four of five), and a latent that
mixes two factors costs little (a noisy sparse mixture of five scores 0.9996, rotations 0.67 to
1.00, on average 0.85); duplicated latents cost nothing; over seeds the score of a rotation scatters
by 0.006.

Departs from disentanglement_lib: the variance over all rows is exact instead of estimated from
10,000 draws; factors take turns instead of being drawn, and constant ones are never chosen; an
exactly constant latent never votes. There, with threshold 0, its ratio 0/0 counts as the smallest
and it takes every vote: perfect codes with one constant latent fall from 1.0 to 0.19.
`compat="disentanglement_lib"` gives all of that, but not its random numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import Problems, invalid
from unbraid.core.grid import FactorGrid
from unbraid.core.registry import Citation
from unbraid.metrics._arrays import check_codes, check_codes_grid, check_counts
from unbraid.metrics._batches import check_latents, read_batches
from unbraid.metrics._compat import Compat, as_reference
from unbraid.metrics._describe import describe
from unbraid.metrics._least_samples import Drawn
from unbraid.metrics._resampled import Resampled
from unbraid.metrics._sharing import SharedFactor
from unbraid.metrics._standardise import Scale
from unbraid.metrics._voting import Spread, pieces, tally

REFERENCE_ROWS = 10_000
"""Rows from which disentanglement_lib's studies estimate the variance over all of them."""

Votes = tuple[NDArray[np.int64], NDArray[np.int64]]
"""The factor that each batch shares and the latent that varies least in it."""


@dataclass(frozen=True)
class FactorVAEScore:
    """Test accuracy of the majority vote, the training votes and the latents that took part."""

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
    revision=2,
    citation=Citation("Kim and Mnih", 2018, "Disentangling by Factorising", "ICML"),
    result=FactorVAEScore,
    least_samples=Drawn(64),
    scale=Scale("latents that deviate by less than 0.05 have no vote", free={"active_std": 0}),
    error=Resampled("cheap"),
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
    compat: Compat | None = None,
) -> FactorVAEScore:
    """How well the latent that varies least in a batch tells which factor the batch shares.

    *grid* is the `FactorGrid` whose points the rows of *codes* are, in C order, or the factor
    values `(n, factors)` of the rows. Without any active latent the score is 0.

    >>> grid = FactorGrid(("x", "y"), (8, 8))
    >>> codes = grid.to_factors(range(64)) * 1.0
    >>> factor_vae_score(codes, grid, train_votes=200, test_votes=100).score
    1.0
    """
    reference = as_reference(compat)
    check_counts(
        train_votes=(train_votes, 1), test_votes=(test_votes, 1), batch=(batch, 2), seed=(seed, 0)
    )
    _check_threshold(active_std)
    rows = check_codes_grid(codes, grid)
    shared = SharedFactor.of(rows, as_reference=reference)
    generator = np.random.default_rng(seed)
    seen = (
        rows.codes[generator.integers(len(rows.codes), size=REFERENCE_ROWS)]
        if reference
        else rows.codes
    )
    spread = Spread.of(seen, active_std=active_std, constant_too=reference)
    table = spread.table(rows.codes)

    def vote(count: int) -> Votes:
        found = []
        for piece in pieces(count if spread.active.any() else 0, batch):
            factor, row = shared.draw(piece, batch, generator)
            found.append((factor, spread.least_varying(table, row)))
        return _join(found)

    train = vote(train_votes)
    return _score(train, vote(test_votes), spread.active, len(rows.sizes), rows.constant_factors)


def factor_vae_score_of_batches(
    batches: ArrayLike,
    factor: ArrayLike,
    test_batches: ArrayLike,
    test_factor: ArrayLike,
    codes: ArrayLike,
    *,
    active_std: float = 0.05,
) -> FactorVAEScore:
    """The FactorVAE score of batches that were drawn elsewhere, for a generator without a grid.

    *batches* `(votes, batch, latents)` hold codes whose factor number *factor* `(votes,)` has one
    value within a batch; *test_batches* and *test_factor* are fresh ones. *codes* `(n, latents)` of
    freely drawn rows give the variance over all.

    >>> draws = np.random.default_rng(0).normal(size=(3, 40, 16, 2))
    >>> factor = np.arange(40) % 2
    >>> draws[:2, np.arange(40), :, factor] = 1.0
    >>> spread = draws[2].reshape(-1, 2)
    >>> factor_vae_score_of_batches(draws[0], factor, draws[1], factor, spread).score
    1.0
    """
    _check_threshold(active_std)
    problems = Problems()
    (train,), factor = read_batches({"batches": batches}, {"factor": factor}, 2, problems)
    (test,), test_factor = read_batches(
        {"test_batches": test_batches}, {"test_factor": test_factor}, 2, problems
    )
    rows = problems.collect(lambda: check_codes(codes))
    rows = np.empty(0) if rows is None else rows
    check_latents({"batches": train, "test_batches": test, "codes": rows}, problems)
    problems.raise_if_any()
    spread = Spread.of(rows, active_std=active_std)

    def vote(drawn: NDArray[np.float64], factor: NDArray[np.int64]) -> Votes:
        found, begin, batch = [], 0, drawn.shape[1]
        for piece in pieces(len(drawn) if spread.active.any() else 0, batch):
            part = slice(begin, begin + piece)
            table = spread.table(drawn[part].reshape(piece * batch, -1))
            found.append(
                (
                    factor[part],
                    spread.least_varying(table, np.arange(len(table)).reshape(piece, batch)),
                )
            )
            begin += piece
        return _join(found)

    factors = int(max(factor.max(), test_factor.max())) + 1
    return _score(vote(train, factor), vote(test, test_factor), spread.active, factors, ())


def _check_threshold(active_std: float) -> None:
    if not 0.0 <= active_std < np.inf:
        raise invalid("active_std", "must be at least 0 and finite", active_std)


def _join(found: list[Votes]) -> Votes:
    nobody = np.empty(0, dtype=np.int64)
    return np.concatenate([nobody, *(factor for factor, _ in found)]), np.concatenate(
        [nobody, *(latent for _, latent in found)]
    )


def _score(
    train: Votes,
    test: Votes,
    active: NDArray[np.bool_],
    factors: int,
    constant_factors: tuple[int, ...],
) -> FactorVAEScore:
    """Majority vote learned from *train*; without votes the accuracies are 0."""
    votes = tally(*train, (factors, len(active)))
    factor_of_latent = votes.argmax(axis=0)
    train_accuracy, score = (
        float(np.mean(factor_of_latent[latent] == factor)) if len(factor) else 0.0
        for factor, latent in (train, test)
    )
    return FactorVAEScore(score, train_accuracy, votes, factor_of_latent, active, constant_factors)
