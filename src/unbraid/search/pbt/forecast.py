# SPDX-License-Identifier: Apache-2.0
"""How long a search will take, told before it starts.

A trial trains some individuals of the first epoch for a moment, at each batch size that is drawn,
and scores them: what nobody keeps. Every model sees as many images in an epoch, so that

    seconds of an epoch = sum over batch sizes of (images of its models / images a second)
                          + seconds of scoring

and a search takes at most all its epochs. Later epochs are taken to have batch sizes as the first.
On a GPU all models of a batch size are tried, since few train slower; on a CPU as many as it has
cores, since each trains by itself there.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch

from unbraid.core.errors import UnbraidError
from unbraid.data.dataset import Dataset
from unbraid.population.cuda_graph import rehearse
from unbraid.population.devices import cores
from unbraid.population.draws import rule_on
from unbraid.search.pbt.exploit import Individual
from unbraid.search.pbt.generation import Generation
from unbraid.search.pbt.judging import Judging
from unbraid.search.pbt.plan import SearchPlan

_WARM_SECONDS, _TRIAL_SECONDS = 0.3, 0.7
"""Of each batch size: until nothing is new to it, and while it is timed."""


class Pace(NamedTuple):
    """What one individual costs in an epoch, seconds of the whole device."""

    training: float
    scoring: float


def at_most(search: SearchPlan, dataset: Dataset, device: torch.device, folder: Path) -> float:
    """Seconds that *search* takes if it takes all its epochs, by a trial of moments; NaN where the
    trial cannot be made, which the search itself will explain.

    Surrogate labels lie in *folder*.
    """
    try:
        return seconds(search, trial(search, dataset, device, folder))
    except UnbraidError:
        return math.nan


def seconds(search: SearchPlan, pace: Pace) -> float:
    """Of all epochs of *search* at a *pace*."""
    individuals = search.population * (search.rule.first_factor + search.epochs - 1)
    return individuals * (pace.training + pace.scoring)


def trial(search: SearchPlan, dataset: Dataset, device: torch.device, folder: Path) -> Pace:
    """The mean pace of the individuals that a search begins with."""
    first = search.first()
    groups: dict[int, list[Individual]] = {}
    for one in first:
        groups.setdefault(search.batch_size(one.values), []).append(one)
    training = scoring = 0.0
    for group in groups.values():
        pace = _tried(search, dataset, device, folder, group)
        training += len(group) * pace.training
        scoring += len(group) * pace.scoring
    return Pace(training / len(first), scoring / len(first))


def _tried(
    search: SearchPlan,
    dataset: Dataset,
    device: torch.device,
    folder: Path,
    group: Sequence[Individual],
) -> Pace:
    """The pace of individuals of one batch size."""
    if device.type == "cpu":
        group = group[: max(1, math.ceil(cores() / search.models))]
    sampler, rule = dataset.sampler(device), rule_on(search.plan, dataset, device)

    def fresh() -> Generation:
        return Generation(
            search.plan,
            search.generation_models([*group], 0),
            dataset,
            device,
            sampler,
            epoch=0,
            epochs=search.epochs,
            epoch_images=search.epoch_images,
            cumulative=rule,
            together=search.together,
        )

    generation = fresh()
    rehearse(generation.chunks[0].program)
    _rate(generation, _WARM_SECONDS)  # the first steps compile and capture
    if generation.done:  # an epoch of moments
        generation = fresh()
    rate = _rate(generation, _TRIAL_SECONDS)
    scoring = _scoring_seconds(search, generation, dataset, folder)
    return Pace(search.models * search.epoch_images / rate, scoring / len(group))


def _rate(generation: Generation, most: float) -> float:
    """Images a second of all models of *generation*, trained for *most* seconds at most."""
    seen, stop = 0, threading.Event()

    def count(images: int) -> None:
        nonlocal seen
        seen += images

    began = time.perf_counter()
    generation.train(stop, most, count)
    _wait(generation.device)
    return max(seen, 1) / (time.perf_counter() - began)


def _scoring_seconds(
    search: SearchPlan, generation: Generation, dataset: Dataset, folder: Path
) -> float:
    """Seconds of encoding and scoring the models of *generation*, as they are."""
    began = time.perf_counter()
    with Judging(search.scorer, generation, dataset, folder) as judging:
        judging.scores()
    return time.perf_counter() - began


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)
