# SPDX-License-Identifier: Apache-2.0
"""New folders: free, made for one process alone, on a disk with room for what is planned."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

from unbraid.core.begun import holds_anything, remove_leftovers
from unbraid.core.errors import Shown, invalid
from unbraid.core.files import make_folder, only_one
from unbraid.core.folders import check_writable, kind_of
from unbraid.data.dataset import Dataset
from unbraid.population.devices import cores, members_by_kind
from unbraid.population.kind import quantities
from unbraid.population.plan import Plan


def check_free(folder: Path) -> None:
    """Refuse a folder that holds another run, or anything else."""
    check_writable("out", folder)
    if kind_of(folder) is not None:
        remedy = f"Go on with `unbraid resume {folder}` or choose another folder."
        raise invalid("out", "must not hold another run", str(folder), remedy)
    if folder.is_dir() and holds_anything(folder):
        raise invalid("out", "must be a new or empty folder", str(folder), "Choose another folder.")


@contextmanager
def new_folder(folder: Path) -> Iterator[None]:
    """Make *folder*, hold it for this process alone, and clear away what a killed one left."""
    _make(folder)
    with only_one(folder):
        check_free(folder)  # again, now that nobody else can write here
        remove_leftovers(folder)
        yield


def _make(folder: Path) -> None:
    """Make *folder* and those above it, or say why that cannot be done."""
    rule = "must be a folder that can be made"
    try:
        make_folder(folder)
    except OSError as error:
        raise invalid("out", rule, str(folder), f"{error.strerror}.") from error
    except RecursionError as error:
        value = Shown(f"{len(folder.parts):,} folders, each in the one before")
        raise invalid("out", rule, value, "Choose another folder.") from error


def check_room(
    folder: Path,
    plan: Plan,
    dataset: Dataset,
    chunk_size: int = 1,
    option: str = "out",
    beside: int = 0,
    *,
    keep_optimiser: bool = True,
    processes: int = 1,
) -> None:
    """Refuse a plan whose files, and *beside* so many bytes, would not fit on the disk of *folder*,
    which *option* chose.
    """
    needed = beside + bytes_needed(
        plan, dataset, chunk_size, keep_optimiser=keep_optimiser, processes=processes
    )
    there = folder.absolute()
    while not there.exists():
        there = there.parent
    free = shutil.disk_usage(there).free
    if needed > free:
        found = Shown(
            f"{free / 1e9:.3f} GB free at {there}, {needed / 1e9:.3f} GB needed for"
            f" {len(plan.members)} members"
        )
        remedy = "Free some room, or train fewer members."
        if option != "out":
            remedy = f"Free some room, or give a folder on another disk: {{{option}=FOLDER}}."
        raise invalid(option, "needs a disk with room for the plan", found, remedy)


def bytes_needed(
    plan: Plan,
    dataset: Dataset,
    chunk_size: int = 1,
    *,
    keep_optimiser: bool = True,
    processes: int = 1,
) -> int:
    """Upper estimate of a run folder: what stays of a trained member, its codes, and checkpoints of
    those that *processes* train at once, of a search all.
    """
    samples, kinds = min(plan.code_samples, len(dataset)), members_by_kind(plan)
    width = max(plan.layout(member, dataset).size for member, _ in kinds)  # of a mixed chunk
    recorded = max(len(quantities(member)) for member, _ in kinds) + 2
    records = plan.steps // plan.log_every * recorded
    total = largest = 0
    for member, count in kinds:
        auxiliary = member.build().auxiliary_network()
        weights = width + (auxiliary.layout(plan.latents).size if auxiliary else 0)
        checkpoint = 4 * ((3 + plan.amsgrad) * weights + records)
        stays = 2 * checkpoint if keep_optimiser else 4 * (width + records)
        total += count * (stays + samples * (8 + 2 * 4 * plan.latents) + 8 * records)
        largest = max(largest, checkpoint)
    side_by_side = max(chunk_size * max(1, torch.cuda.device_count()), cores()) * processes
    # Two, and a third in writing; where all have two that stay, the third alone.
    largest *= 1 if keep_optimiser else 3
    # Beside all, the report and the tables.
    return total + largest * min(len(plan.members), side_by_side) + 10_000_000
