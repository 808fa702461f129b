# SPDX-License-Identifier: Apache-2.0
"""rPU-VAE (Estermann et al. 2020): good models without labels, by labelling, reducing and starting
again.

Models trained without labels agree on what changes the images most (on dSprites, the position) and
leave out the rest. So:

1. **Root**: a search by agreement (UDR) on all images. The active latents of its best model are surrogate labels.
2. **Leaf-runs**: images are reduced to a part in which those labels hardly vary (`search/reduce/reduction.py`), and a fresh search on
   that part finds what is next; its labels reduce the part further, and so on (a metaEpoch each) until a search fails, no latent is
   active, no part can be cut out, or too few images are left. Leaf-run i begins with the i-th of the root's parts.
3. **Final**: a population trained on all images, selected by the mutual information gap with the labels of all levels
   (`search/rpu/surrogate_labels.py`). With 0 leaf-runs only the root's labels are used.

Every stage is a search in a folder of its own, stored before the next begins: root/,
leaf-0/level-2/, ..., final-1/. A recursion that is stopped or killed goes on where it was.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unbraid.core.errors import InputError, Problems, invalid
from unbraid.core.store import only_one, read_json, write_bytes, write_json
from unbraid.data.dataset import Dataset
from unbraid.data.own.image_arrays import FEWEST_IMAGES
from unbraid.data.subset import Subset
from unbraid.core.checks import plain, read_whole_number
from unbraid.population.run_folder import check_free, make_folder
from unbraid.search.pbt.exploit import Rule, epoch_seed
from unbraid.search.pbt.plan import (
    LEAST_EPOCH_IMAGES,
    USUAL_WITHOUT_LABELS,
    SearchPlan,
    make_search,
)
from unbraid.search.pbt.scorer import SURROGATES, Scorer
from unbraid.search.pbt.search import NoScoresError, SearchOutcome, SearchRun
from unbraid.search.reduce.reduction import ReductionRule, reduce_in_turn
from unbraid.search.rpu.labelling import Labelling, label
from unbraid.search.rpu.surrogate_labels import ACTIVE_NATS, Leaf, SurrogateLabels, write_surrogates

RECORD = "recursion.json"
MOST_LEAF_RUNS, MOST_LEVELS = 32, 10
PUBLISHED = ReductionRule(chance=None)
"""Without the bound on what chance alone makes of noise: codes of real models seldom rise in clean
steps.
"""
SAME_LABELS = "the same as final-0: no leaf-run had found other labels"
_SEED_OF_LEAF, _SEED_OF_FINAL = 1_000, 2_000


@dataclass(frozen=True)
class RecursionPlan:
    """The root's search, and what is made of it."""

    root: SearchPlan
    leaf_runs: int = 3
    levels: int = 3
    """Levels of labels at most, the root's included; 3 in the authors' sample script."""
    final_population: int = 16
    final_epochs: int = 16
    final_first_factor: int = 2
    leaf_images: int = LEAST_EPOCH_IMAGES
    """An epoch of a leaf-run is a pass over its images, and no shorter than this."""
    every_final: bool = False
    """Train a final population for each number of leaf-runs from 0 on, as the paper's figure 6
    compares them.
    """
    active_nats: float = ACTIVE_NATS
    reduction: ReductionRule = PUBLISHED

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        simple = {name: getattr(self, name) for name in _SIMPLE}
        return {**simple, "root": self.root.record(), "reduction": asdict(self.reduction)}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> RecursionPlan:
        """The inverse of `record`."""
        root, rule = SearchPlan.from_record(record["root"]), ReductionRule(**record["reduction"])
        return cls(root=root, reduction=rule, **{name: record[name] for name in _SIMPLE})

    def finals(self) -> list[int]:
        """With how many leaf-runs each final population is trained."""
        return list(range(self.leaf_runs + 1)) if self.every_final else [self.leaf_runs]


_SIMPLE = (
    *(
        "leaf_runs",
        "levels",
        "leaf_images",
        "final_population",
        "final_epochs",
        "final_first_factor",
        "every_final",
    ),
    "active_nats",
)


