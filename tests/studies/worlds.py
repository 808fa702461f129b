# SPDX-License-Identifier: Apache-2.0
"""What the tests that all studies share must know of one: tables of models that never were.

A study's own `<name>_tables.py` ends with `WORLDS`, from which test_every_study.py and
test_every_study_pools.py take the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import import_module
from typing import Any, get_args

import numpy as np
import pandas as pd

from unbraid.data import Dataset, load
from unbraid.population.plan import Plan, make_plan
from unbraid.studies import STUDIES
from unbraid.studies.claim import Claim, Verdict
from unbraid.studies.finding import Estimate, Finding
from unbraid.studies.pool import ABOUT_THE_MODEL, Pool, Scale, Slice
from unbraid.studies.study import Study

SCALES: tuple[Scale, ...] = get_args(Scale)
Made = Callable[[bool], pd.DataFrame]
"""Makes a table in which a claim is true or false."""
Which = Callable[[pd.DataFrame], np.ndarray]
SMALL = load("sprites", image_size=64, channels=3, x=5, y=4, scale=3)


def one_in_thirty(table: pd.DataFrame) -> np.ndarray:
    """Some models, by chance."""
    return np.random.default_rng(1).random(len(table)) < 0.03


def without_scores(table: pd.DataFrame, lost: np.ndarray, kept: Iterable[str] = ()) -> pd.DataFrame:
    """The same where the models *lost* diverged before their end: of their columns only settings
    are left.
    """
    table = table.copy()
    table.loc[lost, "status"] = "diverged"
    table.loc[lost, "steps"] = 123
    for name in table.columns.difference([*ABOUT_THE_MODEL, *kept]):
        table[name] = table[name].where(~lost, None if table[name].dtype == object else np.nan)
    return table


@dataclass(frozen=True, eq=False)
class Worlds:
    """A study with worlds in which its claims are true and false, and where it is an exception."""

    study: Study
    tables: Mapping[str, Made]
    """Of every claim that models are needed for."""
    size: int
    """How many claims it has."""
    one_seed: Mapping[str, Verdict] = field(default_factory=dict)
    """What one seed decides of a claim, where that is not nothing."""
    without_interval: tuple[str, ...] = ()
    """Claims about counts, or about one model, and those whose seeds are all alike here."""
    without_exhibit: tuple[str, ...] = ()
    untrained: Mapping[str, Verdict] = field(default_factory=dict)
    """Verdicts of the claims that need no models and are not reproduced."""
    diverging: Which | None = one_in_thirty
    """Which models diverge without deciding anything; none where only winners count."""
    counts_diverged: tuple[str, ...] = ()
    """Claims that count models which diverged."""
    settings: tuple[str, ...] = ()
    """Columns that models have before they are trained, beside those of all studies."""
    unclaimed: tuple[str, ...] = ()
    """Pools that no claim names."""
    stand_ins: Mapping[str, Dataset] = field(default_factory=dict)
    """Data in whose place plans are made with others; all are with `SMALL`, if none is named."""
    patches: Mapping[str, Any] = field(default_factory=dict)
    """What is replaced while a claim is judged, so that no verdict hangs on what is committed."""
    _kept: dict[Any, Any] = field(default_factory=dict)

    @cached_property
    def claims(self) -> dict[str, Claim]:
        return {one.id: one for one in self.study.claims}

    def finding(self, name: str, table: pd.DataFrame) -> Finding | None:
        return self.study.analyses[name](table)

    def found(self, name: str, table: pd.DataFrame) -> Finding:
        """The finding of a claim that *table* has the models of."""
        finding = self.finding(name, table)
        assert finding is not None
        return finding

    def verdict(self, name: str, table: pd.DataFrame) -> Verdict:
        return self.claims[name].verdict(self.finding(name, table))

    def judged(self, name: str, finding: Finding | None) -> list[Estimate]:
        """The estimates that the rules of a claim are about."""
        assert finding is not None
        return [finding.estimate(rule.statistic) for rule in self.claims[name].rules]

    def table(self, name: str, true: bool = True) -> pd.DataFrame:
        """Made once; nobody may change it. Empty where a claim needs no models."""
        made = self.tables.get(name, lambda true: pd.DataFrame())
        return self._once((made, true), lambda: made(true))

    def true_finding(self, name: str) -> Finding | None:
        """Of its true table, computed once."""
        return self._once(name, lambda: self.finding(name, self.table(name)))

    def spoiled(self, table: pd.DataFrame) -> pd.DataFrame:
        """The same where some models diverged."""
        assert self.diverging is not None
        return without_scores(table, self.diverging(table), self.settings)

    def pool(self, scale: Scale, name: str) -> Pool:
        (found,) = [one for one in self.pools(scale) if one.name == name]
        return found

    def pools(self, scale: Scale) -> tuple[Pool, ...]:
        return self._once(scale, lambda: self.study.pools(scale, 0))

    def slices(self, scale: Scale, first_seed: int = 0) -> list[tuple[Pool, Slice]]:
        pools = self.study.pools(scale, first_seed) if first_seed else self.pools(scale)
        return [(pool, one) for pool in pools for one in pool.slices]

    def plan(self, one: Slice) -> Plan:
        """Its plan on data that are always here and quickly made, computed once."""
        data = self.stand_ins.get(one.plan["data"]) if self.stand_ins else SMALL
        other = {"data": data, "data_options": {}} if data else {}
        return self._once(repr(one.plan), lambda: make_plan(**{**one.plan, **other})[0])

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]


@cache
def every_study() -> dict[str, Worlds]:
    """The worlds of all studies by name; each has a `tests/studies/<name>_tables.py`."""
    return {name: import_module(f"tests.studies.{name}_tables").WORLDS for name in STUDIES.built_in}


def assert_covered(draws: list[Iterable[Estimate]], at_least: float = 0.88) -> None:
    """95% intervals of many draws of one world hold the mean of what is drawn: 0.90 of them, less
    what so few draws leave open.
    """
    found = [{one.name: one for one in draw} for draw in draws]
    for name in found[0]:
        truth = np.mean([one[name].value for one in found])
        inside = [one[name].low - 1e-9 <= truth <= one[name].high + 1e-9 for one in found]
        assert np.mean(inside) > at_least, name
