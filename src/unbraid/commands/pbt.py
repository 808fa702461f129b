# SPDX-License-Identifier: Apache-2.0
"""The Python door to searches: `evolve` (population-based training), `recurse` (rPU-VAE), and
`resume_search` for both.

The command line calls the same: `unbraid pbt`, `unbraid rpu run`, `unbraid resume`.
"""

from __future__ import annotations

import inspect
import math
import textwrap
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from unbraid.commands.train import Run, next_folder
from unbraid.core.errors import InputError, StoppedError, UnbraidError, unknown
from unbraid.core.folders import PAGES
from unbraid.core.progress import Progress
from unbraid.data import load
from unbraid.data.dataset import Dataset
from unbraid.population.devices import choose_device, usual_precision
from unbraid.population.plan import make_plan
from unbraid.search.pbt.plan import SearchOptions, SearchPlan, make_search
from unbraid.search.pbt.scorer import SURROGATES
from unbraid.search.pbt.search import SearchOutcome, SearchRun
from unbraid.search.rpu.plan import make_recursion
from unbraid.search.rpu.recursion import Recursion
from unbraid.search.rpu.stages import Stage, StageKind

if TYPE_CHECKING:
    import pandas as pd

_SHORT = 54
"""Characters that the terminal has for why a stage ended, in lines of 120."""


class Search:
    """A finished search: its lineage, and the winner as a run."""

    def __init__(self, run: SearchRun, device: torch.device) -> None:
        self.run = run
        self.device = device

    def __repr__(self) -> str:
        """The folder and what it was selected by."""
        return (
            f"<Search {self.path}: {self.run.search.population} individuals by"
            f" {self.run.search.scorer.metric}>"
        )

    @property
    def path(self) -> Path:
        """The folder."""
        return self.run.path

    @property
    def lineage(self) -> pd.DataFrame:
        """One row for each individual and epoch: parent, change, hyperparameters, score."""
        return self.run.lineage

    @property
    def score(self) -> float:
        """Of the winner, by the metric of the search."""
        return self.run.winner_record()["score"]

    @property
    def winner(self) -> Run:
        """The models of the best individual of all epochs, as a run like any other."""
        return Run(self.run.winner(), self.device)

    def page(self, stage: str = "", home: str = "") -> Path:
        """Write pbt.html (lineage, scores and hyperparameters by epoch) and return its path.

        *stage* says of which stage of a recursion it is, whose page is *home*.
        """
        from unbraid.report.pbt.context import write_pbt

        search, record = self.run.search, self.run.winner_record()
        metric = (
            "gap with surrogate labels"
            if search.scorer.metric == SURROGATES
            else search.scorer.metric
        )
        data = search.plan.data if not stage else f"{stage} of a recursion"
        told = {
            "Models of an individual": f"{search.models}",
            "Score": metric,
            "Images scored on": (
                f"at most {search.scorer.points or 50_000:,}"
                + ("" if search.scorer.points else " a level")
            ),
            "Epoch": f"{search.epoch_images:,} images a model",
            "Data": f"{search.plan.data}, {len(self.run.dataset):,} images",
            "Objective": search.plan.members[0].objective,
            "Network": search.plan.network,
            "Replaced after an epoch": (
                f"{search.rule.share:.0%}" if search.rule.share else "none (random search)"
            ),
            "Seed": f"{search.seed}",
        }
        return write_pbt(
            self.path / PAGES["pbt"],
            title=f"{data} · {search.plan.members[0].objective} · by {metric}",
            lineage=self.lineage,
            score_label=metric,
            home=home,
            winner=(record["epoch"], record["individual"], record["score"]),
            facts=told,
            commands=[
                (f"unbraid score {self.path}", "scores the winner's models"),
                (f"unbraid report {self.path}", "shows what the winner's latents do to an image"),
            ],
        )


def evolve(
    data: Any, objective: Any = "beta_tcvae", *, out: str | Path | None = None, device: str = "auto", precision: str = "auto",
    quiet: bool = False, **options: Any,
) -> Search:  # fmt: skip
    """Train a population whose worst members take over from its best, by any score; returns the
    finished search.

    Options are those of `unbraid.search.pbt.plan.make_search` and, for what all models share, of
    `unbraid.train`.
    """
    chosen = choose_device(device)
    _check_names(options, make_search)
    search, dataset = make_search(
        data, objective, precision=_precision(precision, chosen), **options
    )
    folder = (
        Path(out)
        if out is not None
        else next_folder(f"{search.plan.data}-pbt-{search.scorer.metric}")
    )
    return _searched(SearchRun.create(folder, search, dataset), chosen, quiet)