def make_recursion(
    data: Any,
    objective: Any = "beta_tcvae",
    *,
    leaf_runs: int = 3,
    levels: int = 3,
    final_population: int | None = None,
    final_epochs: int | None = None,
    final_first_factor: int = 2,
    leaf_images: int = LEAST_EPOCH_IMAGES,
    every_final: bool = False,
    active_nats: float = ACTIVE_NATS,
    reduction: ReductionRule | None = None,
    **options: Any,
) -> tuple[RecursionPlan, Dataset]:
    """Check the whole request; *options* are those of `unbraid.search.pbt.plan.make_search`, for
    the root and the leaves.
    """
    problems = Problems()
    leaf_runs = read_whole_number(problems, "leaf_runs", plain(leaf_runs), 0, MOST_LEAF_RUNS)
    if leaf_runs and plain(levels) == 1:
        problems.add(
            "levels",
            "must be at least 2 for leaf-runs, since the root's labels are the first",
            levels,
        )
    levels = read_whole_number(problems, "levels", plain(levels), 1, MOST_LEVELS)
    leaf_images = read_whole_number(problems, "leaf_images", plain(leaf_images), 1, 10**10)
    final_first_factor = read_whole_number(
        problems, "final_first_factor", plain(final_first_factor), 1, 16
    )
    active_nats = plain(active_nats)
    if (
        isinstance(active_nats, bool)
        or not isinstance(active_nats, (int, float))
        or not 0 <= active_nats < math.inf
    ):
        problems.add("active_nats", "must be a number of at least 0", active_nats)
    if str(options.get("score", "udr")).partition(":")[0] != "udr":
        problems.add("score", "must be udr, since a recursion has no labels", options["score"])
    made = problems.collect(lambda: make_search(data, objective, **options))
    population = options.get("population") if final_population is None else final_population
    population = USUAL_WITHOUT_LABELS["population"] if population is None else population
    for one in Rule(first_factor=final_first_factor).problems(plain(population)):
        own = final_population is not None and one.name == "population"
        problems.say(replace(one, name="final_population") if own else one)
    epochs = 1
    if final_epochs is not None:
        epochs = read_whole_number(problems, "final_epochs", plain(final_epochs), 1, 10_000)
    elif made is not None:
        epochs = made[0].epochs
    if reduction is not None and not isinstance(reduction, ReductionRule):
        problems.add("reduction", "must be a ReductionRule", reduction)
    elif reduction is not None and reduction.fewest_images < FEWEST_IMAGES:
        problems.add(
            "reduction",
            f"must keep at least {FEWEST_IMAGES} images (fewest_images)",
            reduction.fewest_images,
        )
    problems.raise_if_any()
    assert made is not None
    root, dataset = made
    plan = RecursionPlan(
        root=root,
        leaf_runs=leaf_runs,
        levels=levels,
        final_population=int(population),
        final_epochs=epochs,
        final_first_factor=final_first_factor,
        leaf_images=leaf_images,
        every_final=bool(every_final),
        active_nats=float(active_nats),
        reduction=reduction or PUBLISHED,
    )
    return plan, dataset


@dataclass(frozen=True)
class Stage:
    """One stage that is done, as people read of it."""

    name: str
    """root, leaf-0/level-2, final-1."""
    images: int
    score: float
    """Of the winner: agreement, or the gap with surrogate labels."""
    active: tuple[int, ...] = ()
    ended: str = ""
    """Why a leaf-run ended here, if it did."""


def leaf_and_level(stage: str) -> tuple[int, int]:
    """Of the name of a leaf-run's stage: which leaf-run, counted from 0, and at which level.

    >>> leaf_and_level("leaf-0/level-2")
    (0, 2)
    """
    leaf, level = stage.split("/")
    return int(leaf.removeprefix("leaf-")), int(level.removeprefix("level-"))


