# SPDX-License-Identifier: Apache-2.0
"""`status`: what is done, who works at what, what is stalled or has failed, and the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unbraid.commands.study import ResultsFolder, ScaleName
from unbraid.commands.verb import Option, command
from unbraid.core.errors import invalid, nearest
from unbraid.core.folders import check_kind, given_path
from unbraid.core.lease_holder import Watch
from unbraid.core.words import count

if TYPE_CHECKING:
    from unbraid.population.run_status import ChunkStatus, RunStatus
    from unbraid.search.search_status import SearchStatus

_MOST_SHOWN = 40
"""Of more chunks in one state the rest is counted."""
_EVERY_SECONDS = 5.0


@dataclass(frozen=True)
class Status:
    """What was found, and how it is told."""

    found: Any
    """A `RunStatus`, a list of `SearchStatus`, or the `Standing` of a study."""
    text: str
    finished: bool

    def summary(self) -> str:
        """A line for the whole, and one for everything that is not simply done or left."""
        return self.text


@command
def status(
    of: Annotated[
        str | Path, Option("A run, search, recursion or discovery, or the name of a study.")
    ],
    *,
    watch: Annotated[bool, Option("Look again every 5 s until nothing is left.")] = False,
    scale: ScaleName = "gpu",
    results: ResultsFolder = None,
    work: Annotated[
        str | Path | None, Option("Of a study: its folder for unfinished slices, if it has one.")
    ] = None,
) -> Status:
    """Say how far a run, search or study is: done, running where, stalled, failed, time left.

    Nothing is changed. Stalled is what a worker holds that has shown no sign of life for as long as
    it promised; another worker takes it over.
    """
    look, shown = _looker(of, scale, results, work), ""
    found = look()
    try:
        while watch and not found.finished:
            if found.text != shown:
                _show(found.text)
            shown = found.text
            time.sleep(_EVERY_SECONDS)
            found = look()
    except KeyboardInterrupt:
        print(file=sys.stderr)
    return found


def _looker(
    of: str | Path, scale: str, results: str | Path | None, work: str | Path | None
) -> Callable[[], Status]:
    """What looks at *of*, each time it is called."""
    from unbraid.studies import STUDIES

    if str(of) in STUDIES and not Path(of).exists():
        return lambda: _study(str(of), scale, results, work)
    folder, seen = given_path("of", of), Watch()
    if not folder.exists() and (near := nearest(str(of), STUDIES, 0.75)):
        rule = "must be a folder that exists, or a study"
        raise invalid("of", rule, str(of), f"Did you mean {near}?")
    if check_kind(folder, "status") == "train":
        return lambda: _run(folder, seen)
    return lambda: _searches(folder, seen)


def _show(text: str) -> None:
    """On a terminal in the place of what was shown before."""
    clear = "\033[H\033[2J" if sys.stdout.isatty() else ""
    print(f"{clear}{text}\n", flush=True)


def _run(folder: Path, seen: Watch) -> Status:
    from unbraid.population.run_folder import RunFolder
    from unbraid.population.run_status import run_status

    found = run_status(RunFolder.open(folder), seen)
    return Status(found, "\n".join(_run_lines(found)), found.finished)


def _run_lines(found: RunStatus) -> list[str]:
    from unbraid.core.words import spoken

    share = 100 * found.done / max(1, found.total)
    line = f"{found.path}: {found.done:,} of {found.total:,} model-steps ({share:.0f}%)"
    if found.rate:
        line += f", {found.rate:,.0f} model-steps/s"
    if (left := found.seconds_left) is not None and not found.finished:
        line += f", about {spoken(left)} left"
    lines = [line]
    states = ("done", "running", "stalled", "failed", "begun", "left")
    counts = [f"{found.count(one)} {one}" for one in states if found.count(one)]
    lines.append(f"  {count(len(found.chunks), 'chunk')}: {', '.join(counts)}")
    if not found.is_decided:
        lines[-1] = "  chunks are not decided yet; whoever trains first does"
    for state in ("running", "stalled", "failed"):
        own = [one for one in found.chunks if one.state == state]
        lines += [_chunk_line(one, found.steps) for one in own[:_MOST_SHOWN]]
        if len(own) > _MOST_SHOWN:
            lines.append(f"  {len(own) - _MOST_SHOWN} more {state}")
    if found.finished:
        lost = f"; {count(found.diverged, 'member')} diverged" if found.diverged else ""
        untold = "; tables are not written" if found.diverged is None else ""
        lines.append(f"  all is trained{lost}{untold}")
    elif not found.count("running"):
        verb = "resume" if found.is_decided else "work"
        lines.append(f"Nobody trains it. Go on with: unbraid {verb} {found.path}")
    return lines


def _chunk_line(one: ChunkStatus, steps: int) -> str:
    from unbraid.core.words import spoken

    told = f"  {one.state}: {one.name}, step {one.step:,} of {steps:,}"
    if one.state == "failed":
        return f"{told}, on {one.where}: {one.why}"
    if one.state == "stalled":
        return f"{told}, on {one.where}, no sign of life for {spoken(one.silent)}"
    return f"{told}, on {one.where}"


def _searches(folder: Path, seen: Watch) -> Status:
    from unbraid.search.search_status import search_statuses

    found = search_statuses(folder, seen)
    done = sum(one.state == "done" for one in found)
    lines = [f"{folder}: {done} of {count(len(found), 'search', 'searches')} done"]
    lines += _search_lines(found)
    return Status(found, "\n".join(lines), done == len(found))


def _search_lines(found: Sequence[SearchStatus]) -> list[str]:
    from unbraid.core.words import spoken

    lines = []
    for one in found:
        line = f"  {one.state}: {one.name}"
        if one.epochs:
            line += f", {one.epochs_done} of {count(one.epochs, 'epoch')}"
        if one.where:
            line += f", on {one.where}"
        if one.state == "stalled":
            line += f", no sign of life for {spoken(one.silent)}"
        if one.seconds_left is not None:
            line += f", about {spoken(one.seconds_left)} left at most"
        lines.append(line)
    return lines


def _study(name: str, scale: str, results: str | Path | None, work: str | Path | None) -> Status:
    from unbraid.population.devices import choose_device
    from unbraid.studies import STUDIES
    from unbraid.studies.results import Results
    from unbraid.studies.standing import standing

    tables = Results(STUDIES.load(name), scale, results)
    found = standing(tables, tables.slices(), choose_device(), work)
    return Status(found, found.summary(), not found.left())
