# SPDX-License-Identifier: Apache-2.0
"""What Burgess et al. (2018) say of capacity, as the slides quote it (slides 21 to 24).

The capacity of a model grows evenly from 0 to its `strength` at the last step. A factor counts as
learned at the capacity where one latent first holds a tenth of its entropy, on the line between two
stages; position once both x and y are. A seed that diverged is left out with all of its stages:
those before would stand for a training that never came to its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import mean_of, share_of, spearman
from unbraid.studies.locatello2019.pools import BETAS, BURGESS

if TYPE_CHECKING:
    from collections.abc import Iterator

LEARNED = 0.1
"""Share of a factor's entropy in one latent."""
CAPACITIES = {"position": 3.1, "scale": 7.3, "shape": 15.4, "orientation": 23.8}
"""Nats at which the paper finds each, in its order."""
FACTORS = ("x", "y", "scale", "shape", "orientation")


def spread_of_position(table: pd.DataFrame) -> Finding | None:
    """LOC-B1: how many latents two factors of position take at β = 1 and at β = 150."""
    found = _rows(table, "beta_vae", ["active_units", "mig"])
    if found is None or not {*BETAS} <= {*found[0]["strength"]}:
        return None
    rows, left_out = found
    weak, strong = (rows.loc[rows["strength"] == beta] for beta in BETAS)
    shown = pd.DataFrame({"x": rows["strength"], "y": rows["active_units"], "group": "seeds"})
    return Finding(
        (
            mean_of("latents in use at beta 1", weak["active_units"], 4.0),
            mean_of("latents in use at beta 150", strong["active_units"], 2.0),
            mean_of("mig at beta 1", weak["mig"]),
            mean_of("mig at beta 150", strong["mig"]),
        ),
        Exhibit("violins", shown, "beta", "latents in use", "Latents that two factors take."),
        left_out,
    )


def order_of_factors(table: pd.DataFrame) -> Finding | None:
    """LOC-B3: at which capacity each factor is learned, and in which order."""
    found = _rows(table, "annealed_vae", ["information", "factors"])
    if found is None or not {*FACTORS} <= {*found[0]["factors"].iloc[0]}:
        return None
    rows, left_out = found
    learned, lines = [], []
    for seed, stages in rows.groupby("seed"):
        capacity = stages["capacity"].to_numpy()
        known = np.stack([*_best_latents(stages)])
        onsets = dict(zip(FACTORS, (_first(capacity, one) for one in known.T), strict=True))
        position = max(onsets.pop("x"), onsets.pop("y"))
        learned.append({"position": position} | onsets)
        lines += [
            (nats, share, factor, seed)
            for factor, shares in zip(FACTORS, known.T, strict=True)
            for nats, share in zip(capacity, shares, strict=True)
        ]
    each = np.array([[one[name] for name in CAPACITIES] for one in learned])
    first = int((each[:, 1:] > each[:, :1]).all(axis=1).sum())
    after_all = 2 * float(rows["strength"].to_numpy().max())
    order = [spearman(np.minimum(seed, after_all), [*CAPACITIES.values()]) for seed in each]
    early = int((np.sort(each, axis=1)[:, 1] < rows["capacity"].to_numpy().min()).sum())
    remarks = [
        _never(each),
        f"In {early} of {len(each)} seeds several factors are learned before the first stage: there"
        " they are told apart by lines from nothing at 0 nats, where nothing was measured."
        if early
        else "",
        left_out,
    ]
    return Finding(
        (
            share_of("seeds that learn position first", first, len(each)),
            mean_of("rank correlation with the paper's order", np.nan_to_num(order)),
            *(
                mean_of(f"{name}, nats", nats, CAPACITIES[name])
                for name, nats in zip(CAPACITIES, each.T, strict=True)
            ),
        ),
        _information_lines(lines),
        " ".join(filter(None, remarks)),
    )


def _never(capacities: NDArray[np.float64]) -> str:
    """Which factors some seeds never learn, of *capacities* `(seeds, factors)`."""
    counts = np.isinf(capacities).sum(axis=0)
    told = [f"{name} by {n}" for name, n in zip(CAPACITIES, counts, strict=True) if n]
    if not told:
        return ""
    return (
        f"Of {len(capacities)} seeds never learned is {', '.join(told)}: later than all others in"
        " the order, left out of the capacities."
    )


