# SPDX-License-Identifier: Apache-2.0
"""Scores of every stored member of a run: one row for each number, in parallel and resumable."""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

from unbraid.codes.codes import REPRESENTATIONS, CodeStore
from unbraid.codes.reconstructions import ReconstructionStore
from unbraid.core.errors import InputError, Problem, Problems, Shown, invalid, unknown
from unbraid.core.files import only_one
from unbraid.metrics._resampled import STANDARD_ERROR
from unbraid.objectives.likelihood_spelling import read_likelihood
from unbraid.population.devices import cores
from unbraid.population.run_folder import SCORES_LOCK, RunFolder
from unbraid.scoring.collapse import ACTIVE
from unbraid.scoring.counted import count_codes, not_counted
from unbraid.scoring.metric_inputs import MetricInputs, Task, complete, score_tasks
from unbraid.scoring.metric_names import metric_names, needing_factors, needs
from unbraid.scoring.own_prior import OwnPrior, takes_prior
from unbraid.scoring.score_table import ScoreTable, stored_scores
from unbraid.scoring.standard_errors import with_error
from unbraid.scoring.worker_processes import worker_processes

if TYPE_CHECKING:
    import pandas as pd
    import torch

_THREADS_IN_TURN = threading.Lock()
"""joblib's processes are shared by all threads, and two that ask for them wait for ever."""


def check_request(
    run: RunFolder, metrics: Sequence[str], representations: Sequence[str]
) -> list[str]:
    """The metrics to compute, groups spelled out; every problem with the request at once."""
    problems = Problems()
    names = check_metrics(run.path, metrics, problems, labelled=run.dataset.labelled)
    if not representations:
        known = f"Known: {', '.join(REPRESENTATIONS)}."
        problems.add("representation", "needs at least one name", [], known)
    for kind in representations:
        if kind not in REPRESENTATIONS:
            problems.say(unknown("representation", kind, REPRESENTATIONS))
    problems.raise_if_any()
    return names


def check_metrics(
    path: Path,
    metrics: Sequence[str],
    problems: Problems,
    *,
    labelled: bool,
    option: str = "metrics",
) -> list[str]:
    """The metrics that are asked for, by *option*, of a run at *path*, groups spelled out."""
    names = metric_names(metrics, problems, labelled=labelled, option=option)
    without = [] if labelled else needing_factors(names)
    if without:
        verb = "compares" if len(without) == 1 else "compare"
        sentence = (
            f"the data of {path} has no factors, and {', '.join(without)} {verb} codes with"
            " factors."
        )
        remedy = (
            "Give factors when loading the data (factors=...), or score with"
            f" {{{option}=unsupervised}}."
        )
        problems.say(Problem(option, "must do without factors", without, remedy, sentence))
    return names


def score_run(
    run: RunFolder,
    metrics: Sequence[str],
    representations: Sequence[str] = ("mean",),
    progress: Callable[[int, bool], None] = lambda scores, found_done: None,
    warn: Callable[[str], None] = lambda line: None,
    device: torch.device | None = None,
    errors: str = "none",
) -> pd.DataFrame:
    """Compute what is missing of the request and return all its rows.

    Codes, and for `elbo` reconstructions, must be stored. Members that diverged have no codes worth
    scoring and are left out. A score that cannot be computed has no row, and *warn* says why.
    Finished scores are on disk soon, and when it is stopped. Where *device* is a GPU, it grows the
    trees of DCI. *errors* says which standard errors come with the scores (`standard_errors.py`).
    """
    names = check_request(run, metrics, representations)
    healthy = run.members().query("status != 'diverged'")["member"].tolist()
    if not healthy:
        raise InputError(
            f"every member of {run.path} diverged; there is nothing to score. Train with a lower"
            " learning rate."
        )
    score_members(run, names, representations, healthy, progress, warn, device, errors)
    whole, keys = stored_scores(run), ["member", "metric", "representation"]
    wanted = (
        whole["member"].isin(healthy)
        & whole["metric"].isin(names)
        & whole["representation"].isin(list(representations))
    )
    found = whole.loc[wanted].sort_values(by=keys, kind="stable", ignore_index=True)
    # An error of a score that could not be computed says nothing.
    scored = found.groupby(keys)["quantity"].transform(lambda one: (one == "score").any())
    return found.loc[scored.astype(bool)].reset_index(drop=True)


