# SPDX-License-Identifier: Apache-2.0
"""The words of a name: for measurements, parts of the image, and what changes in them.

Rows of an image are counted downwards, so a larger `centre_y` is nearer the bottom and a growing
angle turns clockwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.metrics._ranks import average_ranks
from unbraid.metrics._standardise import standardise
from unbraid.search.discover.findings import Name
from unbraid.search.discover.measurements import CELLS, cell_of


@dataclass(frozen=True)
class Match:
    """How closely a measurement follows the codes of a latent."""

    statistic: str
    correlation: float
    shape: str
    """Of an angle: `around`, the codes follow it once around; `there_and_back`, from one direction
    to the opposite. Else `line`.
    """


@dataclass(frozen=True)
class _Words:
    family: str
    title: str
    what: str
    """What the correlation is with."""
    rising: str
    falling: str


_DIAGONAL = "diagonal position"
_WORDS = {
    "centre_x": _Words(
        *("horizontal position", "horizontal position", "its horizontal centre"),
        "moves from left to right",
        "moves from right to left",
    ),
    "centre_y": _Words(
        *("vertical position", "vertical position", "its vertical centre"),
        "moves from top to bottom",
        "moves from bottom to top",
    ),
    "diagonal_falling": _Words(
        _DIAGONAL,
        "position along the falling diagonal",
        "its place along that diagonal",
        "moves from the upper left to the lower right",
        "moves from the lower right to the upper left",
    ),
    "diagonal_rising": _Words(
        _DIAGONAL,
        "position along the rising diagonal",
        "its place along that diagonal",
        "moves from the lower left to the upper right",
        "moves from the upper right to the lower left",
    ),
    "extent": _Words("size", "size", "its extent", "grows", "shrinks"),
    "area": _Words("size", "size", "the area it covers", "grows", "shrinks"),
    "spread": _Words(
        "size",
        "distance between the parts",
        "its extent",
        "spreads further apart",
        "moves closer together",
    ),
    "orientation": _Words(
        "orientation", "orientation", "its angle", "turns clockwise", "turns anticlockwise"
    ),
    "hue": _Words("colour", "colour", "its hue", "", ""),
    "shade": _Words("brightness", "brightness", "its brightness", "gets brighter", "gets darker"),
    "brightness": _Words(
        "brightness", "brightness", "its mean brightness", "gets brighter", "gets darker"
    ),
    "contrast": _Words("contrast", "contrast", "its contrast", "gains contrast", "loses contrast"),
}
"""By measurement, the more telling first; those of parts of the image have the words of their first
word.
"""
_RIM, _WHOLE = "rim", "whole image"
_OUTER, _ANYWHERE = "outer", "anywhere"
_BOTH_ENDS = (_OUTER, _ANYWHERE)
_MOST, _HARDLY = 0.6, 0.12
"""Shares of a third of the image that say: it is mostly there, it is hardly there."""
_COLOURS = (
    *((15, "red"), (45, "orange"), (75, "yellow"), (160, "green"), (200, "turquoise")),
    *((260, "blue"), (300, "purple"), (345, "pink"), (360, "red")),
)
"""Degrees of hue up to which a colour has a name."""
_POSTURES = ("lying", "slanting down to the right", "upright", "slanting up to the right")


def family(statistic: str) -> str:
    """Measurements of one family mean the same to a person: they are no alternatives."""
    return _WORDS[_base(statistic)].family


def preference(statistic: str) -> tuple[int, int]:
    """The lower, the rather a measurement gives the title; a cell comes before the whole image."""
    of_image = statistic not in _WORDS or statistic == "brightness"
    return list(_WORDS).index(_base(statistic)), int(of_image) + int(
        of_image and not cell_of(statistic)
    )


def name_of(
    first: Match,
    other: Match | None,
    near: Iterable[str],
    codes: NDArray[np.float64],
    measured: Mapping[str, NDArray[np.float64]],
) -> Name:
    """The name by measurement *first*.

    *other* is as close and means something else; *near* are all that come close.
    """
    words, part = _words_of(first.statistic, measured), _part(first.statistic, near)
    verb = words.rising if first.correlation >= 0 else words.falling
    correlation = first.correlation
    if first.shape != "line":
        verb = _verb_of_angle(first, codes, measured[first.statistic], verb)
        correlation = abs(correlation) if first.shape == "there_and_back" else correlation
    subject = (
        "what stands out"
        if not part
        else f"the {part}"
        if part == _WHOLE
        else f"the {part} of the image"
    )
    title = words.title if part in ("", _WHOLE) else f"{words.title} of the {part}"
    aside = ""
    if other is not None:
        rival = _words_of(other.statistic, measured).title
        title += f" (or {rival})"
        aside = (
            f" In these images its {rival} goes along with that ({other.correlation:.2f}), so it"
            " may be either."
        )
    sentence = (
        f"From low to high, {subject} {verb} (rank correlation {correlation:.2f} with"
        f" {words.what}).{aside}"
    )
    return Name(title, sentence, first.statistic, correlation)


def name_of_region(shares: NDArray[np.floating] | None) -> Name:
    """The name of what no measurement follows, by the *shares* `(3, 3)` of cells in the change.

    It is None where there are no shares.
    """
    if shares is None:
        sentence = (
            "From low to high, nothing changes in the images that a simple measurement shows."
        )
        return Name("something without a simple name", sentence, "", 0.0)
    words, tail = part_words(shares), "changes; no simple measurement follows it closely."
    if words == _WHOLE:
        return Name(
            "something spread over the whole image",
            f"From low to high, the whole image {tail}",
            "",
            0.0,
        )
    where = "around" if words == _RIM else "on" if words.endswith("side") else "in"
    return Name(
        f"something {where} the {words} of the image",
        f"From low to high, mostly the {words} of the image {tail}",
        "",
        0.0,
    )


def part_words(shares: ArrayLike) -> str:
    """What to call the part of the image whose cells have large *shares* `(3, 3)`.

    >>> part_words(np.diag([1.0, 0.0, 0.0])), part_words(np.ones((3, 3)))
    ('upper left', 'whole image')
    >>> part_words(np.array([[0, 0, 0], [0, 1, 0], [2, 2, 2]]))
    'lower part'
    """
    cells = np.asarray(shares, dtype=np.float64) / np.sum(shares)
    down, across = (
        _side(cells.sum(axis=1), "upper", "lower"),
        _side(cells.sum(axis=0), "left", "right"),
    )
    if down in _BOTH_ENDS and across in _BOTH_ENDS:
        return _RIM if cells[1, 1] < _HARDLY / 3 else _WHOLE
    if across in (*_BOTH_ENDS, "middle"):
        if down in ("upper", "lower"):
            return f"{down} middle" if across == "middle" else f"{down} part"
        return (
            "left and right side"
            if across == _OUTER
            else "top and bottom"
            if down == _OUTER
            else "middle"
        )
    return f"{down} {across}" if down in ("upper", "lower") else f"{across} side"


def _side(thirds: NDArray[np.float64], low: str, high: str) -> str:
    """Where most of three shares lies: *low* end, *high* end, middle, both ends, or anywhere."""
    if thirds.max() >= _MOST:
        return (low, "middle", high)[int(thirds.argmax())]
    if thirds[2] < _HARDLY:
        return low
    if thirds[0] < _HARDLY:
        return high
    return _OUTER if thirds[1] < _HARDLY else _ANYWHERE


def _base(statistic: str) -> str:
    return statistic if statistic in _WORDS else statistic.partition("_")[0]


def _words_of(statistic: str, measured: Mapping[str, NDArray[np.float64]]) -> _Words:
    """Where the extent does not go with the area covered, things do not grow: they move apart."""
    if statistic == "extent" and "area" in measured:
        both = np.stack([measured["extent"], measured["area"]], axis=1)
        ranks = standardise(average_ranks(both[np.isfinite(both).all(axis=1)]))
        if (ranks[:, 0] * ranks[:, 1]).mean() < 0.5:
            return _WORDS["spread"]
    return _WORDS[_base(statistic)]


def _part(statistic: str, near: Iterable[str]) -> str:
    """The part of the image that a measurement is taken from; empty for what stands out."""
    base = _base(statistic)
    if statistic in ("brightness", "contrast", "hue_whole"):
        return _WHOLE
    if statistic == base:
        return ""
    if statistic == f"{base}_border":
        return _RIM
    places = [CELLS.index(cell_of(name)) for name in near if _base(name) == base and cell_of(name)]
    return part_words(np.bincount(places, minlength=len(CELLS)).reshape(3, 3))


def _verb_of_angle(
    match: Match, codes: NDArray[np.float64], angles: NDArray[np.float64], turning: str
) -> str:
    """What a hue or an orientation does from low to high codes."""
    if match.statistic == "orientation" and match.shape == "around":
        return turning
    defined = np.isfinite(angles)
    ordered = angles[defined][np.argsort(codes[defined], kind="stable")]
    begins = (0.0, 0.3, 0.6, 0.9) if match.shape == "around" else (0.0, 0.9)
    tenth = max(1, len(ordered) // 10)
    means = [
        np.angle(np.exp(1j * ordered[int(begin * len(ordered)) :][:tenth]).mean()) % (2 * np.pi)
        for begin in begins
    ]
    if match.statistic == "orientation":
        seen = [_POSTURES[round(mean / (np.pi / 2)) % 4] for mean in means]
    else:
        seen = [next(word for end, word in _COLOURS if np.degrees(mean) <= end) for mean in means]
    seen = [word for at, word in enumerate(seen) if at == 0 or word != seen[at - 1]]
    if len(seen) == 1:
        return (
            f"changes its shade of {seen[0]}"
            if match.statistic != "orientation"
            else "turns a little"
        )
    through = f" through {' and '.join(seen[1:-1])}" if seen[2:] else ""
    return f"goes from {seen[0]}{through} to {seen[-1]}"
