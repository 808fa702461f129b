# SPDX-License-Identifier: Apache-2.0
"""Scores of anybody's codes: arrays or files in, a table out; no run, no model and no GPU needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.errors import InputError, Problems, Shown, problem
from unbraid.metrics._arrays import check_counts, to_numpy
from unbraid.population.devices import cores
from unbraid.scoring.material import COLUMNS, Material, Task, score_tasks
from unbraid.scoring.names import WITHOUT_FACTORS, metric_names, needs

if TYPE_CHECKING:
    import pandas as pd

OWN = "own"
"""What stands for the representation, which only the owner knows."""
TRAIN_SHARE = 2 / 3
"""The studies' 10,000 training and 5,000 test points."""


def score_codes(
    codes: ArrayLike,
    factors: ArrayLike | None = None,
    metrics: str | Sequence[str] = "usual",
    *,
    logvar: ArrayLike | None = None,
    reconstruction: ArrayLike | None = None,
    samples: int = 15_000,
    seed: int = 0,
    total: Callable[[int], None] = lambda scores: None,
    progress: Callable[[int], None] = lambda scores: None,
    warn: Callable[[str], None] = lambda line: None,
) -> pd.DataFrame:
    """Scores of codes `(n, latents)`, or `(members, n, latents)` of several models: member, metric, quantity, value, seconds.

    *factors* are whole numbers `(n, factors)`; without them only metrics that look at codes alone have a value. *logvar*, shaped
    like *codes* (which then are posterior means), and *reconstruction* `(n,)` in nats serve the metrics about posteriors.
    At most *samples* rows are used, in an order drawn by *seed*: two thirds for fitting, one for testing. *total* is told how
    many scores there will be, *progress* how many more are done, *warn* what has no value.
    """
    import pandas as pd

    problems = Problems()
    problems.collect(lambda: check_counts(samples=(samples, 3), seed=(seed, 0)))
    arrays = _Arrays.read(codes, factors, logvar, reconstruction, problems)
    names = metric_names(
        [metrics] if isinstance(metrics, str) else list(metrics), problems, labelled=factors is not None, possible=arrays.kinds()
    )
    problems.raise_if_any()
    for name in names:
        if needs(name) not in arrays.kinds():
            problems.say(f"{name} needs {_lacking(needs(name))}.")
    problems.raise_if_any()
    rows = np.random.default_rng(seed).permutation(arrays.codes.shape[1])[:samples]
    members = tuple(range(len(arrays.codes)))
    tasks = [Task((member,), name, OWN) for member in members for name in names if needs(name) != "population"]
    tasks += [Task(members, name, OWN) for name in names if needs(name) == "population"]
    total(sum(len(task.members) for task in tasks))
    found = []
    for outcome in score_tasks(tasks, lambda task: [arrays.material(member, rows) for member in task.members], cores()):
        if outcome.complaint:
            warn(outcome.complaint)
        found += outcome.rows
        progress(len(outcome.task.members))
    table = pd.DataFrame(found, columns=COLUMNS).drop(columns=["representation", "revision"])
    order = {name: place for place, name in enumerate(names)}
    return table.sort_values(by=["member", "metric"], key=lambda column: column.map(order) if column.name == "metric" else column,
                             kind="stable", ignore_index=True)  # fmt: skip


