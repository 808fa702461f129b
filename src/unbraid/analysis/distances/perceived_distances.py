# SPDX-License-Identifier: Apache-2.0
"""Perceived distances: how far apart a factor's values look to a loss or a model.

Michlo et al. 2023, sections 3 and 4.

The ground-truth distance of two samples is the L1 distance of their factor values, the perceived
one their distance by a reconstruction loss. Along a traversal, where one factor takes its values
and the others stay, both are matrices; D is their mean over traversals. From the same pairs come

* the importance of a factor: mean and deviation of the distance of pairs that differ in that factor
  alone and do differ in it, beside those of random pairs, both drawn independently.
  This is the convention of the authors' code. With pairs of equal value counted in, at distance 0,
  the importance of a factor with n values would be (n - 1)/n of it;
* the rank correlation (Spearman) of perceived and ground-truth distances over the pairs of a
  traversal, averaged over traversals. It is undefined where all perceived distances, or all
  ground-truth ones, are equal; distances closer than 1e-7 of a traversal's largest count as equal.

The standard error of an importance takes traversals as independent draws, and is too large where
they were spread over a grid; it is 0 where every pair there is was counted.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.analysis.distances.image_pairs import (
    ABSENT,
    RandomPairs,
    Traversals,
    choose_pairs,
    choose_traversals,
    labels_needed,
)
from unbraid.analysis.distances.levels import (
    Features,
    Perception,
    check_member,
    data_perception,
    member_perception,
    samples_on,
)
from unbraid.analysis.distances.perceived_loss import PerceivedLoss, parse_loss
from unbraid.analysis.distances.tally import (
    FactorDistances,
    Importance,
    Tally,
    ground_truth,
    importance_of,
)
from unbraid.core.checks import whole
from unbraid.core.errors import InputError, Problems
from unbraid.data import DATA, load
from unbraid.data.dataset import Dataset
from unbraid.population.devices import cores
from unbraid.population.run_folder import RunFolder

if TYPE_CHECKING:
    import pandas as pd

GROUND_TRUTH = "ground_truth"
RANDOM = "random pairs"
MEMBER_IMAGES = 2048
"""Images of each factor, and random pairs, that a trained member looks at: networks are slower than
eyes.
"""
_NUMBERS_AT_ONCE = {"cpu": 2**19}
_NUMBERS_AT_ONCE_ELSEWHERE = 2**25
_EXAMPLE_IMAGES = 12


@dataclass(frozen=True)
class LevelDistances:
    """All factors at one level, beside random pairs."""

    key: str
    measure: str
    factors: tuple[FactorDistances, ...]
    random: Importance


@dataclass(frozen=True)
class Distances:
    """Perceived distances of a dataset, and along one trained member where there is one."""

    data: str
    """The dataset with the options that are not its defaults, as the command line has it; for own
    data the file's name.
    """
    loss: str
    member: str
    """Label of the member; empty without one."""
    pairs: int
    seed: int
    levels: tuple[LevelDistances, ...]
    missing: tuple[str, ...]
    """Factors that have no traversals, each with the reason."""
    examples: dict[str, NDArray[np.int64]]
    """Indices along one traversal of each factor."""

    @property
    def inputs(self) -> LevelDistances:
        """The level of the data itself."""
        return self.levels[0]

    def importance_table(self) -> pd.DataFrame:
        """One row per level and factor, random pairs first, then by importance."""
        import pandas as pd

        rows = []
        for level in self.levels:
            ranked = sorted(level.factors, key=lambda one: -one.importance.mean)
            for factor, found, traversals in [
                (RANDOM, level.random, 0),
                *((one.factor, one.importance, one.traversals) for one in ranked),
            ]:
                rows.append(
                    {
                        "level": level.key,
                        "measure": level.measure,
                        "factor": factor,
                        "mean": found.mean,
                        "std": found.std,
                    }
                    | {
                        "standard_error": found.standard_error,
                        "pairs": found.pairs,
                        "traversals": traversals,
                    }
                )
        return pd.DataFrame(rows)

    def order_table(self) -> pd.DataFrame:
        """One row per level and factor: how perceived distances rank as the true ones.

        Spearman's rank correlation; NaN where it is undefined.
        """
        import pandas as pd

        return pd.DataFrame(
            {
                "level": level.key,
                "measure": level.measure,
                "factor": one.factor,
                "spearman": one.spearman,
            }
            | {
                "spearman_std": one.spearman_std,
                "traversals": one.traversals,
                "undefined": one.undefined,
            }
            | {"spearman_of_mean": one.spearman_of_mean}
            for level in self.levels
            for one in level.factors
        )

    def matrix_table(self) -> pd.DataFrame:
        """One row an entry of every matrix, the ground truth first."""
        import pandas as pd

        tables = []
        truth = [
            replace(one, level=GROUND_TRUTH, matrix=ground_truth(one.values))
            for one in self.inputs.factors
        ]
        for one in [*truth, *(one for level in self.levels for one in level.factors)]:
            first, second = np.meshgrid(one.values, one.values, indexing="ij")
            columns = {
                "first": first.ravel(),
                "second": second.ravel(),
                "distance": one.matrix.ravel(),
            }
            tables.append(pd.DataFrame({"level": one.level, "factor": one.factor, **columns}))
        return pd.concat(tables, ignore_index=True)


def perceived_distances(
    dataset: Dataset | str,
    loss: str | PerceivedLoss = "mse",
    *,
    run: RunFolder | None = None,
    member: int = 0,
    pairs: int = 50_000,
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Distances:
    """Ground-truth and perceived distances of *dataset*, and along a *member* of a *run* on it.

    *pairs* is how many pairs of images each factor gets at least, where it has so many; a member
    sees the first few thousand images of them. *progress* learns how many images are done, of how
    many. Which traversals and pairs are looked at comes from numpy's generator seeded by *seed*.
    """
    dataset = dataset if isinstance(dataset, Dataset) else load(dataset)
    run = getattr(run, "folder", run)  # a `Run` holds one
    loss, pairs, seed = check_request(dataset, loss, run, member, pairs, seed)
    traversals, missing = choose_traversals(dataset, pairs, seed)
    if not traversals:
        raise InputError(*missing)
    random = choose_pairs(len(dataset), pairs, seed)
    where = torch.device(device)
    sampler = samples_on(dataset, where)
    jobs = [(data_perception(dataset, loss, sampler, where), traversals, random)]
    if run is not None:
        few = [one.leading(MEMBER_IMAGES) for one in traversals]
        jobs.append(
            (
                member_perception(run, member, loss, sampler, where),
                few,
                random.leading(MEMBER_IMAGES),
            )
        )
    total = sum(
        sum(one.indices.size for one in chosen) + 2 * len(pair.first) for _, chosen, pair in jobs
    )
    done, lock = 0, threading.Lock()

    def advance(images: int) -> None:
        nonlocal done
        with lock:
            done += images
            progress(done, total)

    levels = [
        level
        for perception, chosen, pair in jobs
        for level in _measure(perception, chosen, pair, advance)
    ]
    return Distances(
        data=data_words(dataset),
        loss=loss.name,
        member=jobs[-1][0].name,
        pairs=pairs,
        seed=seed,
        levels=tuple(levels),
        missing=tuple(map(str, missing)),
        examples={one.factor: _example(one) for one in traversals},
    )


def check_request(
    dataset: Dataset,
    loss: str | PerceivedLoss,
    run: RunFolder | None,
    member: int,
    pairs: int,
    seed: int,
) -> tuple[PerceivedLoss, int, int]:
    """The loss and the numbers of a request; every problem with it at once."""
    problems = Problems()
    pairs = whole(problems, "pairs", pairs, 1, 10_000_000)
    seed = whole(problems, "seed", seed, 0)
    parsed = loss if isinstance(loss, PerceivedLoss) else problems.collect(lambda: parse_loss(loss))
    for problem in parsed.problems(dataset) if parsed else ():
        problems.say(problem)
    for problem in labels_needed(dataset):
        problems.say(problem)
    if run is not None:
        problems.collect(lambda: check_member(run, member))
    problems.raise_if_any()
    assert parsed is not None
    return parsed, pairs, seed


def _measure(
    perception: Perception,
    traversals: list[Traversals],
    random: RandomPairs,
    advance: Callable[[int], None],
) -> list[LevelDistances]:
    """Every level of one perception; on a CPU a core takes a factor at a time, with one thread."""
    on_cpu = perception.device.type == "cpu"

    def one_thread() -> None:
        if on_cpu:
            torch.set_num_threads(1)

    with ThreadPoolExecutor(cores() if on_cpu else 1, initializer=one_thread) as pool:
        waiting = pool.submit(_random, perception, random, advance)
        factors = list(pool.map(lambda chosen: _along(perception, chosen, advance), traversals))
        pairs = waiting.result()
    return [
        LevelDistances(
            level.key, level.measure, tuple(found[level.key] for found in factors), pairs[level.key]
        )
        for level in perception.levels
    ]


def _along(
    perception: Perception, chosen: Traversals, advance: Callable[[int], None]
) -> dict[str, FactorDistances]:
    """All levels along the traversals of one factor, a bounded batch at a time."""
    size = len(chosen.values)
    together = max(1, _numbers_at_once(perception.device) // (size * max(perception.numbers, size)))
    tallies = {level.key: Tally(level.key, chosen) for level in perception.levels}
    for start in range(0, len(chosen.indices), together):
        table = chosen.indices[start : start + together]
        flat = torch.from_numpy(
            np.where(table == ABSENT, table.max(axis=1, keepdims=True), table).ravel()
        )
        with torch.no_grad():
            seen = perception.look(flat.to(perception.device))
            for level in perception.levels:
                grouped: Features = tuple(
                    part.unflatten(0, table.shape) for part in seen[level.key]
                )
                tallies[level.key].add(level.matrix(grouped).cpu().numpy(), table != ABSENT)
        advance(table.size)
    return {key: tally.result() for key, tally in tallies.items()}


def _random(
    perception: Perception, random: RandomPairs, advance: Callable[[int], None]
) -> dict[str, Importance]:
    """All levels over random pairs."""
    together = max(1, _numbers_at_once(perception.device) // (2 * perception.numbers))
    found: dict[str, list[NDArray[np.float64]]] = {level.key: [] for level in perception.levels}
    for start in range(0, len(random.first), together):
        part = slice(start, start + together)
        with torch.no_grad():
            first, second = (
                perception.look(torch.from_numpy(side[part]).to(perception.device))
                for side in (random.first, random.second)
            )
            for level in perception.levels:
                found[level.key].append(
                    level.pairs(first[level.key], second[level.key]).cpu().numpy()
                )
        advance(2 * len(random.first[part]))
    return {
        key: importance_of(np.concatenate(parts), random.complete) for key, parts in found.items()
    }


def _numbers_at_once(device: torch.device) -> int:
    return _NUMBERS_AT_ONCE.get(device.type, _NUMBERS_AT_ONCE_ELSEWHERE)


def data_words(dataset: Dataset) -> str:
    """The dataset as people call it: `xysquares:spacing=3`, or where own images came from."""
    if "source" in dataset.options:
        source = str(dataset.options["source"])
        return Path(source).name if dataset.repeatable and source else "own images"
    if dataset.name not in DATA:
        return dataset.name
    parameters = inspect.signature(DATA.load(dataset.name)).parameters
    options = {
        key: value
        for key, value in dataset.options.items()
        if key not in parameters or parameters[key].default != value
    }
    return (
        dataset.name
        + (":" if options else "")
        + ",".join(f"{key}={value}" for key, value in options.items())
    )


def _example(chosen: Traversals) -> NDArray[np.int64]:
    """Up to a dozen images, evenly along the traversal that has most values."""
    row = chosen.indices[int((chosen.indices != ABSENT).sum(axis=1).argmax())]
    row = row[row != ABSENT]
    return row[
        np.unique(
            np.linspace(0, len(row) - 1, min(len(row), _EXAMPLE_IMAGES)).round().astype(np.int64)
        )
    ]
