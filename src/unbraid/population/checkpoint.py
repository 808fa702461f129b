# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a chunk: the newest two are kept, each whole or known to be damaged."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import torch

from unbraid.core.errors import DamagedFileError
from unbraid.core.store import read_tensors, write_tensors
from unbraid.population.training_step import State

_KEPT = 2


class Checkpoints:
    """The checkpoint files of one chunk in a run folder."""

    def __init__(self, folder: Path, members: tuple[int, ...], plan_digest: str) -> None:
        self.folder = folder
        self.members = members
        self.plan_digest = plan_digest
        self.prefix = f"members-{members[0]:05d}-{members[-1]:05d}.step-"

    def files(self) -> list[tuple[int, Path]]:
        """Step and path of each checkpoint, the newest first."""
        steps = re.compile(re.escape(self.prefix) + r"(\d{9})\.safetensors")
        matches = (
            (steps.fullmatch(path.name), path) for path in self.folder.glob(f"{self.prefix}*")
        )
        return sorted(((int(match[1]), path) for match, path in matches if match), reverse=True)

    def save(self, state: State) -> None:
        """Write *state*, then drop what is older than the newest two."""
        about = {"step": state.step, "members": list(self.members), "plan": self.plan_digest}
        write_tensors(
            self.folder / f"{self.prefix}{state.step:09d}.safetensors", state.tensors(), about
        )
        for _, path in self.files()[_KEPT:]:
            path.unlink(missing_ok=True)

    def load(self, device: torch.device, warn: Callable[[str], None]) -> State | None:
        """The newest good state; what had to be passed over is told through *warn*. None where
        there is none.
        """
        damaged: list[Path] = []
        for step, path in self.files():
            try:
                state = self._read(step, path, device)
            except (DamagedFileError, KeyError) as error:
                warn(str(error))
                damaged.append(path)
                continue
            if damaged:
                warn(f"going on from the last good checkpoint, {path.name}.")
                _set_aside(damaged)
            return state
        if damaged:
            warn("no good checkpoint is left for these members; they train again from the start.")
            _set_aside(damaged)
        return None

    def newest(self) -> State:
        """The newest state, for reading results; damage is an error that names the remedy."""
        files = self.files()
        if not files:
            raise DamagedFileError(
                f"{self.folder} holds no checkpoint of member {self.members[0]}; run `unbraid"
                " resume` on the run first."
            )
        step, path = files[0]
        try:
            return self._read(step, path, torch.device("cpu"))
        except DamagedFileError as error:
            raise DamagedFileError(
                f"{error} Run `unbraid resume {self.folder.parent}` to train it again from the last"
                " good one."
            ) from error

    def _read(self, step: int, path: Path, device: torch.device) -> State:
        tensors, about = read_tensors(path)
        if about.get("plan") != self.plan_digest or about.get("step") != step:
            raise DamagedFileError(f"{path} belongs to another plan.")
        return State.from_tensors(tensors, step, device)


def _set_aside(paths: list[Path]) -> None:
    """Rename what cannot be used: it is out of the way, and not lost."""
    for path in paths:
        path.rename(path.with_name(f"{path.name}.damaged"))
