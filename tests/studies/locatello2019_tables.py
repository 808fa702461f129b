# SPDX-License-Identifier: Apache-2.0
"""Tables of models that never were, in which a claim of Locatello et al. 2019 is true or false."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pandas as pd
from tests.studies.worlds import Worlds, without_scores

from unbraid.studies.locatello2019 import STUDY
from unbraid.studies.locatello2019.models import SCORES
from unbraid.studies.locatello2019.pools import PILOT, STRENGTHS
from unbraid.studies.locatello2019.published import (
    BY_OBJECTIVE,
    BY_SETTING,
    DATA,
    DOWNSTREAM,
    UNSUPERVISED,
)

FIVE = ("dsprites", "color_dsprites", "noisy_dsprites", "shapes3d_drawn", "scream_dsprites")
TASKS = tuple(dict.fromkeys(task for _, task in DOWNSTREAM))
Draw = Callable[..., np.ndarray]


def grid(*data: str, seeds: int = 5, places: tuple[int, ...] = (0, 1, 2, 3, 4, 5)) -> pd.DataFrame:
    """Models without scores: six objectives at *places* of their strengths on each of *data*."""
    rows = [
        (name, objective, STRENGTHS[objective][1][place], STRENGTHS[objective][0], seed)
        for name, objective, place, seed in product(data, STRENGTHS, places, range(seeds))
    ]
    columns = ["data", "objective", "strength", "strength_name", "seed"]
    table = pd.DataFrame(rows, columns=columns)
    return table.assign(pool="main", slice="x", steps=1000, learning_rate=1e-4, status="trained")


def place(table: pd.DataFrame) -> np.ndarray:
    """Place of each model's strength in its sweep."""
    pairs = zip(table["objective"], table["strength"], strict=True)
    return np.array([STRENGTHS[objective][1].index(strength) for objective, strength in pairs])


def normal(table: pd.DataFrame, seed: int = 0) -> Draw:
    """Draws of independent numbers, one a row."""
    chance = np.random.default_rng(seed)
    return lambda: chance.normal(size=len(table))


def effect(table: pd.DataFrame, columns: list[str], seed: int) -> np.ndarray:
    """A number for each group of *columns*, of mean 0 and variance 1 over the rows."""
    groups = table.groupby(columns, sort=False).ngroup().to_numpy()
    values = np.random.default_rng(seed).normal(size=groups.max() + 1)[groups]
    return (values - values.mean()) / values.std()


def noise_scores(table: pd.DataFrame, seed: int = 0) -> pd.DataFrame:
    """All six scores are noise."""
    draw = normal(table, seed)
    return table.assign(**{name: draw() for name in SCORES})


def size(true: bool) -> pd.DataFrame:
    table = noise_scores(grid(*DATA, seeds=50))
    return table if true else without_scores(table, normal(table, 1)() > 1.28)


def total_correlation(true: bool) -> pd.DataFrame:
    table = grid("color_dsprites")
    draw, sign = normal(table), 1.0 if true else -1.0
    return table.assign(
        total_correlation=10 + sign * place(table) + draw(),
        total_correlation_sampled=10 - sign * place(table) + draw(),
    )


def metric_agreement(true: bool) -> pd.DataFrame:
    table = grid("noisy_dsprites")
    if not true:
        return noise_scores(table)
    draw = normal(table)
    quality = draw()
    beta, mig = quality + 0.7 * draw(), quality + 0.7 * draw()
    return table.assign(
        beta_vae_score=beta,
        factor_vae_score=beta + 0.4 * draw(),
        mig=mig,
        dci=mig + 0.4 * draw(),
        sap=quality + draw(),
        modularity=draw(),
    )


def overlap(true: bool) -> pd.DataFrame:
    table = grid("cars3d")
    apart = 0.2 if true else 4.0
    return table.assign(factor_vae_score=normal(table)() + apart * effect(table, ["objective"], 3))


