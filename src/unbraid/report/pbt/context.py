# SPDX-License-Identifier: Apache-2.0
"""A population-based search as one HTML page that opens offline: who came from whom, how scores
rose, and what won.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.core.store import write_bytes
from unbraid.report.page import render_page
from unbraid.report.pbt.figures import (
    ancestry,
    changes,
    check_lineage,
    dotted_every,
    hyper_columns,
    hyper_figure,
    lineage_figure,
    spread_figure,
)
from unbraid.report.train.settings import shown, symbol

if TYPE_CHECKING:
    import pandas as pd

MARK = b'<p class="kicker">Unbraid search</p>'
"""By which a page of ours is known from another file of its name."""
_LONG_TABLE = 20


def write_search_page(
    path: Path,
    *,
    title: str,
    lineage: pd.DataFrame,
    score_label: str,
    winner: tuple[int, int, float],
    facts: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    commands: Sequence[tuple[str, str]] = (),
    sentences: Sequence[str] = (),
    home: str = "",
) -> Path:
    """Write the page of a search to *path* and return it.

    *lineage* is described in `lineage_figures`; *winner* is the epoch and the number of the individual that was kept, as in the
    table, and its score. On the page epochs are counted from 1, as they are told while training.
    *commands* are what a person can type next, each with what it does. *home* is the page of the
    recursion whose stage it is, if any.
    """
    context = page_context(
        title=title,
        lineage=lineage,
        score_label=score_label,
        winner=winner,
        facts=facts,
        commands=commands,
        sentences=sentences,
    )
    context["home"] = home
    write_bytes(path, render_page("search.html.j2", context, styles=("discovery.css",)).encode())
    return path


def page_context(
    *,
    title: str,
    lineage: pd.DataFrame,
    score_label: str,
    winner: tuple[int, int, float],
    facts: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    commands: Sequence[tuple[str, str]] = (),
    sentences: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything the template shows."""
    check_lineage(lineage)
    epoch, individual, score = winner
    names = hyper_columns(lineage)
    kept = (int(epoch), int(individual))
    line = ancestry(lineage, *kept)
    figures: dict[str, Any] = {
        "lineage": lineage_figure(lineage, kept, score_label),
        "spread": spread_figure(lineage, score_label),
    }
    panels = []
    for number, name in enumerate(names):
        figures[f"hyper-{number}"] = hyper_figure(lineage, name, kept, score_label)
        panels.append({"id": f"hyper-{number}", "heading": _heading(name)})
    return {
        "title": title,
        "sentences": [*sentences, winner_sentence(lineage, winner, score_label, line)],
        "score_label": score_label,
        "winner": {
            "settings": [
                (symbol(name), _number(value)) for name, value in _row_of(lineage, kept, names)
            ],
            "epoch": kept[0] + 1,
            "individual": kept[1],
            "score": f"{score:.3f}" if math.isfinite(score) else "–",
        },
        "ancestors": _ancestors(lineage, line, names),
        "panels": panels,
        "every": dotted_every(lineage),
        "table": _last_epoch(lineage, names, score_label, kept),
        "facts": [
            *_counted(lineage),
            *dict(facts).items(),
            ("Page made", datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ],
        "commands": list(commands),
        "figures": figures,
    }


def winner_sentence(
    lineage: pd.DataFrame,
    winner: tuple[int, int, float],
    score_label: str,
    line: Sequence[tuple[int, int]],
) -> str:
    """Who won, and how often its weights passed to another individual."""
    epoch, individual, score = winner
    last = _last(lineage)
    told = (
        f"The best has {score_label} {score:.3f}"
        if math.isfinite(score)
        else f"The winner has no {score_label}"
    )
    when = "in the last epoch" if epoch == last else f"in epoch {epoch + 1} of {last + 1}"
    moves = sum(before[1] != after[1] for before, after in pairwise(line))
    came = (
        "its weights stayed there all along"
        if moves == 0
        else f"its weights passed to another individual {_times(moves)}"
    )
    return f"{told} (individual {individual}, {when}); {came}."


def _last(lineage: pd.DataFrame) -> int:
    return max(lineage["epoch"].astype(int).tolist())


def _heading(name: str) -> str:
    """A hyperparameter as a heading; Greek letters stay small, for a capital β is a B."""
    text = symbol(name)
    return text[:1].upper() + text[1:] if text.isascii() else text


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def _number(value: float) -> str:
    return shown(float(f"{value:.4g}")) if math.isfinite(value) else "–"


def _row_of(
    lineage: pd.DataFrame, key: tuple[int, int], names: Sequence[str]
) -> list[tuple[str, float]]:
    row = lineage[(lineage["epoch"] == key[0]) & (lineage["individual"] == key[1])].iloc[0]
    return [(name, float(row[name])) for name in names]


def _counted(lineage: pd.DataFrame) -> list[tuple[str, str]]:
    """What the table itself says about the search."""
    last = lineage[lineage["epoch"] == lineage["epoch"].max()]
    first = lineage[lineage["epoch"] == lineage["epoch"].min()]
    many = f"{len(last):,}" + (f" (first epoch {len(first):,})" if len(first) != len(last) else "")
    diverged, copies = (sum(lineage[name].astype(bool).tolist()) for name in ("diverged", "copied"))
    return [
        ("Individuals", many),
        ("Epochs", f"{lineage['epoch'].nunique():,}"),
        ("Copies", f"{copies:,}"),
        ("Diverged", f"{diverged:,} of {len(lineage):,} individual epochs" if diverged else "none"),
        ("Images seen by each", _range([int(value) for value in last["images"]])),
    ]


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _ancestors(
    lineage: pd.DataFrame, line: Sequence[tuple[int, int]], names: Sequence[str]
) -> dict[str, Any]:
    """The winner's ancestry as a table, the oldest first, with what changed on the way."""
    told = dict(
        zip(
            zip(lineage["epoch"], lineage["individual"], strict=True), changes(lineage), strict=True
        )
    )
    by_key = lineage.set_index(["epoch", "individual"])
    rows = []
    for key in line:
        row = by_key.loc[key]
        score = float(row["score"])
        how = (
            "began"
            if row["parent"] < 0
            else f"copied from individual {int(row['parent'])}"
            if row["copied"]
            else "went on"
        )
        if told[key]:
            how += f": {told[key]}"
        cells = [
            f"{key[1]}",
            f"{score:.3f}" if math.isfinite(score) else "–",
            *(_number(float(row[name])) for name in names),
        ]
        rows.append({"epoch": key[0] + 1, "cells": cells, "how": how})
    return {
        "heads": ["Individual", "Score", *map(_heading, names)],
        "rows": rows,
        "long": len(rows) > _LONG_TABLE,
    }


def _last_epoch(
    lineage: pd.DataFrame, names: Sequence[str], score_label: str, kept: tuple[int, int]
) -> dict[str, Any]:
    """All individuals of the last epoch, best first; those without a score last."""
    last = _last(lineage)
    at_end = [epoch == last for epoch in lineage["epoch"]]
    rows = []
    for row in lineage.loc[at_end].to_dict(orient="records"):
        score = float(row["score"])
        status = (
            "diverged"
            if row["diverged"]
            else f"copied from individual {row['parent']}"
            if row["copied"]
            else "went on"
        )
        cells: list[tuple[str, Any]] = [
            (f"{row['individual']}", row["individual"]),
            (f"{score:.3f}", score) if math.isfinite(score) else ("–", ""),
            *(
                (_number(float(row[name])), float(row[name]) if math.isfinite(row[name]) else "")
                for name in names
            ),
            (f"{row['images']:,}", row["images"]),
            (status, status),
        ]
        rank = (
            not math.isfinite(score),
            -score if math.isfinite(score) else 0.0,
            row["individual"],
        )
        rows.append({"cells": cells, "best": kept == (last, row["individual"]), "rank": rank})
    rows.sort(key=lambda row: row["rank"])
    heads = ["Individual", score_label, *map(_heading, names), "Images seen", "This epoch"]
    return {
        "heads": heads,
        "rows": rows,
        "epoch": last + 1,
        "long": len(rows) > _LONG_TABLE,
        "numeric": range(1, len(heads) - 1),
    }
