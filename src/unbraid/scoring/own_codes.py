# SPDX-License-Identifier: Apache-2.0
"""Scores of anybody's codes: arrays in, a table out; no run, no model and no GPU needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.codes.codes import TRAIN_SHARE
from unbraid.core.errors import InputError, Problem, Problems, Shown, invalid
from unbraid.metrics._arrays import check_codes, check_counts, to_numpy
from unbraid.metrics._describe import of_member
from unbraid.metrics._resampled import STANDARD_ERROR
from unbraid.population.devices import cores
from unbraid.scoring.collapse import (
    collapse_remark,
    count_active,
    dead_codes_remarks,
    least_active,
)
from unbraid.scoring.few_samples import few_samples, few_samples_remark
from unbraid.scoring.metric_inputs import COLUMNS, MetricInputs, Task, complete, score_tasks
from unbraid.scoring.metric_names import WITHOUT_FACTORS, asked, left_out, metric_names, needs
from unbraid.scoring.scale import LatentScale, scale_remark
from unbraid.scoring.standard_errors import shown, with_error
from unbraid.scoring.worker_processes import worker_processes

if TYPE_CHECKING:
    import pandas as pd

OWN = "own"
"""What stands for the representation, which only the owner knows."""
_STILL_SHARE = 1e-6
"""Own codes come in any unit: one perfect latent may be a thousand times as wide as another."""
LACKING = {
    "posterior": "log-variances, shaped like the codes",
    "elbo": "log-variances and the reconstruction's nats",
    "population": "codes of at least two models, (members, n, latents), with their log-variances",
}
"""What a metric without factors needs beside codes."""
OPTIONS = {"elbo": "{logvar} and {reconstruction}"} | dict.fromkeys(
    ("posterior", "population"), "{logvar}"
)
"""The options that give it."""


def score_codes(
    codes: ArrayLike,
    factors: ArrayLike | None = None,
    metrics: str | Sequence[str] = "usual",
    *,
    logvar: ArrayLike | None = None,
    reconstruction: ArrayLike | None = None,
    samples: int = 15_000,
    seed: int = 0,
    errors: str = "cheap",
    total: Callable[[int], None] = lambda scores: None,
    progress: Callable[[int], None] = lambda scores: None,
    warn: Callable[[str], None] = lambda line: None,
) -> pd.DataFrame:
    """Scores of codes `(n, latents)`, or of several models `(members, n, latents)`, as a table.

    Its columns are member, metric, quantity, value and seconds. *factors* are whole numbers `(n,
    factors)`; without them only metrics that look at codes alone have a value. *logvar*, shaped
    like *codes* (which then are posterior means), and *reconstruction* `(n,)` in nats serve the
    metrics about posteriors. At most *samples* rows are used, in an order drawn by *seed*: two
    thirds for fitting, one for testing. *errors* says which scores come with their standard error
    over samples, in a row of its own: `cheap` ones, `all` that have one, or `none`. *total* gets
    how many scores there will be, *progress* how many more are done, *warn* what is left out and
    why.
    """
    import pandas as pd

    problems = Problems()
    problems.collect(lambda: check_counts(samples=(samples, 3), seed=(seed, 0)))
    problems.collect(lambda: with_error([], errors))
    given = problems.collect(lambda: _read(codes, factors, logvar, reconstruction))
    words = asked(metrics)
    kinds = given.kinds() if given else ["codes", "sample", "split", "grid", *LACKING]
    names = metric_names(words, problems, labelled=factors is not None, possible=kinds)
    if not problems.found:
        for name in names:
            if needs(name) not in kinds:
                problems.say(_lacks(name))
    problems.raise_if_any()
    assert given is not None
    rows = np.random.default_rng(seed).permutation(given.codes.shape[1])[:samples]
    members = given.healthy(warn)
    _tell(given, words, names, len(rows), warn)
    tasks = [
        Task((member,), name, OWN)
        for member in members
        for name in names
        if needs(name) != "population"
    ]
    tasks += [Task(members, name, OWN) for name in names if needs(name) == "population"]
    tasks += [
        Task((member,), name, OWN, error_seed=seed)
        for member in members
        for name in with_error(names, errors)
    ]
    counted = complete(tasks)
    total(sum(len(task.members) for task in counted))
    found = []
    with worker_processes():
        for outcome in score_tasks(
            tasks, lambda task: [given.inputs(member, rows) for member in task.members], cores()
        ):
            if outcome.complaint:
                warn(
                    outcome.complaint
                    if len(given.codes) > 1
                    else outcome.complaint.removeprefix("member 0: ")
                )
            found += outcome.rows
            progress(len(outcome.task.members) if outcome.task in counted else 0)
    with_score = {row[:2] for row in found if row[3] == "score"}
    found = [row for row in found if row[:2] in with_score]
    if not found:
        raise InputError(
            "nothing that was asked for has a value for these codes; see the reasons above."
        )
    order = {name: place for place, name in enumerate(names)}
    ranks = {"score": 0, STANDARD_ERROR: 1}
    found.sort(key=lambda row: (row[0], order[row[1]], ranks.get(row[3], 2)))
    table = pd.DataFrame(found, columns=COLUMNS).drop(columns=["representation", "revision"])
    table.attrs["members"] = len(given.codes)  # those without a value included
    seen = None if given.factors is None else given.factors[rows]
    few = few_samples(dict.fromkeys(table["metric"]), len(rows), given.codes.shape[2], seen)
    table.attrs["few_samples"] = few
    if few:
        warn(few_samples_remark(few, len(rows), seen))
    every = given.logvar is None
    scales = [LatentScale.of(given.codes[member][rows], every_latent=every) for member in members]
    known = [one for one in scales if one is not None]
    told = [scale_remark(dict.fromkeys(table["metric"]), known, every_latent=every)]
    latents = given.codes.shape[2]
    varying = 0 if seen is None else sum(len(np.unique(column)) > 1 for column in seen.T)
    active = {member: given.active(member) for member in members}
    low = {m: count for m, count in active.items() if count < least_active(latents, varying)}
    told += [collapse_remark(low, latents, varying, len(given.codes))] if low else []
    told += dead_codes_remarks(table["metric"])
    for line in dict.fromkeys(filter(None, told)):
        warn(line)
    table.attrs["remarks"] = list(dict.fromkeys(filter(None, told)))
    return table


def _tell(
    given: _Given,
    words: Sequence[str],
    names: Sequence[str],
    rows: int,
    warn: Callable[[str], None],
) -> None:
    """What is left out without having been asked for by name."""
    if rows < given.codes.shape[1]:
        warn(f"{rows:,} of {given.codes.shape[1]:,} rows are used (samples).")
    reasons: dict[str, list[str]] = {}
    for name in left_out(words, names):
        reasons.setdefault(_lacking(needs(name)), []).append(name)
    for reason, lacking in reasons.items():
        warn(f"left out: {', '.join(lacking)}, which need{'s' * (len(lacking) == 1)} {reason}.")
    if given.factors is not None:
        constant = [
            str(column)
            for column, values in enumerate(given.factors.T)
            if (values == values[0]).all()
        ]
        if constant:
            warn(
                "factors that take a single value are left out of every score: column"
                f" {', '.join(constant)} (counted from 0)."
            )


@dataclass(frozen=True)
class _Given:
    """What was given, checked, with a member axis."""

    codes: NDArray
    factors: NDArray | None
    logvar: NDArray | None
    reconstruction: NDArray | None

    def kinds(self) -> list[str]:
        """Kinds of metric that can be computed."""
        known = {
            "codes": True,
            "sample": self.factors is not None,
            "posterior": self.logvar is not None,
        }
        known |= dict.fromkeys(("split", "grid"), known["sample"])
        known |= {"elbo": known["posterior"] and self.reconstruction is not None}
        known |= {"population": known["posterior"] and len(self.codes) > 1}
        return [kind for kind, possible in known.items() if possible]

    def healthy(self, warn: Callable[[str], None]) -> tuple[int, ...]:
        """Members whose codes are finite; *warn* names the others, and none at all is refused."""
        failed: dict[int, InputError] = {}
        for member, codes in enumerate(self.codes):
            try:
                check_codes(codes, least_rows=1)
            except InputError as error:
                failed[member] = error
        if len(failed) == len(self.codes):
            several = len(failed) > 1
            problems = [(m, one) for m, error in failed.items() for one in error.problems]
            raise InputError(*(of_member(m, one) if several else one for m, one in problems))
        for member, error in failed.items():
            warn(f"member {member} is left out: {error}")
        return tuple(member for member in range(len(self.codes)) if member not in failed)

    def active(self, member: int) -> int:
        """How many latents of a member are active; without log-variances, how many move."""
        logvar = None if self.logvar is None else self.logvar[member].astype(np.float64)
        noise = None if logvar is None else np.exp(logvar).mean(axis=0)
        return count_active(self.codes[member], noise, still=_STILL_SHARE)

    def inputs(self, member: int, rows: NDArray[np.int64]) -> MetricInputs:
        """One member's arrays, *rows* of them."""
        codes = self.codes[member][rows]
        return MetricInputs(
            codes=codes,
            train=max(1, round(len(rows) * TRAIN_SHARE)),
            factors=None if self.factors is None else self.factors[rows],
            mean=codes,
            logvar=None if self.logvar is None else self.logvar[member][rows],
            reconstruction=(
                None if self.reconstruction is None else self.reconstruction[member][rows]
            ),
        )