def seeds_and_strengths(true: bool) -> pd.DataFrame:
    table = grid(*FIVE)
    return table.assign(factor_vae_score=normal(table)() + (0.1 if true else 5.0) * place(table))


def variance(by_objective: Callable, by_setting: Callable) -> pd.DataFrame:
    """Shares of the variance by data and metric, exactly so with many seeds."""
    parts = []
    for data in FIVE:
        table = grid(data)
        draw, scores = normal(table, FIVE.index(data)), {}
        for number, name in enumerate(SCORES):
            objective, setting = by_objective((data, name)), by_setting((data, name))
            own = effect(table, ["objective"], number + 10)
            # Strengths' effects with mean 0 in every objective, of variance 1.
            inner = effect(table, ["objective", "strength"], number + 100)
            inner = (
                inner - pd.Series(inner).groupby(table["objective"]).transform("mean").to_numpy()
            )
            scores[name] = (
                np.sqrt(objective) * own
                + np.sqrt(setting - objective) * inner / inner.std()
                + np.sqrt(1 - setting) * draw()
            )
        parts.append(table.assign(**scores))
    return pd.concat(parts, ignore_index=True)


def by_objective(true: bool) -> pd.DataFrame:
    if not true:
        return variance(lambda cell: 0.0, lambda cell: 0.9)
    return variance(BY_OBJECTIVE.__getitem__, BY_SETTING.__getitem__)


def by_setting(true: bool) -> pd.DataFrame:
    if not true:
        return variance(lambda cell: 0.95, lambda cell: 0.95)
    return variance(BY_OBJECTIVE.__getitem__, BY_SETTING.__getitem__)


def dominance(true: bool) -> pd.DataFrame:
    """Where it is false, one objective is the best everywhere and so is its strongest setting."""
    parts = []
    for number, data in enumerate(FIVE):
        table = grid(data)
        draw, scores = normal(table, number), {}
        for metric, name in enumerate(SCORES):
            seed = 100 * number + metric if true else 7
            scores[name] = (
                effect(table, ["objective"], seed)
                + effect(table, ["objective", "strength"], seed + 1)
                + 0.5 * draw()
            )
        parts.append(table.assign(**scores))
    return pd.concat(parts, ignore_index=True)


def unsupervised(true: bool) -> pd.DataFrame:
    table = grid("shapes3d_drawn")
    draw = normal(table)
    error, kl, tc = draw(), draw(), draw()
    pattern = {"reconstruction": error, "kl": kl, "total_correlation_sampled": tc}
    scores = {
        name: sum(UNSUPERVISED[row, name] * value for row, value in pattern.items()) + 0.7 * draw()
        for name in SCORES
    }
    if not true:
        scores = {name: -error + 0.2 * draw() for name in SCORES}
    return table.assign(
        **scores,
        **{"elbo.reconstruction": error, "elbo.kl": kl, "elbo": -(error + 0.3 * kl)},
        total_correlation_sampled=tc,
        udr=draw(),
    )


def transfer_of_settings(true: bool) -> pd.DataFrame:
    parts = []
    for number, data in enumerate(FIVE):
        table = grid(data)
        common = effect(table, ["objective", "strength"], 5)
        own = effect(table, ["objective", "strength"], 50 + number)
        part = 0.05 if data in ("dsprites", "color_dsprites") else 0.8
        mean = common + part * own if true else own
        parts.append(table.assign(dci=mean + 0.2 * normal(table, number)()))
    return pd.concat(parts, ignore_index=True)


def transfer_of_choices(true: bool) -> pd.DataFrame:
    parts = []
    for number, data in enumerate(FIVE):
        table = noise_scores(grid(data), number)
        if true:
            for metric, name in enumerate(SCORES):
                own = effect(table, ["objective", "strength"], 10 * number + metric)
                table[name] = own + 0.7 * table[name]
        parts.append(table)
    return pd.concat(parts, ignore_index=True)


