# SPDX-License-Identifier: Apache-2.0
"""Scores of every stored member: codes in, one row for each number out, in parallel and resumable.

This sits between `metrics`, which know arrays only, and `studies`, which compare members.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unbraid.codes.codes import REPRESENTATIONS, CodeStore
from unbraid.errors import DamagedFileError, InputError, Problems, problem, unknown
from unbraid.metrics import METRICS
from unbraid.population.devices import cores
from unbraid.population.run_folder import RunFolder
from unbraid.store import only_one, read_table, write_table

if TYPE_CHECKING:
    import pandas as pd

_WORTH_PROCESSES = 4
"""Fewer scores than this are computed here: starting processes would take longer."""
COLUMNS = ["member", "metric", "representation", "quantity", "value", "seconds"]


def check_request(run: RunFolder, metrics: Sequence[str], representations: Sequence[str]) -> list[str]:
    """The metrics to compute, `all` spelled out; every problem with the request at once."""
    problems = Problems()
    names = [name for wanted in metrics for name in (sorted(METRICS) if wanted == "all" else [wanted])]
    if not names:
        problems.add("metrics", "needs at least one name", list(metrics), f"Known: {', '.join(sorted(METRICS))}.")
    for name in names:
        if name not in METRICS:
            problems.say(unknown("metric", name, METRICS))
    for kind in representations:
        if kind not in REPRESENTATIONS:
            problems.say(unknown("representation", kind, REPRESENTATIONS))
    if names and not run.dataset.labelled:
        problems.say(
            f"the data of {run.path} has no factors, and {', '.join(names)} compare codes with factors. "
            "Give factors when loading the data (factors=...) to score such a run."
        )
    problems.raise_if_any()
    return list(dict.fromkeys(names))


def score_run(
    run: RunFolder,
    metrics: Sequence[str],
    representations: Sequence[str] = ("mean",),
    progress: Callable[[int, bool], None] = lambda scores, found_done: None,
    warn: Callable[[str], None] = lambda line: None,
) -> pd.DataFrame:
    """Compute what is missing of the request and return all its rows; every finished score is on disk at once.

    Members that diverged have no codes worth scoring and are left out. A score that cannot be computed is told through
    *warn* and has no row.
    """
    names = check_request(run, metrics, representations)
    healthy = run.members().query("status != 'diverged'")["member"].tolist()
    if not healthy:
        raise InputError(f"every member of {run.path} diverged; there is nothing to score. Train with a lower learning rate.")
    with only_one(run.path, ".scores.lock"):
        _score_missing(run, names, representations, healthy, progress, warn)
    whole = stored_scores(run)
    wanted = whole["member"].isin(healthy) & whole["metric"].isin(names) & whole["representation"].isin(list(representations))
    return whole.loc[wanted].sort_values(by=["member", "metric", "representation"], kind="stable", ignore_index=True)


def _score_missing(
    run: RunFolder,
    names: list[str],
    representations: Sequence[str],
    healthy: list[int],
    progress: Callable[[int, bool], None],
    warn: Callable[[str], None],
) -> None:
    """Compute the scores that are not on disk, adding each to the table as it is done."""
    import pandas as pd
    from joblib import Parallel, delayed

    stored = stored_scores(run)
    done = set(zip(stored["member"], stored["metric"], stored["representation"], strict=True))
    tasks = [(m, name, kind) for m in healthy for name in names for kind in representations if (m, name, kind) not in done]
    progress(len(healthy) * len(names) * len(representations) - len(tasks), True)
    store = CodeStore(run)
    jobs = (delayed(_score)(member, name, kind, *_arrays(store, member, kind)) for member, name, kind in tasks)
    tables = [stored]
    workers = min(cores(), len(tasks)) if len(tasks) >= _WORTH_PROCESSES else 1
    results: Any = Parallel(n_jobs=workers, return_as="generator_unordered")(jobs)
    for rows, complaint in results:
        if complaint:
            warn(complaint)
        else:
            tables.append(pd.DataFrame(rows, columns=COLUMNS))
            write_table(run.path / "scores.parquet", pd.concat([table for table in tables if len(table)], ignore_index=True))
        progress(1, False)


def stored_scores(run: RunFolder) -> pd.DataFrame:
    """Every score on disk: member, metric, representation, quantity, value, seconds."""
    import pandas as pd

    path = run.path / "scores.parquet"
    if not path.exists():
        return pd.DataFrame({name: [] for name in COLUMNS}).astype({"member": int})
    try:
        return read_table(path)
    except DamagedFileError as error:
        raise DamagedFileError(f"{error} Remove it and score again; the codes are kept.") from error


def _arrays(store: CodeStore, member: int, kind: str) -> tuple[NDArray[Any], NDArray[np.int64], int]:
    codes = store.load(member)
    return codes.representation(kind), codes.factors, codes.train_count


def _score(
    member: int, name: str, kind: str, codes: NDArray[Any], factors: NDArray[np.int64], train: int
) -> tuple[list[tuple[Any, ...]], str]:
    """Rows of one score, or why there are none."""
    began = time.perf_counter()
    try:
        result = evaluate(name, codes, factors, train)
    except InputError as error:
        return [], f"member {member}: {name} has no value: {error}"
    seconds = time.perf_counter() - began
    numbers = {field.name: getattr(result, field.name) for field in dataclasses.fields(result)}
    numbers["score"] = result.score
    scalars = {
        key: float(value) for key, value in numbers.items() if np.ndim(value) == 0 and isinstance(value, (int, float, np.number))
    }
    return [(member, name, kind, quantity, value, seconds) for quantity, value in scalars.items()], ""


def evaluate(name: str, codes: NDArray[Any], factors: NDArray[np.int64], train: int) -> Any:
    """The result of metric *name* on labelled codes whose first *train* rows are for fitting."""
    metric = METRICS.load(name)
    varying = sum(len(np.unique(column)) > 1 for column in factors.T)
    if getattr(metric, "compares_factors", False) and varying < 2:
        rule = "compares factors and needs at least two that vary"
        raise InputError(problem(name, rule, varying, "With a single one every model would be perfect."))
    if metric.needs == "split":
        return metric(codes[:train], factors[:train], codes[train:], factors[train:])
    return metric(codes, factors)
