# SPDX-License-Identifier: Apache-2.0
"""The page of a discovery, for a person with images who does not know what a VAE is.

Plain words come first: what was found, how sure, what is missing, the table. How it was done, with
its own words, comes after.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import Problems
from unbraid.objectives import OBJECTIVES
from unbraid.report.discover.words import (
    TableColumn,
    about,
    doubtful_sentence,
    duration,
    found_sentence,
    larger_side,
    learned,
    lost_pixels,
    percent,
    remedies,
    short_name,
    sure_sentence,
    sure_word,
    table_columns,
    titled,
    unexplained_sentence,
)
from unbraid.report.images import row_uri
from unbraid.report.page import write_page
from unbraid.report.train.settings import shown, symbol
from unbraid.search.discover.findings import Discovery, FoundFactor

_MOST_TILES = 12
_MOST_DOTS = 20
"""Other models shown as dots; with more of them the sentence alone has their number."""
_GAP_SHARE = 0.06
"""Of an image's width between two real ones, as `images.strip` leaves between drawn ones."""
_SIDE = 84
"""Of a square image in a row, in pixels of the page; others have about the same area."""
_CEILING = 0.9
"""The largest agreement score there is (Estermann et al. 2020; identical codes score 0.9)."""
_CURVE = (480, 210, 46, 12, 14, 44)
"""Width, height and the left, right, top and bottom margin of the curve, in its own units."""


def write_discover(path: Path, found: Discovery, made_from: str = "") -> Path:
    """Write the page of *found* to *path* and return it; *made_from* as in `write_page`."""
    return write_page(path, "discover", page_context(found), made_from)


def page_context(found: Discovery) -> dict[str, Any]:
    """Everything the template shows."""
    _check(found)
    factors = [_factor(one, title) for one, title in titled(found.factors)]
    doubtful = [_factor(one, title) for one, title in titled(found.doubtful, found.factors)]
    columns = table_columns(found)
    return {
        "title": "What varies in your images",
        "summary": found_sentence(found),
        "more": doubtful_sentence(found),
        "warnings": found.warnings,
        "source": found.source,
        "images": found.images,
        "aspect": found.image_shape[1] / found.image_shape[0],
        "film": (factors or doubtful)[:_MOST_TILES],
        "factors": factors,
        "doubtful": doubtful,
        "unexplained": unexplained_sentence(found.explained),
        "explained": _bar(found.explained),
        "remedies": remedies(found),
        "seen_at": found.image_shape[:2],
        "resized_from": found.resized_from,
        "lost_pixels": lost_pixels(found) if found.resized_from else 0,
        "larger_side": larger_side(found),
        "learned": learned(found),
        "collapsed": found.collapsed,
        "pairs": _pairs(found.originals, found.remembered),
        "worst": _pairs(found.worst, found.worst_remembered),
        "tables": found.tables,
        "relative": any(not PurePath(table).is_absolute() for table in found.tables),
        "columns": columns,
        "python": python_snippet(found.tables, columns),
        "r": r_snippet(found.tables, columns),
        "csv": _first(found.tables, ".csv"),
        "population": found.population,
        "models_each": found.models_each,
        "epochs": found.epochs,
        "took": duration(found.minutes),
        "device": found.device,
        "from_final": found.from_final,
        "how": _facts(found),
        "curve": agreement_curve(found.best_by_epoch),
        "stages": found.stages,
        "command": found.command,
        "commands": found.commands,
        "run": found.run,
    }


def python_snippet(tables: Sequence[str], columns: Sequence[TableColumn]) -> str:
    """Three lines that read the table of codes and sort it; empty without codes."""
    path = _first(tables, ".parquet") or _first(tables, ".csv")
    first = next((column for column in columns if column.latent is not None), None)
    if not path or first is None:
        return ""
    read = "read_parquet" if path.endswith(".parquet") else "read_csv"
    look = f'print(codes.sort_values("{first.name}"))  # your images, from low to high'
    return "\n".join(("import pandas as pd", f"codes = pd.{read}({path!r})", look))


def r_snippet(tables: Sequence[str], columns: Sequence[TableColumn]) -> str:
    """The line of R that reads the table; empty where there is no CSV or no code in it."""
    path = _first(tables, ".csv")
    coded = any(column.latent is not None for column in columns)
    return f"codes <- read.csv({json.dumps(path, ensure_ascii=False)})" if path and coded else ""


def agreement_curve(scores: Sequence[float]) -> dict[str, Any] | None:
    """The best agreement by epoch as points and ticks of a drawing; None with fewer than two."""
    finite = [(epoch, score) for epoch, score in enumerate(scores, start=1) if math.isfinite(score)]
    if len(finite) < 2:
        return None
    width, height, left, right, top, bottom = _CURVE
    epochs = len(scores)

    def x(epoch: int) -> float:
        return round(left + (width - left - right) * (epoch - 1) / (epochs - 1), 1)

    def y(score: float) -> float:
        return round(height - bottom - (height - top - bottom) * max(0.0, score) / _CEILING, 1)

    step = max(1, math.ceil((epochs - 1) / 6))
    return {
        "size": (width, height),
        "points": [(x(epoch), y(score)) for epoch, score in finite],
        "x_ticks": [(x(epoch), epoch) for epoch in range(1, epochs + 1, step)],
        "y_ticks": [(y(score), f"{score:g}") for score in (0, 0.3, 0.6, 0.9)],
        "edges": (left, width - right, height - bottom),
        "about": (
            "Best agreement score by epoch: "
            + ", ".join(f"{score:.2f} in epoch {epoch}" for epoch, score in (finite[0], finite[-1]))
        ),
    }


