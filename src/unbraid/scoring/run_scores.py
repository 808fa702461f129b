# SPDX-License-Identifier: Apache-2.0
"""Scores of every stored member of a run: one row for each number, in parallel and resumable."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unbraid.codes.codes import REPRESENTATIONS, CodeStore
from unbraid.codes.reconstructions import ReconstructionStore
from unbraid.core.errors import DamagedFileError, InputError, Problem, Problems, unknown
from unbraid.core.failpoints import failpoint
from unbraid.core.files import only_one, remove_halves
from unbraid.core.folders import check_still_there
from unbraid.core.store import read_about_table, read_table, write_table
from unbraid.metrics import METRICS
from unbraid.objectives.likelihood_spelling import read_likelihood
from unbraid.population.devices import cores
from unbraid.population.run_folder import SCORES_LOCK, RunFolder
from unbraid.scoring.collapse import ACTIVE, count_active, least_active
from unbraid.scoring.few_samples import few_samples, few_samples_remark
from unbraid.scoring.metric_inputs import COLUMNS, MetricInputs, Task, score_tasks
from unbraid.scoring.metric_names import base, metric_names, needing_factors, needs, revision
from unbraid.scoring.scale import LatentScale, depends, scale_remark
from unbraid.scoring.standard_errors import STANDARD_ERROR, with_error
from unbraid.scoring.worker_processes import worker_processes

if TYPE_CHECKING:
    import pandas as pd
    import torch

SCORES = "scores.parquet"
_KINDS = {"member": "i", "metric": "O", "representation": "O", "quantity": "O", "value": "f"}
"""What the table has at least, with the kinds of NumPy."""
_THREADS_IN_TURN = threading.Lock()
"""joblib's processes are shared by all threads, and two that ask for them wait for ever."""
_WRITING_SHARE = 20
"""Between two writings of the table lies so many times what one takes: a kill loses little."""


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
    whole = count_scores(len(members), names, representations, errors)
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
            lacking = [task for task in _missing(wanted, stored) if task.error_seed is not None]
            wanted = [task for task in wanted if task not in set(lacking)]
            if lacking:
                metrics = ", ".join(dict.fromkeys(task.metric for task in lacking))
                warn(f"standard errors of {metrics} are left out: {run.path} cannot be written.")
        counted = not _not_counted(members, stored) or not writable
        if counted and not _missing(wanted, stored):
            progress(whole, True)
            return
        with only_one(run.path, SCORES_LOCK):
            stored = stored_scores(run)  # again, now that nobody else can write it
            tasks = _missing(wanted, stored)
            left = sum(len(task.members) for task in tasks)
            progress(whole - left, True)  # done before, or left out
            _score_missing(run, tasks, members, stored, progress, warn, device)


def count_scores(
    members: int, names: Sequence[str], representations: Sequence[str], errors: str
) -> int:
    """How many scores and standard errors a request means."""
    return members * (len(names) + len(with_error(names, errors))) * len(representations)


def _not_counted(members: Sequence[int], stored: pd.DataFrame) -> list[int]:
    """Those of *members* whose active latents are not *stored*."""
    known = _counted(stored)
    return [member for member in members if not known.get(member, {}).keys() >= set(_COUNTED)]


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


def _score_missing(
    run: RunFolder,
    tasks: Sequence[Task],
    members: Sequence[int],
    stored: pd.DataFrame,
    progress: Callable[[int, bool], None],
    warn: Callable[[str], None],
    device: torch.device | None,
) -> None:
    with _Table(run, stored) as table, worker_processes():
        for outcome in score_tasks(tasks, lambda task: _inputs(run, task), cores(), device):
            if outcome.complaint:
                warn(outcome.complaint)
            table.add(outcome.rows)
            progress(len(outcome.task.members), False)
        for member in _not_counted(members, stored):
            counted = _count(run, member).items()
            table.add([(member, ACTIVE, "mean", name, value, 0.0, 1) for name, value in counted])


def _inapplicable(
    run: RunFolder,
    names: Sequence[str],
    representations: Sequence[str],
    healthy: Sequence[int],
    warn: Callable[[str], None],
) -> set[tuple[int, str, str]]:
    """Member, metric and representation of scores that would mean nothing; *warn* says why.

    Objectives that decode the mean leave their encoder's variance untrained, an overlap loss is no
    likelihood, and the KL of an evidence bound is measured from the standard normal.
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
        why = (
            "whose prior is not the standard normal from which its KL is measured; "
            "unbraid.analysis.log_likelihood.log_likelihood knows every prior"
        )
        others = [member for member in sampling if members[member].prior != "isotropic"]
        leave_out(others, bounds, representations, why)
    return found


class _Table:
    """The scores on disk, with rows added as they come; written seldom enough to cost little."""

    def __init__(self, run: RunFolder, stored: pd.DataFrame) -> None:
        self.path, self.table = run.path / SCORES, stored
        self._about = run.about_table(SCORES)
        self._rows: list[tuple[object, ...]] = []
        self._next_write = 0.0

    def __enter__(self) -> _Table:
        remove_halves(self.path)
        return self

    def __exit__(self, *error: object) -> None:
        """Whatever ends the scoring, what is computed is kept."""
        self._write()

    def add(self, rows: list[tuple[object, ...]]) -> None:
        """Take more rows, those of the same quantity taking the place of earlier ones."""
        self._rows += rows
        if time.monotonic() >= self._next_write:
            self._write()

    def _write(self) -> None:
        import pandas as pd

        if not self._rows:
            return
        began = time.monotonic()
        new = pd.DataFrame(self._rows, columns=COLUMNS)
        table = pd.concat([self.table, new], ignore_index=True) if len(self.table) else new
        # Models that are compared get their scores together, those of them included that had
        # theirs.
        self.table = table.drop_duplicates(COLUMNS[:4], keep="last", ignore_index=True)
        check_still_there(self.path.parent)
        write_table(self.path, self.table, self._about)
        failpoint("scores.stored")
        self._rows = []
        self._next_write = time.monotonic() + _WRITING_SHARE * (time.monotonic() - began)


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
    grid = dataset.labelled and math.prod(dataset.factor_sizes) == len(dataset) and not noisy
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
            )
        )
    return found


def active_latents(run: RunFolder, members: Sequence[int]) -> dict[int, int]:
    """How many latents each of *members* uses, as stored with its scores or else by its codes."""
    return {one: int(own[COUNT]) for one, own in _all_counted(run, members, COUNT).items()}


def varying_factors(run: RunFolder) -> int:
    """How many factors of the run's data take more than one value; 0 where none are known."""
    dataset = run.dataset
    return sum(size > 1 for size in dataset.factor_sizes) if dataset.labelled else 0