class Recursion:
    """The folder of an rPU-VAE run, and its training."""

    def __init__(
        self, path: str | Path, plan: RecursionPlan, dataset: Dataset | None = None
    ) -> None:
        self.path = Path(path)
        self.plan = plan
        self._root = SearchRun(self.path / "root", plan.root, dataset)

    @classmethod
    def create(cls, path: str | Path, plan: RecursionPlan, dataset: Dataset) -> Recursion:
        """Start in an empty or new folder."""
        folder = Path(path)
        check_free(folder)
        make_folder(folder)
        write_json(folder / RECORD, plan.record())
        return cls(folder, plan, dataset)

    @classmethod
    def open(cls, path: str | Path, dataset: Dataset | None = None) -> Recursion:
        """The recursion that a folder holds."""
        try:
            record = read_json(Path(path) / RECORD)
        except (FileNotFoundError, NotADirectoryError):
            raise invalid(
                "run",
                f"must be a folder made by `unbraid rpu run`, with a {RECORD} in it",
                str(path),
            ) from None
        return cls(path, RecursionPlan.from_record(record), dataset)

    @staticmethod
    def is_recursion(path: str | Path) -> bool:
        """Whether *path* is the folder of a recursion."""
        return (Path(path) / RECORD).is_file()

    @property
    def dataset(self) -> Dataset:
        """The whole data."""
        try:
            return self._root.dataset
        except InputError as error:  # about the folder that the user knows
            raise InputError(str(error).replace(str(self._root.path), str(self.path))) from error

    def use(self, dataset: Dataset) -> None:
        """Take *dataset* as the data, if it is the same."""
        self._root.use(dataset)

    @property
    def finished(self) -> bool:
        """Whether every stage is done."""
        return (self.path / "summary.json").is_file()

    def final(self, leaf_runs: int) -> SearchRun:
        """The final population that used so many leaf-runs."""
        return SearchRun.open(self.path / f"final-{leaf_runs}", self.dataset)

    def searches(self) -> list[SearchRun]:
        """The finished searches of all stages, in order."""
        plan = self.plan
        levels = [
            f"leaf-{number}/level-{level}"
            for number in range(plan.leaf_runs)
            for level in range(2, plan.levels + 1)
        ]
        names = ["root", *levels, *(f"final-{count}" for count in self.plan.finals())]
        found = [
            SearchRun.open(self.path / name)
            for name in names
            if SearchRun.is_search(self.path / name)
        ]
        for search in found:
            # By the images, not by the name: the whole data may be a subset of something itself.
            whole = search.search.plan.data_fingerprint == plan.root.plan.data_fingerprint
            search.use(self.dataset if whole else self._part_again(search))
        return [search for search in found if search.finished]

    def places(self, search: SearchRun) -> np.ndarray[Any, np.dtype[np.int64]]:
        """Which images of the whole data a stage's search was trained on."""
        part = _part_file(search.path)
        return np.load(part) if part.is_file() else np.arange(len(self.dataset), dtype=np.int64)

    def _part_again(self, search: SearchRun) -> Subset:
        """The part of the data that a leaf's search was trained on."""
        return Subset(self.dataset, _part_file(search.path))

    def train(
        self,
        device: torch.device,
        stage: Callable[[str, SearchRun], SearchOutcome],
        say: Callable[[str], None] = lambda line: None,
    ) -> list[Stage] | None:
        """Do what is left; *stage* trains one search, with whatever shows its progress. None where
        it was stopped.
        """
        with only_one(self.path):
            stages: list[Stage] = []
            if not self._train(self._search("root", self.plan.root, self.dataset), "root", stage):
                return None
            found = label(self._root, device, self.plan.active_nats)
            stages.append(self._told("root", len(self.dataset), found, say))
            root = SurrogateLabels(np.arange(len(self.dataset), dtype=np.int64), found.values)
            leaves: list[Leaf] = []
            if not found.latents or found.failed:
                say(
                    "the root found nothing that could serve as labels: there is no final"
                    " population to train."
                )
                self._summarise(stages)
                return stages
            for number in range(self.plan.leaf_runs):
                leaf = self._leaf(number, root, device, stage, stages, say)
                if leaf is None:
                    return None
                leaves.append(leaf)
            for count in self.plan.finals():
                done = self._final(count, root, leaves[:count], stage, say)
                if done is None:
                    return None
                same = SAME_LABELS if self._repeats(count, leaves[:count]) else ""
                stages.append(
                    Stage(
                        f"final-{count}", len(self.dataset), done.winner_record()["score"], (), same
                    )
                )
            self._summarise(stages)
            return stages

    def _leaf(
        self,
        number: int,
        root: SurrogateLabels,
        device: torch.device,
        stage: Callable[[str, SearchRun], SearchOutcome],
        stages: list[Stage],
        say: Callable[[str], None],
    ) -> Leaf | None:
        """Levels of one leaf-run, the root's first; None where it was stopped."""
        levels, now = [root], root
        for level in range(2, self.plan.levels + 1):
            name = f"leaf-{number}/level-{level}"
            reduced = reduce_in_turn(now.values, number if level == 2 else 0, self.plan.reduction)
            if reduced.stopped:
                say(f"{name}: {reduced.stopped}")
                stages.append(Stage(name, 0, float("nan"), (), reduced.stopped))
                break
            kept = np.sort(now.indices[reduced.indices])
            part = self._part(name, kept)
            search = self._search(name, self._leaf_plan(part, number, level), part)
            try:
                if not self._train(search, name, stage):
                    return None
            except NoScoresError:
                ended = "no model had a score"
                say(f"{name}: {ended}")
                stages.append(Stage(name, len(part), float("nan"), (), ended))
                break
            found = label(search, device, self.plan.active_nats)
            told = self._told(name, len(part), found, say)
            stages.append(told)
            if told.ended:
                break
            now = SurrogateLabels(kept, found.values)
            levels.append(now)
        return tuple(levels)

    def _part(self, name: str, indices: np.ndarray[Any, Any]) -> Subset:
        """The images *indices* of the whole data, as a dataset that can be loaded again."""
        import io

        path = _part_file(self.path.absolute() / name)
        buffer = io.BytesIO()
        np.save(buffer, indices)
        write_bytes(path, buffer.getvalue())
        return Subset(self.dataset, path)

    def _leaf_plan(self, part: Subset, number: int, level: int) -> SearchPlan:
        root = self.plan.root
        plan = replace(
            root.plan,
            data=part.name,
            data_options=part.options,
            data_fingerprint=part.fingerprint(),
        )
        seed = epoch_seed(root.seed, _SEED_OF_LEAF + number * MOST_LEVELS + level) & 0x7FFFFFFF
        judge = replace(root.judge, seed=seed)
        return replace(
            root,
            plan=plan,
            epoch_images=max(self.plan.leaf_images, len(part)),
            seed=seed,
            judge=judge,
        )

    def _final(
        self,
        count: int,
        root: SurrogateLabels,
        leaves: list[Leaf],
        stage: Callable[[str, SearchRun], SearchOutcome],
        say: Callable[[str], None],
    ) -> SearchRun | None:
        """The final population selected by the labels of the root and *leaves*; None where it was
        stopped.
        """
        name, plan = f"final-{count}", self.plan
        if self._repeats(count, leaves):
            self._take_over("final-0", name, say)
        seed = epoch_seed(plan.root.seed, _SEED_OF_FINAL) & 0x7FFFFFFF
        search = replace(
            plan.root,
            population=plan.final_population,
            epochs=plan.final_epochs,
            rule=replace(plan.root.rule, first_factor=plan.final_first_factor),
            judge=Scorer(SURROGATES, 0, 1, seed, "surrogates.safetensors"),
            seed=seed,
            converged_within=0.0,
        )
        run = self._search(name, search, self.dataset)
        labels = run.path / "surrogates.safetensors"
        if not run.finished:
            write_surrogates(labels, leaves or [(root,)])  # again, in case it was torn
        return run if self._train(run, name, stage) else None

    def _repeats(self, count: int, leaves: list[Leaf]) -> bool:
        """Whether the final population has no labels but the root's, as final-0 has, and so is the
        same.
        """
        return count > 0 and 0 in self.plan.finals() and all(len(leaf) == 1 for leaf in leaves)

    def _take_over(self, done: str, name: str, say: Callable[[str], None]) -> None:
        """Copy the finished final population *done* to *name*, which would be trained from the same
        seed by the same labels.
        """
        old, new = self.path / done, self.path / name
        if (
            SearchRun.is_search(new)
            or not SearchRun.is_search(old)
            or not SearchRun.open(old).finished
        ):
            return
        part = new.with_name(f"{name}.part")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(old, part)
        part.rename(new)
        say(f"{name}: {SAME_LABELS}")

    def _search(self, name: str, search: SearchPlan, dataset: Dataset) -> SearchRun:
        """The search of a stage: the one begun, or a new one."""
        folder = self.path / name
        if SearchRun.is_search(folder):
            return SearchRun.open(folder, dataset)
        return SearchRun.create(folder, search, dataset)

    def _train(
        self, search: SearchRun, name: str, stage: Callable[[str, SearchRun], SearchOutcome]
    ) -> bool:
        return search.finished or stage(name, search).finished

    def _told(self, name: str, images: int, found: Labelling, say: Callable[[str], None]) -> Stage:
        ended = ""
        if found.failed:
            ended = f"the models do not agree on anything (best score {found.score:.3f})"
        elif not found.latents:
            ended = f"no latent of the best model says more than {self.plan.active_nats:g} nat"
        says = ended or f"{len(found.latents)} active latents, agreement {found.score:.3f}"
        say(f"{name}: {images:,} images, {says}")
        return Stage(name, images, found.score, found.latents, ended)

    def _summarise(self, stages: list[Stage]) -> None:
        rows = [
            {
                **asdict(one),
                "active": list(one.active),
                "score": None if one.score != one.score else one.score,
            }
            for one in stages
        ]
        write_json(self.path / "summary.json", {"stages": rows})


def _part_file(stage: Path) -> Path:
    """Where the images of a leaf's stage are listed: beside its folder."""
    return stage.with_name(f"{stage.name}.npy")
