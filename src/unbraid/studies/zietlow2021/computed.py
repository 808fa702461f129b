# SPDX-License-Identifier: Apache-2.0
"""Claims that need no models: what `compute` found, as findings."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd

from unbraid.core.store import read_json
from unbraid.studies.finding import Estimate, Exhibit, Finding
from unbraid.studies.intervals import exactly, mean_of
from unbraid.studies.study import Analysis

FILE = Path(__file__).parent / "computed.json"
DEFAULT = (True, 4.0)
"""Clipped, 4 rows for each step of s: what this package does by default."""
POSITION = ("x", "y")


@cache
def computed() -> dict[str, Any]:
    """What `python -m unbraid.studies.zietlow2021.compute` wrote."""
    return read_json(FILE)


def bound(table: pd.DataFrame) -> Finding:
    """ZIE-E5: the largest change of a value in any image, and whether factors stay."""
    found = computed()["bounds"]
    least = min(one["epsilon"] - one["largest"] for one in found)
    images = sum(one["images"] for one in found)
    points = pd.DataFrame(
        [(one["epsilon"], one["largest"], "largest change") for one in found]
        + [(one["epsilon"], one["epsilon"], "paper") for one in found],
        columns=["x", "y", "group"],
    )
    return Finding(
        (
            exactly("epsilon less the largest change, smallest of three", least, images),
            exactly(
                "images whose factors differ",
                float(sum(one["other_factors"] for one in found)),
                images,
                0.0,
            ),
            *(
                exactly(f"largest change at {one['epsilon']:g}", one["largest"], one["images"])
                for one in found
            ),
        ),
        Exhibit(
            "points",
            points,
            "epsilon",
            "largest change of a value",
            "The largest change over all images, in the numbers that networks see.",
        ),
        "The pattern is moved by x + y, a stand-in for s: the bound holds whatever moves it.",
    )


def local_crossing(table: pd.DataFrame) -> Finding:
    """ZIE-F4a: the ε from which s changes images more than position does, step by step.

    Both have 32 values, so that their steps are equally long in deviations too.
    """
    each = {_key(one): _passed(one, "local") for one in computed()["variants"]}
    return Finding(
        (
            _over_variants("epsilon at which s passes position near by", each, 0.1),
            *(exactly(f"near by, {_words(key)}", value, 1) for key, value in each.items()),
        ),
        _lines("local", "local expansiveness, L2 for a deviation of the factor"),
        _OPEN,
    )


def overall_crossing(table: pd.DataFrame) -> Finding:
    """ZIE-F4b: by how much later s passes position overall."""
    found = {_key(one): one for one in computed()["variants"]}
    ratio = {key: _passed(one, "overall") / _passed(one, "local") for key, one in found.items()}
    return Finding(
        (
            _over_variants("overall crossing as a multiple of the one near by", ratio, None),
            *(
                exactly(f"overall, {_words(key)}", _passed(one, "overall"), 1)
                for key, one in found.items()
            ),
        ),
        _lines("overall", "explained variance, summed over pixels"),
        f"{_OPEN} With 1 row for each step of s the order is reversed.",
    )


_OPEN = (
    "The paper leaves open whether images are clipped and how far s moves the pattern: the number"
    " is that of clipped images and 4 rows for each step, its interval the range over four ways."
)


def _key(one: Mapping[str, Any]) -> tuple[bool, float]:
    return one["clip"], one["rows_per_step"]


def _words(key: tuple[bool, float]) -> str:
    clip, rows = key
    return f"{'clipped' if clip else 'not clipped'}, {rows:g} row{'s' * (rows != 1)}"


def _passed(one: Mapping[str, Any], what: str) -> float:
    """The ε at which s passes the later of x and y."""
    return max(one[what][one["factors"].index(name)] for name in POSITION)


def _over_variants(
    name: str, each: Mapping[tuple[bool, float], float], paper: float | None
) -> Estimate:
    """The number of the default with the range over all variants."""
    values = [*each.values()]
    return Estimate(name, each[DEFAULT], min(values), max(values), len(values), paper)


def _lines(what: str, y: str) -> Exhibit:
    own = next(one for one in computed()["variants"] if _key(one) == DEFAULT)
    return Exhibit(
        "lines",
        pd.DataFrame(own["lines"][what]),
        "epsilon",
        y,
        "What s does to images as the pattern grows, beside what each factor does.",
        logarithmic=("y",),
    )


def toy(table: pd.DataFrame) -> Finding:
    """ZIE-F1b: linear VAEs find PCA's axes; others turn to the local ones."""
    found = computed()["toy"]
    rippled, flat = (found["degrees"][kind] for kind in ("rippled", "flat"))
    shown = pd.DataFrame(
        [("with the ripple", value, "restart") for value in rippled]
        + [("without", value, "restart") for value in flat],
        columns=["x", "y", "group"],
    )
    return Finding(
        (
            exactly(
                "cosine of linear columns with PCA's axes, smallest",
                min(found["linear_cosines"]),
                len(found["linear_cosines"]),
            ),
            mean_of("degrees of the least noisy latent, with the ripple", rippled),
            mean_of("degrees of the least noisy latent, without", flat),
            exactly("degrees by the closed form", found["predicted"], 1),
            exactly("degrees of PCA's first axis", found["pca"], 1),
        ),
        Exhibit(
            "violins",
            shown,
            "data",
            "degrees of the least noisy latent from the first factor",
            "A ripple that PCA hardly sees turns the axes of non-linear VAEs towards 37 degrees.",
        ),
        "A toy of our own with four pixels; restarts have other seeds than those it was set up on.",
    )


ANALYSES: Mapping[str, Analysis] = {
    "ZIE-E5": bound,
    "ZIE-F1b": toy,
    "ZIE-F4a": local_crossing,
    "ZIE-F4b": overall_crossing,
}
