# SPDX-License-Identifier: Apache-2.0
"""A run that has a plan is given more steps, or more seeds: what it has trained stays."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from unbraid.core.checks import is_whole
from unbraid.core.errors import Shown, invalid
from unbraid.core.failpoints import failpoint
from unbraid.core.files import check_nobody_holds, file_names, only_one
from unbraid.core.folders import kind_of
from unbraid.core.lease_holder import SUFFIX
from unbraid.population.devices import chunk_size as most_together
from unbraid.population.new_folder import check_room
from unbraid.population.run_folder import SCORES_LOCK, Growth, RunFolder
from unbraid.population.seeds_and_rates import MOST_SEEDS

if TYPE_CHECKING:
    import torch


def extend(run: RunFolder, steps: int) -> None:
    """Give the plan more *steps*: what is trained goes on from its optimisers' states."""
    plan = run.plan
    if not is_whole(steps) or not plan.steps < steps <= 10**9:
        rule = f"must be a whole number above the {plan.steps:,} of {run.path}, at most 10^9"
        raise invalid("steps", rule, steps)
    _ = run.dataset  # which is refused where it has changed, with nothing touched
    with _alone(run):
        for chunk in run.chunks():
            if run.checkpoints(chunk).trained_alone():
                remedy = "Train it again, by `unbraid train --keep-optimiser`."
                found = Shown(f"{run.path}, which kept the weights alone")
                rule = "needs a run that kept its optimiser's state"
                raise invalid("steps", rule, found, remedy)
        # Files of fewer members stay theirs by id, and all are made again for the new steps.
        grown = tuple(one._replace(digest="") for one in run.grown)
        command = _and_then(run, f"--steps {steps}")
        more = replace(plan, steps=steps, command=command)
        run.continue_by(more, grown, run.path / "scores.parquet")
        failpoint("plan.extended")


def grow(
    run: RunFolder,
    seeds: int,
    device: torch.device,
    places: list[torch.device] | None = None,
) -> None:
    """Give every setting of the plan so many *seeds*; models, codes and scores stay. As many of
    the new members train together as *device* can, or each of *places*.

    Nothing is done where it has them, so that a call that was killed can be repeated.
    """
    plan = run.plan
    if kind_of(run.path) != "train":
        remedy = "Search again with another seed, into a folder of its own."
        raise invalid("seeds", "can be given for a run of `unbraid train` alone", seeds, remedy)
    groups = plan.siblings()
    had = {tuple(member.seed for member in group) for group in groups}
    count = max(map(len, had))
    if had != {tuple(range(count))}:
        told = ", ".join(map(str, dict.fromkeys(one for listed in had for one in listed)))
        remedy = "Train the other seeds into a folder of their own: {seeds=LIST}."
        rule = "needs a run whose seeds were given by their number"
        raise invalid("seeds", rule, Shown(f"{run.path}, with the seeds {told}"), remedy)
    if not is_whole(seeds) or not count <= seeds <= MOST_SEEDS:
        rule = f"must be a whole number from the {count:,} of {run.path} to {MOST_SEEDS:,}"
        raise invalid("seeds", rule, seeds)
    if seeds == count:
        return
    more = [(group[0], seed) for group in groups for seed in range(count, seeds)]
    new = tuple(
        replace(first, id=len(plan.members) + place, seed=seed)
        for place, (first, seed) in enumerate(more)
    )
    added = replace(plan, members=new)
    size = most_together(added, run.dataset, device, places)
    check_room(run.path, added, run.dataset, size, keep_optimiser=run.keep_optimiser)
    with _alone(run):
        grown = (*run.grown, Growth(plan.digest(), len(plan.members), size))
        command = _and_then(run, f"--seeds {seeds}")
        more = replace(plan, members=(*plan.members, *new), command=command)
        run.continue_by(more, grown)
        failpoint("plan.grown")


@contextmanager
def _alone(run: RunFolder) -> Iterator[None]:
    """Hold all files of the run while its plan changes, which is still the one at hand."""
    with only_one(run.path), only_one(run.path, SCORES_LOCK):
        run.check_unchanged()
        names = file_names(run.checkpoint_folder)
        held = (name for name in names if name.endswith(SUFFIX))
        check_nobody_holds(run.path, (run.checkpoint_folder / name for name in held))
        yield


def _and_then(run: RunFolder, options: str) -> str:
    """The command that made the plan, where one did, and the one that gives it more."""
    told = run.plan.command
    return told and f"{told} && unbraid resume {shlex.quote(str(run.path))} {options}"
