# SPDX-License-Identifier: Apache-2.0
"""Reduction of a dataset by surrogate labels (Estermann, Marks and Yanik 2020, figure 3).

Codes of a latent that follows a factor of few values lie on plateaus: sorted, they make a
staircase, and their consecutive differences, here the derivative, have a peak at every step. Images
between two neighbouring peaks share that factor's value. Keeping only those of one plateau of every
active latent leaves a dataset in which what was found no longer varies. Numbers are those of the
authors' code, each a field of `ReductionRule`.

What paper and code leave open, or where this departs:
- Entry i of the derivative lies between the sorted places i and i + 1. Between peaks p < q lie the
  places p + 1 to q, and the entries p + 1 to q - 1, whose mean divides the quality. The authors'
  slice begins one place earlier, with an image of the plateau before, and counts the left peak into
  the mean. The two ends, where they count as peaks, lie outside of all places.
- A peak must also be higher than chance makes it (`ReductionRule.chance`), which is ours.
  Differences of sorted draws from a smooth law are about exponential around their local mean (Pyke
  1965), so the largest grows with the logarithm of their number and in a large dataset exceeds the
  published height, steps or not. A peak is therefore compared with the median of its surroundings
  by the law of that ratio (Rohling 1983). Steps of six deviations of the codes on a plateau pass.
  None leaves the bound out.
- With one peak both halves have one height, so the flatter one ranks first. Equal qualities go by
  size, the larger first, then by the first image. Equal distances from the median size go by the
  sum of the intervals' ranks, then by the first image.
- Trimming takes its share from both sides of every interval before intervals are intersected.
- Equal labels are sorted by position. No interval ends between them.
- One latent without peaks stops the reduction, as in the authors' code, whatever the others show.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.checks import read_whole, real, whole
from unbraid.core.errors import Problems, Shown, invalid

NO_PEAKS = (
    "No peaks: the sorted codes of at least one latent rise without steps, so there is no plateau"
    " to keep."
)
VARIANCE_EXPLAINED = (
    "Variance explained: no combination of the best intervals of all latents holds enough images."
)
TOO_FEW_IMAGES = "Too few images: what would be kept is less than a population can be trained on."

_LARGEST = 1e100
_LEAST_SURROUNDINGS = 10
"""Entries on either side of a peak that it is compared with, where the separation of peaks is less.
"""


@dataclass(frozen=True)
class ReductionRule:
    """Where a peak is, which intervals count, and when to stop.

    Lengths are those of the derivative.
    """

    ignored_ends: int = 15
    """Of the derivative, length // this are ignored at each end."""
    peak_deviations: float = 7.0
    """A peak is at least the median plus so many standard deviations of the entries that count as
    usual.
    """
    usual_deviations: float = 4.0
    """Entries count as usual below the median plus so many standard deviations of all."""
    separation: int = 50
    """Peaks are at least length // this apart; of closer ones the higher stays."""
    chance: float | None = 0.01
    """Chance at most that a latent without any step shows a peak; None is the published rule, which
    has no such bound.
    """
    few_peaks: int = 3
    """With at most so many peaks and several latents, the two ends count as peaks."""
    end_height: float = 1.0
    """Height of an end that counts as a peak: about the deviation of a latent's codes."""
    best_intervals: int = 5
    """Intervals of each latent that are intersected with those of the others."""
    more_than: int = 5
    """An intersection counts with more images than this."""
    fewest_images: int = 10
    """Fewer images stop the recursion."""
    trim: float = 0.0
    """Share of an interval that is left out on both sides."""

    def __post_init__(self) -> None:
        problems = Problems()
        for name, low in (
            ("ignored_ends", 3),
            ("separation", 1),
            ("few_peaks", 0),
            ("best_intervals", 1),
            ("more_than", 0),
        ):
            whole(problems, name, getattr(self, name), low)
        whole(problems, "fewest_images", self.fewest_images, 1)
        for name, high in (
            ("peak_deviations", 1e6),
            ("usual_deviations", 1e6),
            ("end_height", _LARGEST),
            ("trim", 0.49),
        ):
            real(problems, name, getattr(self, name), 0.0, high)
        if self.chance is not None:
            real(problems, "chance", self.chance, 1e-12, 1.0, "None leaves the bound out.")
        problems.raise_if_any()


