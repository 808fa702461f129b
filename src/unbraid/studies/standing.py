# SPDX-License-Identifier: Apache-2.0
"""How far a study is: which slices are done, which are left, and what they will take."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from unbraid.core.words import spoken
from unbraid.population.devices import chunk_size, device_name
from unbraid.population.new_folder import bytes_needed
from unbraid.studies.data_at_hand import DataAtHand
from unbraid.studies.definition import definition, model_steps, models
from unbraid.studies.pace import Pace
from unbraid.studies.pool import SearchSlice, Slice
from unbraid.studies.results import Results
from unbraid.studies.run_slices import Part, is_free, work_folder
from unbraid.studies.search_work import largest_plan, work_of

_MOST_SHOWN = 60
"""Of more slices a list shows the pools alone."""
_ROW_BYTES = 600
"""Of a table, for each model at each stage."""


@dataclass(frozen=True)
class SliceStanding:
    """How far one slice is."""

    pool: str
    name: str
    state: str
    """done, left, begun, at work (another process), waits (for another slice), or no data."""
    models: int
    model_steps: int
    seconds: float
    """That it took, or will take."""
    why: str = ""
    """Why its data cannot be loaded, or what else it waits for."""


@dataclass(frozen=True)
class Standing:
    """How far a study is at a scale."""

    study: str
    scale: str
    device: str
    slices: tuple[SliceStanding, ...]

    def left(self) -> list[SliceStanding]:
        """What there is to do here."""
        return [one for one in self.slices if one.state in ("left", "begun", "at work", "waits")]

    def summary(self) -> str:
        """A line for the whole, one for each pool, and one for each slice unless they are many."""
        lines = [f"{self.study} at scale {self.scale}: {self._line(self.slices)}"]
        for pool in dict.fromkeys(one.pool for one in self.slices):
            own = [one for one in self.slices if one.pool == pool]
            lines.append(f"  {pool}: {self._line(own)}")
            if len(self.slices) <= _MOST_SHOWN:
                width = max(len(one.name) for one in own) + 2
                lines += [f"    {one.name:<{width}}{_told(one)}" for one in own]
        reasons = dict.fromkeys(one.why for one in self.slices if one.why)
        return "\n".join([*lines, *(f"No data: {why}" for why in reasons)])

    def _line(self, slices: Sequence[SliceStanding]) -> str:
        done = sum(one.state == "done" for one in slices)
        without = sum(one.state == "no data" for one in slices)
        left = [one for one in slices if one.state not in ("done", "no data")]
        text = f"{done} of {len(slices)} slices done"
        if left:
            text += f", {len(left)} left, about {spoken(sum(one.seconds for one in left))}"
            text += f" on {self.device}"
        return text + (f", {without} without data" if without else "")


def _told(one: SliceStanding) -> str:
    size = f"{one.models} models, {one.model_steps:,} model-steps"
    time = f"{spoken(one.seconds)}" if one.state == "done" else f"about {spoken(one.seconds)}"
    return f"{one.state:<9}{size}" + ("" if one.state == "no data" else f", {time}")


def standing(
    results: Results,
    parts: Sequence[Part],
    device: torch.device,
    work: str | Path | None = None,
) -> Standing:
    """How far *parts* of a study are; nothing is trained."""
    results.check()
    place = work_folder(results, work)
    data = DataAtHand(results, place)
    pace, found = Pace(results, device, data), []
    for pool, one in parts:
        defined, why = definition(one), ""
        if results.done(pool, one):
            about = results.about(pool, one)
            state, seconds = "done", about["training_seconds"] + about["scoring_seconds"]
        else:
            folder = place / pool.name / one.name
            state, done = "left", 0
            making = work_of(one)(folder, results, pool, one, device, threading.Event())
            if why := data.missing(one) or making.lacking():
                state = "no data"
            else:
                done = making.steps_done(folder)
                state = "begun" if folder.is_dir() else "left"
                if not is_free(results, pool, one):
                    state = "at work"
                elif data.waits_for(one):
                    state = "waits"
            seconds = pace.training(pool, one, done) + pace.scoring(pool, one)
        size = models(defined), model_steps(defined)
        found.append(SliceStanding(pool.name, one.name, state, *size, seconds, why))
    return Standing(results.study.name, results.scale, device_name(device), tuple(found))


def cost(results: Results, parts: Sequence[Part], device: torch.device) -> str:
    """Models, model-steps, time and disk of what is not done of *parts*, in one sentence."""
    found = standing(results, parts, device).slices
    left = [(part, one) for part, one in zip(parts, found, strict=True) if one.state != "done"]
    rows = sum(one.models * (1 + len(part[1].stages)) for part, one in left)
    largest: dict[str, tuple[int, Slice]] = {}
    for (_, own), one in left:
        key = own.data
        if one.state not in ("no data", "waits") and one.models > largest.get(key, (0, own))[0]:
            largest[key] = one.models, own
    most, data = 0, DataAtHand(results, work_folder(results, None))
    for _, own in largest.values():
        plan, dataset = largest_plan(own, data.load(own))
        size, keep = chunk_size(plan, dataset, device), isinstance(own, SearchSlice) or own.stages
        most = max(most, bytes_needed(plan, dataset, size, keep_optimiser=bool(keep)))
    without = sum(one.models for _, one in left if one.state == "no data")
    models_left = sum(one.models for _, one in left)
    steps = sum(one.model_steps for _, one in left)
    told = (
        f"{models_left:,} models, {steps:,} model-steps, about"
        f" {spoken(sum(one.seconds for _, one in left))} on {device_name(device)},"
        # While one slice is scored, the next is trained.
        f" up to {2 * most / 1e9:.2g} GB of disk at a time and {rows * _ROW_BYTES / 1e6:.2g} MB of"
        " tables"
    )
    return told + (f"; the data of {without:,} of the models is not here" if without else "")
