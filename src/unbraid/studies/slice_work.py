# SPDX-License-Identifier: Apache-2.0
"""One slice in its work folder: trained, encoded and scored, stage by stage, and resumed anywhere.

    <work>/<scale>/<pool>/<slice>/
        slice.json                 its definition's digest, the seconds it took so far
        run/                       a run folder, trained to the stage that is due
        stage-000020000.parquet    the rows of a stage that is done

A stage is scored before the run is extended to the next, so that codes and scores are its own. The
folder goes when the slice has its table.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from unbraid.codes.codes import CodeStore
from unbraid.codes.reconstructions import ReconstructionStore
from unbraid.core.cuda_streams import stream_of
from unbraid.core.errors import DamagedFileError, InputError, Problems, Shown, invalid
from unbraid.core.failpoints import failpoint
from unbraid.core.files import copy_folder, make_folder, remove_folder
from unbraid.core.folders import is_there, kind_of
from unbraid.core.records import build_object, from_record
from unbraid.core.source_digest import source_digest
from unbraid.core.store import digest, read_json, read_table, write_json, write_table
from unbraid.data.dataset import Dataset
from unbraid.population import defaults
from unbraid.population.devices import chunk_size, device_name, usual_precision
from unbraid.population.member import Member
from unbraid.population.more_training import extend
from unbraid.population.new_folder import check_room
from unbraid.population.plan import Plan, make_plan
from unbraid.population.run_folder import RunFolder
from unbraid.population.train import train_run
from unbraid.scoring.metric_names import needs
from unbraid.scoring.run_scores import score_run
from unbraid.scoring.score_table import stored_scores
from unbraid.scoring.while_training import ScoringWhileTraining
from unbraid.studies.definition import (
    definition,
    model_steps,
    models,
    scored,
    scored_sampled,
)
from unbraid.studies.measures import measured
from unbraid.studies.pool import Pool, Slice
from unbraid.studies.results import COLUMN_KINDS, Results, stacked
from unbraid.studies.slice_table import slice_table

if TYPE_CHECKING:
    pass

Report = Callable[[int, bool], None]
"""Told how many model-steps more are done, and whether they were found so."""


SCORING = threading.Lock()
"""Scoring takes all cores: slices wait for each other, in time that is not counted as theirs."""


@dataclass(frozen=True)
class _Begun:
    """What slice.json says."""

    definition: str
    seconds: dict[str, float]
    complaints: list[str]


class Stopped(Exception):
    """Scoring was asked to stop; what is scored is kept."""


class SliceWork:
    """A slice that is being made."""

    def __init__(
        self,
        folder: Path,
        results: Results,
        pool: Pool,
        one: Slice,
        device: torch.device,
        stop: threading.Event,
        keep_models: bool = False,
    ) -> None:
        """When *stop* is set, training and scoring end soon and leave what they have. The run goes
        with the folder unless it is to *keep_models*.
        """
        self.folder, self.results, self.pool, self.slice = folder, results, pool, one
        self.keep_models = keep_models
        self.device, self.stop = device, stop
        self.stages = (*one.stages, int(one.plan.get("steps", defaults.STEPS)))
        self._source = source_digest()  # of what runs, whose files may change while it does
        self.trained_on = ""
        """What it was trained on, where it is scored elsewhere."""
        self._seconds = {"training": 0.0, "scoring": 0.0}
        self._complaints: list[str] = []
        self._left: dict[str, str] = {}
        problems = Problems()
        self._metrics, self._sampled = scored(one, problems), scored_sampled(one, problems)
        problems.raise_if_any()

    @property
    def _record(self) -> Path:
        return self.folder / "slice.json"

    def _stage_file(self, steps: int) -> Path:
        return self.folder / f"stage-{steps:09d}.parquet"

    def open(self, dataset: Dataset) -> None:
        """Begin the slice, or go on with what the folder holds of it."""
        with self._damage_explained():
            self._open(dataset)

    @contextmanager
    def _damage_explained(self) -> Iterator[None]:
        try:
            yield
        except DamagedFileError as error:
            remedy = f"Remove {self.folder}, and the slice is made from the start."
            raise DamagedFileError(f"{error} {remedy}") from error

    def _open(self, dataset: Dataset) -> None:
        defined = digest(definition(self.slice))
        if is_there(self._record):
            record = build_object(
                self._record, "a slice", lambda: from_record(_Begun, read_json(self._record)), ""
            )
            if record.definition != defined:
                rule = "must not hold another version of the slice, or other seeds of it"
                remedy = "Remove that folder, or give another {work=FOLDER}."
                raise invalid("work", rule, Shown(str(self.folder)), remedy)
            self._seconds, self._complaints = record.seconds, record.complaints
        self._take_up(dataset, defined)

    def _take_up(self, dataset: Dataset, defined: str) -> None:
        """Go on with the run that the folder holds, or make a new one, so *defined*."""
        place = self.folder / "run"
        if kind_of(place) is not None:
            self.run = RunFolder.open(place)
            self.run.use(dataset)
            self._check_stages()
            return
        settings: dict[str, Any] = {"precision": usual_precision(self.device), **self.slice.plan}
        settings |= {"data": dataset, "data_options": None, "steps": self.stages[0]}
        plan, _ = make_plan(**settings)
        size = chunk_size(plan, dataset, self.device)
        keep = len(self.stages) > 1
        check_room(self.folder, plan, dataset, size, option="work", keep_optimiser=keep)
        self._write_record(defined)
        self.run = RunFolder.create(place, plan, size, dataset, keep_optimiser=keep)

    def _check_stages(self) -> None:
        """Read the stages that are done before more is trained, which would be in vain."""
        for steps in self.stages:
            path = self._stage_file(steps)
            if is_there(path):
                read_table(path, columns=COLUMN_KINDS)
            elif self.run.plan.steps > steps:
                raise DamagedFileError(f"{path} is missing, and its models are trained beyond it.")

    def _write_record(self, defined: str) -> None:
        record = {
            "definition": defined,
            "seconds": self._seconds,
            "complaints": self._complaints,
        }
        write_json(self._record, record)

    @contextmanager
    def _timed(self, what: str) -> Iterator[None]:
        """Count the seconds of *what*, however it ends but by a kill."""
        began = time.monotonic()
        try:
            yield
        finally:
            self._seconds[what] += time.monotonic() - began
            self._write_record(digest(definition(self.slice)))

    def train(self, progress: Report, warn: Callable[[str], None]) -> bool:
        """Train all stages and encode the last, scoring those before it; False when stopped."""

        def only_new(model_steps: int, found_done: bool) -> None:
            if not found_done:  # else told as those of the stage before
                progress(model_steps, False)

        report = progress
        for steps in self.stages:
            if is_there(self._stage_file(steps)):
                continue
            if self.run.plan.steps < steps:
                extend(self.run, steps)
            with self._timed("training"):
                if not self._train(report, warn):
                    return False
                self._encode()
            failpoint("slice.trained")
            report = only_new
            if steps != self.stages[-1]:
                try:
                    self._score(steps)
                except Stopped:
                    return False
        return True

    def _train(self, progress: Report, warn: Callable[[str], None]) -> bool:
        """Train the stage that is due; where that pays, chunks are scored while others train."""
        if len(self.run.chunks()) == 1 or not ScoringWhileTraining.pays(self.device):
            return train_run(self.run, self.device, progress, warn, stop=self.stop).finished
        left = len(self.run.chunks())
        scoring = ScoringWhileTraining(self.run, self._metrics, self.device)

        def chunk_done(chunk: tuple[Member, ...]) -> None:
            nonlocal left
            left -= 1
            if left:  # the last one would keep the next slice waiting
                scoring.chunk_done(chunk)

        try:
            outcome = train_run(self.run, self.device, progress, warn, chunk_done, self.stop)
        except BaseException:
            scoring.stop()
            raise
        (scoring.finish if outcome.finished else scoring.stop)()
        return outcome.finished

    def _encode(self) -> None:
        store = CodeStore(self.run)
        store.encode(self.device)
        if any(needs(name) == "elbo" for name in self._metrics):
            ReconstructionStore(store).measure(self.device)

    def _score(self, steps: int) -> None:
        """Score the stage of so many *steps* and keep its rows."""

        def advance(scores: int, found_done: bool) -> None:
            if self.stop.is_set():
                raise Stopped

        with SCORING, self._timed("scoring"):
            healthy = self.run.members()["status"].tolist().count("trained")
            for names, kind in ((self._metrics, "mean"), (self._sampled, "sampled")):
                if names and healthy:
                    try:
                        said = self._complaints.append
                        score_run(self.run, names, [kind], advance, said, self.device)
                    except Exception as error:  # of processes that a stop has ended, too
                        raise Stopped if self.stop.is_set() else error from None
            table = slice_table(
                self.run,
                stored_scores(self.run),
                self._metrics,
                self._sampled,
                pool=self.pool.name,
                name=self.slice.name,
                data=self.slice.data,
                by_latent=self.slice.latents,
                settings=self.slice.settings,
                more=measured(self.run, self.slice.measures, self.device, self._check_stop),
            )
            write_table(self._stage_file(steps), table)
            failpoint("slice.scored")

    def _check_stop(self) -> None:
        if self.stop.is_set():
            raise Stopped

    def finish(self) -> None:
        """Score the last stage, write the slice's table and remove the folder; `Stopped` when
        stopped. Called in a thread of its own, beside the training of the next slice.
        """
        # On a stream of its own it need not wait for what is queued for training.
        own = stream_of(self.device, "score") if self.device.type == "cuda" else None
        with torch.cuda.stream(own):
            if not self._stage_file(self.stages[-1]).is_file():
                self._score(self.stages[-1])
        with self._damage_explained():
            table = stacked([read_table(self._stage_file(steps)) for steps in self.stages])
        if self.keep_models:
            place = self.results.models(self.pool, self.slice)
            make_folder(place.parent)
            remove_folder(place)  # of a slice whose table was taken away
            copy_folder(self.folder / "run", place)
        self._leave()
        self.results.write(self.pool, self.slice, table, self._provenance() | self._left)
        failpoint("slice.committed")
        remove_folder(self.folder)

    def _leave(self) -> None:
        """Keep what slices after it need; why there is nothing is said in its provenance."""
        if self.slice.leaves is None:
            return
        try:
            self.results.leave(self.pool, self.slice, self.slice.leaves.take(self.run, self.device))
        except InputError as error:
            self._left = {"left_nothing": str(error)}

    @property
    def _plan(self) -> Plan:
        return self.run.plan

    def lacking(self) -> str:
        """What must be there before it can be made, and is not; empty where nothing is."""
        return ""

    def _provenance(self) -> dict[str, Any]:
        defined, plan = definition(self.slice), self._plan
        return {
            "versions": plan.made_with | {"numpy": np.__version__},
            "source_sha256": self._source,
            "device": self.trained_on or device_name(self.device),
            "precision": plan.precision,
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "training_seconds": round(self._seconds["training"], 3),
            "scoring_seconds": round(self._seconds["scoring"], 3),
            "models": models(defined),
            "model_steps": model_steps(defined),
            "data_fingerprint": plan.data_fingerprint,
            "complaints": list(dict.fromkeys(self._complaints)),
        }

    @staticmethod
    def steps_done(folder: Path) -> int:
        """Model-steps that checkpoints in a slice's work *folder* hold; 0 where there are none."""
        place = folder / "run"
        if kind_of(place) is None:
            return 0
        run = RunFolder.open(place)
        files = [(len(chunk), run.checkpoints(chunk).files()) for chunk in run.chunks()]
        return sum(count * found[0][0] for count, found in files if found)