def capacity_gap(table: pd.DataFrame) -> Finding | None:
    """LOC-B8: how far the KL is from the capacity while it grows."""
    found = _rows(table, "annealed_vae", ["kl_by_latent"])
    if found is None:
        return None
    rows, left_out = found
    points, gaps = [], []
    for seed, stages in rows.groupby("seed"):
        capacity = stages["capacity"].to_numpy()
        kl = np.array([float(np.sum(latents)) for latents in stages["kl_by_latent"]])
        gaps.append(np.abs(kl - capacity))
        points.append(pd.DataFrame({"x": capacity, "y": kl, "group": f"seed {seed}"}))
    asked = [0.0, float(rows["capacity"].to_numpy().max())]
    points.append(pd.DataFrame({"x": asked, "y": asked, "group": "paper"}))
    return Finding(
        (
            mean_of("largest distance over the stages, nats", [one.max() for one in gaps]),
            mean_of("mean distance over the stages, nats", [one.mean() for one in gaps]),
        ),
        Exhibit(
            "lines",
            pd.concat(points, ignore_index=True),
            "capacity, nats",
            "KL, nats",
            "KL as its target grows; grey is the target.",
        ),
        left_out,
    )


def _rows(
    table: pd.DataFrame, objective: str, columns: Sequence[str]
) -> tuple[pd.DataFrame, str] | None:
    """Models of the pool with *columns* at every stage, by seed and step, and what is said of those
    that are left out; None where there are none.

    `capacity` is that of AnnealedVAE at the row's step, nats.
    """
    if table.empty or not {*columns} <= {*table.columns}:
        return None
    rows = table.loc[(table["pool"] == BURGESS) & (table["objective"] == objective)]
    whole = (rows["status"] == "trained") & rows[[*columns]].notna().all(axis=1)
    of_model = whole.groupby([rows["strength"], rows["seed"]])
    kept = rows.loc[of_model.transform("all")].sort_values(by=["seed", "steps"], ignore_index=True)
    if kept.empty:
        return None
    steps = kept["steps"].to_numpy(dtype=float)
    kept = kept.assign(capacity=kept["strength"].to_numpy() * steps / steps.max())
    lost = int((~of_model.all()).sum())
    told = f"Models left out, since they diverged or lack a score: {lost}." if lost else ""
    return kept, told


def _best_latents(stages: pd.DataFrame) -> Iterator[NDArray[np.float64]]:
    """For each stage the largest share of every factor's entropy that one latent holds."""
    for information, factors in zip(stages["information"], stages["factors"], strict=True):
        names = [*factors]
        shares = np.asarray(information, dtype=float).reshape(len(names), -1).max(axis=1)
        yield shares[[names.index(factor) for factor in FACTORS]]


def _first(capacity: NDArray[np.float64], shares: NDArray[np.float64]) -> float:
    """Capacity at which *shares* first reach `LEARNED`, on the line from the stage before."""
    capacity, shares = np.r_[0.0, capacity], np.r_[0.0, shares]
    reached = np.flatnonzero(shares >= LEARNED)
    if not len(reached):
        return np.inf
    at = reached[0]
    part = (LEARNED - shares[at - 1]) / (shares[at] - shares[at - 1])
    return float(capacity[at - 1] + part * (capacity[at] - capacity[at - 1]))


def _information_lines(lines: list[tuple[float, float, str, object]]) -> Exhibit:
    """Mean over seeds of what the best latent holds of each factor."""
    table = pd.DataFrame(lines, columns=["x", "y", "group", "seed"])
    means = []
    for _, part in table.groupby(["group", "x"], sort=True):
        one = mean_of("", part["y"])
        means.append((part["x"].iloc[0], one.value, part["group"].iloc[0], one.low, one.high))
    return Exhibit(
        "lines",
        pd.DataFrame(means, columns=["x", "y", "group", "low", "high"]),
        "capacity, nats",
        "share of the factor's entropy in one latent",
        "Factors appear one after the other as the capacity grows.",
    )