def score_members(
    run: RunFolder,
    names: Sequence[str],
    representations: Sequence[str],
    members: Sequence[int],
    progress: Callable[[int, bool], None],
    warn: Callable[[str], None],
    device: torch.device | None,
    errors: str = "none",
) -> None:
    """Compute what is not on disk of *members*' scores, adding each to the table as it is done."""
    whole = count_scores(len(members), names, representations)
    with _THREADS_IN_TURN:
        inapplicable = _inapplicable(run, names, representations, members, warn)
        wanted = [
            task
            for task in _tasks(run, names, representations, members, errors)
            if not inapplicable
            & {(member, task.metric, task.representation) for member in task.members}
        ]
        # Where all is stored nothing is written: the run may lie where that cannot be done.
        stored = stored_scores(run)
        writable = os.access(run.path, os.W_OK)
        if not writable:  # a run of before there were standard errors does without
            lacking = _missing(wanted, stored)
            _check_stored(run, lacking, representations, members, stored)
            wanted = [task for task in wanted if task not in set(lacking)]
            if lacking:
                metrics = ", ".join(dict.fromkeys(task.metric for task in lacking))
                warn(f"standard errors of {metrics} are left out: {run.path} cannot be written.")
        counted = not not_counted(members, stored) or not writable
        if counted and not _missing(wanted, stored):
            progress(whole, True)
            return
        with only_one(run.path, SCORES_LOCK):
            stored = stored_scores(run)  # again, now that nobody else can write it
            tasks = _missing(wanted, stored)
            left = sum(len(task.members) for task in complete(tasks))
            progress(whole - left, True)  # done before, or left out
            _score_missing(run, tasks, members, stored, progress, warn, device)


def count_scores(members: int, names: Sequence[str], representations: Sequence[str]) -> int:
    """How many scores a request means; one with its standard error is one."""
    return members * len(names) * len(representations)


def _missing(wanted: Sequence[Task], stored: pd.DataFrame) -> list[Task]:
    """Those of the tasks *wanted* that have a score which is not *stored*."""
    about = ("member", "metric", "representation")
    is_error = stored["quantity"] == STANDARD_ERROR
    done = set(zip(*(stored[name] for name in about), is_error, strict=True))
    return [
        task
        for task in wanted
        if any(
            (member, task.metric, task.representation, task.error_seed is not None) not in done
            for member in task.members
        )
    ]


def _check_stored(
    run: RunFolder,
    lacking: Sequence[Task],
    representations: Sequence[str],
    members: Sequence[int],
    stored: pd.DataFrame,
) -> None:
    """Refuse, of a run that cannot be written, tasks *lacking* that are more than standard errors;
    what is *stored* can be shown.
    """
    absent = list(dict.fromkeys(task.metric for task in lacking if task.error_seed is None))
    if not absent:
        return
    scores = stored[stored["quantity"] == "score"]
    there = set(zip(scores["metric"], scores["member"], scores["representation"], strict=True))
    whole = [
        name
        for name in dict.fromkeys(scores["metric"])
        if {(name, *of) for of in product(members, representations)} <= there
    ]
    rule = f"must have been computed where a run cannot be written, as {run.path} cannot"
    show = f"Show what is stored with {{metrics={','.join(whole)}}}, or score" if whole else "Score"
    remedy = f"{show} a copy of the run where you may write."
    raise invalid("metrics", rule, Shown(", ".join(absent)), remedy)


def _score_missing(
    run: RunFolder,
    tasks: Sequence[Task],
    members: Sequence[int],
    stored: pd.DataFrame,
    progress: Callable[[int, bool], None],
    warn: Callable[[str], None],
    device: torch.device | None,
) -> None:
    counted = complete(tasks)
    with ScoreTable(run, stored) as table, worker_processes():
        for outcome in score_tasks(tasks, lambda task: _inputs(run, task), cores(), device):
            if outcome.complaint:
                warn(outcome.complaint)
            table.add(outcome.rows)
            progress(len(outcome.task.members) if outcome.task in counted else 0, False)
        for member in not_counted(members, stored):
            counts = count_codes(run, member).items()
            table.add([(member, ACTIVE, "mean", name, value, 0.0, 1) for name, value in counts])


