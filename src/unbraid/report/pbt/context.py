# SPDX-License-Identifier: Apache-2.0
"""The page of population-based training: who came from whom, how scores rose, and what won."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.report.page import write_page
from unbraid.report.pbt.figures import dotted_every, hyper_figure, lineage_figure, spread_figure
from unbraid.report.pbt.lineage import (
    ACTIVE,
    COLLAPSED,
    ancestry,
    changes,
    check_lineage,
    collapsed_rows,
    hyper_columns,
    value_shown,
)
from unbraid.report.train.settings import symbol
from unbraid.report.words import score_shown

if TYPE_CHECKING:
    import pandas as pd

_LONG_TABLE = 20


def write_pbt(path: Path, *, lineage: pd.DataFrame, made_from: str = "", **shown: Any) -> Path:
    """Write the page of a search to *path* and return it; arguments are those of `write_page` and
    of `page_context`.
    """
    return write_page(path, "pbt", page_context(lineage=lineage, **shown), made_from)


def page_context(
    *,
    title: str,
    lineage: pd.DataFrame,
    score_label: str,
    winner: tuple[int, int, float],
    facts: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    commands: Sequence[tuple[str, str]] = (),
    sentences: Sequence[str] = (),
    home: str = "",
    higher_is_better: bool = True,
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """Everything the template shows.

    *lineage* is described in `lineage`; *winner* is the epoch and the number of the individual that
    was kept, as in the table, and its score. *commands* are what a person can type next, each with
    what it does. *home* is the page of the rpu run whose stage it is, if any. *warnings* stand
    above all else.
    """
    check_lineage(lineage)
    kept, score = (int(winner[0]), int(winner[1])), winner[2]
    names, line = hyper_columns(lineage), ancestry(lineage, *kept)
    figures: dict[str, Any] = {
        "lineage": lineage_figure(lineage, kept, score_label),
        "spread": spread_figure(lineage, score_label, higher_is_better=higher_is_better),
    }
    panels = []
    for number, name in enumerate(names):
        figures[f"hyper-{number}"] = hyper_figure(lineage, name, kept, score_label)
        panels.append({"id": f"hyper-{number}", "heading": _heading(name)})
    return {
        "title": title,
        "home": home,
        "sentences": list(sentences),
        "warnings": list(warnings),
        "collapsed": int(collapsed_rows(lineage).sum()),
        "score_label": score_label,
        "best": {
            "score": f"{score:.3f}" if math.isfinite(score) else "",
            "individual": kept[1],
            "epoch": kept[0] + 1,
            "last": _last(lineage) + 1,
            "moves": sum(before[1] != after[1] for before, after in pairwise(line)),
        },
        "winner": [
            (score_label, score_shown(score)),
            ("Epoch, individual", f"{kept[0] + 1}, {kept[1]}"),
            *((symbol(name), value_shown(value)) for name, value in _row_of(lineage, kept, names)),
        ],
        "ancestors": _ancestors(lineage, line, names),
        "panels": panels,
        "every": dotted_every(lineage),
        "table": _last_epoch(lineage, names, score_label, kept, higher_is_better),
        "facts": [*_counted(lineage), *dict(facts).items()],
        "commands": list(commands),
        "figures": figures,
    }


def _last(lineage: pd.DataFrame) -> int:
    return max(lineage["epoch"].astype(int).tolist())


def _heading(name: str) -> str:
    """A hyperparameter as a heading; Greek letters stay small, for a capital β is a B."""
    text = symbol(name)
    return text[:1].upper() + text[1:] if text.isascii() else text


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
        *([_collapsed(lineage)] if COLLAPSED in lineage else []),
        ("Images seen by each", _range([int(value) for value in last["images"]])),
    ]


def _collapsed(lineage: pd.DataFrame) -> tuple[str, str]:
    """How many individuals were collapsed, epoch by epoch."""
    many = int(collapsed_rows(lineage).sum())
    return "Collapsed", f"{many:,} of {len(lineage):,} individual epochs" if many else "none"


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _ancestors(
    lineage: pd.DataFrame, line: Sequence[tuple[int, int]], names: Sequence[str]
) -> dict[str, Any]:
    """The winner's ancestry as a table, the oldest first, with what changed on the way."""
    keys = zip(lineage["epoch"], lineage["individual"], strict=True)
    changed = dict(zip(keys, changes(lineage), strict=True))
    by_key = lineage.set_index(["epoch", "individual"])
    rows = []
    for key in line:
        row = by_key.loc[key]
        how = "began" if row["parent"] < 0 else _origin(row["parent"], row["copied"])
        cells = [
            f"{key[1]}",
            score_shown(float(row["score"])),
            *(value_shown(float(row[name])) for name in names),
        ]
        how += f": {changed[key]}" if changed[key] else ""
        rows.append({"epoch": key[0] + 1, "cells": cells, "how": how})
    return {
        "heads": ["Individual", "Score", *map(_heading, names)],
        "rows": rows,
        "long": len(rows) > _LONG_TABLE,
    }


def _origin(parent: int, copied: bool) -> str:
    return f"copied from individual {int(parent)}" if copied else "went on"


def _last_epoch(
    lineage: pd.DataFrame,
    names: Sequence[str],
    score_label: str,
    kept: tuple[int, int],
    higher_is_better: bool,
) -> dict[str, Any]:
    """All individuals of the last epoch, best first; collapsed ones then, those without a score
    last.
    """
    import pandas as pd

    last = _last(lineage)
    at_end = [epoch == last for epoch in lineage["epoch"]]
    rows, counted = [], ACTIVE in lineage
    sunk = collapsed_rows(lineage)[at_end].tolist()
    for low, row in zip(sunk, lineage.loc[at_end].to_dict(orient="records"), strict=True):
        score = float(row["score"])
        status = "diverged" if row["diverged"] else _origin(row["parent"], row["copied"])
        status = f"collapsed; {status}" if low else status
        uses = row.get(ACTIVE)  # none in rows of an earlier version
        active = math.nan if pd.isna(uses) else float(uses)
        known = math.isfinite(active)
        cells: list[tuple[str, Any]] = [
            (f"{row['individual']}", row["individual"]),
            (score_shown(score), score if math.isfinite(score) else None),
            *(
                (
                    value_shown(float(row[name])),
                    float(row[name]) if math.isfinite(row[name]) else None,
                )
                for name in names
            ),
            *([(f"{int(active)}" if known else "–", active if known else None)] * counted),
            (f"{row['images']:,}", row["images"]),
            (status, status),
        ]
        rank = (
            not math.isfinite(score),
            low,
            (-score if higher_is_better else score) if math.isfinite(score) else 0.0,
            row["individual"],
        )
        best = kept == (last, row["individual"])
        rows.append({"cells": cells, "best": best, "rank": rank, "colour": ""})
    rows.sort(key=lambda row: row["rank"])
    seen = [*(["Active latents"] * counted), "Images seen", "This epoch"]
    heads = ["Individual", score_label, *map(_heading, names), *seen]
    return {
        "heads": heads,
        "rows": rows,
        "epoch": last + 1,
        "long": len(rows) > _LONG_TABLE,
        "numeric": range(1, len(heads) - 1),
        "sorted_by": (score_label, "descending" if higher_is_better else "ascending"),
    }