USUAL = ReductionRule()


@dataclass(frozen=True)
class Interval:
    """Sorted places between two neighbouring peaks."""

    start: int
    stop: int
    """The places are start to stop - 1."""
    quality: float
    """The lower of its two peaks, divided by the mean derivative inside; infinite where all codes
    inside are equal.
    """

    def __len__(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True)
class Latent:
    """What was seen in one latent's codes."""

    order: NDArray[np.int64]
    """Positions of the images, from the lowest code to the highest."""
    values: NDArray[np.float64]
    """The codes in that order."""
    derivative: NDArray[np.float64]
    """Entry i is the rise from place i to place i + 1."""
    ignored: int
    """Entries at each end in which no peak is looked for."""
    threshold: float
    """Height that a peak must have by the published rule."""
    peaks: NDArray[np.int64]
    """Entries of the derivative that are peaks, ascending."""
    by_chance: NDArray[np.int64]
    """Entries above the threshold that chance may have made, ascending; they are no peaks."""
    intervals: tuple[Interval, ...]
    """Between neighbouring peaks, the best first."""
    chosen: int | None = None
    """Rank of the interval that is kept."""

    @property
    def heights(self) -> NDArray[np.float64]:
        """Heights of the peaks."""
        return self.derivative[self.peaks]


@dataclass(frozen=True)
class Candidate:
    """Images that may be kept: one interval of every latent."""

    ranks: tuple[int, ...]
    """Rank of the interval of each latent, 0 for its best."""
    size: int
    """Images that lie in all of them."""
    first: int
    """The lowest of their positions."""


@dataclass(frozen=True)
class Reduction:
    """The images to keep, or why there are none, with all evidence."""

    indices: NDArray[np.int64]
    """Ascending positions of the images that are kept; none where it stopped."""
    stopped: str | None
    """None, NO_PEAKS, VARIANCE_EXPLAINED or TOO_FEW_IMAGES."""
    index: int
    candidates: tuple[Candidate, ...]
    """In the order from which number *index* is taken."""
    cells: NDArray[np.int64]
    """For every image the number of the candidate it belongs to, or -1. No image belongs to two."""
    latents: tuple[Latent, ...]
    rule: ReductionRule

    @property
    def chosen(self) -> Candidate | None:
        """The candidate that was taken, even where it then proved too small."""
        return self.candidates[self.index] if self.candidates else None

    @property
    def without_peaks(self) -> tuple[int, ...]:
        """Latents that show no step."""
        return tuple(at for at, one in enumerate(self.latents) if len(one.peaks) == 0)

    def images(self, number: int) -> NDArray[np.int64]:
        """Ascending positions of the images of candidate *number*."""
        return np.flatnonzero(self.cells == number)


def reduce(labels: ArrayLike, index: int = 0, rule: ReductionRule = USUAL) -> Reduction:
    """Keep the images that lie on one plateau of every latent.

    *labels* are the codes `(images, latents)` of the active latents, or `(images,)` of a single
    one. *index* picks among the candidates: intervals of a single latent, best first, or non-empty
    cells of the grid that the best intervals of several make, the most usual in size first.

    >>> noise = np.linspace(0.0, 0.1, 40)
    >>> found = reduce(np.concatenate([noise, noise + 1, noise + 2, noise + 3]))
    >>> found.indices.min(), found.indices.max(), len(found.candidates)
    (np.int64(40), np.int64(79), 2)
    """
    codes = checked_labels(labels)
    index = read_whole("index", index, 0)
    several = codes.shape[1] > 1
    latents = tuple(_evidence(column, several, rule) for column in codes.T)
    nowhere = np.full(len(codes), -1, dtype=np.int64)
    nothing = Reduction(np.empty(0, dtype=np.int64), NO_PEAKS, index, (), nowhere, latents, rule)
    if nothing.without_peaks:
        return nothing
    kept = rule.best_intervals if several else None
    ranks = np.stack([_ranks(one, kept, rule.trim) for one in latents], axis=1)
    candidates, cells = (
        _intersections(ranks, rule) if several else _single(ranks[:, 0], len(latents[0].intervals))
    )
    if not candidates:
        return replace(nothing, stopped=VARIANCE_EXPLAINED)
    if index >= len(candidates):
        remedy = "Choose a smaller index."
        raise invalid(
            "index", f"must be in 0..{len(candidates) - 1}, the candidates there are", index, remedy
        )
    chosen = candidates[index]
    latents = tuple(
        replace(one, chosen=rank) for one, rank in zip(latents, chosen.ranks, strict=True)
    )
    found = replace(
        nothing, candidates=candidates, cells=cells, latents=latents, stopped=TOO_FEW_IMAGES
    )
    return (
        found
        if chosen.size < rule.fewest_images
        else replace(found, indices=found.images(index), stopped=None)
    )