def _read(
    codes: ArrayLike,
    factors: ArrayLike | None,
    logvar: ArrayLike | None,
    reconstruction: ArrayLike | None,
) -> _Given:
    """The arrays, checked, with a member axis."""
    z = to_numpy(codes)
    if z.ndim not in (2, 3) or 0 in z.shape:
        raise invalid(
            "codes",
            "must have the shape (n, latents) or (members, n, latents)",
            Shown(f"shape {z.shape}"),
        )
    shape, z = z.shape, z if z.ndim == 3 else z[None]
    problems = Problems()

    def beside(values: ArrayLike | None, name: str, wanted: tuple[int, ...]) -> NDArray | None:
        array = None if values is None else to_numpy(values)
        if array is not None and array.shape != wanted:
            problems.add(
                name,
                f"must have the shape {wanted} to fit the codes",
                Shown(f"shape {array.shape}"),
            )
        return array if array is None or len(shape) == 3 else array[None]

    y = None if factors is None else _whole_numbers(to_numpy(factors), z.shape[1], problems)
    given = _Given(
        z, y, beside(logvar, "logvar", shape), beside(reconstruction, "reconstruction", shape[:-1])
    )
    problems.raise_if_any()
    return given


def _whole_numbers(factors: NDArray, length: int, problems: Problems) -> NDArray:
    """Factors `(n, factors)` as integers; one factor may be flat, and floats may be whole."""
    y = factors[:, None] if factors.ndim == 1 else factors
    if y.ndim != 2 or len(y) != length:
        rule = f"must have the shape ({length}, factors) to fit the codes"
        problems.add(
            "factors", rule, Shown(f"shape {factors.shape}"), "Pass samples first: (n, ...)."
        )
    elif y.dtype.kind == "f":
        with np.errstate(over="ignore"):
            sizes = np.abs(y.astype(np.float64))  # half precision knows no 2^53
        whole = np.isfinite(y) & (np.round(y) == y) & (sizes < 2**53)
        if whole.all():
            return y.astype(np.int64)
        row, column = np.argwhere(~whole)[0]
        remedy = (
            "Number the values of each factor, as np.unique(column, return_inverse=True)[1] does."
        )
        problems.add(
            "factors",
            "must be whole numbers",
            Shown(f"{y[row, column]} at row {row}, column {column}"),
            remedy,
        )
    elif y.dtype.kind not in "iub":
        remedy = (
            "Number the values of each factor, as np.unique(column, return_inverse=True)[1] does."
        )
        problems.add("factors", "must be whole numbers", Shown(f"dtype {y.dtype}"), remedy)
    return y