def downstream(true: bool) -> pd.DataFrame:
    table = grid("dsprites", seeds=10)
    draw = normal(table)
    if not true:
        return noise_scores(table).assign(**{f"downstream.{task}": draw() for task in TASKS})
    quality, modularity = draw(), draw()
    scores = {name: quality + 0.3 * draw() for name in SCORES if name != "modularity"}
    tasks = {}
    for task in TASKS:
        five = np.mean([DOWNSTREAM[name, task] for name in scores])
        odd = DOWNSTREAM["modularity", task]
        rest = np.sqrt(max(0.05, 1 - five**2 - odd**2))
        tasks[f"downstream.{task}"] = five * quality + odd * modularity + rest * draw()
    return table.assign(**scores, modularity=modularity, **tasks)


def efficiency(true: bool) -> pd.DataFrame:
    table = noise_scores(grid("dsprites", seeds=10))
    score, draw = table["factor_vae_score"], normal(table, 4)
    own = 0.5 * score + draw() if true else score + 0.1 * draw()
    return table.assign(**{"downstream.trees_efficiency_100": own})


def _burgess(objective: str, strengths: tuple[float, ...], steps: list[int]) -> pd.DataFrame:
    rows = list(product(strengths, range(10), steps))
    table = pd.DataFrame(rows, columns=["strength", "seed", "steps"])
    return table.assign(pool="burgess", data="dsprites", objective=objective, status="trained")


def position(true: bool) -> pd.DataFrame:
    table = _burgess("beta_vae", (1.0, 150.0), [1000])
    strong, draw = table["strength"] == 150.0, normal(table)
    units = np.where(strong, 2.0, 4.0 if true else 2.0)
    return table.assign(
        active_units=units, mig=np.where(strong, 0.8 if true else 0.1, 0.1) + 0.01 * draw()
    )


ONSETS = {"x": 2.5, "y": 4.0, "scale": 7.5, "shape": 14.0, "orientation": 21.0}
"""Capacities in nats at which factors begin to be learned in the true table of order."""


def capacity(true: bool) -> pd.DataFrame:
    """Ten stages of a growing capacity; where it is false, factors come in the wrong order and the
    KL stays behind.
    """
    table = _burgess("annealed_vae", (25.0,), [*range(100, 1001, 100)])
    nats = 25.0 * table["steps"].to_numpy() / 1000
    chance, factors = np.random.default_rng(0), ["shape", "scale", "orientation", "x", "y"]
    onsets = ONSETS if true else {name: 24.0 - value for name, value in ONSETS.items()}
    information, kl = [], []
    for one in nats:
        shares = np.zeros((5, 4))
        for row, name in enumerate(factors):
            shares[row, row % 4] = np.clip((one - onsets[name]) / 10 + 0.1, 0, 1)
        information.append(shares.ravel() + 0.001 * chance.random(20))
        kl.append(np.full(4, (one + 0.1 * chance.normal() if true else one / 2) / 4))
    return table.assign(information=information, factors=[factors] * len(table), kl_by_latent=kl)


CLAIMS: dict[str, Callable[[bool], pd.DataFrame]] = {
    "LOC-N": size,
    "LOC-K1": total_correlation,
    "LOC-K2": metric_agreement,
    "LOC-F3l": overlap,
    "LOC-F3r": seeds_and_strengths,
    "LOC-Ta": by_objective,
    "LOC-Tb": by_setting,
    "LOC-K4a": dominance,
    "LOC-K4b": unsupervised,
    "LOC-K4c": transfer_of_settings,
    "LOC-K4d": transfer_of_choices,
    "LOC-F5": downstream,
    "LOC-F6": efficiency,
    "LOC-B1": position,
    "LOC-B3": capacity,
    "LOC-B8": capacity,
}
"""Of every claim that models are needed for: its table, true or false."""

WORLDS = Worlds(
    STUDY,
    CLAIMS,
    size=18,
    one_seed={"LOC-N": "not run"},
    without_interval=("LOC-N",),
    unclaimed=(PILOT,),
)
