# SPDX-License-Identifier: Apache-2.0
"""What a folder of earlier code comes to: gone on with and scored by the command line.

`make_folders.py` wrote these records to `expected.json` with the code that made the folders; the
tests make them again with the code of today. Whatever is named by its place in the package stands
in the first part, to be changed there alone. What is named after that lies in the folders, and
must stay readable.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import math
import platform
import signal
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from unbraid.commands import command_line
from unbraid.core.store import read_json, read_table
from unbraid.data import load
from unbraid.objectives import factor_vae
from unbraid.population.run_folder import RunFolder

# Names of the package: this part alone uses the imports above.


def weights_of(run: Path) -> dict[int, np.ndarray]:
    """The weights of every member of a run by its id, flat, as its newest checkpoint has them."""
    found = {}
    for chunk, state in RunFolder.open(run).results():
        for place, member in enumerate(chunk):
            found[member.id] = state.weights[place].cpu().numpy()
    return found


def tables_of(run: Path) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Members (settings, seed, how it ended) and history (member, step, quantities) of a run."""
    folder = RunFolder.open(run)
    return folder.members(), folder.history()


def record_in(path: Path) -> dict[str, Any]:
    """A JSON file, checked."""
    return read_json(path)


def table_in(path: Path) -> pd.DataFrame:
    """A Parquet file, checked."""
    return read_table(path)


def perturbed_data(folder: Path) -> dict[str, Any]:
    """What perturbed data says of itself, and its images."""
    data = load(str(folder))
    images = data.images(np.arange(len(data)))
    known = {"fingerprint": data.fingerprint(), "shape": list(images.shape)}
    return {**known, "mean": float(images.mean()), "sha256": _digest(images)}


RENAMED = {"pictures": "images", "picture": "image"}
"""What the code of today calls otherwise in files that it writes again."""


def in_todays_names(record: Any) -> Any:
    """A record of that code, its entries named as today."""
    if isinstance(record, dict):
        return {RENAMED.get(name, name): in_todays_names(one) for name, one in record.items()}
    return [in_todays_names(one) for one in record] if isinstance(record, list) else record


@contextlib.contextmanager
def small_discriminators(units: int) -> Iterator[None]:
    """FactorVAE's discriminators with so many units a layer, since those of 1,000 take 60 MB."""
    usual = factor_vae._HIDDEN
    factor_vae._HIDDEN = units
    try:
        yield
    finally:
        factor_vae._HIDDEN = usual


def unbraid(*words: object, code: int = 0) -> str:
    """What the command line prints, called in this process; another exit code is an error."""
    argv, handler, said, ended = sys.argv, signal.getsignal(signal.SIGTERM), io.StringIO(), 0
    sys.argv = ["unbraid", *map(str, words)]
    try:
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
            command_line.main()
    except SystemExit as error:
        ended = int(error.code or 0)
    finally:
        typed, sys.argv = " ".join(sys.argv), argv
        signal.signal(signal.SIGTERM, handler)
    if ended != code:
        raise AssertionError(f"{typed}: exit code {ended}\n{said.getvalue()}")
    return said.getvalue()


# The folders.


@dataclass(frozen=True)
class Case:
    """What a folder holds."""

    finished: bool = True
    runs: tuple[str, ...] = ("",)
    """Runs in it that are scored and reported."""
    metrics: str = "mig,sap,udr"
    data: str = ""
    """Where its data lies, seen from where the folder lies; empty where a name says it."""
    page: str = ""
    """What going on with it writes for a browser."""
    units: int = 8
    """Of FactorVAE's discriminators."""
    relative: float = 1e-5
    """By what share numbers may differ between processors."""


CASES = {
    # Trained and scored: objectives without labels, and with a few.
    "run_finished": Case(),
    "run_labels": Case(),
    # Stopped with a checkpoint of each member, before the first one, and with two members in each.
    "run_interrupted": Case(finished=False),
    "run_begun": Case(finished=False, units=1000, relative=0.01),
    "run_settings": Case(finished=False),
    # On the data in `perturbed`.
    "run_perturbed": Case(metrics="mig,sap,udr,elbo", data="perturbed"),
    # By agreement, and by labels, stopped within an epoch.
    "pbt_finished": Case(page="pbt.html"),
    "pbt_interrupted": Case(finished=False, page="pbt.html"),
    # With a leaf-run and a final population; stopped within the leaf-run.
    "rpu_finished": Case(runs=("root", "final-1"), page="rpu.html"),
    "rpu_interrupted": Case(finished=False, runs=("root", "final-1"), page="rpu.html"),
    # Of one search; with a recursion, stopped within the final population.
    "discover_finished": Case(
        runs=("models",),
        metrics="udr",
        data="discover_finished/images.npy",
        page="discover.html",
    ),
    "discover_interrupted": Case(
        finished=False,
        runs=("recursion/root", "recursion/final-1"),
        metrics="udr,active_units",
        data="discover_interrupted/images.npy",
        page="discover.html",
    ),
}
PERTURBED = "perturbed"
"""Data that `unbraid perturb` wrote."""