class Recursed:
    """A finished recursion: its stages, and the final populations."""

    def __init__(self, recursion: Recursion, stages: list[Stage], device: torch.device) -> None:
        self.recursion, self.stages, self.device = recursion, stages, device

    def __repr__(self) -> str:
        """The folder."""
        return f"<Recursed {self.path}: {len(self.stages)} stages>"

    @property
    def path(self) -> Path:
        """The folder."""
        return self.recursion.path

    def final(self, leaf_runs: int | None = None) -> Search:
        """The final population that used so many leaf-runs; the most by default."""
        return Search(
            self.recursion.final(self.recursion.plan.leaf_runs if leaf_runs is None else leaf_runs),
            self.device,
        )

    @cached_property
    def final_scores(self) -> dict[int, dict[str, float]]:
        """MIG and DCI of every final winner by its number of leaf-runs; empty where the data has no
        factors.
        """
        finals = [stage.leaf_runs for stage in self.stages if stage.kind is StageKind.FINAL]
        if not self.recursion.dataset.labelled:
            return {}
        try:
            winners = {
                count: self.final(count).winner.score(["mig", "dci"], quiet=True).iloc[0]
                for count in finals
            }
        except StoppedError:
            raise stopped(self.path) from None
        return {
            count: {name: float(scores[name]) for name in ("mig", "dci")}
            for count, scores in winners.items()
        }

    def table(self) -> pd.DataFrame:
        """One row a stage; with MIG and DCI of the final populations where the data has factors."""
        import pandas as pd

        rows = []
        for stage in self.stages:
            labelled = math.isfinite(stage.score) and stage.kind is not StageKind.FINAL
            row = {"stage": stage.name, "images": stage.images or None, "score": stage.score}
            row["active"] = len(stage.active) if labelled else None
            rows.append({**row, "ended": stage.ended, **self._known(stage)})
        # Where a number does not apply there is none, which is not 0.
        return pd.DataFrame(rows).astype({"images": "Int64", "active": "Int64"})

    def summary(self) -> str:
        """The stages in lines of at most 120 characters, where the page is, and what to type next."""
        from unbraid.report.rpu.context import following_commands

        known = ("mig", "dci") if self.final_scores else ()
        rows = [["stage", "images", "score", "active", *known, "ended"]]
        for stage in self.stages:
            scores = [_score(self._known(stage).get(name, math.nan)) for name in known]
            images = f"{stage.images:,}" if stage.images else ""
            active = (
                f"{len(stage.active)}"
                if math.isfinite(stage.score) and stage.kind is not StageKind.FINAL
                else ""
            )
            # The page and `table` have the whole sentence.
            ended = textwrap.shorten(stage.ended.partition(":")[0], _SHORT, placeholder=" ...")
            rows.append([stage.name, images, _score(stage.score), active, *scores, ended])
        stages, *numbers, ends = zip(*rows, strict=True)
        columns = [
            _aligned(stages, str.ljust),
            *(_aligned(column, str.rjust) for column in numbers),
            ends,
        ]
        lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
        command, _ = following_commands(self.path, self.stages)[0]
        lines += [
            "Every stage is a search of its own, with a pbt.html in its folder.",
            f"Open in a browser: {self.path / PAGES['rpu']}",
        ]
        return "\n".join([*lines, f"Next:  {command}"])

    def page(self) -> Path:
        """Write rpu.html (stages, what leaf-runs add, what was found and cut) and return its
        path.
        """
        from unbraid.report.rpu.context import write_rpu

        return write_rpu(self.recursion, self.stages, self.final_scores, self.device)

    def _known(self, stage: Stage) -> dict[str, float]:
        return self.final_scores.get(stage.leaf_runs, {}) if stage.kind is StageKind.FINAL else {}


