# SPDX-License-Identifier: Apache-2.0
"""How far a search, a recursion or a discovery is, read off its folder without touching it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from unbraid.core.errors import InputError, UnbraidError
from unbraid.core.folders import kind_of, record_path
from unbraid.core.lease_holder import SUFFIX, Watch, silence
from unbraid.search.pbt.search import SearchRun

State = Literal["done", "running", "stalled", "begun", "left"]


@dataclass(frozen=True)
class SearchStatus:
    """How far one search is."""

    name: str
    state: State
    epochs_done: int = 0
    epochs: int = 0
    where: str = ""
    """Who trains it, or did last."""
    silent: float = 0.0
    """Seconds since that one showed that it lives."""
    seconds_left: float | None = None
    """As long as its epochs took so far, and if it does not converge."""


def search_statuses(folder: Path, watch: Watch | None = None) -> list[SearchStatus]:
    """Each search that the folder of a search, a recursion or a discovery holds or will."""
    watch = watch or Watch()
    kind = kind_of(folder)
    if kind == "pbt":
        return [_search(folder, folder.name, watch)]
    if kind == "rpu":
        return _recursion(folder, watch)
    inner = folder / "recursion"
    if kind_of(inner) == "rpu":
        return _recursion(inner, watch)
    return [_search(folder / "models", "models", watch)]


def _recursion(folder: Path, watch: Watch) -> list[SearchStatus]:
    from unbraid.search.rpu.recursion import Recursion

    recursion = Recursion.open(folder)
    stages = [one.name for one in recursion.plan.stages()]
    found = [_search(folder / name, name, watch) for name in stages]
    if recursion.finished:  # a leaf-run may have ended early: those that are left will not come
        found = [one for one in found if one.state != "left"]
    return found


def _search(folder: Path, name: str, watch: Watch) -> SearchStatus:
    if not record_path(folder, "pbt").is_file():
        return SearchStatus(name, "left")
    try:
        search = SearchRun.open(folder)
    except UnbraidError:
        return SearchStatus(name, "begun")
    epochs, done = search.search.epochs, _epochs_done(search)
    if search.finished:
        return SearchStatus(name, "done", done, epochs)
    place = folder / f".lock{SUFFIX}"
    seen = watch.look(place)
    if seen is None:
        return SearchStatus(name, "begun" if done else "left", done, epochs)
    silent = max(seen.unchanged, silence(place, seen.name))
    stalled = seen.is_over or silent > seen.seconds
    took = seen.about.get("epoch_seconds")
    left = (epochs - done) * took if isinstance(took, (int, float)) and not stalled else None
    where = f"{seen.host} ({seen.about.get('device', 'device unknown')})"
    state: State = "stalled" if stalled else "running"
    return SearchStatus(name, state, done, epochs, where, silent, left)


def _epochs_done(search: SearchRun) -> int:
    try:
        return max(search.lineage["epoch"].tolist()) + 1
    except (InputError, UnbraidError, OSError, ValueError):
        return 0
