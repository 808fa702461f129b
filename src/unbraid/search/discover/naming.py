# SPDX-License-Identifier: Apache-2.0
"""What a latent seems to be, in plain words, from its codes and the real images alone.

The codes are compared with every one of `measurements` by Spearman's rank correlation. An angle is
compared in two ways, and the closer counts: cut open at the best place (a code that goes around the
colour circle once), and as `cos(angle - direction)` for the best direction (a code that goes there
and back, from blue to yellow, as VAEs often have it in pairs). The closest measurement gives the
name where it reaches `NAMED`, and with few images as much as chance does not reach: 4.5 / sqrt(n -
1), since hundreds of columns are tried. Measurements that hardly vary name nothing. Where a second
one comes within `NEAR` of the closest, the more telling (place before size before colour before
brightness) is the title and the other is added: "size (or brightness)".

Otherwise the name is the part of the image that changes with the code: per pixel the variance
between the means of ten groups of images by code, less what chance gives, as shares of the nine
cells of the image. Where that is little more than shuffled codes give, nothing is said. A wrong
name is worse than a vague one.

Ours; no paper. At most 5,000 images, drawn with a fixed seed, are looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import Problems, Shown, invalid
from unbraid.metrics._arrays import to_numpy
from unbraid.metrics._ranks import average_ranks
from unbraid.metrics._standardise import standardise, varying_latents
from unbraid.search.discover.findings import Name
from unbraid.search.discover.measurements import (
    blocks,
    cell_slices,
    check_images,
    is_circular,
    is_of_part,
    measurements,
)
from unbraid.search.discover.naming_words import Match, family, name_of, name_of_region, preference

__all__ = ["MOST_IMAGES", "NAMED", "measurements", "name_factor", "name_factors", "naming_rows"]

NAMED = 0.8
"""Absolute rank correlation from which a measurement gives the name."""
NEAR = 0.03
"""Correlations closer than this to the best are no worse."""
AROUND = 0.1
"""Parts of the image within this of the best belong to the part that is named."""
MOST_IMAGES = 5_000
_DEFINED_SHARE = 0.9
"""Share of the images that must have a measurement for it to name anything."""
_DIRECTIONS = 24
_THUMBNAIL = 30
_GROUPS = 10
_SHUFFLES = 19
_ABOVE_CHANCE = 4.0
"""How many times the largest change of shuffled codes a change must be for its place to be told."""


def naming_rows(count: int) -> NDArray[np.int64]:
    """Which of *count* images are looked at: at most `MOST_IMAGES`, ascending, always the same."""
    return np.sort(np.random.default_rng(0).permutation(count)[:MOST_IMAGES])


def name_factor(
    codes: ArrayLike, images: ArrayLike, measured: Mapping[str, NDArray[np.float64]] | None = None
) -> Name:
    """What the latent with *codes* `(n,)` of uint8 *images* `(n, height, width, channels)` is.

    *measured* are the `measurements` of the images, where they are known already.
    """
    values = to_numpy(codes)
    if values.ndim != 1:
        raise invalid(
            "codes",
            "must be those of one latent, (n,)",
            Shown(f"shape {values.shape}"),
            "Use codes[:, latent].",
        )
    return name_factors(values[:, None], images, measured)[0]


def name_factors(
    codes: ArrayLike, images: ArrayLike, measured: Mapping[str, NDArray[np.float64]] | None = None
) -> list[Name]:
    """`name_factor` of every latent of *codes* `(n, latents)`; the images are measured once."""
    images, values = check_images(images), to_numpy(codes)
    _check(values, len(images), measured)
    rows = naming_rows(len(images))
    if len(rows) < len(images):
        images, values = images[rows], values[rows]
        measured = (
            None if measured is None else {name: column[rows] for name, column in measured.items()}
        )
    album = _Album(images, measurements(images) if measured is None else measured)
    return [album.name(column) for column in values.astype(np.float64).T]


class _Album:
    """Images with what can be asked of them about any latent, prepared once."""

    def __init__(
        self, images: NDArray[np.uint8], measured: Mapping[str, NDArray[np.float64]]
    ) -> None:
        self.measured = measured
        self.tracks = [
            track
            for name, values in measured.items()
            if (track := _track(name, values)) is not None
        ]
        thumbnails = np.concatenate(list(blocks(images, _THUMBNAIL)))
        self.shape = thumbnails.shape[1:]
        self.cells = list(cell_slices(*self.shape[:2]).values())
        self.deviations = (
            thumbnails - thumbnails.mean(axis=0, dtype=np.float64).astype(np.float32)
        ).reshape(len(thumbnails), -1)
        self.variance = np.square(self.deviations).mean(axis=0, dtype=np.float64)

    def name(self, codes: NDArray[np.float64]) -> Name:
        if not varying_latents(codes[:, None])[0]:
            return Name("nothing that varies", "Its codes are the same for every image.", "", 0.0)
        least = max(NAMED, 4.5 / np.sqrt(max(len(codes) - 1, 1)))
        matches = [
            match
            for track in self.tracks
            if abs((match := track.match(codes)).correlation) >= least
        ]
        if not matches:
            return name_of_region(self.region(codes))
        best = max(abs(match.correlation) for match in matches)
        near = [match for match in matches if abs(match.correlation) >= best - NEAR]
        near.sort(key=lambda match: (preference(match.statistic), -abs(match.correlation)))
        # What moves into a cell makes it brighter or colours it, which is no other thing.
        rivals = [
            match
            for match in near
            if not is_of_part(match.statistic)
            and family(match.statistic) != family(near[0].statistic)
        ]
        around = [match.statistic for match in matches if abs(match.correlation) >= best - AROUND]
        return name_of(near[0], rivals[0] if rivals else None, around, codes, self.measured)

    def region(self, codes: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Shares `(3, 3)` of the cells in what changes with the codes; None for hardly any."""
        chance = np.random.default_rng(0)
        order = np.argsort(codes, kind="stable")
        by_chance = max(
            abs(self._change(chance.permutation(order)).sum()) for _ in range(_SHUFFLES)
        )
        change = self._change(order)
        return (
            np.maximum(change, 0.0).reshape(3, 3)
            if change.sum() > _ABOVE_CHANCE * by_chance
            else None
        )

    def _change(self, order: NDArray[np.int64]) -> NDArray[np.float64]:
        """Variance in each cell between groups of images in *order*, less what chance makes."""
        groups = min(_GROUPS, len(order) // 2)
        group = np.empty(len(order), dtype=np.int64)
        group[order] = np.arange(len(order)) * groups // len(order)
        sizes = np.bincount(group, minlength=groups)
        means = (
            (group == np.arange(groups)[:, None]).astype(np.float32)
            @ self.deviations
            / sizes[:, None]
        )
        between = sizes @ means.astype(np.float64) ** 2 / len(order)
        excess = between - (groups - 1) / max(len(order) - groups, 1) * (self.variance - between)
        return np.array([excess.reshape(self.shape)[place].sum() for place in self.cells])


@dataclass(frozen=True)
class _Track:
    """One measurement as standardised ranks: a column, or for an angle several.

    An angle has a column for each place at which the circle may be cut and for each direction.
    """

    statistic: str
    rows: NDArray[np.bool_]
    columns: NDArray[np.float64]

    def match(self, codes: NDArray[np.float64]) -> Match:
        own = _ranks(codes[self.rows, None])[:, 0]
        correlations = np.clip(own @ self.columns / max(len(own), 1), -1.0, 1.0)
        best = int(np.abs(correlations).argmax())
        shape = (
            "line"
            if self.columns.shape[1] == 1
            else "around"
            if best < _DIRECTIONS
            else "there_and_back"
        )
        return Match(self.statistic, float(correlations[best]), shape)


def _track(statistic: str, values: NDArray[np.float64]) -> _Track | None:
    """The ranks of a measurement; None where too few images have it or it hardly varies."""
    rows = np.isfinite(values)
    if rows.mean() < _DEFINED_SHARE or not _varies(statistic, values[rows]):
        return None
    if not is_circular(statistic):
        return _Track(statistic, rows, _ranks(values[rows, None]))
    directions = 2 * np.pi * np.arange(_DIRECTIONS) / _DIRECTIONS
    around = (values[rows, None] - directions) % (2 * np.pi)
    there_and_back = np.cos(values[rows, None] - directions[: _DIRECTIONS // 2])
    # Equal angles must stay equal, and rounding puts them apart.
    return _Track(
        statistic, rows, _ranks(np.concatenate([around, there_and_back], axis=1).round(9))
    )


_LEAST_RANGE = {
    "centre_x": 0.02,
    "centre_y": 0.02,
    "contrast": 0.01,
    "brightness": 0.01,
    "shade": 0.03,
}
"""From the 5th to the 95th percentile: a pixel, a few grey levels; less may follow a code closely
and is seen by nobody.
"""


def _varies(statistic: str, values: NDArray[np.float64]) -> bool:
    if is_circular(statistic):
        return bool(
            abs(np.exp(1j * values).mean()) < 0.998
        )  # a standard deviation of about 4 degrees
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    if statistic in ("extent", "area"):
        return bool(high - low > 0.05 * middle)
    return bool(
        high - low > _LEAST_RANGE.get(statistic.partition("_")[0], _LEAST_RANGE.get(statistic, 0.0))
    )


def _ranks(columns: NDArray[np.float64]) -> NDArray[np.float64]:
    return standardise(average_ranks(columns))


def _check(codes: NDArray, count: int, measured: Mapping[str, NDArray[np.float64]] | None) -> None:
    problems = Problems()
    if codes.ndim != 2 or len(codes) != count:
        problems.add(
            "codes",
            f"must be one row for each of the {count} images, (n, latents)",
            Shown(f"shape {codes.shape}"),
        )
    elif codes.dtype.kind not in "fiu":
        problems.add("codes", "must be numbers", Shown(f"dtype {codes.dtype}"))
    elif not np.isfinite(codes).all():
        row, latent = np.argwhere(~np.isfinite(codes))[0]
        value = Shown(f"{codes[row, latent]} at row {row}, latent {latent}")
        problems.add("codes", "must be finite numbers", value, "Leave out models that diverged.")
    for name, column in (measured or {}).items():
        if np.shape(column) != (count,):
            remedy = "Give the measurements of these images."
            problems.add(
                f"measured['{name}']",
                f"must have a value for each of the {count} images",
                Shown(f"shape {np.shape(column)}"),
                remedy,
            )
    problems.raise_if_any()