def recurse(
    data: Any, objective: Any = "beta_tcvae", *, out: str | Path | None = None, device: str = "auto", precision: str = "auto",
    quiet: bool = False, **options: Any,
) -> Recursed:  # fmt: skip
    """rPU-VAE: search without labels, reduce, search again, and train a final population on the
    labels so found.

    Options are those of `unbraid.search.rpu.recursion.make_recursion`, of `evolve` for each search,
    and of `unbraid.train`.
    """
    chosen = choose_device(device)
    _check_names(options, make_search, make_recursion)
    plan, dataset = make_recursion(
        data, objective, precision=_precision(precision, chosen), **options
    )
    folder = Path(out) if out is not None else next_folder(f"{plan.root.plan.data}-rpu")
    return _recursed(Recursion.create(folder, plan, dataset), chosen, quiet)


def resume_search(
    path: str | Path, *, data: Any = None, device: str = "auto", quiet: bool = False
) -> Search | Recursed:
    """Go on with a search or a recursion that was stopped; a finished one is opened."""
    chosen = choose_device(device)
    opened = Recursion.open(path) if Recursion.is_recursion(path) else SearchRun.open(path)
    if data is not None:
        opened.use(data if isinstance(data, Dataset) else load(data))
    return (
        _recursed(opened, chosen, quiet)
        if isinstance(opened, Recursion)
        else _searched(opened, chosen, quiet)
    )


def train_search(
    name: str,
    run: SearchRun,
    device: torch.device,
    quiet: bool,
    out_of_time: Callable[[], bool] = lambda: False,
    score: str = "",
    ends: float = math.inf,
) -> SearchOutcome:
    """Train one search with a progress bar called *name* and a line an epoch, in which *score*
    stands for the metric's name.

    *ends* is when *out_of_time* will say that it is.
    """
    search = run.search
    with Progress(name, "images", _images(search), quiet, ends) as progress:

        def tell(epoch: dict[str, Any]) -> None:
            progress.say(
                f"{name}: epoch {epoch['epoch'] + 1} of {search.epochs}, best"
                f" {score or search.scorer.metric} {epoch['best']:.3f}"
            )

        outcome = run.train(
            device, progress.advance, progress.say, out_of_time=out_of_time, told_epoch=tell
        )
        if outcome.finished and outcome.why not in ("found done", "all epochs are done"):
            progress.say(f"{name}: ends since {outcome.why}")
    return outcome


def stopped(path: Path) -> UnbraidError:
    """What is said after Ctrl-C."""
    return StoppedError(
        f"stopped; everything so far is in {path}. Go on with: unbraid resume {path}"
    )


def _searched(run: SearchRun, device: torch.device, quiet: bool) -> Search:
    if not train_search("searching", run, device, quiet).finished:
        raise stopped(run.path)
    made = Search(run, device)
    made.page()
    return made


def _recursed(recursion: Recursion, device: torch.device, quiet: bool) -> Recursed:
    with Progress("recursion", "stages", 0, quiet) as progress:
        try:
            stages = recursion.train(
                device,
                lambda stage, run: train_search(stage.name, run, device, quiet),
                progress.say,
            )
            if stages is None:
                raise stopped(recursion.path)
            made = Recursed(recursion, stages, device)
            for stage, search in recursion.searches():
                home = "../" * (stage.name.count("/") + 1) + PAGES["rpu"]
                Search(search, device).page(stage.name, home)
            progress.say("scoring the final winners and writing pages")
            made.page()
        except KeyboardInterrupt:  # between two stages, or while pages are written
            raise stopped(recursion.path) from None
    return made


def _score(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else ""


def _aligned(column: Sequence[str], to: Callable[[str, int], str]) -> list[str]:
    """Cells of one width."""
    return [to(cell, max(map(len, column))) for cell in column]


def _images(search: SearchPlan) -> int:
    """How many images all models see if the search takes all its epochs."""
    return search.epoch_images * (
        search.trained_models + (search.epochs - 1) * search.population * search.models
    )


def _precision(given: str, device: torch.device) -> str:
    return usual_precision(device) if given == "auto" else given


def _check_names(options: dict[str, Any], *functions: Callable[..., Any]) -> None:
    shared = set(inspect.signature(make_plan).parameters) - {"seeds", "steps"}
    own = {name for one in functions for name in inspect.signature(one).parameters}
    known = (shared | own | set(SearchOptions.__annotations__)) - {
        *("data", "objective", "shared", "search")
    }
    for name in options.keys() - known:
        raise InputError(unknown("option", name, known))
