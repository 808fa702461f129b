# SPDX-License-Identifier: Apache-2.0
"""One member looked at closely: its factors, latent traversals and reconstructions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unbraid.codes.codes import Codes, CodeStore
from unbraid.codes.latent_names import latent_names
from unbraid.codes.model import Model
from unbraid.codes.traversals import traverse, typical_image
from unbraid.core.errors import InputError
from unbraid.metrics.mig import mig
from unbraid.population.run_folder import RunFolder
from unbraid.report.images import row_uri
from unbraid.scoring.collapse import STILL_SHARE, which_active

CARRIED = 0.1
"""A latent carries a factor from this share of the factor's information on."""
SHARED = 0.5
"""Two latents share a factor where the second holds at least this part of what the first holds."""
STILL_NATS = 0.01
"""Moving a latent with a smaller KL than this hardly changes the image."""
FRAMES = 11
SAMPLES = 12
QUANTILES = (0.01, 0.99)
_MOST_COLUMNS = 12
"""With more latents than this, a table of information shows the active ones only."""


@dataclass(frozen=True)
class FactorPlace:
    """Where a factor is found: the latents that hold most of its information, and how much."""

    kind: str
    """`one`, `spread` over two, `none`, `only` (one latent is active), `constant` (it does not
    vary), `inactive` (most is in a latent that is not active), or `no active latent`.
    """
    latent: int = -1
    share: float = 0.0
    second: int = -1
    second_share: float = 0.0

    @property
    def found(self) -> bool:
        """Whether an active latent carries it, and none of the others seems to know more."""
        return self.kind in ("one", "spread", "constant") or (
            self.kind == "only" and self.share >= CARRIED
        )


@dataclass(frozen=True)
class FactorRow:
    """A row of the table of information: one factor."""

    name: str
    shares: tuple[float, ...]
    """Information of each shown latent about it over its entropy; NaN for a factor with one value.
    """
    where: FactorPlace


@dataclass(frozen=True)
class LatentRow:
    """A row of the traversals: one latent."""

    number: int
    size: float
    """KL divergence to the prior in nats, or the standard deviation of the codes where there is no
    KL.
    """
    active: bool
    """Whether it is by the rule of `scoring/collapse.py`."""
    factors: tuple[tuple[str, float], ...]
    """What it carries; nothing where it is not active."""
    uri: str
    film_uri: str


@dataclass(frozen=True)
class MemberView:
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
    named: dict[int, str]
    """What a person called a latent, where somebody did."""
    sizes: tuple[float, ...]
    """KL or spread of every latent, by its number."""
    rows: tuple[FactorRow, ...]
    latents: tuple[LatentRow, ...]
    """Those whose moves can be seen, active or not, the ones that say most first."""
    active: frozenset[int]
    still: tuple[int, ...]
    hidden_columns: int
    sample_uri: str
    data_uri: str
    decoded_uri: str
    samples: int


def latent_sizes(codes: Codes, by_kl: bool) -> tuple[str, NDArray[np.float64]]:
    """How much each latent says: KL from the standard normal in nats, or else its spread."""
    if by_kl:
        return "kl", codes.kl_per_latent()
    return "spread", codes.mean.astype(np.float64).std(axis=0)


