# SPDX-License-Identifier: Apache-2.0
"""One slice that is a search: trained stage by stage, its winners scored, resumed anywhere.

In its work folder `run/` is the folder of a search or a recursion, which goes on by itself where it
was. A recursion leaves its labels beside the tables, for final populations that are slices of their
own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.codes.codes import CodeStore
from unbraid.codes.reconstructions import ReconstructionStore
from unbraid.core.errors import DamagedFileError
from unbraid.core.failpoints import failpoint
from unbraid.core.files import make_folder
from unbraid.core.folders import is_there
from unbraid.core.store import write_table
from unbraid.data.dataset import Dataset
from unbraid.population.devices import usual_precision
from unbraid.population.plan import Plan, make_plan
from unbraid.scoring.metric_names import needs
from unbraid.scoring.run_scores import score_run
from unbraid.search import defaults as usual
from unbraid.search.pbt.lineage import LINEAGE
from unbraid.search.pbt.loop import NoScoresError
from unbraid.search.pbt.make_search import make_search
from unbraid.search.pbt.plan import SearchPlan
from unbraid.search.pbt.search import SearchRun
from unbraid.search.rpu.labelling import label
from unbraid.search.rpu.plan import SURROGATES_FILE, RecursionPlan, make_recursion
from unbraid.search.rpu.recursion import Recursion
from unbraid.search.rpu.stages import Stage, StageKind
from unbraid.search.rpu.surrogate_labels import (
    Leaf,
    counted_labels,
    read_surrogates,
    write_surrogates,
)
from unbraid.studies.pool import SearchSlice, Slice
from unbraid.studies.search_definition import STEP_IMAGES
from unbraid.studies.search_table import Part, search_table
from unbraid.studies.slice_work import SCORING, Report, SliceWork, Stopped

_TABLE = 0
"""A search has one table, at no step in particular."""
SEARCH = "search"
"""What the only stage of population-based training is called."""


def work_of(one: Slice) -> type[SliceWork]:
    """What makes slices like *one*."""
    return SearchWork if isinstance(one, SearchSlice) else SliceWork


def largest_plan(one: Slice, dataset: Dataset) -> tuple[Plan, Dataset]:
    """All models that a slice trains at a time, and its data."""
    if not isinstance(one, SearchSlice):
        return make_plan(**{**one.plan, "data": dataset, "data_options": None})
    plan = _planned(one, dataset, "float32")
    return (plan.root if isinstance(plan, RecursionPlan) else plan).all_models, dataset


def _planned(one: SearchSlice, dataset: Dataset, precision: str) -> SearchPlan | RecursionPlan:
    """The search of a slice, or the recursion that it is or belongs to."""
    settings: dict[str, Any] = {"precision": precision, **one.plan}
    settings |= {"data": dataset, "data_options": None}
    return (make_search if one.kind == "pbt" else make_recursion)(**settings)[0]


class SearchWork(SliceWork):
    """A slice that is a search."""

    slice: SearchSlice

    def __init__(self, folder: Path, *given: Any) -> None:
        """The same as of other slices."""
        super().__init__(folder, *given)
        self.stages = (_TABLE,)
        self._parts: list[Part] = []

    @property
    def _labels(self) -> Path:
        """The labels that a final population is selected by, or that a recursion leaves."""
        own = f"{self.pool.name}/{self.slice.name}"
        return self.results.labels(self.slice.labels_of or own)

    def lacking(self) -> str:
        """The labels of a final population, where they are not here."""
        if self.slice.kind != "final" or is_there(self._labels):
            return ""
        needed = f"needs the labels that its recursion leaves in {self._labels.parent}"
        if self.results.done(*self.results.part(self.slice.labels_of)):
            table = self.results.path(*self.results.part(self.slice.labels_of))
            return (
                f"{needed}. It was made elsewhere: bring them from there, or move {table} away to"
                " make it again"
            )
        return f"{needed}; make {self.slice.labels_of} first"

    def _take_up(self, dataset: Dataset, defined: str) -> None:
        self._dataset, place = dataset, self.folder / "run"
        if not is_there(self._record):
            self._write_record(defined)
        plan = _planned(self.slice, dataset, usual_precision(self.device))
        self._recursion = self._search = None
        if isinstance(plan, RecursionPlan) and self.slice.kind == "rpu":
            self._recursion = Recursion.begin(place, plan, dataset)
        elif isinstance(plan, SearchPlan):
            self._search = SearchRun.begin(place, plan, dataset)
        elif leaves := self._leaves(plan):
            self._search = SearchRun.begin(place, plan.final_search(), dataset)
            if not self._search.finished:
                write_surrogates(place / SURROGATES_FILE, counted_labels(leaves, plan.final_labels))
        else:
            self._complaints.append(f"{self.slice.labels_of} found nothing that could be labels")
        root = plan.root if isinstance(plan, RecursionPlan) else plan
        self._shared_plan = root.plan

    def _leaves(self, plan: RecursionPlan) -> list[Leaf]:
        """The labels of as many leaf-runs as the final population uses; with none the root's."""
        found = read_surrogates(self._labels)
        return found[: plan.leaf_runs] or [leaf[:1] for leaf in found[:1]]

    @property
    def _plan(self) -> Plan:
        return self._shared_plan

    def train(self, progress: Report, warn: Callable[[str], None]) -> bool:
        """Train what is left of all stages and encode their winners; False when stopped."""
        if is_there(self._stage_file(_TABLE)):
            return True
        with self._timed("training"):
            try:
                if not self._trained(_in_steps(progress), warn):
                    return False
            except NoScoresError as error:  # a result, too: the table says that all diverged
                self._complaints.append(str(error))
                if self.slice.kind == "rpu":  # final populations need not wait for labels
                    self._leave_labels([])
            self._parts = [*self._winners()]
            for part in self._parts:
                store = CodeStore(part.winner)
                store.encode(self.device)
                if any(needs(name) == "elbo" for name in part.metrics):
                    ReconstructionStore(store).measure(self.device)
        failpoint("slice.trained")
        return True

    def _trained(self, progress: Report, warn: Callable[[str], None]) -> bool:
        """Whether all is trained."""

        def train(search: SearchRun) -> Any:
            return search.train(self.device, progress, warn, stop=self.stop)

        if self._search is not None:
            return train(self._search).finished
        if self._recursion is None:
            return True
        stages = self._recursion.train(self.device, lambda stage, run: train(run), warn)
        if stages is None:
            return False
        self._leave_labels(self._recursion.leaves(stages, self.device))
        return True

    def _leave_labels(self, leaves: list[Leaf]) -> None:
        make_folder(self._labels.parent)
        write_surrogates(self._labels, leaves)

    def _winners(self) -> Iterator[Part]:
        """Every stage that has a winner."""
        if self._search is not None and self._search.finished:
            yield self._part(self._last_stage, self._search)
        if self._recursion is not None:
            for stage, search in self._recursion.searches():
                leaf = stage.kind is StageKind.LEAF
                subset = self._recursion.places(stage) if leaf else None
                yield self._part(stage.name, search, subset, self._nats(stage))

    @property
    def _last_stage(self) -> str:
        """The stage that a slice is made for."""
        if self.slice.kind == "pbt":
            return SEARCH
        runs = self.slice.plan.get("leaf_runs", usual.LEAF_RUNS)
        return Stage(StageKind.FINAL, leaf_runs=runs).name

    def _nats(self, stage: Stage) -> float | None:
        assert self._recursion is not None
        return None if stage.kind is StageKind.FINAL else self._recursion.plan.active_nats

    def _part(
        self, stage: str, search: SearchRun, subset: Any = None, nats: float | None = None
    ) -> Part:
        compares = search.search.scorer.compares
        given = {} if nats is None else {"active_nats": nats}
        names = [name for name in self._metrics if compares or needs(name) != "population"]
        return Part(
            stage,
            search,
            search.winner(),
            label(search, self.device, **given) if compares else None,
            () if subset is not None else tuple(names),
            None if subset is None else np.asarray(subset),
        )

    def _score(self, steps: int) -> None:
        """Score every winner and keep all rows."""

        def advance(scores: int, found_done: bool) -> None:
            if self.stop.is_set():
                raise Stopped

        with SCORING, self._timed("scoring"):
            for part in self._parts:
                if not part.metrics:
                    continue
                names, said = [*part.metrics], self._complaints.append
                try:
                    score_run(part.winner, names, ["mean"], advance, said, self.device)
                except Exception as error:  # of processes that a stop has ended, too
                    raise Stopped if self.stop.is_set() else error from None
            table = search_table(
                self._parts,
                self._dataset,
                pool=self.pool.name,
                name=self.slice.name,
                data=self.slice.plan["data"],
                seed=self.slice.plan["seed"],
                stage=self._last_stage,
            )
            write_table(self._stage_file(steps), table)
            failpoint("slice.scored")

    @staticmethod
    def steps_done(folder: Path) -> int:
        """Steps of 64 images that lineages in a slice's work *folder* tell of, about."""
        images = 0
        for path in (folder / "run").rglob(LINEAGE):
            search = SearchRun.open(path.parent)
            try:
                rows = len(search.lineage)
            except DamagedFileError:
                continue
            images += rows * search.search.models * search.search.epoch_images
        return images // STEP_IMAGES


def _in_steps(progress: Report) -> Report:
    """Tells *progress* of steps what it hears of images."""
    seen = 0

    def advance(images: int, found_done: bool) -> None:
        nonlocal seen
        before, seen = seen, seen + images
        progress(seen // STEP_IMAGES - before // STEP_IMAGES, found_done)

    return advance