def resume(name: str, home: Path) -> str:
    """Go on with folder *name* in *home*; what the command prints."""
    return unbraid("resume", home / name, *_data(name, home), "--device", "cpu")


def score(name: str, home: Path) -> None:
    """Score the runs in it."""
    metrics = ("--metrics", CASES[name].metrics, "--device", "cpu")
    for run in CASES[name].runs:
        unbraid("score", home / name / run, *metrics, *_data(name, home))


def report(name: str, home: Path) -> list[Path]:
    """Write the report of the last of its runs; all pages that there are to look at then."""
    case, run = CASES[name], home / name / CASES[name].runs[-1]
    unbraid("report", run, *_data(name, home))
    return [run / "report.html", *([home / name / case.page] if case.page else [])]


def _data(name: str, home: Path) -> tuple[object, ...]:
    data = CASES[name].data
    return ("--data", home / data) if data else ()


# Records of what is in them.

_PARTS = 8
_ACTIVE = ("active_latents", "collapsed")


def observe(name: str, home: Path) -> dict[str, Any]:
    """What must not change of folder *name* in *home*, which was gone on with and scored."""
    folder = home / name
    runs = sorted(path.parent for path in folder.rglob("plan.json"))
    by_place = {run.relative_to(folder).as_posix(): _run(run) for run in runs}
    found: dict[str, Any] = {"runs": by_place}
    for path in folder.rglob("summary.json"):
        found["stages"] = record_in(path)["stages"]
    if (folder / "codes.parquet").is_file():
        found["codes"] = _table(table_in(folder / "codes.parquet"))
    found["scores"] = {run: scores(folder / run) for run in CASES[name].runs}
    return found


def scores(run: Path) -> dict[str, dict[str, float]]:
    """By metric and member."""
    rows = table_in(run / "scores.parquet").query("quantity == 'score'")
    found: dict[str, dict[str, float]] = {}
    for row in rows.sort_values(["metric", "member"]).itertuples():
        found.setdefault(row.metric, {})[str(row.member)] = float(row.value)
    return found


def _run(run: Path) -> dict[str, Any]:
    members, history = tables_of(run)
    found = {
        "members": _table(members),
        "weights": {str(member): _weights(flat) for member, flat in weights_of(run).items()},
        "history": _table(history.groupby("member", as_index=False).last()),
        "records": len(history),
    }
    if (run / "winner.json").is_file():
        found["winner"] = _without_active(record_in(run / "winner.json"))
        found["lineage"] = _without_active(_table(table_in(run / "lineage.parquet")))
    return found


def _without_active(record: dict[str, Any]) -> dict[str, Any]:
    """A record of a search without what that code did not count."""
    return {name: one for name, one in record.items() if name not in _ACTIVE}


def _weights(flat: np.ndarray) -> dict[str, Any]:
    assert flat.dtype == np.float32
    whole = flat.astype(np.float64)
    numbers = {"mean": float(whole.mean()), "std": float(whole.std()), "first": whole[:3].tolist()}
    # Of the whole, the change of one weight would be lost in what rounding may do.
    numbers["parts"] = [float(np.abs(part).mean()) for part in np.array_split(whole, _PARTS)]
    return {"count": flat.size, **numbers, "sha256": _digest(flat)}


def _table(table: pd.DataFrame) -> dict[str, list[Any]]:
    return {name: [_plain(value) for value in table[name].tolist()] for name in table.columns}


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and math.isnan(value) else value


def _digest(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def machine() -> dict[str, str]:
    """What the last bits depend on: the kind of processor, and the version of PyTorch."""
    lines = [""]
    with contextlib.suppress(OSError):
        lines += Path("/proc/cpuinfo").read_text().splitlines()
    flags = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    flags = hashlib.sha256(" ".join(sorted(flags.partition(":")[2].split())).encode()).hexdigest()
    kernels = torch.backends.cpu.get_cpu_capability()
    versions = {"torch": torch.__version__, "kernels": kernels}
    return {"machine": platform.machine(), "flags": flags, **versions}


def differences(
    found: Any, expected: Any, relative: float = 1e-5, *, bits: bool = False, at: str = ""
) -> Iterator[str]:
    """Where records differ: numbers by more than *relative*, digests only where *bits* count."""
    if isinstance(expected, dict) and isinstance(found, dict):
        if list(found) != list(expected):
            yield f"{at}: {list(found)} instead of {list(expected)}"
        both = [(name, found[name], expected[name]) for name in expected if name in found]
    elif isinstance(expected, list) and isinstance(found, list):
        if len(found) != len(expected):
            yield f"{at}: {len(found)} values instead of {len(expected)}"
        both = [(place, *pair) for place, pair in enumerate(zip(found, expected, strict=False))]
    else:
        both = []
        if not _same(found, expected, relative) and (bits or not at.endswith("sha256")):
            yield f"{at}: {found!r} instead of {expected!r}"
    for name, one, other in both:
        yield from differences(one, other, relative, bits=bits, at=f"{at}/{name}")


def _same(found: Any, expected: Any, relative: float) -> bool:
    if type(found) is not type(expected):
        return False
    if isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=relative, abs_tol=1e-7)
    return found == expected