def moves_images(measure: str, sizes: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Latents worth a row of images: active ones, and some that are too faint to count as such."""
    if measure == "kl":
        return sizes >= STILL_NATS
    return sizes > STILL_SHARE * sizes.max()


def information_shares(codes: Codes) -> NDArray[np.float64]:
    """Information of latents about factors over the factor's entropy `(latents, factors)`.

    A constant factor has NaN.
    """
    evidence = mig(codes.mean, codes.factors)
    varying = np.isfinite(evidence.per_factor)
    return np.where(
        varying,
        evidence.mutual_information / np.where(varying, evidence.factor_entropy, 1.0),
        np.nan,
    )


def diagonal_order(shares: NDArray[np.float64], active: NDArray[np.bool_]) -> list[int]:
    """Latents in the order in which the table looks most diagonal; silent ones come last."""
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


def view_member(run: RunFolder, member: int, name: str, why: str) -> MemberView:
    """Everything the page shows of one trained member."""
    dataset, codes, model = run.dataset, CodeStore(run).load(member), Model(run, member)
    # Only from the standard normal is the KL of a latent that says nothing zero.
    noisy = model.member.build().samples_latents
    measure, sizes = latent_sizes(codes, noisy and model.member.build_prior().standard)
    active = which_active(codes.mean, codes.mean_variances() if noisy else None)
    drawn = moves_images(measure, sizes) | active
    factors = dataset.factor_names
    shares = _shares(codes) if dataset.labelled else None
    order = list(range(len(sizes))) if shares is None else diagonal_order(shares, active)
    columns = [latent for latent in order if drawn[latent] or len(order) <= _MOST_COLUMNS]
    rows = (
        ()
        if shares is None
        else tuple(
            FactorRow(name, tuple(held[columns].tolist()), factor_place(held, active))
            for name, held in zip(factors, shares.T, strict=True)
        )
    )
    row, names = typical_image(codes.mean, drawn), latent_names(run).get(member, {})
    latents = []
    for latent in sorted(np.flatnonzero(drawn).tolist(), key=lambda latent: -sizes[latent]):
        moved = traverse(codes.mean[row], latent, codes.mean[:, latent], FRAMES, QUANTILES)
        frames = model.decode(moved)
        known = () if shares is None or not active[latent] else carried(factors, shares[latent])
        latents.append(
            LatentRow(
                number=latent,
                size=float(sizes[latent]),
                active=bool(active[latent]),
                factors=tuple(known),
                uri=row_uri(frames),
                film_uri=row_uri(frames, gap=False),
            )
        )
    count = min(SAMPLES, len(codes.indices))
    return MemberView(
        member=member,
        name=name,
        why=why,
        measure=measure,
        columns=tuple(columns),
        named=names,
        sizes=tuple(float(size) for size in sizes),
        rows=rows,
        latents=tuple(latents),
        active=frozenset(np.flatnonzero(active).tolist()),
        still=tuple(np.flatnonzero(~drawn).tolist()),
        hidden_columns=len(order) - len(columns),
        sample_uri=row_uri(dataset.images(codes.indices[row : row + 1])),
        data_uri=row_uri(dataset.images(codes.indices[:count])),
        decoded_uri=row_uri(model.decode(codes.mean[:count])),
        samples=count,
    )


def _shares(codes: Codes) -> NDArray[np.float64] | None:
    """Information shares; None with too few samples, or where no factor varies."""
    try:
        return information_shares(codes)
    except InputError:
        return None


def factor_place(shares: NDArray[np.float64], active: NDArray[np.bool_]) -> FactorPlace:
    """Where a factor is: *shares* `(latents,)` are each latent's information over its entropy.

    Information is counted on means however little they move, so that a latent that is not *active*
    can seem to hold much.
    """
    if not np.isfinite(shares).all():
        return FactorPlace("constant")
    if not active.any():
        return FactorPlace("no active latent")
    every = np.argsort(-shares, kind="stable").tolist()
    first, *others = [latent for latent in every if active[latent]]
    held = float(shares[first])
    if first != every[0]:
        return FactorPlace("inactive", first, held)
    if not others:
        return FactorPlace("only", first, held)
    second, next_held = others[0], float(shares[others[0]])
    kind = "none" if held < CARRIED else "spread" if next_held >= SHARED * held else "one"
    return FactorPlace(kind, first, held, second, next_held)


def carried(factors: Sequence[str], shares: NDArray[np.float64]) -> list[tuple[str, float]]:
    """The factors that a latent with *shares* `(factors,)` carries, the largest share first."""
    order = np.argsort(-np.nan_to_num(shares), kind="stable")
    return [
        (str(factors[at]), float(shares[at]))
        for at in order
        if np.isfinite(shares[at]) and shares[at] >= CARRIED
    ]
