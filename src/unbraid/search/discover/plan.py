# SPDX-License-Identifier: Apache-2.0
"""What a discovery will do with unlabelled images: their size, how many models train, how long."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unbraid.core.checks import is_finite, plain, read_whole_number
from unbraid.core.errors import Problems, Shown, invalid
from unbraid.core.records import checked, from_record
from unbraid.data import load
from unbraid.data.dataset import Dataset
from unbraid.networks.conv import SIDES
from unbraid.population.devices import cores, usual_precision
from unbraid.population.new_folder import check_room
from unbraid.search.discover.clock import SHARES
from unbraid.search.pbt.generation import Generation
from unbraid.search.pbt.make_search import SearchOptions, make_search
from unbraid.search.pbt.plan import SearchPlan
from unbraid.search.rpu.plan import RecursionPlan, make_recursion

FEWEST_IMAGES = 50
FEWEST_DISTINCT = 10
MOST_IMAGES = 50_000
"""Of a larger dataset given by name so many are drawn at random."""
SIDE_ON_CPU, SIDE_ON_GPU = 32, 64
OBJECTIVE = "beta_tcvae"
EPOCHS = 12
BATCH = 64
ACTIVE_NATS = 0.5
"""Latents that say less than half a nat are no findings."""
SCORE = f"udr:kl_threshold={ACTIVE_NATS}"
"""Models that have learned nothing yet must not agree on such latents."""
MINUTES = 15.0
USUAL = {
    "cpu": {"population": 5, "models": 3, "leaf_runs": 0},
    "cuda": {"population": 12, "models": 5, "leaf_runs": 1},
}
"""By default, on either kind of device."""
_TRAINING_SHARE = 0.8
"""Of the time; the rest is for measuring speed, encoding and the report."""
_MEASURED_SECONDS = {"cpu": 4.0, "cuda": 8.0}
_LEAST_MINUTES = 0.5

_PLAIN = ("source", "data", "options", "drawn_from", "minutes", "command")
"""Fields of a plan that are JSON values as they are."""


@dataclass(frozen=True)
class DiscoveryPlan:
    """Everything needed to repeat a discovery."""

    source: str
    """Where the images came from, for people."""
    data: str
    """The path that is loaded, with `options`."""
    options: dict[str, Any]
    resized_from: tuple[int, int] | None
    drawn_from: int
    """How many images the source had."""
    minutes: float | None
    search: SearchPlan | None
    recursion: RecursionPlan | None
    command: str = ""
    depth: str = ""
    """How images of 16 bits were brought to 8, in a sentence; empty for others."""
    stretched: str = ""
    """That images of several sizes were scaled to one, in a sentence; empty for others."""

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        parts = {name: getattr(self, name) for name in (*_PLAIN, "depth", "stretched")}
        parts["resized_from"] = list(self.resized_from) if self.resized_from else None
        parts["search"] = self.search.record() if self.search else None
        parts["recursion"] = self.recursion.record() if self.recursion else None
        return parts

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> DiscoveryPlan:
        """The inverse of `record`; those of earlier versions are read too."""
        plans: dict[str, Any] = {}
        for name, kind in (("search", SearchPlan), ("recursion", RecursionPlan)):
            found = checked(dict[str, Any] | None, record.get(name), name)
            plans[name] = kind.from_record(found) if found else None
        if (plans["search"] is None) == (plans["recursion"] is None):
            raise invalid("search", "must be there, or a recursion", Shown("both or neither"))
        return from_record(cls, record, **plans)

    @property
    def root(self) -> SearchPlan:
        """The search on all images."""
        found = self.search if self.recursion is None else self.recursion.root
        assert found is not None
        return found


@dataclass(frozen=True)
class Request:
    """What a person may ask of a discovery, checked."""

    minutes: float | None
    steps: int | None
    population: int
    models: int
    leaf_runs: int
    latents: int
    seed: int
    resize: int | None


def read_request(
    device: torch.device,
    *,
    minutes: float | None = None,
    steps: int | None = None,
    population: int | None = None,
    models: int | None = None,
    leaf_runs: int | None = None,
    latents: int = 10,
    seed: int = 0,
    resize: int | None = None,
) -> Request:
    """Check the numbers of a request; every problem at once."""
    problems, usual = Problems(), USUAL[device.type]
    if minutes is not None and steps is not None:
        both = Shown(f"minutes {minutes}, steps {steps}")
        problems.add("minutes", "and steps cannot both be given", both, "Leave one out.")
    minutes = MINUTES if minutes is None and steps is None else plain(minutes)
    if minutes is not None and (not is_finite(minutes) or minutes < _LEAST_MINUTES):
        problems.add("minutes", f"must be a number of at least {_LEAST_MINUTES:g}", minutes)
    if resize is not None and plain(resize) not in SIDES:
        problems.add("resize", f"must be one of {', '.join(map(str, SIDES))}", resize)

    def whole(name: str, value: int | None, least: int, most: int) -> int:
        value = usual[name] if value is None else plain(value)
        return read_whole_number(problems, name, value, least, most)

    size: int = usual["population"] if population is None else plain(population)
    if isinstance(size, bool) or not isinstance(size, int) or not 5 <= size <= 1000:
        remedy = "Of fewer groups there is no fifth to replace."
        problems.add("population", "must be a whole number from 5 to 1000", size, remedy)
    request = Request(
        minutes=minutes,
        steps=None if steps is None else whole("steps", steps, EPOCHS, 10**9),
        population=size,
        models=whole("models", models, 2, 100),
        leaf_runs=whole("leaf_runs", leaf_runs, 0, 10),
        latents=whole("latents", latents, 2, 1000),
        seed=whole("seed", seed, 0, 2**31 - 1),
        resize=plain(resize),
    )
    problems.raise_if_any()
    return request


def seen_side(height: int, width: int, device: torch.device, resize: int | None) -> int | None:
    """The side at which models see square images; None where they fit as they are."""
    most = SIDE_ON_GPU if device.type == "cuda" else SIDE_ON_CPU
    if resize is not None:
        return None if (height, width) == (resize, resize) else resize
    return None if height == width and height in SIDES and height <= most else most


def check_images(dataset: Dataset) -> None:
    """Refuse images in which nothing can be found: too few, or too much alike."""
    if len(dataset) < FEWEST_IMAGES:
        remedy = "A few hundred images are a fair start, a few thousand better."
        raise invalid(
            "images", f"must be at least {FEWEST_IMAGES} to find factors in", len(dataset), remedy
        )
    every = np.unique(np.linspace(0, len(dataset) - 1, min(len(dataset), 2_000)).astype(np.int64))
    images = dataset.images(every)
    distinct = len({image.tobytes() for image in images})
    if distinct == 1:
        value = Shown(f"{len(dataset):,} images that are all the same")
        raise invalid(
            "images",
            "must differ from each other",
            value,
            "Nothing varies in them, so nothing can be found.",
        )
    if distinct < FEWEST_DISTINCT:
        value = Shown(f"{distinct} different ones among {len(every):,} looked at")
        raise invalid("images", f"must show at least {FEWEST_DISTINCT} different images", value)


def check_room_for_models(
    folder: Path, dataset: Dataset, request: Request, device: torch.device, *, beside: int
) -> None:
    """Refuse, before anything is written, a disk of *folder* without room for the models and for so
    many bytes *beside* them.
    """
    root = _root(dataset, request, BATCH, device)
    check_room(folder, root.all_models, dataset, beside=beside)


def make_discovery_plan(
    source: str,
    data: str,
    options: dict[str, Any],
    request: Request,
    device: torch.device,
    *,
    resized_from: tuple[int, int] | None,
    drawn_from: int,
    command: str = "",
    depth: str = "",
    stretched: str = "",
) -> tuple[DiscoveryPlan, Dataset]:
    """Load and check the images, measure how fast they train, and fit the search into the time."""
    dataset = load(data, **options)
    check_images(dataset)
    if request.steps is not None:
        images = -(-request.steps // EPOCHS) * BATCH
    else:
        images = _images_in_time(request, dataset, device)
    search, recursion = _searches(dataset, request, max(BATCH, images), device)
    plan = DiscoveryPlan(
        source=source,
        data=data,
        options=options,
        resized_from=resized_from,
        drawn_from=drawn_from,
        minutes=request.minutes,
        search=search,
        recursion=recursion,
        command=command,
        depth=depth,
        stretched=stretched,
    )
    return plan, dataset


def _searches(
    dataset: Dataset, request: Request, images: int, device: torch.device
) -> tuple[SearchPlan | None, RecursionPlan | None]:
    """A search, or with leaf-runs a recursion, whose epochs have so many *images*."""
    common: SearchOptions = {
        "hyper": {"beta": beta_range(dataset)},
        "learning_rate": "3e-4..3e-3",
        "batch_size": BATCH,
        "latents": request.latents,
        "population": request.population,
        "models": request.models,
        "seed": request.seed,
        "epochs": EPOCHS,
        "epoch_images": images,
        "precision": usual_precision(device),
        "score": SCORE,
        "converged_within": 0.0,
    }
    if request.leaf_runs == 0:
        return make_search(dataset, OBJECTIVE, **common)[0], None
    leaf = max(BATCH, round(images * SHARES[1] / SHARES[0] / request.leaf_runs))
    recursion, _ = make_recursion(
        dataset,
        OBJECTIVE,
        leaf_runs=request.leaf_runs,
        levels=2,
        leaf_images=leaf,
        active_nats=ACTIVE_NATS,
        **common,
    )
    return None, recursion


def _root(dataset: Dataset, request: Request, images: int, device: torch.device) -> SearchPlan:
    """The search on all images."""
    search, recursion = _searches(dataset, request, images, device)
    root = recursion.root if recursion is not None else search
    assert root is not None
    return root


def _images_in_time(request: Request, dataset: Dataset, device: torch.device) -> int:
    """Images that each model can see in an epoch, so that all epochs fit into the minutes."""
    root = _root(dataset, request, 10**6, device)
    assert request.minutes is not None
    share = SHARES[0] if request.leaf_runs else 1.0
    seconds = 60.0 * request.minutes * _TRAINING_SHARE * share
    speed = images_per_second(root, dataset, device)
    return round(seconds * speed / (root.trained_models * EPOCHS))


def beta_range(dataset: Dataset) -> str:
    """The range in which β evolves: 2 to 32 for 32 x 32 grey images, higher for larger ones.

    The error is a sum over those values and β is weighed against it. The lower end rises by the
    root only, so that larger images are searched more widely.
    """
    height, width, channels = dataset.image_shape
    times = height * width * channels / SIDE_ON_CPU**2
    return f"{2 * max(1.0, times) ** 0.5:.4g}..{32 * max(1.0, times):.4g}"


def images_per_second(search: SearchPlan, dataset: Dataset, device: torch.device) -> float:
    """How many images all models of *search* together see in a second, measured."""
    models = search.generation_models(search.first(), 0)
    if device.type == "cpu":
        models = models[: 2 * cores()]
    generation = Generation(
        search.plan,
        models,
        dataset,
        device,
        dataset.sampler(device),
        epoch=0,
        epochs=1,
        epoch_images=10**7,
    )
    seen = 0

    def count(images: int) -> None:
        nonlocal seen
        seen += images

    seconds = _MEASURED_SECONDS[device.type]
    # Kernels are compiled and memory is found in the first steps.
    generation.train(threading.Event(), seconds / 2)
    began = time.monotonic()
    generation.train(threading.Event(), seconds, count)
    return seen / (time.monotonic() - began)
