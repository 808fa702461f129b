# SPDX-License-Identifier: Apache-2.0
"""The page of perceived distances, with the same heat maps as SVG and the numbers as CSV."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.analysis.distances.advice import listed
from unbraid.analysis.distances.learnt import LEVELS
from unbraid.analysis.distances.perceived_distances import RANDOM, Distances
from unbraid.analysis.distances.tally import FactorDistances, Importance
from unbraid.core.files import write_bytes
from unbraid.core.folders import PAGES
from unbraid.core.words import count
from unbraid.data.dataset import Dataset
from unbraid.report.distances.figures import (
    DARK,
    grid_svg,
    heat_map,
    importance_figure,
    largest,
    level_name,
    matrix_rows,
)
from unbraid.report.images import row_uri
from unbraid.report.page import write_page
from unbraid.report.train.settings import mix

if TYPE_CHECKING:
    import pandas as pd

_FILES = {
    "distances.svg": "the heat maps as one image",
    "importance.csv": "mean distances of pairs, by level and factor",
    "order.csv": "rank correlations with the ground truth",
    "matrices.csv": "every entry of every matrix",
}
MEMBERS = "members.csv"
_MEMBER_COLUMNS = {
    **{f"{key}_with_inputs": f"{level_name(key)}, with inputs" for key in LEVELS},
    **{f"{key}_with_truth": f"{level_name(key)}, with the truth" for key in LEVELS},
    "overlap": "overlap",
}
"""Of all models: what a column is called on the page."""
_SAME = 1e-9
_WIDTH = 70
"""Of an image in a strip, in pixels of the page."""


def write_distances(
    found: Distances,
    dataset: Dataset,
    folder: Path,
    command: str = "",
    about: Sequence[tuple[str, str]] = (),
    advice: str = "",
    members: pd.DataFrame | None = None,
) -> Path:
    """Write the page and the files beside it into *folder*; returns the path of the page.

    *advice* is the sentence that leads it, *members* what all models of a run make of the data.
    """
    tables = {
        "importance.csv": found.importance_table(),
        "order.csv": found.order_table(),
        "matrices.csv": found.matrix_table(),
    }
    if members is not None:
        tables[MEMBERS] = members
    for name, table in tables.items():
        write_bytes(folder / name, table.to_csv(index=False, na_rep="").encode())
    title = f"{found.data}, {found.loss}" + (f": {found.member}" if found.member else "")
    write_bytes(folder / "distances.svg", grid_svg(found.levels, title).encode())
    context = page_context(found, dataset, command, about, advice, members)
    return write_page(folder / PAGES["distances"], "distances", context)


def page_context(
    found: Distances,
    dataset: Dataset,
    command: str = "",
    about: Sequence[tuple[str, str]] = (),
    advice: str = "",
    members: pd.DataFrame | None = None,
) -> dict[str, Any]:
    """Everything the template shows."""
    figures: dict[str, Any] = {"importance": importance_figure(found.inputs)}
    return {
        "title": f"{found.data} · perceived distances",
        "advice": advice,
        "summary": [importance_sentence(found), order_sentence(found)],
        "missing": found.missing,
        "facts": [*_facts(found, dataset), *dataset.about, *about],
        "member": found.member,
        "loss": found.loss,
        "strips": [
            (name, row_uri(dataset.images(indices)), _WIDTH * len(indices))
            for name, indices in found.examples.items()
        ],
        "factors": [one.factor for one in found.inputs.factors],
        "maps": _maps(found, figures),
        "levels": [(level_name(level.key), level.measure) for level in found.levels],
        "importance": _importance_rows(found),
        "order": _order_rows(found),
        "figures": figures,
        "command": command,
        "seed": found.seed,
        "members": [] if members is None else _member_rows(members),
        "member_levels": _MEMBER_COLUMNS,
        "files": _FILES | ({} if members is None else {MEMBERS: "all models, level by level"}),
    }


def _member_rows(members: pd.DataFrame) -> list[tuple[str, list[tuple[str, str]]]]:
    """Each model's label, and its numbers with their colours."""
    return [
        (str(one["model"]), [(_number(one[name]), _heat(one[name])) for name in _MEMBER_COLUMNS])
        for one in members.to_dict("records")
    ]


def _number(value: float) -> str:
    return f"{value:.2f}".replace("-", "−") if math.isfinite(value) else "undefined"


def importance_sentence(found: Distances) -> str:
    """Which factors change an image most and least."""
    ranked = sorted(found.inputs.factors, key=lambda one: -one.importance.mean)
    most, least = (f"{one.importance.mean:.3g}" for one in (ranked[0], ranked[-1]))
    first, last = ranked[0], ranked[-1]
    if len(ranked) == 1:
        said = f"{first.factor} changes an image by {most} on average"
    elif first.importance.mean - last.importance.mean <= _SAME * first.importance.mean:
        said = f"every factor changes an image by the same {most} on average"
    else:
        said = f"{first.factor} changes an image most ({most} on average)"
        said += f" and {last.factor} least ({least})"
    return f"Under {found.loss}, {said}; random pairs are {found.inputs.random.mean:.3g} apart."


