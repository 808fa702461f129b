# SPDX-License-Identifier: Apache-2.0
"""One member looked at closely: where the factors are, what each latent does to an image, what
comes back of the data.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unbraid.codes.codes import Codes, CodeStore
from unbraid.codes.model import Model
from unbraid.codes.traversals import traverse, typical_image
from unbraid.core.errors import InputError
from unbraid.metrics.mig import mig
from unbraid.population.run_folder import RunFolder
from unbraid.report.images import row_uri
from unbraid.report.train.words import (
    CARRIED,
    INACTIVE_NATS,
    carried,
    factor_sentence,
    inactive_sentence,
)

FRAMES = 11
SAMPLES = 12
QUANTILES = (0.01, 0.99)
_MOST_COLUMNS = 12
"""With more latents than this, a table of information shows the active ones only."""
_STILL_SHARE = 1e-3
"""A latent without a KL is inactive when its codes spread less than this part of the widest
latent's.
"""


@dataclass(frozen=True)
class FactorRow:
    """A row of the table of information: one factor."""

    name: str
    shares: tuple[float, ...]
    """Information of each shown latent about it over its entropy; NaN for a factor with one value.
    """
    sentence: str
    found: bool
    """Whether an active latent carries it, and none of the others seems to know more."""


@dataclass(frozen=True)
class LatentRow:
    """A row of the traversals: one latent."""

    number: int
    size: float
    """KL divergence to the prior in nats, or the standard deviation of the codes where there is no
    KL.
    """
    factors: tuple[tuple[str, float], ...]
    uri: str
    film_uri: str


@dataclass(frozen=True)
class Portrait:
    """Everything the page shows of one member."""

    member: int
    name: str
    why: str
    """Why it is shown: the best of the run, or of its setting."""
    measure: str
    """`kl`, or `spread` for an objective without a posterior or with another prior than the
    standard normal.
    """
    columns: tuple[int, ...]
    """Latents in the order of the table of information."""
    sizes: tuple[float, ...]
    """KL or spread of every latent, by its number."""
    rows: tuple[FactorRow, ...]
    latents: tuple[LatentRow, ...]
    """The active ones, those that say most first."""
    inactive: str
    hidden_columns: int
    sample_uri: str
    data_uri: str
    decoded_uri: str
    samples: int


def latent_sizes(codes: Codes, by_kl: bool) -> tuple[str, NDArray[np.float64]]:
    """How much each latent says: KL from the standard normal in nats, or the spread of its codes
    where that means little.
    """
    if by_kl:
        return "kl", codes.kl_per_latent()
    return "spread", codes.mean.astype(np.float64).std(axis=0)


def is_active(measure: str, sizes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Latents worth a row of images."""
    if measure == "kl":
        return sizes >= INACTIVE_NATS
    return sizes > _STILL_SHARE * sizes.max()


def information_shares(codes: Codes) -> NDArray[np.float64]:
    """Information of every latent about every factor over the factor's entropy `(latents,
    factors)`; NaN for a constant factor.
    """
    evidence = mig(codes.mean, codes.factors)
    varying = np.isfinite(evidence.per_factor)
    return np.where(
        varying,
        evidence.mutual_information / np.where(varying, evidence.factor_entropy, 1.0),
        np.nan,
    )


def diagonal_order(shares: NDArray[np.float64], active: NDArray[np.bool_]) -> list[int]:
    """Latents ordered so that the table looks as diagonal as it can: by their factor, strongest
    first; silent ones last.
    """
    known = np.nan_to_num(shares)
    speaking = active & (known.max(axis=1) >= CARRIED)
    factor, most = known.argmax(axis=1), known.max(axis=1)
    return sorted(
        range(len(known)),
        key=lambda latent: (
            not speaking[latent],
            not active[latent],
            factor[latent],
            -most[latent],
        ),
    )


def draw_portrait(run: RunFolder, member: int, name: str, why: str) -> Portrait:
    """Everything the page shows of one trained member."""
    dataset, codes, model = run.dataset, CodeStore(run).load(member), Model(run, member)
    # Only from the standard normal is the KL of a latent that says nothing zero.
    measure, sizes = latent_sizes(
        codes, model.member.build().samples_latents and model.member.build_prior().standard
    )
    active = is_active(measure, sizes)
    factors = dataset.factor_names
    shares = _shares(codes) if dataset.labelled else None
    order = list(range(len(sizes))) if shares is None else diagonal_order(shares, active)
    columns = [latent for latent in order if active[latent] or len(order) <= _MOST_COLUMNS]
    rows = (
        ()
        if shares is None
        else tuple(
            _factor_row(factors[at], shares[:, at], active, columns) for at in range(len(factors))
        )
    )
    row = typical_image(codes.mean, active)
    latents = []
    for latent in sorted(np.flatnonzero(active).tolist(), key=lambda latent: -sizes[latent]):
        moved = traverse(codes.mean[row], latent, codes.mean[:, latent], FRAMES, QUANTILES)
        frames = model.decode(moved)
        known = () if shares is None else tuple(carried(factors, shares[latent]))
        latents.append(
            LatentRow(
                latent, float(sizes[latent]), known, row_uri(frames), row_uri(frames, gap=False)
            )
        )
    count = min(SAMPLES, len(codes.indices))
    return Portrait(
        member=member,
        name=name,
        why=why,
        measure=measure,
        columns=tuple(columns),
        sizes=tuple(float(size) for size in sizes),
        rows=rows,
        latents=tuple(latents),
        inactive=inactive_sentence(np.flatnonzero(~active).tolist(), measure),
        hidden_columns=len(order) - len(columns),
        sample_uri=row_uri(dataset.images(codes.indices[row : row + 1])),
        data_uri=row_uri(dataset.images(codes.indices[:count])),
        decoded_uri=row_uri(model.decode(codes.mean[:count])),
        samples=count,
    )


def _shares(codes: Codes) -> NDArray[np.float64] | None:
    """Information shares, or None where the codes allow no counting (too few samples, no factor
    that varies).
    """
    try:
        return information_shares(codes)
    except InputError:
        return None


def _factor_row(
    name: str, shares: NDArray[np.float64], active: NDArray[np.bool_], columns: list[int]
) -> FactorRow:
    found = bool(
        np.nan_to_num(shares, nan=1.0)[active].max(initial=0.0)
        >= max(CARRIED, np.nan_to_num(shares).max())
    )
    return FactorRow(
        name,
        tuple(float(shares[latent]) for latent in columns),
        factor_sentence(name, shares, active),
        found,
    )
