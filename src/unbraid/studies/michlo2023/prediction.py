# SPDX-License-Identifier: Apache-2.0
"""Whether distances of a data set, before any training, tell which factors models will find.

Beyond the paper. Of each data set two numbers a factor are known beforehand: its importance (mean
distance of images that differ in it alone) and its order (rank correlation of distances with the
truth; 0 where there is none), both by the loss that the models are trained with. Of trained models
one is known: how much of the factor's entropy their best latent holds. They are compared over the
tables of every study, whose slices have information by factor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from unbraid.analysis.distances.perceived_loss import loss_of
from unbraid.objectives.likelihood_spelling import read_likelihood
from unbraid.studies.definition import definition
from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import leave_out_seeds, spearman
from unbraid.studies.michlo2023.measured import distances_of
from unbraid.studies.michlo2023.models import by, models
from unbraid.studies.michlo2023.pools import BLUR, LEVELS, SPACINGS, SWEEPS
from unbraid.studies.michlo2023.published import RANDOM
from unbraid.studies.pool import SearchSlice

if TYPE_CHECKING:
    from unbraid.studies.results import Results

SCALE = "gpu"
"""Of the other studies' tables."""
LEAST_FACTORS = 3
"""Fewer have no rank correlation."""


def found_as_foreseen(table: pd.DataFrame) -> Finding | None:
    """MIC-P: importance and order of factors beside what models know of them, over all studies."""
    return compare([*_own(table), *others()])


def compare(parts: list[pd.DataFrame]) -> Finding | None:
    """The same for models with `data`, `loss`, `seed`, `information` and `factors`; None without
    two seeds on any data.
    """
    rows = [row for part in parts for row in _foreseen(part)]
    known = pd.DataFrame(rows, columns=["data", "seed", "importance", "order", "shares"])
    seeds = {data: len({*values}) for (data,), values in by(known, ["data"], "seed").items()}
    kept = known.loc[[seeds[data] > 1 for data in known["data"]]].reset_index(drop=True)
    if kept.empty:
        return None
    return Finding(
        leave_out_seeds(kept, _statistics, within=(-1.0, 1.0)),
        _points(kept),
        f"{kept['data'].nunique()} data sets; one under the overlap loss counts as its own.",
    )


def _own(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """The models of this study, but those of the pool that makes them collapse."""
    found = models(table, (SPACINGS, BLUR, LEVELS, *SWEEPS), ())
    if found is not None and {"information", "factors"} <= {*found.rows}:
        yield found.rows.assign(loss=found.rows["likelihood"].map(_loss))


def others() -> Iterator[pd.DataFrame]:
    """The models of every other study that has tables with information by factor."""
    from unbraid.studies import STUDIES
    from unbraid.studies.results import Results

    for name in STUDIES:
        if name != "michlo2023":
            yield from of_results(Results(STUDIES.load(name), SCALE))


def of_results(results: Results) -> Iterator[pd.DataFrame]:
    """The models of another study that distances could foretell.

    Left out: pools that no claim of it is about, such as pilots; searches; data that go by another
    name than what they were loaded as, since they were changed first; models that were told factors
    by labels.
    """
    judged = {name for claim in results.study.claims for name in claim.pools}
    for pool, one in results.slices():
        if pool.name not in judged or one.called or isinstance(one, SearchSlice):
            continue
        defined = definition(one)
        labelled = any(own and own[0] == "labels" for own in defined["supervision"])
        if labelled or not results.done(pool, one):
            continue
        rows = results.read(pool, one)
        if {"information", "factors"} <= {*rows}:
            last = rows.loc[rows["steps"] == rows["steps"].max()]
            yield last.assign(data=_spelled(defined), loss=_loss(defined["likelihood"]))


def _spelled(defined: Mapping[str, Any]) -> str:
    """The data of a slice so *defined*, with its options."""
    options = ",".join(f"{key}={value}" for key, value in (defined["data_options"] or {}).items())
    return f"{defined['data']}:{options}" if options else str(defined["data"])


def _loss(likelihood: str | None) -> str:
    return loss_of(read_likelihood(likelihood or "bernoulli").name).name


def _foreseen(models: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """For each model its data, seed, and by factor what was known before and what it knows."""
    for one in models.to_dict("records"):
        if one["information"] is None:
            continue
        before = distances_of(str(one["data"]), str(one["loss"]))
        if before is None:
            continue
        names = [*one["factors"]]
        shares = np.asarray(one["information"], dtype=float).reshape(len(names), -1).max(axis=1)
        own = before.reindex(names)
        importance = own["mean"].to_numpy(dtype=float) / before.loc[RANDOM, "mean"]
        varying = np.isfinite(importance) & np.isfinite(shares)
        if varying.sum() < LEAST_FACTORS:
            continue
        order = np.nan_to_num(own["spearman"].to_numpy(dtype=float))
        blurred = ", blur" if "+" in str(one["loss"]) else ""
        yield (
            f"{one['data']}{blurred}",
            one["seed"],
            *(values[varying] for values in (importance, order, shares)),
        )


def _statistics(rows: pd.DataFrame) -> Mapping[str, float]:
    """Rank correlations within data sets, and over the factors of all."""
    means = {data: _mean_shares(part) for data, part in rows.groupby("data", sort=False)}
    within = [
        spearman(importance, shares)
        for importance, _, shares in means.values()
        if np.ptp(importance) > 1e-6 * importance.max()
    ]
    importance, order, shares = (np.concatenate(one) for one in zip(*means.values(), strict=True))
    known = [one for one in within if np.isfinite(one)]
    return {
        "importance with information, mean within data sets": (
            float(np.mean(known)) if known else float("nan")
        ),
        "order with information, over all factors": spearman(order, shares),
        "importance with information, over all factors": spearman(importance, shares),
        "importance times order with information, over all factors": spearman(
            importance * np.maximum(order, 0.0), shares
        ),
    }


def _mean_shares(part: pd.DataFrame) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Importance and order of the factors of one data set, and mean information of its models."""
    first = part.iloc[0]
    return first["importance"], first["order"], np.mean([*part["shares"]], axis=0)


def _points(rows: pd.DataFrame) -> Exhibit:
    parts = []
    for data, part in rows.groupby("data", sort=False):
        importance, _, shares = _mean_shares(part)
        parts.append(pd.DataFrame({"x": importance, "y": shares, "group": str(data)}))
    return Exhibit(
        "points",
        pd.concat(parts, ignore_index=True),
        "distance of the factor, share of random pairs', before training",
        "share of its entropy in the best latent, after training",
        "A dot a factor: what a loss sees of it beforehand, and what models come to know.",
    )