def order_sentence(found: Distances) -> str:
    """How far the order of the values can be seen in the images."""
    binary = [one.factor for one in found.inputs.factors if one.binary]
    asked = [one for one in found.inputs.factors if not one.binary]
    if not asked:
        said = "The factor has" if len(binary) == 1 else "Each factor has"
        return f"{said} two values, of which no order is asked, only how far apart they are."
    defined = [one for one in asked if math.isfinite(one.spearman)]
    lost = [one.factor for one in asked if not math.isfinite(one.spearman)]
    aside = f" Of two values no order is asked: {listed(binary)}." if binary else ""
    if not defined:
        said = "No order among the values can be seen: along every traversal all distances"
        return f"{said} are equal.{aside}"
    best, worst = (of(defined, key=lambda one: one.spearman) for of in (max, min))
    if best.spearman - worst.spearman < 5e-4:
        which = " and ".join(one.factor for one in defined) if len(defined) < 3 else "the factors"
        said = f"of {which} with a rank correlation of {best.spearman:.3f}"
    else:
        said = f"best for {best.factor} (rank correlation {_correlation(best)})"
        said += f" and least for {worst.factor} ({_correlation(worst)})"
    lost_said = f"; for {', '.join(lost)} no order can be seen" if lost else ""
    caveat = "This means something only for factors whose values have an order: not for kinds, and"
    caveat += " not for angles and hues, which are circles."
    return f"Distances follow the order of the values {said}{lost_said}. {caveat}{aside}"


def _facts(found: Distances, dataset: Dataset) -> list[tuple[str, str]]:
    height, width, channels = dataset.image_shape
    samples = f"{len(dataset):,} images, {height}×{width}" + (
        f"×{channels}" if channels > 1 else ""
    )
    facts = [
        ("Data", samples if len(dataset.sample_shape) == 3 else f"{len(dataset):,} points"),
        ("Factors", f"{len(found.inputs.factors)}"),
        ("Loss", found.loss),
        (
            "Pairs of a factor",
            f"at least {min(one.importance.pairs for one in found.inputs.factors):,}",
        ),
        ("Seed", f"{found.seed}"),
    ]
    return facts + ([("Model", found.member)] if found.member else [])


def _maps(found: Distances, figures: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows of heat maps; their figures are added to *figures*."""
    rows = []
    for key, measure, matrices in matrix_rows(found.levels):
        level = next((one for one in found.levels if one.key == key), None)
        cells = []
        for number, (factor, matrix) in enumerate(zip(found.inputs.factors, matrices, strict=True)):
            figures[f"map-{key}-{number}"] = heat_map(matrix, factor.values)
            about = (
                f"{level_name(key)}: distances between the {len(factor.values)} values of"
                f" {factor.factor}"
            )
            cells.append(
                {
                    "id": f"map-{key}-{number}",
                    "factor": factor.factor,
                    "top": f"{largest(matrix):.3g}",
                    "about": about,
                }
            )
            cells[-1]["order"] = (
                "" if level is None or factor.binary else _correlation(level.factors[number])
            )
        rows.append({"name": level_name(key), "measure": measure, "cells": cells})
    return rows


def _correlation(one: FactorDistances) -> str:
    return _number(one.spearman)


def _importance_rows(found: Distances) -> list[tuple[str, list[tuple[str, str]]]]:
    """Name, mean ± deviation, pairs and error at each level; the most important first."""
    order = sorted(
        range(len(found.inputs.factors)), key=lambda at: -found.inputs.factors[at].importance.mean
    )
    rows = [(RANDOM, [_cell(level.random) for level in found.levels])]
    for at in order:
        rows.append(
            (
                found.inputs.factors[at].factor,
                [_cell(level.factors[at].importance) for level in found.levels],
            )
        )
    return rows


def _cell(one: Importance) -> tuple[str, str]:
    pairs = count(one.pairs, "pair")
    mean = f"{one.mean:#.3g}".rstrip(".")
    if one.standard_error == 0:
        return f"{mean} ± {one.std:.3g}", f"{pairs}, exact"
    error = (
        f"error {one.standard_error:.1g}" if math.isfinite(one.standard_error) else "one traversal"
    )
    return f"{mean} ± {one.std:.3g}", f"{pairs}, {error}"


def _order_rows(found: Distances) -> list[tuple[str, list[dict[str, str]]]]:
    rows = []
    for at, factor in enumerate(found.inputs.factors):
        cells = []
        for level in found.levels:
            one = level.factors[at]
            note = (
                f"{one.undefined:,} of {one.traversals:,} traversals undefined"
                if one.undefined
                else ""
            )
            text = "two values" if one.binary else _correlation(one)
            note = "" if one.binary else note
            cells.append({"text": text, "style": _heat(one.spearman), "note": note})
        rows.append((factor.factor, cells))
    return rows


def _heat(value: float) -> str:
    if not math.isfinite(value):
        return ""
    level = min(1.0, max(0.0, value))
    return (
        f"background:{mix('#ffffff', DARK, level)};color:{'#ffffff' if level > 0.5 else '#1b2430'}"
    )
