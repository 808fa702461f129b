# SPDX-License-Identifier: Apache-2.0
"""`work`: take what nobody works at, chunk by chunk, until nothing is left."""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from unbraid.commands import options as declared
from unbraid.commands.options import Option, command
from unbraid.commands.run import open_run, stopped
from unbraid.core.checks import above_zero
from unbraid.core.errors import HeldError, StoppedError
from unbraid.core.folders import check_kind
from unbraid.core.lease import SECONDS
from unbraid.core.progress import Progress
from unbraid.core.words import count

if TYPE_CHECKING:
    import torch

_PAUSE = 2.0
"""Seconds between two looks at a search that another process trains."""


@dataclass(frozen=True)
class Worked:
    """What a call of `work` found done at its end."""

    folders: tuple[Path, ...]

    def summary(self) -> str:
        """That nothing is left, and what to type next."""
        lines = [f"Nothing is left to train: {folder}" for folder in self.folders]
        return "\n".join([*lines, f"Next:  unbraid resume {self.folders[0]}"])


@command
def work(
    folders: Annotated[
        str | Path | Sequence[str | Path],
        Option("Runs, searches, recursions or discoveries, one after the other.", kind="LIST"),
    ],
    *,
    lease_seconds: Annotated[
        float, Option("Without a sign of life for so long, this worker's chunk is another's.")
    ] = SECONDS,
    data: declared.MovedData = None,
    device: declared.Device = "auto",
    quiet: declared.Quiet = False,
) -> Worked:
    """Train what nobody trains yet; any number of processes, on any machine, may do so together.

    All of them need the same folder on a disk that they share. A run is taken chunk by chunk, a
    recursion search by search, any other search as a whole. What a worker has begun that is gone
    is continued by another, from its last checkpoint. Codes and scores are made by `unbraid resume`
    and `unbraid score` afterwards, by one process.
    """
    from unbraid.population.devices import choose_device

    above_zero("lease_seconds", lease_seconds)
    given = [folders] if isinstance(folders, (str, Path)) else list(folders)
    places = tuple(declared.given_path("folders", one) for one in given)
    kinds = [check_kind(place) for place in places]
    chosen = choose_device(declared.device_name(device))
    for place, kind in zip(places, kinds, strict=True):
        try:
            if kind == "train":
                _work_at_run(place, data, chosen, lease_seconds, quiet)
            else:
                _work_at_search(place, kind, data, device, quiet)
        except StoppedError:
            raise
        except KeyboardInterrupt:
            raise stopped(place) from None
    return Worked(places)


def _work_at_run(
    place: Path, data: declared.MovedData, device: torch.device, seconds: float, quiet: bool
) -> None:
    from unbraid.population.train import train_run

    folder = open_run(place, data=data, device=str(device)).folder
    plan = folder.plan
    total = plan.steps * len(plan.members)
    with Progress(f"training {place}", "model-steps", total, quiet) as progress:
        outcome = train_run(
            folder, device, progress.advance, progress.say, seconds=seconds, reads=False
        )
    if not outcome.finished:
        raise stopped(place)
    if outcome.diverged:
        progress.say(f"{count(len(outcome.diverged), 'member')} diverged.")


def _work_at_search(
    place: Path, kind: str, data: declared.MovedData, device: str, quiet: bool
) -> None:
    """Train a search, or wait until whoever does has finished it, or is gone."""
    opener = importlib.import_module(f"unbraid.commands.{kind}")
    while True:
        try:
            opener.resume_folder(place, data, device, quiet)
        except HeldError:
            time.sleep(_PAUSE)
        else:
            return
