# SPDX-License-Identifier: Apache-2.0
"""How good the model is that a score without labels picks, among all that were trained.

For each way to choose, the quantile of its pick among all models of a data set, by each metric: 1
is the best model, 0.5 a random one, ties share their mean rank. A pick is made among the 36
settings of one seed, as by somebody who trains each once, and the mean over seeds is told: the pick
among all models would be a single draw, of which nobody knows the luck. (UDR compares the seeds of
a setting.) Ways to choose (`WAYS`) need only what any run can be scored by.

What `run.best()` does without a metric follows a rule that was written before the tables were
whole. When it was, slices of dSprites with seeds 0 to 4 were there and had been looked at; so
dSprites does not count towards it:

- data suffice with whole grids of all 36 settings and five seeds on `LEAST_DATA` other data sets;
- taken is the way with the highest mean quantile over these data and the metrics but Modularity,
  which likes models that leave most latents dead;
- only if the lower end of the 95% interval of that mean, with seeds left out, lies above
  `LEAST_QUANTILE`, and its mean lies above 0.5 on every one of them.

Where no way passes, `run.best()` asks for a metric. UDR by rank correlations
(`udr:method=spearman`) and the agreement of single latents (`search/discover/certainty.py`) are not
in these tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from unbraid.studies.finding import Estimate
from unbraid.studies.intervals import leave_out_seeds
from unbraid.studies.locatello2019.models import SCORES, models

Scores = Mapping[str, NDArray[np.float64]]
SEEN = "dsprites"
"""Looked at before the rule was written."""
LEAST_DATA, LEAST_SEEDS = 3, 5
LEAST_QUANTILE = 0.7
JUDGED = tuple(name for name in SCORES if name != "modularity")
NEEDED = ("udr", "elbo", "active_units")
"""Scores without labels that the ways need."""


def _ranks(values: ArrayLike) -> NDArray[np.float64]:
    return stats.rankdata(values)


def _udr_of_many_latents(scores: Scores) -> NDArray[np.float64]:
    """UDR of models that use at least as many latents as the median one."""
    active = scores["active_units"]
    return np.where(active >= np.median(active), scores["udr"], -np.inf)


WAYS: dict[str, Callable[[Scores], NDArray[np.float64]]] = {
    "UDR": lambda scores: scores["udr"],
    "ELBO": lambda scores: scores["elbo"],
    "UDR and ELBO, sum of ranks": lambda scores: _ranks(scores["udr"]) + _ranks(scores["elbo"]),
    "UDR of models with many latents": _udr_of_many_latents,
}
"""Each from scores of all models to a number, of which the highest is picked."""


@dataclass(frozen=True)
class Choice:
    """The way to choose that did best, and what to expect of it."""

    way: str
    quantile: Estimate
    """Of the pick, mean over data sets and metrics."""
    by_data: Mapping[str, float]
    """The same on each data set."""

    @property
    def trusted(self) -> bool:
        """Whether it passes the rule."""
        return self.quantile.low > LEAST_QUANTILE and min(self.by_data.values()) > 0.5

    def expectation(self) -> str:
        """How good its picks were, as the end of a sentence about a choice."""
        one = self.quantile
        worst = min(self.by_data, key=lambda name: self.by_data[name])
        return (
            f"by {self.way}, without labels: in locatello2019 such a choice, among 36 settings, was"
            f" better than {one.value:.0%} [{one.low:.0%} to {one.high:.0%}] of all models, mean"
            f" over {len(self.by_data)} data sets besides {SEEN}, and than"
            f" {self.by_data[worst]:.0%} on {worst}"
        )


def pick(way: str, scores: Scores) -> int:
    """The place of the model that *way* picks; of equal ones the first."""
    values = WAYS[way](scores)
    return int(np.argmax(np.where(np.isnan(values), -np.inf, values)))


def choosable(table: Any) -> Any:
    """Models of whole grids with all scores; None where there are none."""
    found = models(table, [*SCORES, *NEEDED])
    return None if found is None else found.rows


def quantiles(rows: Any) -> dict[str, float]:
    """Of the pick of each way: `<data>: <metric>: <way>`, and means over metrics but Modularity."""
    told: dict[str, float] = {}
    for data, own in rows.groupby("data", sort=False):
        places = np.stack([(_ranks(own[one]) - 1) / max(1, len(own) - 1) for one in SCORES])
        judged = [SCORES.index(name) for name in JUDGED]
        seed = own["seed"].to_numpy()
        scores = {name: own[name].to_numpy(dtype=float) for name in NEEDED}
        for way in WAYS:
            picked = []
            for each in np.unique(seed):
                here = np.flatnonzero(seed == each)
                picked.append(here[pick(way, {name: one[here] for name, one in scores.items()})])
            means = places[:, picked].mean(axis=1)
            told |= {
                f"{data}: {metric}: {way}": float(mean)
                for metric, mean in zip(SCORES, means, strict=True)
            }
            told[f"{data}: {way}"] = float(means[judged].mean())
    names = list(dict.fromkeys(rows["data"]))
    return told | {way: float(np.mean([told[f"{data}: {way}"] for data in names])) for way in WAYS}


def estimates(rows: Any) -> dict[str, Estimate]:
    """The same with intervals, seeds left out."""
    return {one.name: one for one in leave_out_seeds(rows, quantiles, within=(0.0, 1.0))}


def best_choice(table: Any) -> Choice | None:
    """The way that did best on data that nobody had looked at; None where data do not suffice."""
    rows = choosable(table)
    if rows is None:
        return None
    seeds = rows.groupby("data", sort=False)["seed"].nunique()
    data = [name for name, count in seeds.items() if name != SEEN and count >= LEAST_SEEDS]
    if len(data) < LEAST_DATA:
        return None
    found = estimates(rows.loc[rows["data"].isin(data)])
    way = max(WAYS, key=lambda one: found[one].value)
    return Choice(way, found[way], {name: found[f"{name}: {way}"].value for name in data})


@cache
def best_choice_known() -> Choice | None:
    """By the tables that come with Unbraid."""
    from unbraid.studies import table

    return best_choice(table("locatello2019"))
