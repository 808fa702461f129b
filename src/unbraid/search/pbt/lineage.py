# SPDX-License-Identifier: Apache-2.0
"""The lineage of a search: one row per individual and epoch, with its parent and its score."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from unbraid.search.pbt.plan import SearchPlan
from unbraid.search.pbt.state import SearchState


def epoch_rows(
    search: SearchPlan, state: SearchState, scores: Sequence[float]
) -> list[dict[str, Any]]:
    """The rows of the epoch that *state* is in, given the *scores* of its individuals."""
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
                "images": (state.epoch + 1) * search.epoch_images,
                **one.values,
            }
        )
    return rows


def best_by_epoch(
    lineage: Sequence[dict[str, Any]], better: Callable[[float], float]
) -> list[float]:
    """The best score of each epoch, NaN where none has one; *better* makes higher the better."""
    found = [math.nan] * (lineage[-1]["epoch"] + 1)
    for row in lineage:
        score, best = row["score"], found[row["epoch"]]
        if score is not None and not better(score) <= better(best):
            found[row["epoch"]] = score
    return found
