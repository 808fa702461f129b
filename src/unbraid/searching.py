# SPDX-License-Identifier: Apache-2.0
"""The Python door to searches: `evolve` (population-based training), `recurse` (rPU-VAE), and `resume_search` for both.

The command line calls the same: `unbraid pbt`, `unbraid rpu run`, `unbraid resume`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from unbraid.data import load
from unbraid.data.dataset import Dataset
from unbraid.errors import InputError, UnbraidError, unknown
from unbraid.population.devices import choose_device, usual_precision
from unbraid.population.plan import make_plan
from unbraid.progress import Progress
from unbraid.run import Run, next_folder
from unbraid.search.recursion import Recursion, Stage, make_recursion
from unbraid.search.search_plan import SearchPlan, make_search
from unbraid.search.search_run import SearchOutcome, SearchRun

if TYPE_CHECKING:
    import pandas as pd


class Search:
    """A finished search: its lineage, and the winner as a run."""

    def __init__(self, run: SearchRun, device: torch.device) -> None:
        self.run = run
        self.device = device

    def __repr__(self) -> str:
        """The folder and what it was selected by."""
        return f"<Search {self.path}: {self.run.search.population} individuals by {self.run.search.judge.metric}>"

    @property
    def path(self) -> Path:
        """The folder."""
        return self.run.path

    @property
    def lineage(self) -> pd.DataFrame:
        """One row for each individual and epoch: parent, change, hyper-parameters, score."""
        return self.run.lineage

    @property
    def score(self) -> float:
        """Of the winner, by the metric of the search."""
        return self.run.winner_record()["score"]

    @property
    def winner(self) -> Run:
        """The models of the best individual of all epochs, as a run like any other."""
        return Run(self.run.winner(), self.device)

    def page(self) -> Path:
        """Write search.html (lineage, scores and hyper-parameters by epoch) and return its path."""
        from unbraid.report.search_page import write_search_page

        search, record = self.run.search, self.run.winner_record()
        told = {
            "Individuals": f"{search.population}" + (f" of {search.models} models each" if search.models > 1 else ""),
            "Score": search.judge.metric,
            "Pictures scored on": f"at most {search.judge.points or 50_000:,}" + ("" if search.judge.points else " a level"),
            "Epoch": f"{search.epoch_pictures:,} pictures a model",
            "Data": f"{search.plan.data}, {len(self.run.dataset):,} pictures",
            "Objective": search.plan.members[0].objective,
            "Network": search.plan.network,
            "Replaced after an epoch": f"{search.rule.share:.0%}" if search.rule.share else "none (random search)",
            "Seed": f"{search.seed}",
        }
        return write_search_page(
            self.path / "search.html",
            title=f"{search.plan.data} · {search.plan.members[0].objective} · by {search.judge.metric}",
            lineage=self.lineage,
            score_label=search.judge.metric,
            winner=(record["epoch"], record["individual"], record["score"]),
            facts=told,
            commands=[
                (f"unbraid score {self.path}", "scores the winner's models"),
                (f"unbraid report {self.path}", "shows what the winner's latents do to a picture"),
            ],
        )


def evolve(
    data: Any, objective: Any = "beta_tcvae", *, out: str | Path | None = None, device: str = "auto", precision: str = "auto",
    quiet: bool = False, **options: Any,
) -> Search:  # fmt: skip
    """Train a population whose worst members take over from its best, by any score; returns the finished search.

    Options are those of `unbraid.search.search_plan.make_search` and, for what all models share, of `unbraid.train`.
    """
    chosen = choose_device(device)
    _check_names(options, make_search)
    search, dataset = make_search(data, objective, precision=_precision(precision, chosen), **options)
    folder = Path(out) if out is not None else next_folder(f"{search.plan.data}-pbt-{search.judge.metric}")
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
        return Search(self.recursion.final(self.recursion.plan.leaf_runs if leaf_runs is None else leaf_runs), self.device)

    def table(self) -> pd.DataFrame:
        """One row a stage; with MIG and DCI of the final populations where the data has factors."""
        import pandas as pd

        rows = []
        for stage in self.stages:
            row: dict[str, Any] = {
                "stage": stage.name,
                "pictures": stage.pictures,
                "score": stage.score,
                "active": len(stage.active),
            }
            row["ended"] = stage.ended
            if stage.name.startswith("final") and self.recursion.dataset.labelled:
                winner = self.final(int(stage.name.removeprefix("final-"))).winner
                row |= {
                    name: float(value) for name, value in winner.score(["mig", "dci"], quiet=True)[["mig", "dci"]].iloc[0].items()
                }
            rows.append(row)
        return pd.DataFrame(rows)


def recurse(
    data: Any, objective: Any = "beta_tcvae", *, out: str | Path | None = None, device: str = "auto", precision: str = "auto",
    quiet: bool = False, **options: Any,
) -> Recursed:  # fmt: skip
    """rPU-VAE: search without labels, reduce, search again, and train a final population on the labels so found.

    Options are those of `unbraid.search.recursion.make_recursion`, of `evolve` for each search, and of `unbraid.train`.
    """
    chosen = choose_device(device)
    _check_names(options, make_search, make_recursion)
    plan, dataset = make_recursion(data, objective, precision=_precision(precision, chosen), **options)
    folder = Path(out) if out is not None else next_folder(f"{plan.root.plan.data}-rpu")
    return _recursed(Recursion.create(folder, plan, dataset), chosen, quiet)


def resume_search(path: str | Path, *, data: Any = None, device: str = "auto", quiet: bool = False) -> Search | Recursed:
    """Go on with a search or a recursion that was stopped; a finished one is opened."""
    chosen = choose_device(device)
    opened = Recursion.open(path) if Recursion.is_recursion(path) else SearchRun.open(path)
    if data is not None:
        opened.use(data if isinstance(data, Dataset) else load(data))
    return _recursed(opened, chosen, quiet) if isinstance(opened, Recursion) else _searched(opened, chosen, quiet)


def train_search(
    name: str, run: SearchRun, device: torch.device, quiet: bool, out_of_time: Callable[[], bool] = lambda: False
) -> SearchOutcome:
    """Train one search with a progress bar called *name* and a line an epoch."""
    search = run.search
    with Progress(name, "pictures", _pictures(search), quiet) as progress:

        def tell(epoch: dict[str, Any]) -> None:
            progress.say(f"{name}: epoch {epoch['epoch'] + 1} of {search.epochs}, best {search.judge.metric} {epoch['best']:.3f}")

        outcome = run.train(device, progress.advance, progress.say, out_of_time=out_of_time, told_epoch=tell)
        if outcome.finished and outcome.why not in ("found done", "all epochs are done"):
            progress.say(f"{name}: ends since {outcome.why}")
    return outcome


def stopped(path: Path) -> UnbraidError:
    """What is said after Ctrl-C."""
    return UnbraidError(f"stopped; everything so far is in {path}. Go on with: unbraid resume {path}")


def _searched(run: SearchRun, device: torch.device, quiet: bool) -> Search:
    if not train_search("searching", run, device, quiet).finished:
        raise stopped(run.path)
    made = Search(run, device)
    made.page()
    return made


def _recursed(recursion: Recursion, device: torch.device, quiet: bool) -> Recursed:
    with Progress("recursion", "stages", 0, quiet) as progress:
        try:
            stages = recursion.train(device, lambda name, run: train_search(name, run, device, quiet), progress.say)
        except KeyboardInterrupt:  # between two stages
            raise stopped(recursion.path) from None
    if stages is None:
        raise stopped(recursion.path)
    for search in recursion.searches():
        Search(search, device).page()
    return Recursed(recursion, stages, device)


def _pictures(search: SearchPlan) -> int:
    """How many pictures all models see if the search takes all its epochs."""
    return search.epoch_pictures * (search.trained_models + (search.epochs - 1) * search.population * search.models)


def _precision(given: str, device: torch.device) -> str:
    return usual_precision(device) if given == "auto" else given


def _check_names(options: dict[str, Any], *functions: Callable[..., Any]) -> None:
    shared = set(inspect.signature(make_plan).parameters) - {"seeds", "steps"}
    known = shared.union(*(inspect.signature(one).parameters for one in functions)) - {"data", "objective", "options", "surrogates"}
    for name in options.keys() - known:
        raise InputError(unknown("option", name, known))