def collapsed_members(run: RunFolder, members: Sequence[int]) -> dict[int, int]:
    """Those of *members* that are collapsed, with their numbers of active latents."""
    least = least_active(run.plan.latents, varying_factors(run))
    return {one: count for one, count in active_latents(run, members).items() if count < least}


def few_samples_lines(run: RunFolder, metrics: Sequence[str], members: Sequence[int]) -> list[str]:
    """What must be known of scores of *members* by *metrics* that need more samples, if any do."""
    if not members:
        return []
    codes = CodeStore(run).load(members[0])  # all members see the same images
    rows, latents = codes.mean.shape
    factors = codes.factors if run.dataset.labelled else None
    few = few_samples([name for name in metrics if base(name) in METRICS], rows, latents, factors)
    return [few_samples_remark(few, rows, factors)] if few else []


def scale_lines(run: RunFolder, metrics: Sequence[str], members: Sequence[int]) -> list[str]:
    """What must be known of scores by *metrics* of *members* on an unusual scale, if any are.

    By the means of their posteriors, for samples too: in the widest latent noise is least. Metrics
    that measure from the prior are left out: it is these models' own.
    """
    of_prior = ("posterior", "elbo", "population")
    metrics = [name for name in metrics if depends(name) and needs(name) not in of_prior]
    if not metrics:
        return []
    scales = [
        LatentScale(one[DEVIATION], one[DEVIATION], one[OFFSET])
        for one in _all_counted(run, members, DEVIATION, OFFSET).values()
        if one[DEVIATION] > 0
    ]
    told = scale_remark(metrics, scales, every_latent=False)
    return [told] if told else []


COUNT, DEVIATION, OFFSET = _COUNTED = ("count", "widest_deviation", "widest_offset")
"""What is counted of the codes of each member when it is scored: active latents; of the widest one
the standard deviation, and the distance of its mean from 0 in standard deviations.
"""


def _counted(stored: pd.DataFrame) -> dict[int, dict[str, float]]:
    """What is *stored* of members; earlier versions counted active latents alone."""
    rows = stored.loc[stored["metric"] == ACTIVE]
    found: dict[int, dict[str, float]] = {}
    for member, name, value in zip(rows["member"], rows["quantity"], rows["value"], strict=True):
        found.setdefault(int(member), {})[name] = float(value)
    return found


def _all_counted(
    run: RunFolder, members: Sequence[int], *wanted: str
) -> dict[int, dict[str, float]]:
    """What is *wanted* of *members*, as stored with their scores, or else counted now."""
    known = {
        one: own for one, own in _counted(stored_scores(run)).items() if own.keys() >= {*wanted}
    }
    return {one: known[one] if one in known else _count(run, one) for one in members}


def _count(run: RunFolder, member: int) -> dict[str, float]:
    codes, noisy = CodeStore(run).load(member), run.plan.members[member].build().samples_latents
    noise = np.exp(codes.logvar.astype(np.float64)).mean(axis=0) if noisy else None
    scale = LatentScale.of(codes.representation("mean"), every_latent=False)
    deviation, offset = (scale.high, scale.offset) if scale else (0.0, 0.0)
    return {COUNT: float(count_active(codes.mean, noise)), DEVIATION: deviation, OFFSET: offset}


def stored_scores(run: RunFolder) -> pd.DataFrame:
    """Every score on disk, with the columns of `COLUMNS`, but those of an earlier revision."""
    import pandas as pd

    path, about = run.path / SCORES, run.about_table(SCORES)
    try:
        found = read_about_table(path).get("plan")
        fewer = run.had(0, found)  # before the run was given more seeds
        table = read_table(path, {**about, "plan": found} if fewer else about, _KINDS)
        if not set(table["member"]) <= {member.id for member in run.plan.members}:
            raise DamagedFileError(f"{path} has scores of members that the run does not have.")
    except FileNotFoundError:
        return pd.DataFrame({name: [] for name in COLUMNS}).astype({"member": int})
    except DamagedFileError as error:
        raise DamagedFileError(f"{error} Remove it and score again; the codes are kept.") from error
    if fewer:  # models that are compared have others to be compared with now
        together = {name for name in set(table["metric"]) if base(name) in METRICS}
        together = {name for name in together if needs(name) == "population"}
        table = table[~table["metric"].isin(list(together))]
    if "revision" not in table:
        table["revision"] = 1  # as all metrics were before they had revisions
    current = {name: revision(name) for name in set(table["metric"]) if base(name) in METRICS}
    pairs = zip(table["metric"], table["revision"], strict=True)
    return table.loc[
        [made_by == current.get(name, made_by) for name, made_by in pairs]
    ].reset_index(drop=True)
