# SPDX-License-Identifier: Apache-2.0
"""What was trained for a study, on what and for how long, as its tables say."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unbraid.core.words import count
from unbraid.studies.results import Results

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class PoolDone:
    """How much of a pool there is."""

    name: str
    about: str
    done: int
    slices: int
    models: int
    hours: float


@dataclass(frozen=True)
class Provenance:
    """What the tables of a study were made of."""

    facts: tuple[tuple[str, str], ...]
    """A few words for each thing that a reader asks first."""
    pools: tuple[PoolDone, ...]
    versions: str


def provenance(results: Results, table: pd.DataFrame) -> Provenance:
    """What was trained for *results*, whose models are *table*."""
    last = _models(results, table)
    models: dict[str, list[Any]] = {
        name: last[name].tolist() for name in ("pool", "data", "seed", "steps", "status")
    }
    pools, about = [], []
    for pool in results.pools:
        made = [results.about(pool, one) for one in pool.slices if results.done(pool, one)]
        own = models["pool"].count(pool.name)
        pools.append(
            PoolDone(pool.name, pool.about, len(made), len(pool.slices), own, _hours(made))
        )
        about += made
    facts = [("Tables", f"{len(about)} of {count(len(results.slices()), 'slice')}")]
    if about:
        lost = models["status"].count("diverged")
        ended = zip(models["steps"], models["status"], strict=True)
        whole = [steps for steps, status in ended if status != "diverged"]
        facts += [
            ("Models", f"{len(last):,}" + (f", {lost:,} of them diverged" if lost else "")),
            ("Data", ", ".join(_distinct(models["data"]))),
            ("Seeds", runs(models["seed"])),
            ("Training steps", _each(whole or models["steps"])),
            ("Trained on", ", ".join(_distinct(one.get("device") for one in about))),
            ("Training and scoring", f"{_hours(about):.1f} hours"),
            ("Made", _dates(about)),
        ]
    return Provenance(tuple(facts), tuple(pools), _versions(about))


def _models(results: Results, table: pd.DataFrame) -> pd.DataFrame:
    """A row for each model, that of the last stage of its training; of searches the winners, which
    alone are scored.
    """
    import pandas as pd

    if "row" in table:
        table = table.loc[table["row"] != "individual"]
    stages: dict[Any, int] = {
        (pool.name, one.name): 1 + len(one.stages) for pool, one in results.slices()
    }
    # A slice's table is one stage below the other.
    slices = table.groupby(["pool", "slice"], sort=False)
    parts = [part.tail(len(part) // stages.get(key, 1)) for key, part in slices]
    return pd.concat(parts) if parts else table


def _hours(about: Iterable[dict[str, Any]]) -> float:
    parts = ("training_seconds", "scoring_seconds")
    return sum(one.get(part, 0.0) for one in about for part in parts) / 3600


def _distinct(values: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(str(value) for value in values if value))


def runs(values: Iterable[int]) -> str:
    """Whole numbers, those in a row by their ends.

    >>> runs([0, 1, 2, 3, 7, 1000, 1001])
    '0 to 3, 7, 1000, 1001'
    """
    found: list[list[int]] = []
    for value in sorted(set(values)):
        if found and value == found[-1][-1] + 1:
            found[-1].append(value)
        else:
            found.append([value])
    return ", ".join(
        f"{one[0]} to {one[-1]}" if len(one) > 2 else ", ".join(map(str, one)) for one in found
    )


def _each(values: Iterable[int]) -> str:
    known = sorted(set(values))
    if len(known) > 4:
        return f"{known[0]:,} to {known[-1]:,}"
    return " or ".join(f"{one:,}" for one in known)


def _dates(about: Iterable[dict[str, Any]]) -> str:
    days = sorted({str(one["date"])[:10] for one in about if one.get("date")})
    return " to ".join(dict.fromkeys((days[0], days[-1]))) if days else "–"


def _versions(about: Iterable[dict[str, Any]]) -> str:
    """Every version of every library that took part."""
    found: dict[str, list[str]] = {}
    for one in about:
        for name, version in (one.get("versions") or {}).items():
            found.setdefault(name, [])
            if version not in found[name]:
                found[name].append(version)
    return ", ".join(f"{name} {' and '.join(each)}" for name, each in found.items())
