# SPDX-License-Identifier: Apache-2.0
"""The loop of a search: an epoch is trained, scored, exploited and explored, and so on to the end.

The winner is the individual with the best score of all epochs, kept whatever becomes of its line;
one that is collapsed only where all are (`search/pbt/collapsed.py`).
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from unbraid.core.errors import UnbraidError
from unbraid.core.failpoints import failpoint
from unbraid.data.dataset import Dataset
from unbraid.population.cuda_graph import rehearse
from unbraid.population.devices import explain_oom
from unbraid.population.draws import rule_on
from unbraid.search.pbt.exploit import Individual, converged, next_individuals, ranking
from unbraid.search.pbt.generation import Generation, Heritage, Rows, updates_of_epoch
from unbraid.search.pbt.judging import Judging
from unbraid.search.pbt.lineage import (
    EpochBest,
    best_by_epoch,
    epoch_rows,
    is_collapsed,
    write_lineage,
)
from unbraid.search.pbt.plan import SearchPlan
from unbraid.search.pbt.state import Checkpointer, Elite, SearchState


class NoScoresError(UnbraidError):
    """No member of a population ever had a score, so that there is no winner."""


class SearchLoop:
    """Trains a search on a device; whoever calls it has locked the folder."""

    def __init__(
        self, search: SearchPlan, dataset: Dataset, device: torch.device, folder: Path, digest: str
    ) -> None:
        self.search, self.dataset, self.device = search, dataset, device
        self.folder, self.digest = folder, digest
        with explain_oom(device, f"the data '{dataset.name}'", "Free some memory, or use the CPU."):
            self._sampler = dataset.sampler(device)
            self._rule = rule_on(search.plan, dataset, device)
        self._rehearsed: set[int] = set()

    def begin(
        self,
        epoch: int,
        individuals: list[Individual],
        rows: Rows | Heritage | None,
        clocks: Sequence[int] | None = None,
        before: Generation | None = None,
    ) -> Generation:
        """Put the population of an epoch on the device."""
        generation = Generation(
            self.search.plan,
            self.search.generation_models(individuals, epoch),
            self.dataset,
            self.device,
            self._sampler,
            epoch=epoch,
            epochs=self.search.epochs,
            epoch_images=self.search.epoch_images,
            rows=rows,
            clocks=clocks,
            cumulative=self._rule,
            before=before,
            together=self.search.together,
        )
        for chunk in generation.chunks:  # kernels differ by batch size, and that may evolve
            if chunk.program.plan.batch_size not in self._rehearsed:
                self._rehearsed.add(chunk.program.plan.batch_size)
                rehearse(chunk.program)
        return generation

    def first(self) -> SearchState:
        """Where a search begins."""
        individuals = self.search.first()
        return SearchState(0, individuals, self.begin(0, individuals, None))

    def seen(self, state: SearchState) -> int:
        """Images seen by all models so far, for a progress bar that begins in the middle."""
        seen = (
            sum(row["epoch"] < state.epoch for row in state.lineage)
            * self.search.models
            * self.search.epoch_images
        )
        for chunk in state.generation.chunks:
            batch_size = chunk.program.plan.batch_size
            begun = state.epoch * updates_of_epoch(self.search.epoch_images, batch_size)
            seen += (chunk.state.step - begun) * batch_size * len(chunk.places)
        return seen

    def run(
        self,
        checkpointer: Checkpointer,
        least_active: int,
        stop: threading.Event,
        progress: Callable[[int, bool], None],
        warn: Callable[[str], None],
        out_of_time: Callable[[], bool],
        on_epoch: Callable[[dict[str, Any]], None],
    ) -> str:
        """Epoch after epoch until the search is over; returns why it is, nothing where stopped.

        Individuals with fewer than *least_active* latents are collapsed.
        """
        search = self.search
        while True:
            state = checkpointer.state
            with Judging(search.scorer, state.generation, self.dataset, self.folder) as judging:
                while not state.generation.train(
                    stop,
                    checkpointer.seconds_left(),
                    lambda images: progress(images, False),
                    judging.chunk_done,
                ):
                    checkpointer.save()
                    if stop.is_set():
                        return ""
                scores, active = judging.scores(), judging.active_latents()
            ranked = [search.scorer.better(score) for score in scores]
            rows = epoch_rows(search, state, scores, active, least_active)
            collapsed = [is_collapsed(row) for row in rows]
            # An epoch that was stopped after this is scored again when the search goes on; it must
            # not stand here twice.
            state.lineage = [row for row in state.lineage if row["epoch"] < state.epoch] + rows
            write_lineage(self.folder, self.digest, state.lineage)
            self._keep_best(state, rows, ranked, collapsed)
            best = best_by_epoch(state.lineage, search.scorer.better)
            sunk = best[-1].collapsed and math.isfinite(best[-1].score)
            told = {"epoch": state.epoch, "best": best[-1].score, "collapsed": sunk}
            counts = {"individuals": len(state.individuals), "images": rows[-1]["images"]}
            on_epoch({**told, **counts})
            if state.elite is None:
                checkpointer.save()
                raise self._no_scores(state.epoch)
            why = self._why_over(state.epoch, ranked, best, out_of_time)
            if why:
                count = sum(row["diverged"] for row in rows)
                if count:
                    warn(f"{count} of {len(rows)} individuals had diverged when the search ended.")
                return why
            checkpointer.state = self._selected(state, ranked, collapsed)
            failpoint("generation.replaced")
            if checkpointer.due():
                checkpointer.save()

    def _why_over(
        self,
        epoch: int,
        ranked: list[float],
        best: list[EpochBest],
        out_of_time: Callable[[], bool],
    ) -> str:
        """Why the search ends after *epoch*; empty where it goes on."""
        within, epochs = self.search.converged_within, self.search.converged_epochs
        if epoch + 1 >= self.search.epochs:
            return "all epochs are done"
        if not any(map(math.isfinite, ranked)):
            return "no individual has a score any more"
        # Where all are collapsed, a score that stands still is no convergence.
        scores = [math.nan if one.collapsed else one.score for one in best]
        if within and converged(scores, within, epochs):
            return f"the best score moved by less than {within:g} in each of {epochs} epochs"
        return "the time is up" if out_of_time() else ""

    def _selected(
        self,
        state: SearchState,
        ranked: list[float],
        collapsed: list[bool],
    ) -> SearchState:
        """Exploit and explore: the next epoch begins, with every state gathered on the device."""
        search, epoch = self.search, state.epoch + 1
        now = [one.values for one in state.individuals]
        individuals = next_individuals(
            ranked,
            now,
            search.evolved,
            search.rule,
            seed=search.seed,
            epoch=epoch,
            population=search.population,
            collapsed=collapsed,
        )
        places = [
            one.parent * search.models + number
            for one in individuals
            for number in range(search.models)
        ]
        # Held until the new one stands, so that it can be saved whatever happens here.
        old = state.generation
        generation = self.begin(
            epoch,
            individuals,
            lambda part: old.rows([places[place] for place in part]),
            before=old,
        )
        return SearchState(epoch, individuals, generation, state.lineage, state.elite)

    def _no_scores(self, epoch: int) -> NoScoresError:
        return NoScoresError(
            f"no member of the population has a score after epoch {epoch + 1}:"
            f" {self.search.scorer.metric} is NaN for every one, so that there is nothing to select"
            f" by. What trained so far is kept in {self.folder}. Start again with lower learning"
            " rates if the models diverged (see lineage.parquet), or with another score."
        )

    def _keep_best(
        self,
        state: SearchState,
        rows: list[dict[str, Any]],
        ranked: list[float],
        collapsed: list[bool],
    ) -> None:
        """Keep the best individual of an epoch where it is the best of all."""
        search, first, old = self.search, ranking(ranked, collapsed)[0], state.elite
        if not math.isfinite(ranked[first]):
            return
        # Of equals the one that has trained longer.
        if old is not None and (not collapsed[first], ranked[first]) < (
            not old.collapsed,
            search.scorer.better(old.score),
        ):
            return
        values = state.individuals[first].values
        updates = updates_of_epoch(search.epoch_images, search.batch_size(values))
        state.elite = Elite(
            epoch=state.epoch,
            individual=first,
            score=rows[first]["score"],
            values=dict(values),
            clock=(state.epoch + 1) * updates,
            rows=state.generation.rows(range(first * search.models, (first + 1) * search.models)),
            active_latents=rows[first]["active_latents"],
            collapsed=collapsed[first],
        )
