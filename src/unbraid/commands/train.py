# SPDX-License-Identifier: Apache-2.0
"""The Python door: `train`, `open_run`, and what a run and a trained model can be asked. The
command line calls the same.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from unbraid.codes.codes import CodeStore
from unbraid.codes.model import Model
from unbraid.codes.reconstructions import ReconstructionStore
from unbraid.core.errors import InputError, StoppedError, UnbraidError, invalid, unknown
from unbraid.core.progress import Progress
from unbraid.data import load
from unbraid.data.dataset import Dataset
from unbraid.population.devices import choose_device, chunk_size, usual_precision
from unbraid.population.plan import make_plan
from unbraid.population.run_folder import RunFolder, check_free
from unbraid.population.train import train_run
from unbraid.scoring.metric_names import GROUPS, higher_is_better, left_out, needs
from unbraid.scoring.run_scores import check_request, score_run

if TYPE_CHECKING:
    import pandas as pd


class Run:
    """A trained population: its members, curves, scores and models."""

    def __init__(self, folder: RunFolder, device: torch.device) -> None:
        self.folder = folder
        self.device = device

    def __repr__(self) -> str:
        """The folder and what it holds."""
        return (
            f"<Run {self.path}: {len(self.folder.plan.members)} models on {self.folder.plan.data}>"
        )

    @property
    def path(self) -> Path:
        """The run folder."""
        return self.folder.path

    @property
    def dataset(self) -> Dataset:
        """What the population was trained on."""
        return self.folder.dataset

    @property
    def members(self) -> pd.DataFrame:
        """One row a member: hyperparameters, seed, how its training ended."""
        return self.folder.members()

    @property
    def history(self) -> pd.DataFrame:
        """Training curves: member, step, one column a recorded quantity."""
        return self.folder.history()

    def resume(self, *, quiet: bool = False) -> Run:
        """Train and encode what is left; returns itself. Stopped by Ctrl-C it raises, with
        everything so far on disk.
        """
        plan = self.folder.plan
        with Progress("training", "model-steps", plan.steps * len(plan.members), quiet) as progress:
            outcome = train_run(self.folder, self.device, progress.advance, progress.say)
        if not outcome.finished:
            raise UnbraidError(
                f"stopped; everything so far is in {self.path}. Go on with: unbraid resume"
                f" {self.path}"
            )
        if outcome.diverged:
            ids = ", ".join(map(str, outcome.diverged))
            progress.say(
                f"{len(outcome.diverged)} of {len(plan.members)} members diverged and were frozen:"
                f" {ids}."
            )
        self._encode(quiet)
        return self

    def _encode(self, quiet: bool) -> None:
        store = CodeStore(self.folder)
        missing = store.missing()
        if not missing:
            return
        images = min(self.folder.plan.code_samples, len(self.dataset))
        with Progress("encoding", "images", images * len(missing), quiet) as progress:
            store.encode(self.device, progress.advance)

    def score(
        self,
        metrics: str | Sequence[str] = "usual",
        *,
        representation: str | Sequence[str] = "mean",
        quiet: bool = False,
    ) -> pd.DataFrame:
        """Scores of every member, one row each and one column a metric, beside its hyperparameters
        and seed.

        *metrics* are names, with options where wanted ("infomec:pruning=tripod"), or groups: usual (the six of Locatello et al.
        2019), supervised, unsupervised, usefulness, all. Computed once and kept; the index holds
        member, objective and (where several are asked for) representation.
        """
        names = [metrics] if isinstance(metrics, str) else list(metrics)
        kinds = list(
            dict.fromkeys([representation] if isinstance(representation, str) else representation)
        )
        self._require_trained()
        with Progress("scoring", "scores", 0, quiet) as progress:
            wanted = check_request(self.folder, names, kinds)
            if missing := left_out(names, wanted):
                progress.say(f"Left out for lack of factors: {', '.join(missing)}.")
            self._encode(quiet=True)
            if any(needs(name) == "elbo" for name in wanted):
                ReconstructionStore(CodeStore(self.folder)).measure(self.device)
            progress.total(
                len(self.members.query("status != 'diverged'")) * len(wanted) * len(kinds)
            )
            try:
                rows = score_run(self.folder, names, kinds, progress.advance, progress.say)
            except KeyboardInterrupt:
                raise StoppedError(
                    f"stopped; the scores so far are kept in {self.path}. The same command goes on."
                ) from None
        table = rows[rows["quantity"] == "score"].pivot(
            index=["member", "representation"], columns="metric", values="value"
        )
        about = self.members.drop(columns=["label", "status", "steps"])
        columns = [
            *about.columns,
            "representation",
            *(name for name in wanted if name in table.columns),
        ]
        table = table.reset_index().merge(about, on="member")[columns]
        keys = ["member", "objective"] + (["representation"] if len(kinds) > 1 else [])
        return table.set_index(keys).drop(columns=["representation"], errors="ignore").sort_index()

    def _require_trained(self) -> None:
        for chunk in self.folder.chunks():
            self.folder.trained_state(chunk)

    def best(self, metric: str) -> Model:
        """The model with the best score: the highest, or the lowest where lower is better."""
        if metric in GROUPS:
            raise invalid("metric", "must be a single one", metric)
        table = self.score(metric, quiet=True)
        if metric not in table or bool(table[metric].isna().all()):
            raise invalid("metric", "has no value for any member of the run", metric)
        values = table[metric] if higher_is_better(metric) else -table[metric]
        return self.model(int(values.idxmax()[0]))  # type: ignore[index]

    def model(self, member: int) -> Model:
        """One trained model of the population."""
        ids = [one.id for one in self.folder.plan.members]
        if member not in ids:
            raise invalid("member", f"must be one of 0..{ids[-1]}", member)
        return Model(self.folder, member)

    def report(self) -> Path:
        """Write report.html and return its path."""
        from unbraid.report.train.context import write_report

        self._require_trained()
        self._encode(quiet=True)
        return write_report(self.folder)


def train(
    data: Any,
    objective: Any = "beta_vae",
    *,
    out: str | Path | None = None,
    device: str = "auto",
    precision: str = "auto",
    quiet: bool = False,
    **options: Any,
) -> Run:
    """Train a population and return its run. See `unbraid.population.plan.make_plan` for the
    options.

    *out* is the run folder; without it, the next free `runs/<data>-<objective>-<n>`. *precision* is float32, bfloat16, or what is
    usual on the device.
    """
    chosen = choose_device(device)
    known = set(inspect.signature(make_plan).parameters) - {"data", "objective"}
    for name in options.keys() - known:
        remedy = (
            "Hyperparameters go into the objective, as in BetaVAE(beta=[1, 4]); options of the data"
            " into data_options={...}."
        )
        raise InputError(unknown("option of train", name, known, remedy))
    precision = usual_precision(chosen) if precision == "auto" else precision
    plan, dataset = make_plan(data, objective, precision=precision, **options)
    if not quiet:
        for line in dict.fromkeys(
            line for member in plan.members for line in member.build().remarks(plan.steps)
        ):
            print(f"{line}.", file=sys.stderr, flush=True)
    folder = (
        Path(out) if out is not None else next_folder(f"{plan.data}-{plan.members[0].objective}")
    )
    check_free(folder)
    run = RunFolder.create(folder, plan, chunk_size(plan, dataset, chosen), dataset)
    return Run(run, chosen).resume(quiet=quiet)


def next_folder(stem: str, parent: str = "runs") -> Path:
    """The first of <parent>/<stem>-1, -2, ... that is free."""
    stem = re.sub(r"[^A-Za-z0-9_-]+", "-", stem)
    number = 1
    while (Path(parent) / f"{stem}-{number}").exists():
        number += 1
    return Path(parent) / f"{stem}-{number}"


def open_run(path: str | Path, *, data: Any = None, device: str = "auto") -> Run:
    """The run in a folder; *data* is needed only where it was trained on an array in memory."""
    folder = RunFolder.open(path)
    if data is not None:
        folder.use(data if isinstance(data, Dataset) else load(data))
    return Run(folder, choose_device(device))
