# SPDX-License-Identifier: Apache-2.0
"""`train`: a population from a dataset and objectives, and what a run can be asked afterwards."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unbraid.commands import options as declared
from unbraid.commands.options import Option, command, split_source
from unbraid.core.checks import is_whole
from unbraid.core.errors import Problems, Shown, StoppedError, invalid
from unbraid.core.folders import PAGES, given_path, next_folder
from unbraid.core.progress import Progress
from unbraid.core.spelling import split_list
from unbraid.population import defaults

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from unbraid.codes.model import Model
    from unbraid.data.dataset import Dataset
    from unbraid.population.member import Member
    from unbraid.population.run_folder import RunFolder


class Run:
    """A trained population: its members, curves, scores and models."""

    def __init__(self, folder: RunFolder, device: torch.device) -> None:
        """The run in *folder*; what is left to compute is computed on *device*."""
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
        """One row per member: hyperparameters, seed, how its training ended."""
        return self.folder.members()

    @property
    def history(self) -> pd.DataFrame:
        """Training curves: member, step, one column per recorded quantity."""
        return self.folder.history()

    def resume(self, *, steps: int | None = None, quiet: bool = False) -> Run:
        """Train and encode what is left; returns itself.

        With more *steps* than its plan had it trains on, if it kept the optimiser's state. Stopped
        by Ctrl-C it raises `StoppedError`, with everything so far on disk.
        """
        if steps is not None and steps != self.folder.plan.steps:
            self.folder.extend(steps)
        self._train(quiet)
        self._encode(quiet)
        return self

    def _train_and_score(self, metrics: Sequence[str], names: Sequence[str], quiet: bool) -> None:
        """Train, encode and score by *metrics*, which are *names* spelled out."""
        from unbraid.scoring.while_training import ScoringWhileTraining

        if ScoringWhileTraining.pays(self.device):
            scoring = ScoringWhileTraining(self.folder, names, self.device)
            try:
                self._train(quiet, scoring.chunk_done)
                scoring.finish()
            except BaseException as error:
                scoring.stop()
                if isinstance(error, (KeyboardInterrupt, StoppedError)):
                    raise StoppedError(
                        f"{stopped(self.path)}, then score: unbraid score {self.path}"
                    ) from None
                raise
        else:
            self._train(quiet)
        self._encode(quiet)
        if not self.failure:
            self.score(metrics, quiet=quiet)

    def _train(
        self, quiet: bool, chunk_done: Callable[[tuple[Member, ...]], None] = lambda chunk: None
    ) -> None:
        from unbraid.population.train import train_run

        plan = self.folder.plan
        with Progress("training", "model-steps", plan.steps * len(plan.members), quiet) as progress:
            outcome = train_run(
                self.folder, self.device, progress.advance, progress.say, chunk_done
            )
        if not outcome.finished:
            raise stopped(self.path)
        if outcome.diverged:
            ids = ", ".join(map(str, outcome.diverged))
            progress.say(
                f"{len(outcome.diverged)} of {len(plan.members)} members diverged and were frozen:"
                f" {ids}."
            )

    @property
    def failure(self) -> str:
        """What to change where every model diverged, so that there is nothing to look at; else
        empty. The command line ends with it, and with exit code 1.
        """
        members, plan = self.members, self.folder.plan
        if set(members["status"]) != {"diverged"}:
            return ""
        told = (
            f"every model of {self.path} diverged, the first at step {members['steps'].min()}: its"
            " loss or gradient was no finite number any more."
        )
        rates = [
            one.learning_rate for one in plan.members if not isinstance(one.learning_rate, str)
        ]
        usual = defaults.LEARNING_RATE
        if len(rates) < len(plan.members) or min(rates) > usual:
            shown = ", ".join(dict.fromkeys(f"{one.learning_rate}" for one in plan.members))
            return (
                f"{told} Train again, into a new folder, with a lower learning rate, such as"
                f" {usual}; it was {shown}."
            )
        weights = dict.fromkeys(
            f"{name} {value}" for one in plan.members for name, value in one.hyper.items()
        )
        return (
            f"{told} The learning rate of {min(rates)} is low already. Train again, into a new"
            f" folder, with other weights ({', '.join(weights) or 'the objective has none'}), or"
            f" {'with precision float32' if plan.precision != 'float32' else 'look at the data'}."
        )

    def summary(self) -> str:
        """How many models were trained, where they are, and what to type next."""
        from unbraid.data.where_rule import count_images

        lines, members, rule = [], self.members, self.folder.plan.where
        if rule:
            part = f"{count_images(rule, self.dataset):,} of {len(self.dataset):,} images"
            lines.append(f"Trained on {part}: {rule}")
        trained = members["status"].tolist().count("trained")
        lines.append(f"Trained {trained} of {len(members)} models: {self.path}")
        return "\n".join([*lines, f"Next:  unbraid score {self.path}"])

    def _encode(self, quiet: bool) -> None:
        from unbraid.codes.codes import CodeStore

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
        """Scores of every member beside its settings: one row per member, one column per metric.

        *metrics* are names, with options where wanted ("infomec:pruning=tripod"), or groups: usual
        (the six of Locatello et al. 2019), supervised, unsupervised, usefulness, all. Computed once
        and kept; the index holds member, objective and, of several, the representation. How many
        latents a model uses, and whether it is collapsed (`scoring/collapse.py`), stands before its
        scores; `attrs["remarks"]` has what must be known to read them.
        """
        import pandas as pd

        from unbraid.codes.codes import CodeStore
        from unbraid.codes.reconstructions import ReconstructionStore
        from unbraid.scoring.metric_names import asked, left_out, needs
        from unbraid.scoring.run_scores import (
            active_latents,
            check_request,
            collapsed_members,
            few_samples_lines,
            score_run,
        )

        names = asked(metrics)
        words = split_list(representation) if isinstance(representation, str) else representation
        kinds = list(dict.fromkeys(words))
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
                rows = score_run(
                    self.folder, names, kinds, progress.advance, progress.say, self.device
                )
            except KeyboardInterrupt:
                raise StoppedError(
                    f"stopped; the scores so far are kept in {self.path}. The same command goes on."
                ) from None
        table = rows[rows["quantity"] == "score"].pivot(
            index=["member", "representation"], columns="metric", values="value"
        )
        about = self.members.drop(columns=["label", "status", "steps"])
        scored = sorted({int(key[0]) for key in table.index})
        collapsed = collapsed_members(self.folder, scored)
        about = about.merge(
            pd.DataFrame(
                {
                    "member": scored,
                    "active_latents": list(active_latents(self.folder, scored).values()),
                    "collapsed": [one in collapsed for one in scored],
                }
            ).astype({"member": int}),
            on="member",
        )
        columns = [
            *about.columns,
            "representation",
            *(name for name in wanted if name in table.columns),
        ]
        table = table.reset_index().merge(about, on="member")[columns]
        keys = ["member", "objective"] + (["representation"] if len(kinds) > 1 else [])
        table = table.set_index(keys).drop(columns=["representation"], errors="ignore")
        table.attrs["remarks"] = [
            *few_samples_lines(self.folder, [n for n in wanted if n in table.columns], scored),
            *self._remarks(wanted, collapsed, len(scored)),
        ]
        return table.sort_index()

    def _remarks(self, metrics: Sequence[str], collapsed: dict[int, int], of: int) -> list[str]:
        """What must be known to read the scores by *metrics*, with some models *collapsed*."""
        from unbraid.scoring.collapse import collapse_remark, dead_codes_remark
        from unbraid.scoring.run_scores import varying_factors

        if not collapsed:
            return []
        latents = self.folder.plan.latents
        told = [collapse_remark(collapsed, latents, varying_factors(self.folder), of)]
        fond = {name: line for name in metrics if (line := dead_codes_remark(name))}
        return told + [f"{', '.join(fond)}: {line}." for line in set(fond.values())]

    def _require_trained(self) -> None:
        for chunk in self.folder.chunks():
            self.folder.trained(chunk)

    def best(self, metric: str, *, collapsed: bool = False) -> Model:
        """The model with the best score: the highest, or the lowest where lower is better.

        Models that are collapsed, whose scores mean nothing, take part where *collapsed* is True.
        """
        from unbraid.scoring.collapse import REMEDY
        from unbraid.scoring.metric_names import GROUPS, higher_is_better

        if not isinstance(metric, str) or metric in GROUPS:
            raise invalid("metric", "must be a single one, by its name", metric)
        table = self.score(metric, quiet=True)
        if metric not in table or bool(table[metric].isna().all()):
            raise invalid("metric", "has no value for any member of the run", metric)
        if not collapsed:
            table = table[~table["collapsed"] & table[metric].notna()]
            if not len(table):
                rule = "needs a model that is not collapsed"
                remedy = f"{REMEDY} To take one all the same: {{collapsed=True}}."
                raise invalid("best", rule, Shown(f"none with a value in {self.path}"), remedy)
        values = table[metric] if higher_is_better(metric) else -table[metric]
        return self.model(int(values.idxmax()[0]))  # type: ignore[index]

    def model(self, member: int) -> Model:
        """One trained model of the population."""
        from unbraid.codes.model import Model

        ids = [one.id for one in self.folder.plan.members]
        if not is_whole(member) or member not in ids:
            raise invalid("member", f"must be one of 0..{ids[-1]}", member)
        return Model(self.folder, int(member))

    def report(self, out: str | Path | None = None) -> Path:
        """Write report.html and return its path: in the run, or by *out* in a folder or a file."""
        from unbraid.report.page import page_place, write_page
        from unbraid.report.train.context import page_context, write_report

        place = None if out is None else page_place(out, PAGES["train"], "report")
        if place is None and not os.access(self.path, os.W_OK):
            remedy = "Write the page elsewhere: {out=FOLDER}."
            raise invalid("run", "must be a folder that can be written", str(self.path), remedy)
        self._require_trained()
        self._encode(quiet=True)
        if place is None:
            return write_report(self.folder)
        return write_page(place, "train", page_context(self.folder))


def stopped(path: Path) -> StoppedError:
    """What is said after Ctrl-C."""
    return StoppedError(
        f"stopped; everything so far is in {path}. Go on with: unbraid resume {path}"
    )


@command
def train(
    data: declared.Data,
    objective: declared.Objectives = defaults.OBJECTIVE,
    *,
    seeds: declared.Seeds = 1,
    steps: Annotated[int, Option("Training steps of each model.")] = defaults.STEPS,
    batch_size: Annotated[int, Option("Images per training step.")] = defaults.BATCH_SIZE,
    learning_rate: declared.Rates = defaults.LEARNING_RATE,
    latents: declared.Latents = defaults.LATENTS,
    network: declared.NetworkName = defaults.NETWORK,
    likelihood: declared.LikelihoodName = None,
    prior: declared.Priors = defaults.PRIOR,
    supervision: declared.Supervisions = None,
    standardise: declared.Standardise = False,
    convention: Annotated[
        str,
        Option("sum, or mean for a beta of papers that average over pixels and latents."),
    ] = defaults.CONVENTION,
    precision: declared.Precision = "auto",
    where: declared.Where = None,
    code_samples: declared.CodeSamples = defaults.CODE_SAMPLES,
    checkpoint_seconds: declared.CheckpointSeconds = defaults.CHECKPOINT_SECONDS,
    keep_optimiser: declared.KeepOptimiser = False,
    log_every: declared.LogEvery = None,
    hyper: declared.Hyper = None,
    data_options: declared.DataOptions = None,
    network_options: declared.NetworkOptions = None,
    prior_options: declared.PriorOptions = None,
    score: declared.ScoresToo = None,
    out: declared.Out = None,
    device: declared.Device = "auto",
    quiet: declared.Quiet = False,
    command: declared.Command = "",
) -> Run:
    """Train a population: every combination of the listed values, times the seeds.

    Hyperparameters go with their objective, and lists are sweeps: `factor_vae:gamma=10,20`, in
    Python `FactorVAE(gamma=[10, 20])`. One that only one of the objectives has may be a flag:
    `--beta 1,4,16`. A number may change while it trains: `--beta "linear(0, 4, 10000)"`.
    """
    from unbraid.population.devices import choose_device, chunk_size, usual_precision
    from unbraid.population.plan import make_plan
    from unbraid.population.run_folder import RunFolder, check_free
    from unbraid.scoring.metric_names import asked
    from unbraid.scoring.run_scores import check_metrics

    problems = Problems()
    for name, given in (
        ("hyper", hyper),
        ("data_options", data_options),
        ("network_options", network_options),
        ("prior_options", prior_options),
    ):
        if given is not None and not isinstance(given, dict):
            problems.add(name, "must be a dictionary", given, f"For example {name}={{'x': 3}}.")
    problems.collect(lambda: declared.check_path("out", out))
    problems.raise_if_any()
    chosen = choose_device(declared.device_name(device))
    source, source_options = split_source(data, data_options)
    plan, dataset = make_plan(
        source,
        objective,
        data_options=source_options,
        hyper=hyper,
        seeds=seeds,
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,  # pyright: ignore[reportArgumentType]
        latents=latents,
        network=network,
        network_options=network_options,
        likelihood=likelihood,
        prior=prior,
        prior_options=prior_options,
        supervision=supervision,
        standardise=standardise,
        convention=convention,
        precision=usual_precision(chosen) if precision == "auto" else precision,
        where=where,
        log_every=log_every,
        checkpoint_seconds=checkpoint_seconds,
        code_samples=code_samples,
        command=command,
    )
    stem = f"{plan.data}-{plan.members[0].objective}"
    folder = given_path("out", out) if out is not None else next_folder(stem)
    metrics = [] if score is None else asked(score)
    names = (
        []
        if score is None
        else check_metrics(folder, metrics, problems, labelled=dataset.labelled, option="score")
    )
    problems.raise_if_any()
    if not quiet:
        for line in dict.fromkeys(
            line for member in plan.members for line in member.remarks(plan.steps)
        ):
            print(f"{line}.", file=sys.stderr, flush=True)
    check_free(folder)
    size = chunk_size(plan, dataset, chosen)
    made = RunFolder.create(folder, plan, size, dataset, keep_optimiser=keep_optimiser)
    run = Run(made, chosen)
    if score is None:
        return run.resume(quiet=quiet)
    run._train_and_score(metrics, names, quiet)
    return run


def shown(verb: str, run: Run, given: dict[str, Any]) -> str:
    """What was trained, its scores where they were asked for, and what to type next."""
    from unbraid.commands.score import shown as shown_scores

    if "score" not in given:
        return run.summary()
    trained, _, _ = run.summary().rpartition("\n")
    table = run.score(given["score"], quiet=True)
    return f"{trained}\n\n{shown_scores('score', table, {'folder': run.path})}"


def open_run(path: str | Path, *, data: declared.MovedData = None, device: str = "auto") -> Run:
    """The run in a folder; *data* where it was moved, or was an array in memory."""
    from unbraid.population.devices import choose_device
    from unbraid.population.run_folder import RunFolder

    if path is None:
        raise invalid("run", "must be the path of a run folder", path)
    declared.check_path("run", path)
    folder = RunFolder.open(path)
    if data is not None:
        folder.use(declared.open_data(data))
    return Run(folder, choose_device(declared.device_name(device)))


def resume_folder(
    folder: Path, data: declared.MovedData, device: str, quiet: bool, steps: int | None = None
) -> Run:
    """Go on with the run in *folder*."""
    return open_run(folder, data=data, device=device).resume(steps=steps, quiet=quiet)
