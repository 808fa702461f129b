# SPDX-License-Identifier: Apache-2.0
"""Checkpoints of a chunk: the newest two are kept, each whole or known to be damaged.

While a chunk trains they hold its whole state. A trained one leaves its weights and curves, which
is all that scores and reports read, unless the run keeps the optimiser's state.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unbraid.core.errors import DamagedFileError
from unbraid.core.failpoints import failpoint
from unbraid.core.files import file_names, remove, set_aside
from unbraid.core.folders import kind_of
from unbraid.core.store import read_about, read_tensors, write_tensors
from unbraid.population.kind import quantities
from unbraid.population.member import Member
from unbraid.population.state import State

_KEPT = 2
_RESULTS = ("diverged_at", "history", "model.weights")


@dataclass(frozen=True)
class Curves:
    """How the training of a chunk went, on the host."""

    step: int
    diverged_at: Tensor
    history: Tensor

    @classmethod
    def not_begun(cls, members: Sequence[Member]) -> Curves:
        """Those of *members* at step 0."""
        width = max(len(quantities(one)) for one in members)
        return cls(0, torch.full((len(members),), -1), torch.empty(len(members), 0, width))


@dataclass(frozen=True)
class Trained(Curves):
    """What results are read from."""

    weights: Tensor
    """`(members, size)`."""

    @classmethod
    def of(cls, tensors: Mapping[str, Tensor], step: int) -> Trained:
        """That part of a state's *tensors*."""
        return cls(step, *results_of(tensors).values())


