# SPDX-License-Identifier: Apache-2.0
"""rPU-VAE (Estermann et al. 2020): good models without labels, by surrogate labels.

Models trained without labels agree on what changes the images most (on dSprites, the position) and
leave out the rest. So:

1. **Root**: a search by agreement (UDR) on all images. The active latents of its best model are
   surrogate labels.
2. **Leaf-runs**: images are reduced to a part in which those labels hardly vary
   (`search/reduce/reduction.py`), and a fresh search on that part finds what is next; its labels
   reduce the part further, and so on (a metaEpoch each) until a search fails, no latent is active,
   no part can be cut out, or too few images are left. Leaf-run i begins with the i-th of the root's
   parts.
3. **Final**: a population trained on all images, selected by the mutual information gap with the
   labels of all levels (`search/rpu/surrogate_labels.py`). With 0 leaf-runs only the root's labels
   are used.

Every stage (`search/rpu/stages.py`) is a search in a folder of its own, stored before those that
need it begin. A recursion that is stopped or killed goes on where it was. Leaf-runs do not need
each other, nor do final populations: several processes may train them side by side.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.core.errors import DamagedFileError, HeldError, InputError, invalid
from unbraid.core.failpoints import failpoint
from unbraid.core.files import copy_folder, only_one, remove_halves_in
from unbraid.core.folders import RECORDS, is_there, record_path
from unbraid.core.records import read_object
from unbraid.core.store import digest, read_json, write_json, write_npy
from unbraid.data.dataset import Dataset
from unbraid.data.subset import Subset
from unbraid.population.new_folder import check_free, new_folder
from unbraid.population.run_folder import RunFolder
from unbraid.search.pbt.loop import NoScoresError
from unbraid.search.pbt.plan import SearchPlan
from unbraid.search.pbt.search import SearchOutcome, SearchRun, searched_data
from unbraid.search.reduce.reduction import reduce_in_turn
from unbraid.search.rpu.labelling import Labelling, label
from unbraid.search.rpu.plan import SURROGATES_FILE, RecursionPlan
from unbraid.search.rpu.stages import ROOT, SAME_LABELS, Stage, StageKind, part_file
from unbraid.search.rpu.surrogate_labels import (
    Leaf,
    SurrogateLabels,
    counted_labels,
    write_surrogates,
)

TrainStage = Callable[[Stage, SearchRun], SearchOutcome]
"""Trains the search of one stage, with whatever shows its progress."""
Say = Callable[[str], None]
_PAUSE = 5.0
"""Seconds between two looks at searches that other processes train."""


class Recursion:
    """The folder of an rPU-VAE run, and its training."""

    def __init__(
        self, path: str | Path, plan: RecursionPlan, dataset: Dataset | None = None
    ) -> None:
        self.path = Path(path)
        self.plan = plan
        self._data = RunFolder(self.path, plan.root.plan, 1, dataset)

    @classmethod
    def create(cls, path: str | Path, plan: RecursionPlan, dataset: Dataset) -> Recursion:
        """Start in an empty or new folder."""
        folder = Path(path)
        check_free(folder)
        with new_folder(folder):
            write_json(record_path(folder, "rpu"), plan.record())
            failpoint("record.written")
        return cls(folder, plan, dataset)

    @classmethod
    def open(cls, path: str | Path, dataset: Dataset | None = None) -> Recursion:
        """The recursion that a folder holds."""
        place, remedy = record_path(path, "rpu"), "Put a copy of it back, or begin a new recursion."
        try:
            plan = read_object(place, "a recursion", RecursionPlan.from_record, remedy)
        except (FileNotFoundError, NotADirectoryError):
            rule = f"must be a folder made by `unbraid rpu`, with a {RECORDS['rpu'].record} in it"
            raise invalid("run", rule, str(path), remedy) from None
        return cls(path, plan, dataset)

    @classmethod
    def begin(cls, path: Path, plan: RecursionPlan, dataset: Dataset) -> Recursion:
        """That of a larger plan, begun in *path* or new there; a record of it that is lost, damaged
        or another's is written again.
        """
        try:
            found = cls.open(path, dataset)
            same = found.plan.root.is_but_for_its_place(plan.root)
            if same and replace(found.plan, root=plan.root) == plan:
                return found
        except DamagedFileError:
            pass
        except InputError:
            if not is_there(path / ROOT.name):
                return cls.create(path, plan, dataset)
        write_json(record_path(path, "rpu"), plan.record())
        return cls(path, plan, dataset)

    @staticmethod
    def is_recursion(path: str | Path) -> bool:
        """Whether *path* is the folder of a recursion."""
        return record_path(path, "rpu").is_file()

    @property
    def dataset(self) -> Dataset:
        """The whole data."""
        return searched_data(self._data)

    def use(self, dataset: Dataset) -> None:
        """Take *dataset* as the data, if it is the same."""
        self._data.use(dataset)

    @property
    def finished(self) -> bool:
        """Whether every stage is done."""
        try:
            read_json(self.path / "summary.json")
        except (FileNotFoundError, NotADirectoryError, DamagedFileError):
            return False  # what is done is found done, and it is written again
        return True

    @property
    def begun(self) -> bool:
        """Whether its root has been begun."""
        return is_there(self.path / ROOT.name)

    def root(self) -> SearchRun:
        """The search on all images."""
        return SearchRun.open(self.path / ROOT.name, self.dataset)

    def final(self, leaf_runs: int | None = None) -> SearchRun:
        """The final population that used so many leaf-runs; all of them by default."""
        count = self.plan.leaf_runs if leaf_runs is None else leaf_runs
        stage = Stage(StageKind.FINAL, leaf_runs=count)
        return SearchRun.open(self.path / stage.name, self.dataset)

    def searches(self) -> list[tuple[Stage, SearchRun]]:
        """The finished searches, in order, each with its stage."""
        found = []
        for stage in self.plan.stages():
            folder = self.path / stage.name
            if SearchRun.is_search(folder):
                search = SearchRun.open(folder)
                leaf = stage.kind is StageKind.LEAF
                search.use(Subset(self.dataset, part_file(folder)) if leaf else self.dataset)
                found.append((stage, search))
        return [(stage, search) for stage, search in found if search.finished]

    @property
    def digest(self) -> str:
        """By which the page belongs to it: of the finished searches."""
        return digest([search.digest for _, search in self.searches()])

    def leaves(self, stages: list[Stage], device: torch.device) -> list[Leaf]:
        """The labels of every leaf-run of a finished recursion, the root's first in each; without
        leaf-runs the root's alone, and nothing where the root has found none.
        """
        if stages[0].ended:
            return []
        searches = {stage.name: search for stage, search in self.searches()}

        def labels(stage: Stage) -> SurrogateLabels:
            found = label(searches[stage.name], device, self.plan.active_nats)
            return SurrogateLabels(self.places(stage), found.values, found.confirmed)

        found = [[labels(ROOT)] for _ in range(max(1, self.plan.leaf_runs))]
        for stage in stages:
            if stage.kind is StageKind.LEAF and stage.images and not stage.ended:
                found[stage.leaf].append(labels(stage))
        return [tuple(levels) for levels in found]

    def places(self, stage: Stage) -> NDArray[np.int64]:
        """Which images of the whole data a stage's search was trained on."""
        if stage.kind is StageKind.LEAF:
            return np.load(part_file(self.path / stage.name))
        return np.arange(len(self.dataset), dtype=np.int64)

    def train(
        self, device: torch.device, train: TrainStage, say: Say = lambda line: None
    ) -> list[Stage] | None:
        """Do what is left and return all stages; None where it was stopped.

        Several processes may do so together: each trains a search that nobody trains, and waits for
        those that it needs.
        """
        # A finished one is read alone: it may lie where nothing can be written.
        finished = self.finished
        if not finished:
            with only_one(self.path):
                remove_halves_in(self.path)
        search = self._search(ROOT, self.plan.root, self.dataset)
        if not self._in_turn([0], lambda _: _trained(ROOT, search, train)):
            return None
        found = label(search, device, self.plan.active_nats)
        stages = [self._labelled(ROOT, len(self.dataset), found, say)]
        if stages[0].ended:
            say(
                "the root found nothing that could serve as labels: there is no final"
                " population to train."
            )
        elif not self._train_on_labels(found, device, train, stages, say):
            return None
        if not finished or not self._summarised(stages):
            rows = [stage.record() for stage in stages]
            with self._alone():
                write_json(self.path / "summary.json", {"stages": rows})
        return stages

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Write what several stages share; others wait the moment that it takes."""
        with only_one(self.path, patience=math.inf):
            yield

    @staticmethod
    def _in_turn(numbers: Sequence[int], do: Callable[[int], bool]) -> bool:
        """*do* for each number; those that another process is at later, once it is done or gone.
        False where it was stopped.
        """
        left = list(numbers)
        while left:
            held = []
            for number in left:
                try:
                    if not do(number):
                        return False
                except HeldError:
                    held.append(number)
            if len(held) == len(left):
                time.sleep(_PAUSE)
            left = held
        return True

    def _summarised(self, stages: list[Stage]) -> bool:
        """Whether summary.json is about these stages; earlier versions called images otherwise."""
        stored = read_json(self.path / "summary.json").get("stages")
        rows = stored if isinstance(stored, list) else []
        told = [{**row, "images": 0} for row in rows if isinstance(row, dict)]
        known = [{**stage.record(), "images": 0} for stage in stages]
        for row in told:
            row.pop("pictures", None)
        return told == known

    def _train_on_labels(
        self,
        found: Labelling,
        device: torch.device,
        train: TrainStage,
        stages: list[Stage],
        say: Say,
    ) -> bool:
        """Leaf-runs and final populations, added to *stages*; False where it was stopped."""
        every = np.arange(len(self.dataset), dtype=np.int64)
        root = SurrogateLabels(every, found.values, found.confirmed)
        leaves: dict[int, tuple[Leaf, list[Stage]]] = {}

        def leaf(number: int) -> bool:
            own: list[Stage] = []
            made = self._leaf(number, root, device, train, own, say)
            if made is not None:
                leaves[number] = made, own
            return made is not None

        if not self._in_turn(range(self.plan.leaf_runs), leaf):
            return False
        used = [leaves[number][0] for number in range(self.plan.leaf_runs)]
        stages += [one for number in range(self.plan.leaf_runs) for one in leaves[number][1]]
        finals: dict[int, Stage] = {}

        def final(count: int) -> bool:
            stage = Stage(StageKind.FINAL, leaf_runs=count, images=len(self.dataset))
            done = self._final(stage, root, used[:count], train, say)
            if done is not None:
                same = SAME_LABELS if self._repeats(stage, used[:count]) else ""
                finals[count] = replace(stage, score=done.winner_record()["score"], ended=same)
            return done is not None

        if not self._in_turn(self.plan.finals(), final):
            return False
        stages += [finals[count] for count in self.plan.finals()]
        return True

    def _leaf(
        self,
        number: int,
        root: SurrogateLabels,
        device: torch.device,
        train: TrainStage,
        stages: list[Stage],
        say: Say,
    ) -> Leaf | None:
        """Levels of one leaf-run, the root's first; None where it was stopped."""
        levels, now = [root], root
        for level in range(2, self.plan.levels + 1):
            stage = Stage(StageKind.LEAF, leaf=number, level=level)
            reduced = reduce_in_turn(now.values, stage.rank, self.plan.reduction)
            if reduced.stopped:
                say(f"{stage.name}: {reduced.stopped}")
                stages.append(replace(stage, ended=reduced.stopped))
                break
            kept = np.sort(now.indices[reduced.indices])
            part = self._part(stage, kept)
            search = self._search(stage, self.plan.leaf_search(stage, part), part)
            try:
                if not _trained(stage, search, train):
                    return None
            except NoScoresError:
                stages.append(replace(stage, images=len(part), ended="no model had a score"))
                say(f"{stage.name}: {stages[-1].ended}")
                break
            found = label(search, device, self.plan.active_nats)
            stages.append(self._labelled(stage, len(part), found, say))
            if stages[-1].ended:
                break
            now = SurrogateLabels(kept, found.values, found.confirmed)
            levels.append(now)
        return tuple(levels)

    def _part(self, stage: Stage, indices: NDArray[np.int64]) -> Subset:
        """The images *indices* of the whole data, as a dataset that can be loaded again."""
        path = part_file(self.path.absolute() / stage.name)
        with self._alone():
            write_npy(path, indices)
        failpoint("part.stored")
        return Subset(self.dataset, path)

    def _final(
        self, stage: Stage, root: SurrogateLabels, leaves: list[Leaf], train: TrainStage, say: Say
    ) -> SearchRun | None:
        """The final population selected by the labels of root and *leaves*; None where stopped."""
        if self._repeats(stage, leaves):
            self._take_over(Stage(StageKind.FINAL), stage, say)
        run = self._search(stage, self.plan.final_search(), self.dataset)
        if not run.finished:
            labels = counted_labels(leaves or [(root,)], self.plan.final_labels)
            with self._alone():
                write_surrogates(run.path / SURROGATES_FILE, labels)  # it may be torn
        return run if _trained(stage, run, train) else None

    def _repeats(self, stage: Stage, leaves: list[Leaf]) -> bool:
        """Whether a final population has only the root's labels, and so is the same as final-0."""
        alone = all(len(leaf) == 1 for leaf in leaves)
        return stage.leaf_runs > 0 and 0 in self.plan.finals() and alone

    def _take_over(self, done: Stage, stage: Stage, say: Say) -> None:
        """Copy a finished final population for one with the same seed and the same labels."""
        old, new = self.path / done.name, self.path / stage.name
        if SearchRun.is_search(new) or not SearchRun.is_search(old):
            return
        if not SearchRun.open(old).finished:
            return
        with self._alone():
            if not SearchRun.is_search(new):
                copy_folder(old, new)
        say(f"{stage.name}: {SAME_LABELS}")

    def _search(self, stage: Stage, search: SearchPlan, dataset: Dataset) -> SearchRun:
        """The search of a stage: the one begun, or a new one."""
        if SearchRun.is_search(self.path / stage.name) and self.finished:
            return SearchRun.begin(self.path / stage.name, search, dataset)
        with self._alone():
            return SearchRun.begin(self.path / stage.name, search, dataset)

    def _labelled(self, stage: Stage, images: int, found: Labelling, say: Say) -> Stage:
        """*stage* with what its labels say."""
        ended = ""
        if found.failed:
            ended = f"the models do not agree on anything (best score {found.score:.3f})"
        elif not found.latents:
            ended = f"no latent of the best model carries more than {self.plan.active_nats:g} nat"
        says = ended or f"{len(found.latents)} active latents, agreement {found.score:.3f}"
        say(f"{stage.name}: {images:,} images, {says}")
        return replace(stage, images=images, score=found.score, active=found.latents, ended=ended)


def _trained(stage: Stage, search: SearchRun, train: TrainStage) -> bool:
    """Whether the search of a stage is done, after training what is left of it."""
    search.remove_leftovers()
    if search.finished:
        search.winner_files.check()
        return True
    done = train(stage, search).finished
    failpoint("stage.done")
    return done