def reduce_in_turn(labels: ArrayLike, index: int, rule: ReductionRule = USUAL) -> Reduction:
    """`reduce` for leaf-run *index*: candidates are taken in turn where there are fewer."""
    found = reduce(labels, 0, rule)
    count = len(found.candidates)
    return found if index == 0 or count == 0 else reduce(labels, index % count, rule)


def checked_labels(labels: ArrayLike) -> NDArray[np.float64]:
    """Labels as float64 `(images, latents)`, or a refusal that says what is wrong with them."""
    try:
        array: NDArray[Any] = np.asarray(labels)
    except ValueError as error:
        raise invalid(
            "labels", "must be an array of numbers", Shown("rows of unequal length")
        ) from error
    if array.dtype.kind not in "fiu":
        raise invalid("labels", "must be real numbers", Shown(f"an array of {array.dtype}"))
    if array.ndim == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[0] < 2 or array.shape[1] < 1:
        remedy = "A row for each image, a column for each latent."
        raise invalid(
            "labels", "must be of shape (images, latents), two images at least", array.shape, remedy
        )
    with np.errstate(all="ignore"):  # long doubles may be too large, or no numbers at all
        codes = array.astype(np.float64)
    # Written so that NaN fails too; differences and squares of what passes stay finite.
    bad = np.argwhere(~(np.abs(codes) < _LARGEST))
    if len(bad):
        (row, column), more = bad[0].tolist(), f", and {len(bad) - 1} more" if len(bad) > 1 else ""
        value = Shown(f"{codes[row, column]} for image {row}, latent {column}{more}")
        raise invalid(
            "labels",
            f"must be finite, less than {_LARGEST:g} in size",
            value,
            "Leave such images out.",
        )
    return codes


