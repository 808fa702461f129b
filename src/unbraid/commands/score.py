# SPDX-License-Identifier: Apache-2.0
"""`score`: metrics of every model of a run, or of anybody's codes."""

from __future__ import annotations

import inspect
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unbraid.commands import options as declared
from unbraid.commands.run import open_run
from unbraid.commands.verb import Option, command
from unbraid.core.errors import InputError, Shown, invalid
from unbraid.core.folders import check_not_above, given_path

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import NDArray

    from unbraid.scoring.code_tables import CodeTable

_OF_CODES = ("codes", "factors", "logvar", "reconstruction", "samples", "seed", "out")
_OF_RUNS = ("representation", "data", "device")
_ARRAY = "(n, latents) or (members, n, latents); .npy, .npz, .csv or .parquet."
_File = str | Path | None
_Codes = Annotated[
    "str | Path | NDArray[Any] | None",
    Option(f"Instead of a run: your own codes, {_ARRAY}", kind="PATH"),
]
_Factors = Annotated[
    "str | Path | NDArray[Any] | None",
    Option("Their factors (n, factors): whole numbers, or columns of text.", kind="PATH"),
]
_Logvar = Annotated[
    "str | Path | NDArray[Any] | None",
    Option("Their log-variances, for metrics about posteriors.", kind="PATH"),
]
_Nats = Annotated[
    "str | Path | NDArray[Any] | None",
    Option("Nats of each sample (n,), for `elbo`.", kind="PATH"),
]


@command
def score(
    folder: Annotated[str | Path | None, Option("A run folder, made by `unbraid train`.")] = None,
    *,
    metrics: declared.MetricNames = "usual",
    representation: Annotated[
        str | Sequence[str], Option("mean, sampled, or both with a comma.")
    ] = "mean",
    data: declared.MovedData = None,
    device: declared.Device = "auto",
    codes: _Codes = None,
    factors: _Factors = None,
    logvar: _Logvar = None,
    reconstruction: _Nats = None,
    samples: Annotated[int, Option("The most rows of your own codes to use.")] = 15_000,
    seed: Annotated[
        int, Option("Which rows of your own codes, and which of them for testing.")
    ] = 0,
    errors: Annotated[
        str,
        Option("Which standard errors to compute: cheap, all (minutes a model) or none."),
    ] = "cheap",
    out: Annotated[
        _File,
        Option("Write all scores of your own codes, with their parts, to a .csv or .parquet file."),
    ] = None,
    quiet: declared.Quiet = False,
) -> pd.DataFrame:
    """Score every model of a run, or your own codes; returns the table.

    Scores of a run are kept in it, each with its standard error over samples (±) where that is
    cheap, or asked for. Of your own codes there is a row for each member, metric and quantity; in
    Python codes may be arrays.
    """
    given = locals()
    if folder is None and codes is None:
        rule = "needs a run folder, or codes of your own"
        remedy = "For example {codes=z.npy} {factors=y.npy}."
        raise invalid("score", rule, Shown("neither"), remedy)
    usual = {name: one.default for name, one in inspect.signature(score).parameters.items()}
    wrong = _OF_CODES if folder is not None else _OF_RUNS
    if extra := [name for name in wrong if not _is_default(given[name], usual[name])]:
        whose, other = ("your own codes", "a run") if folder is not None else ("runs", "codes")
        rule = f"takes {', '.join(extra)} for {whose} only"
        raise invalid("score", rule, Shown(other), "Leave one out.")
    if codes is not None:
        files = {"codes": codes, "factors": factors, "logvar": logvar}
        files |= {"reconstruction": reconstruction}
        return _own(files, metrics, samples, seed, errors, out, quiet)
    assert folder is not None
    check_not_above(given_path("folder", folder), "score")
    run = open_run(folder, data=data, device=device)
    table = run.score(metrics, representation=representation, errors=errors, quiet=quiet)
    if not len(table):
        raise InputError(
            f"nothing that was asked for has a value for any model of {run.path}; the reasons"
            " stand above."
        )
    return table


def _is_default(value: Any, usual: Any) -> bool:
    """Whether *value* is the default; an array is not, and has no truth of its own."""
    return value is usual or (isinstance(value, (str, int)) and value == usual)