def _lacks(name: str) -> Problem:
    """Metric *name* needs something that was not given."""
    rule = f"needs {_lacking(needs(name))}"
    remedy = f"Give {OPTIONS.get(needs(name), '{factors}')}."
    return Problem(name, rule, None, remedy, f"{name} {rule}.")


def _lacking(kind: str) -> str:
    return LACKING[kind] if kind in WITHOUT_FACTORS else "factors, whole numbers (n, factors)"


def printed(table: pd.DataFrame, width: int) -> str:
    """The scores for reading: one line per metric with its parts, or one row per model."""
    import pandas as pd

    rows: Any
    members = table.attrs["members"]
    few = table.attrs["few_samples"]
    if members > 1:
        wide = pd.DataFrame(index=pd.RangeIndex(members, name="member"))
        for name, rows in table.groupby("metric", sort=False):
            wide[name] = pd.Series(
                {member: _with_error(own)[0] for member, own in rows.groupby("member")}
            )
        lines = [f"{name}: too few samples, needs {least:,}" for name, least in few.items()]
        text = wide.to_string(max_rows=60, na_rep="NaN", line_width=width)
        return "\n".join([text, *lines])
    lines = []
    for name, rows in table.groupby("metric", sort=False):
        text, others = _with_error(rows)
        parts = [f"{part} {value:.4g}" for part, value in others.items()]
        if least := few.get(name):
            parts.append(f"too few samples, needs {least:,}")
        lines.append(f"{name:<26}{text:>18}" + (f"   {', '.join(parts)}" if parts else ""))
    return "\n".join(lines)


def _with_error(rows: pd.DataFrame) -> tuple[str, dict[str, float]]:
    """The score of one member with its error, and its other quantities."""
    values = dict(zip(rows["quantity"], rows["value"], strict=True))
    return shown(values.pop("score"), values.pop(STANDARD_ERROR, None)), values