def _evidence(codes: NDArray[np.float64], several: bool, rule: ReductionRule) -> Latent:
    from scipy.signal import find_peaks

    order = np.argsort(codes, kind="stable")
    values = codes[order]
    derivative = np.diff(values)
    ignored = len(derivative) // rule.ignored_ends
    looked_at = derivative[ignored : len(derivative) - ignored]
    median = float(np.median(looked_at))
    usual = looked_at[looked_at < median + rule.usual_deviations * looked_at.std()]
    # None is below where all are equal, or where the deviation counts nothing.
    threshold = median + rule.peak_deviations * (float(usual.std()) if len(usual) else 0.0)
    apart = max(1, len(derivative) // rule.separation)
    high = find_peaks(looked_at, height=threshold, distance=apart)[0].astype(np.int64) + ignored
    real_step = np.array(
        [_beyond_chance(derivative, at, apart, rule.chance) for at in high], dtype=bool
    )
    peaks = high[real_step]
    intervals = _intervals(derivative, order, peaks, several, rule)
    return Latent(order, values, derivative, ignored, threshold, peaks, high[~real_step], intervals)


def _beyond_chance(
    derivative: NDArray[np.float64], at: int, apart: int, chance: float | None
) -> bool:
    """Whether chance makes the largest of so many exponential numbers as high so seldom.

    The probability of that is *chance* at most.
    """
    if chance is None:
        return True
    reach = max(apart, _LEAST_SURROUNDINGS)
    around = np.sort(
        np.concatenate([derivative[max(0, at - reach) : at], derivative[at + 1 : at + 1 + reach]])
    )
    middle = (len(around) + 1) // 2
    return bool(
        derivative[at]
        >= least_ratio(len(around), middle, chance / len(derivative)) * around[middle - 1]
    )


def least_ratio(count: int, which: int, chance: float) -> float:
    """Least ratio of an exponential number to the *which*-th smallest of *count* others.

    It is reached with probability *chance* at most.

    The probability is the product over i < *which* of (count - i) / (count - i + r).
    """
    from scipy.optimize import root_scalar

    others = count - np.arange(which)
    # Were every factor count / (count + r), the root would be here; all but the first are smaller.
    # Rounding needs a little room.
    upper = 1.001 * count * math.expm1(-math.log(chance) / which)
    found = root_scalar(
        lambda ratio: np.log1p(ratio / others).sum() + math.log(chance),
        method="brentq",
        bracket=(0.0, upper),
    )
    return float(found.root)


def _intervals(
    derivative: NDArray[np.float64],
    order: NDArray[np.int64],
    peaks: NDArray[np.int64],
    several: bool,
    rule: ReductionRule,
) -> tuple[Interval, ...]:
    """What lies between neighbouring peaks, the best first."""
    if len(peaks) == 0:
        return ()
    bounds, heights = peaks.tolist(), derivative[peaks].tolist()
    if len(peaks) == 1 or (several and len(peaks) <= rule.few_peaks):
        bounds, heights = (
            [-1, *bounds, len(derivative)],
            [
                rule.end_height,
                *heights,
                rule.end_height,
            ],
        )
    found = []
    for at in range(len(bounds) - 1):
        left, right = bounds[at], bounds[at + 1]
        inside = float(derivative[left + 1 : right].mean())
        lower = min(heights[at], heights[at + 1])
        found.append(Interval(left + 1, right + 1, lower / inside if inside > 0.0 else math.inf))
    return tuple(
        sorted(
            found, key=lambda one: (-one.quality, -len(one), int(order[one.start : one.stop].min()))
        )
    )


def _ranks(latent: Latent, kept: int | None, trim: float) -> NDArray[np.int64]:
    """For every image the rank of the interval that its code lies in, or -1."""
    by_place = np.full(len(latent.order), -1, dtype=np.int64)
    for rank, interval in enumerate(latent.intervals[:kept]):
        off = int(len(interval) * trim)
        by_place[interval.start + off : interval.stop - off] = rank
    ranks = np.empty_like(by_place)
    ranks[latent.order] = by_place
    return ranks


def _single(
    ranks: NDArray[np.int64], intervals: int
) -> tuple[tuple[Candidate, ...], NDArray[np.int64]]:
    """Every interval of the only latent is a candidate, the best first."""
    sizes = np.bincount(ranks[ranks >= 0], minlength=intervals)
    return (
        tuple(
            Candidate((rank,), int(size), int(np.argmax(ranks == rank)))
            for rank, size in enumerate(sizes)
        ),
        ranks,
    )


def _intersections(
    ranks: NDArray[np.int64], rule: ReductionRule
) -> tuple[tuple[Candidate, ...], NDArray[np.int64]]:
    """Cells of the grid of intervals that hold images enough, by |size - median size|."""
    inside = np.flatnonzero((ranks >= 0).all(axis=1))
    # Latent by latent, numbering only combinations that occur: of ten latents there are five to the
    # tenth.
    combination = np.zeros(len(inside), dtype=np.int64)
    for column in ranks[inside].T:
        combination = np.unique(combination * rule.best_intervals + column, return_inverse=True)[1]
    _, first, which, sizes = np.unique(
        combination, return_index=True, return_inverse=True, return_counts=True
    )
    large = np.flatnonzero(sizes > rule.more_than)
    if len(large) == 0:
        return (), np.full(len(ranks), -1, dtype=np.int64)
    median = float(np.median(sizes[large]))
    places = inside[first]  # positions ascend, so the first occurrence is the lowest
    ordered = sorted(
        large.tolist(),
        key=lambda at: (abs(sizes[at] - median), ranks[places[at]].sum(), places[at]),
    )
    number = np.full(len(sizes), -1, dtype=np.int64)
    number[ordered] = np.arange(len(ordered))
    cells = np.full(len(ranks), -1, dtype=np.int64)
    cells[inside] = number[which]
    return (
        tuple(
            Candidate(tuple(ranks[places[at]].tolist()), int(sizes[at]), int(places[at]))
            for at in ordered
        ),
        cells,
    )
