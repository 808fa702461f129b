# SPDX-License-Identifier: Apache-2.0
"""`work`: take what nobody works at, chunk by chunk, until nothing is left."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from unbraid.commands import options as declared
from unbraid.commands.run import Run, open_run, stopped
from unbraid.commands.verb import Option, command
from unbraid.core.checks import above_zero
from unbraid.core.errors import HeldError, StoppedError, UnbraidError, invalid
from unbraid.core.folders import check_kind, given_path
from unbraid.core.lease_holder import SECONDS, SUFFIX, Watch
from unbraid.core.progress import Progress
from unbraid.core.words import count

_PAUSE = 2.0
"""Seconds between two looks at a search that another process trains."""


@dataclass(frozen=True)
class Worked:
    """What a call of `work` found done at its end."""

    folders: tuple[Path, ...]

    def summary(self) -> str:
        """That nothing is left, and what to type next."""
        lines = [f"Nothing is left to train: {folder}" for folder in self.folders]
        return "\n".join([*lines, *(f"Next:  unbraid resume {one}" for one in self.folders)])


@command
def work(
    folders: Annotated[
        str | Path | Sequence[str | Path],
        Option(
            "Runs, searches, recursions or discoveries, one after the other; first what nobody"
            " searches.",
            kind="LIST",
        ),
    ],
    *,
    lease_seconds: Annotated[
        float, Option("Without a sign of life for so long, this worker's chunk is another's.")
    ] = SECONDS,
    data: declared.MovedData = None,
    device: declared.Devices = "auto",
    quiet: declared.Quiet = False,
) -> Worked:
    """Train what nobody trains yet; any number of processes, on any machine, may do so together.

    All of them need the same folder on a disk that they share. A run is taken chunk by chunk, a
    recursion search by search, any other search as a whole. What a worker has begun that is gone
    is continued by another, from its last checkpoint. Codes and scores are made by `unbraid resume`
    and `unbraid score` afterwards, by one process.
    """
    from unbraid.population.devices import choose_devices

    above_zero("lease_seconds", lease_seconds)
    given = [folders] if isinstance(folders, (str, Path)) else list(folders)
    places = tuple(given_path("folders", one) for one in given)
    kinds = [check_kind(place, "work") for place in places]
    choose_devices(declared.device_name(device))  # which is refused before anything is done

    watch = Watch()

    def is_done(place: Path, kind: str) -> bool:
        if kind == "train":
            _work_at_run(open_run(place, data=data, device=device), lease_seconds, quiet)
            return True
        if kind == "pbt" and _is_searched(place, watch):
            return False
        return _work_at_search(place, kind, data, device, quiet)

    _work_at_all(list(zip(places, kinds, strict=True)), is_done)
    return Worked(places)


def _work_at_all(left: list[tuple[Path, str]], is_done: Callable[[Path, str], bool]) -> None:
    """Work at each folder until it *is_done*: at those that others search after all others. What
    goes wrong with one is told once the others are done.
    """
    errors: list[UnbraidError] = []
    while left:
        searched_elsewhere = []
        for place, kind in left:
            try:
                if not is_done(place, kind):
                    searched_elsewhere.append((place, kind))
            except StoppedError:
                raise
            except UnbraidError as error:
                errors.append(error)
            except KeyboardInterrupt:
                raise stopped(place) from None
        if len(searched_elsewhere) == len(left):
            time.sleep(_PAUSE)
        left = searched_elsewhere
    if errors:
        raise errors[0] if len(errors) == 1 else UnbraidError("\n".join(map(str, errors)))


def _work_at_run(run: Run, seconds: float, quiet: bool) -> None:
    from unbraid.population.train import train_run

    folder, plan = run.folder, run.folder.plan
    total = plan.steps * len(plan.members)
    with Progress(f"training {run.path}", "model-steps", total, quiet) as progress:
        _check_device(run, progress.say)
        outcome = train_run(
            *(folder, run.device, progress.advance, progress.say),
            places=run.places,
            seconds=seconds,
            reads=False,
            keep_going=True,
        )
    if not outcome.finished:
        raise stopped(run.path)
    if outcome.diverged:
        progress.say(f"{count(len(outcome.diverged), 'member')} diverged.")


def _check_device(run: Run, say: Callable[[str], None]) -> None:
    """Refuse to train on a CPU what was planned for GPUs, or the other way round; of another GPU it
    is said.
    """
    from unbraid.population.devices import device_type

    planned, here = run.folder.device, device_type(run.device)
    if planned and "cpu" in (planned, here) and planned != here:
        rule = f"must be of the kind that {run.path} is planned for, {planned}"
        slow = "Its chunks would take very long here. " if here == "cpu" else ""
        remedy = f"{slow}To do it all the same: unbraid resume"
        raise invalid("device", rule, here, f"{remedy} {run.path}")
    if not run.folder.is_decided and here == "cpu":
        say(
            f"Nobody has trained {run.path} yet: it is planned for CPUs from now on. If GPUs are to"
            " train it, stop, and make the plan again."
        )
    if planned not in ("", here):
        say(
            f"{run.path} was planned for {planned} and trains here on {here}: models agree within"
            " the tolerances of docs/limits.md, not to the last bit."
        )


def _is_searched(place: Path, watch: Watch) -> bool:
    """Whether somebody who lives trains a search: seen without opening it, and saying how long it
    will take, each time that this is asked.
    """
    seen = watch.look(place / f".lock{SUFFIX}")
    return seen is not None and not seen.is_over


def _work_at_search(
    place: Path, kind: str, data: declared.MovedData, device: str, quiet: bool
) -> bool:
    """Train a search; False where another process does."""
    opener = importlib.import_module(f"unbraid.commands.{kind}")
    try:
        opener.resume_folder(place, data, device, quiet)
    except HeldError:
        return False
    return True
