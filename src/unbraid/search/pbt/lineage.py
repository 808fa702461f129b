# SPDX-License-Identifier: Apache-2.0
"""The lineage of a search: one row per individual and epoch, with its parent and its score.

Rows that earlier versions wrote say nothing of active latents: they count as not collapsed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unbraid.core.failpoints import failpoint
from unbraid.core.folders import check_still_there
from unbraid.core.store import read_table, write_table
from unbraid.search.pbt.plan import SearchPlan
from unbraid.search.pbt.state import SearchState

if TYPE_CHECKING:
    import pandas as pd

LINEAGE = "lineage.parquet"
_COLUMNS = {"epoch": "i", "individual": "i", "parent": "i", "copied": "b", "change": "O"} | {
    "score": "f",
    "diverged": "b",
    "images": "i",
}
"""What a lineage has at least, with the kinds of NumPy."""


class EpochBest(NamedTuple):
    """The best score of an epoch."""

    score: float
    """NaN where none has one."""
    collapsed: bool
    """Whether every individual that has a score is collapsed."""


def epoch_rows(
    search: SearchPlan,
    state: SearchState,
    scores: Sequence[float],
    active: Sequence[int],
    least: int,
) -> list[dict[str, Any]]:
    """The rows of the epoch that *state* is in, given the *scores* of its individuals.

    Those with fewer than *least* latents *active* are collapsed, unless they diverged.
    """
    diverged = state.generation.diverged()
    rows = []
    for place, (one, score) in enumerate(zip(state.individuals, scores, strict=True)):
        models = diverged[place * search.models : (place + 1) * search.models]
        rows.append(
            {
                "epoch": state.epoch,
                "individual": place,
                "parent": one.parent,
                "copied": one.copied,
                "change": ", ".join(f"{name} ×{factor:g}" for name, factor in one.moves.items()),
                "score": score if math.isfinite(score) else None,
                "diverged": any(models),
                "active_latents": active[place],
                "collapsed": active[place] < least and not any(models),
                "images": (state.epoch + 1) * search.epoch_images,
                **one.values,
            }
        )
    return rows


def best_by_epoch(
    lineage: Sequence[Mapping[str, Any]], better: Callable[[float], float]
) -> list[EpochBest]:
    """The best of each epoch, collapsed ones where there are no others; *better* makes higher the
    better.
    """
    found = [EpochBest(math.nan, True)] * (lineage[-1]["epoch"] + 1)
    for row in lineage:
        score, best = row["score"], found[row["epoch"]]
        if score is None or not math.isfinite(score):
            continue
        sunk = is_collapsed(row)
        if sunk > best.collapsed:
            continue
        if sunk < best.collapsed or not better(score) <= better(best.score):
            found[row["epoch"]] = EpochBest(score, sunk)
    return found


def is_collapsed(row: Mapping[str, Any]) -> bool:
    """Whether the individual of a row is collapsed, as far as was counted."""
    return row.get("collapsed", False) is True


def read_lineage(folder: Path, search_digest: str) -> pd.DataFrame:
    """The table of the search in *folder*, which must be its own."""
    return read_table(folder / LINEAGE, _about(search_digest), _COLUMNS)


def write_lineage(folder: Path, search_digest: str, lineage: Sequence[Mapping[str, Any]]) -> None:
    """Write the rows of all epochs so far; *folder* must not have gone meanwhile."""
    import pandas as pd

    check_still_there(folder)
    table = pd.DataFrame(lineage)
    table["collapsed"] = [is_collapsed(row) for row in lineage]
    kinds = {"score": float, "active_latents": "Int64"}
    write_table(folder / LINEAGE, table.astype(kinds), _about(search_digest))
    failpoint("lineage.written")


def _about(search_digest: str) -> dict[str, str]:
    return {"search": search_digest, "table": LINEAGE}