def results_of(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What of a state's *tensors* results are read from."""
    return {name: tensors[name] for name in _RESULTS}


class OtherPlanError(DamagedFileError):
    """A good file of another plan: one of the two was copied here."""

    @classmethod
    def of(cls, found: Mapping[Path, OtherPlanError]) -> OtherPlanError:
        """One for all the files that are *found* to be such."""
        first, *more = found
        also = f" The same holds for {', '.join(path.name for path in more)}." if more else ""
        return cls(f"{found[first]}{also}")


def chunk_name(chunk: Sequence[Member]) -> str:
    """What files of a chunk begin with."""
    return _name([member.id for member in chunk])


def _name(members: Sequence[int]) -> str:
    return f"members-{members[0]:05d}-{members[-1]:05d}"


class Checkpoints:
    """The checkpoint files of one chunk in a run folder."""

    def __init__(
        self,
        folder: Path,
        members: tuple[int, ...],
        plan_digest: str,
        *former_digests: str,
        quantities: int | None = None,
    ) -> None:
        """Files are of the plan, or of one that it continues; of each member they record so many
        *quantities*, where that is known.
        """
        self.folder = folder
        self.quantities = quantities
        self.members = members
        self.plan_digest = plan_digest
        self.former_digests = former_digests
        self.made_on: str | None = None
        """The type of device: of the state that was loaded, and of those that are saved."""
        self.prefix = f"{_name(members)}.step-"

    def files(self) -> list[tuple[int, Path]]:
        """Step and path of each checkpoint, the newest first."""
        steps = re.compile(re.escape(self.prefix) + r"(\d{9})\.safetensors")
        matches = (steps.fullmatch(name) for name in file_names(self.folder))
        found = ((int(match[1]), self.folder / match[0]) for match in matches if match)
        return sorted(found, reverse=True)

    def save(self, tensors: Mapping[str, Tensor], step: int) -> None:
        """Write the *tensors* of a state, then drop what is older than the newest two."""
        self._write(tensors, step, {})
        self._keep(_KEPT)
        failpoint("chunk.saved")

    def save_results(self, tensors: Mapping[str, Tensor], step: int) -> None:
        """Write what results are read from, then drop the states that led there."""
        self._write(results_of(tensors), step, {"trained": True})
        self._keep(1)

    def trained_alone(self) -> bool:
        """Whether the newest file holds results without a state to go on from; one of another plan
        is refused.
        """
        files = self.files()
        if not files:
            return False
        _, path = files[0]
        try:
            about = read_about(path)
        except DamagedFileError:
            return False  # which training passes over and says
        self._check_plan(path, about)
        return bool(about.get("trained"))

    def _write(self, tensors: Mapping[str, Tensor], step: int, more: dict[str, Any]) -> None:
        about = {"step": step, "members": list(self.members), "plan": self.plan_digest, **more}
        about |= {"device": self.made_on} if self.made_on else {}
        write_tensors(self.folder / f"{self.prefix}{step:09d}.safetensors", tensors, about)

    def _keep(self, count: int) -> None:
        for _, path in self.files()[count:]:
            if path.is_dir() and not path.is_symlink():
                set_aside(path)  # no file of ours, and not ours to delete
            else:
                remove(path)

    def load(
        self, device: torch.device, warn: Callable[[str], None], width: int | None = None
    ) -> State | Trained | None:
        """The newest good state to go on from, or the results where nothing is left to do; what had
        to be passed over is told through *warn*. None where there is none. A member has *width*
        weights, where that is known.
        """
        damaged: dict[Path, str] = {}
        others: dict[Path, OtherPlanError] = {}
        found = None
        then = "no good checkpoint is left for these members; they train again from the start."
        for step, path in self.files():
            try:
                found = self._read(step, path, device, width)
            except OtherPlanError as error:
                others[path] = error
            except DamagedFileError as error:
                damaged[path] = str(error)
            except FileNotFoundError:  # whoever held these members before has just removed it
                continue
            else:
                then = f"going on from the last good checkpoint, {path.name}."
                break
        if others:
            raise OtherPlanError.of(others)  # rather than set good models aside, or train beside
        for line in (*damaged.values(), then) if damaged else ():
            warn(line)
        for path in damaged:  # out of the way, and not lost
            set_aside(path)
        if found is not None:
            self._keep(1 if isinstance(found, Trained) else _KEPT)  # a kill may have left more
        return found

    def sole(self, width: int | None = None) -> State | Trained | None:
        """What the only file holds, where it is whole; nothing is changed, and nothing said of any
        other case.
        """
        files = self.files()
        if len(files) != 1:
            return None
        try:
            return self._read(*files[0], torch.device("cpu"), width)
        except (DamagedFileError, FileNotFoundError):
            return None

    def newest(self) -> Trained:
        """The newest results; damage is an error that names the remedy."""
        files = self.files()
        if not files:
            remedy = _remedy(self.folder.parent)
            raise DamagedFileError(
                f"{self.folder} holds no checkpoint of member {self.members[0]}. {remedy}"
            )
        step, path = files[0]
        try:
            found = self._read(step, path, torch.device("cpu"))
        except FileNotFoundError:  # a newer one took its place meanwhile
            return self.newest()
        except OtherPlanError:
            raise
        except DamagedFileError as error:
            raise DamagedFileError(f"{error} {_remedy(self.folder.parent)}") from error
        return found if isinstance(found, Trained) else Trained.of(found.tensors(), step)

    def check_width(self, found: Trained, width: int) -> None:
        """Refuse results whose members have other than *width* weights."""
        if found.weights.shape[1] != width:
            path = self.files()[0][1]
            raise DamagedFileError(
                f"{path} does not hold such models: they have {found.weights.shape[1]:,} weights"
                f" instead of {width:,}. {_remedy(self.folder.parent)}"
            )

    def _read(
        self, step: int, path: Path, device: torch.device, width: int | None = None
    ) -> State | Trained:
        tensors, about = read_tensors(path)
        if about.get("step") != step:
            raise DamagedFileError(f"{path} was renamed: it is of another step.")
        self._check_plan(path, about)
        if about.get("members") != list(self.members):
            raise DamagedFileError(f"{path} holds other members.")
        self._check_shapes(path, tensors, bool(about.get("trained")), width)
        self.made_on = about.get("device")
        if about.get("trained"):
            return Trained.of(tensors, step)
        return State.from_tensors(tensors, step, device)

    def _check_plan(self, path: Path, about: Mapping[str, Any]) -> None:
        if about.get("plan") not in (self.plan_digest, *self.former_digests):
            raise OtherPlanError(
                f"{path} belongs to another plan than the plan.json of {self.folder.parent}. Put"
                " the right one back, or remove that file to train its members again."
            )

    def _check_shapes(
        self, path: Path, tensors: Mapping[str, Tensor], trained: bool, width: int | None
    ) -> None:
        """Refuse tensors that are not those of the members; None stands for any length."""
        count = len(self.members)
        wanted: dict[str, tuple[int | None, ...]] = {
            "diverged_at": (count,),
            "history": (count, None, self.quantities),
            "model.weights": (count, width),
        }
        if not trained:
            wanted["window"] = (count, self.quantities)
            for name in tensors:
                group, _, part = name.rpartition(".")
                if part == "weights":
                    shape = tuple(tensors[name].shape)
                    wanted |= {f"{group}.gradient_{kind}": shape for kind in ("mean", "square")}
                if part == "largest_square":
                    wanted[name] = tuple(tensors[f"{group}.weights"].shape)
        for name, shape in wanted.items():
            found = tuple(tensors[name].shape) if name in tensors else ()
            if len(found) != len(shape) or any(
                one not in (None, other) for one, other in zip(shape, found, strict=True)
            ):
                raise DamagedFileError(
                    f"{path} does not hold such models: its tensor '{name}' has the shape {found}."
                )


def _remedy(run: Path) -> str:
    """What to do about models that are lost."""
    if kind_of(run) == "pbt":
        return (
            "A finished search keeps its winner alone, so it cannot be made again from what is"
            " here: put a copy back, or search again into a new folder (the same seed gives the"
            " same winner)."
        )
    return f"Run `unbraid resume {run}` to train it again, from the last good one if there is one."