def _check(found: Discovery) -> None:
    """Refuse records that would put a name under another image."""
    problems = Problems()
    for factor in (*found.factors, *found.doubtful):
        if factor.real_names and len(factor.real_names) != len(factor.real):
            rule = f"must have a name for each of its {len(factor.real)} real images, or none"
            problems.add(f"factor '{factor.name.title}'", rule, len(factor.real_names))
    for name, one, other in (
        ("remembered", found.originals, found.remembered),
        ("worst_remembered", found.worst, found.worst_remembered),
    ):
        if len(one) != len(other):
            problems.add(
                name, f"must have an image for each of the {len(one)} originals", len(other)
            )
    problems.raise_if_any()


def _factor(one: FoundFactor, title: str) -> dict[str, Any]:
    names = [str(name) for name in one.real_names]
    count = len(one.real)
    real = []
    for place in range(count):
        name = names[place] if names else ""
        alt = f"Your image {name or place + 1}, {place + 1} of {count} from low to high"
        # A line may break before the ending of a name and after a stroke.
        parts = re.split(r"(?<=[_-])|(?=\.)", short_name(name))
        real.append(
            {
                "uri": row_uri(one.real[place : place + 1]),
                "about": alt,
                "name": name,
                "parts": parts,
            }
        )
    certainty = one.certainty
    return {
        "id": f"latent-{one.latent}",
        "title": title,
        "sentence": one.name.sentence,
        "unnamed": not one.name.statistic,
        "uri": row_uri(one.drawn) if len(one.drawn) else "",
        "film_uri": row_uri(one.drawn, gap=False) if len(one.drawn) else "",
        "frames": len(one.drawn),
        "drawn_width": _width(one.drawn) * len(one.drawn),
        "real": real,
        "real_width": _width(one.real) * count,
        "gap": round(100 * _GAP_SHARE / (count + _GAP_SHARE * (count - 1)), 3) if count else 0,
        "narrow": next((columns for columns in (5, 4, 3) if count % columns == 0), 4),
        "shortened": [name for name in names if short_name(name) != name],
        "sure_word": sure_word(certainty),
        "sure": sure_sentence(certainty),
        "dots": (
            [place < certainty.seen_in for place in range(certainty.others)]
            if certainty.others <= _MOST_DOTS
            else []
        ),
        "share": about(one.share) if one.share > 0 else "",
        "share_known": math.isfinite(one.share),
        "share_bar": _bar(one.share),
    }


def _width(images: NDArray[np.uint8]) -> int:
    """The width of one image on the page, in pixels."""
    height, width = images.shape[1:3]
    return round(min(150.0, max(42.0, _SIDE * math.sqrt(width / height))))


def _pairs(originals: NDArray[np.uint8], remembered: NDArray[np.uint8]) -> dict[str, Any] | None:
    """Two rows of images, one above the other; None where there are none."""
    if len(originals) == 0:
        return None
    return {
        "originals": row_uri(originals),
        "remembered": row_uri(remembered),
        "count": len(originals),
        "width": _width(originals) * len(originals),
    }


def _bar(share: float) -> float | None:
    """A share as the width of a bar in percent; None where it is not known."""
    return round(100 * min(1.0, max(0.0, share)), 1) if math.isfinite(share) else None


def _first(tables: Sequence[str], ending: str) -> str:
    return next((table for table in tables if table.lower().endswith(ending)), "")


def _facts(found: Discovery) -> list[tuple[str, str]]:
    height, width, channels = found.image_shape
    size = f"{height} × {width}, {'grey' if channels == 1 else 'colour'}"
    if found.resized_from is not None:
        size += f" (made from {found.resized_from[0]} × {found.resized_from[1]})"
    known = found.objective in OBJECTIVES
    agreement = (
        f"{found.udr:.2f} of at most {_CEILING:g} (UDR)"
        if math.isfinite(found.udr)
        else "could not be computed"
    )
    return [
        ("Images", f"{found.images:,}"),
        ("Size", size),
        (
            "Models",
            (
                f"{found.population * found.models_each:,} ({found.population:,} ×"
                f" {found.models_each:,})"
            ),
        ),
        ("Rounds (epochs)", f"{found.epochs:,}"),
        ("Time", duration(found.minutes)),
        ("Device", found.device),
        ("Objective", OBJECTIVES.load(found.objective).label if known else found.objective),
        *((f"Chosen {symbol(name)}", shown(value)) for name, value in found.settings.items()),
        (
            "Agreement of the first search" if found.from_final else "Agreement score of the group",
            agreement,
        ),
        (
            "Variance explained",
            (
                percent(max(0.0, found.explained))
                if math.isfinite(found.explained)
                else "could not be measured"
            ),
        ),
        *found.facts.items(),
    ]