def _inapplicable(
    run: RunFolder,
    names: Sequence[str],
    representations: Sequence[str],
    healthy: Sequence[int],
    warn: Callable[[str], None],
) -> set[tuple[int, str, str]]:
    """Member, metric and representation of scores that would mean nothing; *warn* says why.

    Objectives that decode the mean leave their encoder's variance untrained, an overlap loss is no
    likelihood, and a bound of another package may measure its KL from the standard normal alone.
    """
    members = run.plan.members
    without = [member for member in healthy if not members[member].build().samples_latents]
    sampling = [member for member in healthy if member not in without]
    bounds = [name for name in names if needs(name) == "elbo"]
    posterior = [name for name in names if needs(name) in ("elbo", "posterior")]
    alone = [name for name in names if needs(name) != "population"]
    found: set[tuple[int, str, str]] = set()

    def leave_out(
        members: list[int], metrics: list[str], kinds: Sequence[str], why: str, what: str = ""
    ) -> None:
        if members and metrics and kinds:
            whose = ", ".join(map(str, members))
            warn(f"{what or ', '.join(metrics)}: left out for members {whose}, {why}.")
            found.update(product(members, metrics, kinds))

    why = "whose objective has no use for a posterior variance"
    leave_out(without, posterior, representations, why)
    drawn = [kind for kind in representations if kind == "sampled"]
    leave_out(without, alone, drawn, why, "sampled")
    if read_likelihood(run.plan.likelihood).blur:
        why = f"since the overlap loss {run.plan.likelihood} is no likelihood"
        leave_out(sampling, bounds, representations, why)
    else:
        why = "whose prior is not the standard normal from which its KL is measured"
        others = [member for member in sampling if members[member].prior != "isotropic"]
        unable = [name for name in bounds if not takes_prior(name)]
        leave_out(others, unable, representations, why)
    return found


def _tasks(
    run: RunFolder,
    names: Sequence[str],
    representations: Sequence[str],
    healthy: Sequence[int],
    errors: str,
) -> list[Task]:
    """One task per member, metric and representation; metrics that compare models get siblings.

    Standard errors, a task each, follow the scores.
    """
    alone = [name for name in names if needs(name) != "population"]
    together = [name for name in names if needs(name) == "population"]
    tasks = [
        Task((member,), name, kind)
        for member in healthy
        for name in alone
        for kind in representations
    ]
    groups = [
        tuple(member.id for member in group if member.id in set(healthy))
        for group in run.plan.siblings()
    ]
    tasks += [
        Task(group, name, kind)
        for group in groups
        if group
        for name in together
        for kind in representations
    ]
    return tasks + [
        Task((member,), name, kind, error_seed=0)
        for member in healthy
        for name in with_error(names, errors)
        for kind in representations
    ]


def _inputs(run: RunFolder, task: Task) -> list[MetricInputs]:
    """What the task's metric needs of each of its members, read from disk."""
    kind, store, dataset = needs(task.metric), CodeStore(run), run.dataset
    # Noise that is drawn once leaves chance where no image is left out.
    noisy = kind == "elbo" or (task.representation == "sampled" and kind != "posterior")
    whole = dataset.labelled and math.prod(dataset.factor_sizes) == len(dataset)
    grid = whole and dataset.scoring_indices is None and not noisy
    found = []
    for member in task.members:
        codes = store.load(member)
        posterior = (
            (codes.mean, codes.logvar)
            if kind in ("posterior", "elbo", "population")
            else (None, None)
        )
        nats = ReconstructionStore(store).load(member) if kind == "elbo" else None
        found.append(
            MetricInputs(
                codes.representation(task.representation),
                codes.train_count,
                codes.factors,
                *posterior,
                nats,
                population=len(dataset) if grid else None,
                prior=OwnPrior.of(run, member),
            )
        )
    return found