class _Arrays:
    """What was given, with a member axis."""

    def __init__(self, codes: NDArray, factors: NDArray | None, logvar: NDArray | None, reconstruction: NDArray | None) -> None:
        self.codes, self.factors, self.logvar, self.reconstruction = codes, factors, logvar, reconstruction

    @classmethod
    def read(
        cls,
        codes: ArrayLike,
        factors: ArrayLike | None,
        logvar: ArrayLike | None,
        reconstruction: ArrayLike | None,
        problems: Problems,
    ) -> _Arrays:
        """The arrays with a member axis, shapes that do not fit told to *problems*; values are the metrics' to check."""
        z = to_numpy(codes)
        many = z.ndim == 3
        if z.ndim not in (2, 3) or 0 in z.shape:
            problems.add("codes", "must have the shape (n, latents) or (members, n, latents)", Shown(f"shape {z.shape}"))
            z = np.zeros((1, 3, 1))
        z = z if z.ndim == 3 else z[None]
        length = z.shape[1]

        def beside(values: ArrayLike | None, name: str, shapes: Sequence[tuple[int, ...]]) -> NDArray | None:
            if values is None:
                return None
            array = to_numpy(values)
            if array.shape not in shapes and not problems.lines:
                wanted = " or ".join(str(shape) for shape in shapes)
                problems.add(name, f"must have the shape {wanted} to fit the codes", Shown(f"shape {array.shape}"))
            return array

        y = None if factors is None else to_numpy(factors)
        if y is not None:
            y = y[:, None] if y.ndim == 1 else y
            if (y.ndim != 2 or len(y) != length) and not problems.lines:
                rule = f"must have the shape ({length}, factors) to fit the codes"
                problems.add("factors", rule, Shown(f"shape {y.shape}"), "Pass samples first: (n, ...).")
        spread = beside(logvar, "logvar", [z.shape if many else z.shape[1:]])
        nats = beside(reconstruction, "reconstruction", [z.shape[:2] if many else (length,)])
        return cls(z, y, spread if spread is None or many else spread[None], nats if nats is None or many else nats[None])

    def kinds(self) -> list[str]:
        """Kinds of metric that can be computed."""
        known = {"codes": True, "sample": self.factors is not None, "posterior": self.logvar is not None}
        known |= dict.fromkeys(("split", "grid"), known["sample"])
        known |= {"elbo": known["posterior"] and self.reconstruction is not None}
        known |= {"population": known["posterior"] and len(self.codes) > 1}
        return [kind for kind, possible in known.items() if possible]

    def material(self, member: int, rows: NDArray[np.int64]) -> Material:
        """One member's arrays, *rows* of them."""
        codes = self.codes[member][rows]
        return Material(
            codes=codes,
            train=max(1, round(len(rows) * TRAIN_SHARE)),
            factors=None if self.factors is None else self.factors[rows],
            mean=codes,
            logvar=None if self.logvar is None else self.logvar[member][rows],
            reconstruction=None if self.reconstruction is None else self.reconstruction[member][rows],
        )


def _lacking(kind: str) -> str:
    if kind not in WITHOUT_FACTORS:
        return "factors (--factors), whole numbers (n, factors)"
    wanted = {
        "posterior": "log-variances (--logvar), shaped like the codes",
        "elbo": "log-variances (--logvar) and the reconstruction's nats (--reconstruction)",
        "population": "codes of at least two models, (members, n, latents), with their log-variances (--logvar)",
    }
    return wanted[kind]


def read_array(path: str | Path) -> NDArray[Any]:
    """The array in a .npy file, a .npz file that holds one, or a .csv file of numbers, with or without a line of names."""
    path = Path(path)
    if not path.is_file():
        raise InputError(problem("file", "must exist", str(path)))
    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as file:
                if len(file.files) == 1:
                    return file[file.files[0]]
                shown = Shown(", ".join(file.files) or "none")
                raise InputError(problem(str(path), "must hold one array", shown, "Save each with np.save."))
        if path.suffix == ".csv":
            import pandas as pd

            return pd.read_csv(path, header=0 if _has_names(path) else None).to_numpy()
    except (ValueError, EOFError, OSError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} cannot be read as an array of numbers ({error}). Save it with np.save.") from error
    raise InputError(problem("file", "must end in .npy, .npz or .csv", str(path)))


def _has_names(path: Path) -> bool:
    with path.open(encoding="utf-8") as file:
        first = file.readline().strip()
    try:
        [float(word) for word in first.split(",")]
    except ValueError:
        return True
    return False


def printed(table: pd.DataFrame) -> str:
    """The scores for reading: one line a metric with its parts, or one column a metric where there are several models."""
    rows: Any
    if len(set(table["member"])) > 1:
        wide: Any = table[table["quantity"] == "score"].pivot(index="member", columns="metric", values="value")
        return wide[list(dict.fromkeys(table["metric"]))].to_string(max_rows=60, float_format=lambda value: f"{value:.4g}")
    lines = []
    for name, rows in table.groupby("metric", sort=False):
        values = dict(zip(rows["quantity"], rows["value"], strict=True))
        score = values.pop("score")
        parts = ", ".join(f"{part} {value:.4g}" for part, value in values.items())
        lines.append(f"{name:<26}{score:>9.4g}" + (f"   {parts}" if parts else ""))
    return "\n".join(lines)


def check_table_file(path: Path | None) -> None:
    """Refuse a name for the table that is neither .csv nor .parquet, or a folder that is not there, before any work."""
    if path is None:
        return
    if path.suffix not in (".csv", ".parquet"):
        raise InputError(problem("out", "must end in .csv or .parquet", str(path)))
    if not path.parent.is_dir():
        raise InputError(problem("out", "must lie in a folder that exists", str(path)))


def write_scores(table: pd.DataFrame, path: Path) -> None:
    """Write the table as .csv or .parquet."""
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    else:
        table.to_parquet(path, index=False)