def _own(
    files: dict[str, Any],
    metrics: str | Sequence[str],
    samples: int,
    seed: int,
    errors: str,
    out: _File,
    quiet: bool,
) -> pd.DataFrame:
    from unbraid.core.progress import Progress
    from unbraid.metrics._arrays import to_numpy
    from unbraid.scoring.files import check_table_file, write_scores
    from unbraid.scoring.own_codes import score_codes

    place = None if out is None else Path(out)
    check_table_file(place)
    tables = {name: _read(one, name) for name, one in files.items() if one is not None}
    arrays = {name: table.codes for name, table in tables.items()}
    with Progress("scoring", "scores", 0, quiet) as progress:
        told = (
            f"{name} {to_numpy(table.codes).shape}{_columns(table)}"
            for name, table in tables.items()
        )
        progress.say("read " + ", ".join(told))
        table = score_codes(
            **arrays,
            metrics=metrics,
            samples=samples,
            seed=seed,
            errors=errors,
            total=progress.total,
            progress=progress.advance,
            warn=progress.say,
        )
    if place is not None:
        write_scores(table, place)
    return table


def _read(source: Any, name: str) -> CodeTable:
    """What was given as *name*: an array, a file or a pandas table."""
    from unbraid.scoring.code_tables import CodeTable, read_codes
    from unbraid.scoring.files import read_array

    if isinstance(source, (str, os.PathLike)):
        source = Path(source)
        if name == "reconstruction":
            return CodeTable(read_array(source, name))
    return read_codes(source, None, name, factors=name == "factors")


def _columns(table: CodeTable) -> str:
    """Which columns were taken, and which were not, where they have names."""
    if not table.names:
        return ""
    remarks = [
        f"{what}: {_some(names)}"
        for what, names in (("numbered", table.numbered), ("left out", table.left_out))
        if names
    ]
    return f" from the columns {_some(table.names)}" + f" ({'; '.join(remarks)})" * bool(remarks)


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:12]) + ", ..." * (len(names) > 12)


def shown(verb: str, table: pd.DataFrame, given: dict[str, Any]) -> str:
    """The table for a terminal, where all of it is kept, and what to type next."""
    from unbraid.scoring.own_codes import printed

    if "folder" not in given:
        text = printed(table, _line_width())
        kept = f"\n\nAll scores, with their parts: {given['out']}" if "out" in given else ""
        return text + kept
    folder = given["folder"]
    remarks = "".join(f"\n\n{line}" for line in table.attrs["remarks"])
    return (
        f"{_best_first(table)}{remarks}\n\n"
        f"All scores, with their parts: {folder / 'scores.parquet'}\n"
        f"Look at them:  unbraid report {folder}"
    )


def _best_first(table: Any) -> str:
    """By MIG or else by the first metric, collapsed models last, and by member where all are
    collapsed; without settings that are the same for all. Below it stands by what it is sorted.
    """
    from unbraid.metrics import METRICS
    from unbraid.scoring.metric_names import base, higher_is_better
    from unbraid.scoring.standard_errors import shown

    scores = [name for name in table.columns if base(name) in METRICS]
    errors = [f"{name}_se" for name in scores if f"{name}_se" in table.columns]
    scores = [name for name in scores if name not in errors]
    same = [
        name
        for name in table.columns
        if name not in (*scores, *errors, "seed", "active_latents")
        and table[name].nunique(dropna=False) == 1
        and not (name == "collapsed" and table[name].all())
    ]
    order = ""
    if scores and table["collapsed"].all():
        order = "Sorted by member: all are collapsed, so none counts as best."
    elif scores:
        decides = "mig" if "mig" in scores else scores[0]
        ascending = [True, not higher_is_better(decides)]
        order = f"Sorted by {decides}, the {'lowest' if ascending[1] else 'highest'} first"
        order += f"{', collapsed models last' if table['collapsed'].any() else ''}."
        table = table.sort_values(["collapsed", decides], ascending=ascending)
    several = len(table) > 1
    table = table.drop(columns=same) if several else table.copy()
    for name in [error.removesuffix("_se") for error in errors]:
        pairs = zip(table[name], table.pop(f"{name}_se"), strict=True)
        table[name] = ["NaN" if score != score else shown(score, error) for score, error in pairs]
    text = table.to_string(
        max_rows=60, float_format=lambda value: f"{value:.4g}", line_width=_line_width()
    )
    return f"{text}\n\n{order}" if several and order else text


def _line_width() -> int:
    return max(80, shutil.get_terminal_size((132, 24)).columns)
