# SPDX-License-Identifier: Apache-2.0
"""The stages of a recursion: one root, leaf-runs of several levels, one or more final populations.

A stage is a search in a folder of its own: root/, leaf-0/level-2/, final-1/. What kind of stage it
is and which one, its fields say; only here are they turned into the name of a folder.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

SAME_LABELS = "the same as final-0: no leaf-run had found other labels"


class StageKind(StrEnum):
    """What a stage does."""

    ROOT = "root"
    """Searches in all images without labels."""
    LEAF = "leaf"
    """Searches in a part of the images in which earlier labels hardly vary."""
    FINAL = "final"
    """Trains on all images, selected by the labels of earlier stages."""


@dataclass(frozen=True)
class Stage:
    """One stage of a recursion, and what came of it once it is done."""

    kind: StageKind
    leaf: int = 0
    """Of a leaf: which leaf-run, counted from 0."""
    level: int = 1
    """Of a leaf: its level of labels, from 2 on; the root's are the first."""
    leaf_runs: int = 0
    """Of a final population: how many leaf-runs' labels it uses."""
    images: int = 0
    """How many it was trained on; 0 where no part could be cut out."""
    score: float = math.nan
    """Of the winner: agreement, or the gap with surrogate labels."""
    active: tuple[int, ...] = ()
    """Latents of the best model that serve as labels."""
    ended: str = ""
    """Why a leaf-run ended here, if it did."""

    @property
    def name(self) -> str:
        """Its folder in that of the recursion.

        >>> Stage(StageKind.LEAF, leaf=0, level=2).name, Stage(StageKind.FINAL, leaf_runs=1).name
        ('leaf-0/level-2', 'final-1')
        """
        if self.kind is StageKind.LEAF:
            return f"leaf-{self.leaf}/level-{self.level}"
        return f"final-{self.leaf_runs}" if self.kind is StageKind.FINAL else "root"

    @property
    def source(self) -> Stage:
        """Of a leaf: the stage whose labels its part was cut out by."""
        if self.level == 2:
            return ROOT
        return Stage(StageKind.LEAF, leaf=self.leaf, level=self.level - 1)

    @property
    def rank(self) -> int:
        """Of a leaf: which of the candidates of the reduction its part is."""
        return self.leaf if self.level == 2 else 0

    def record(self) -> dict[str, Any]:
        """Its row of summary.json."""
        score = self.score if math.isfinite(self.score) else None
        own = {"name": self.name, "images": self.images, "score": score}
        return {**own, "active": list(self.active), "ended": self.ended}


ROOT = Stage(StageKind.ROOT)


def planned_stages(leaf_runs: int, levels: int, finals: list[int]) -> list[Stage]:
    """Every stage that a recursion may come to, in order."""
    leaves = [
        Stage(StageKind.LEAF, leaf=leaf, level=level)
        for leaf in range(leaf_runs)
        for level in range(2, levels + 1)
    ]
    return [ROOT, *leaves, *(Stage(StageKind.FINAL, leaf_runs=count) for count in finals)]


def part_file(stage: Path) -> Path:
    """Where the images of a leaf are listed: beside the folder of its stage."""
    return stage.with_name(f"{stage.name}.npy")
