# SPDX-License-Identifier: Apache-2.0
"""What a sweep of β shows on XYSquares and on other data (figures 1, 6 and 7)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd

from unbraid.studies.finding import Estimate, Exhibit, Finding
from unbraid.studies.intervals import exactly, mean_of, spearman
from unbraid.studies.michlo2023.models import NAMES, Models, models, paper_name
from unbraid.studies.michlo2023.pools import SWEEPS
from unbraid.studies.michlo2023.published import BEST

SCORES = ("mig", "dci")
HARD = "xysquares"
COLLAPSED = 3
"""A model with fewer active latents knows less than half of the factors of XYSquares."""
CELL = ["data", "latents", "kind"]
"""What a sweep of β is made of: data, number of latents, objective."""


def sweep(table: pd.DataFrame, columns: Sequence[str]) -> Models | None:
    """The models of figure 6; None without XYSquares or without any other data."""
    found = models(table, SWEEPS, columns)
    if found is None:
        return None
    rows = found.rows.assign(data=found.rows["data"].str.partition(":")[0])
    if HARD not in {*rows["data"]} or rows["data"].nunique() < 2:
        return None
    return Models(rows, found.remark)


def best_over_sweep(table: pd.DataFrame) -> Finding | None:
    """MIC-F6a: the best score over all β and sizes, on XYSquares and elsewhere."""
    found = sweep(table, SCORES)
    if found is None:
        return None
    best = found.rows.groupby(["data", "kind"])[[*SCORES]].max()
    sizes = found.rows.groupby(["data", "kind"]).size()
    told, rows = [], []
    for (data, kind), scores in best.iterrows():  # pyright: ignore[reportGeneralTypeIssues]
        paper = BEST[paper_name(data), kind]
        for score, printed in zip(SCORES, paper, strict=True):
            name, value = f"{data}, {NAMES[kind]}: best {score.upper()}", float(scores[score])
            told.append(exactly(name, value, int(sizes[data, kind]), printed))
            rows += [(data, value, f"{NAMES[kind]}, {score}"), (data, printed, f"paper, {score}")]
    return Finding((*_poor(best), *told), _bars(rows), found.remark)


def _poor(best: pd.DataFrame) -> tuple[Estimate, ...]:
    """How poor the best on XYSquares is, and how far below the worst of the other data."""
    ada = best.xs("ada", level="kind")
    others = ada.drop(index=HARD)
    count = len(best)
    return (
        exactly("best MIG of Ada-GVAE on XYSquares", float(ada.loc[HARD, "mig"]), count),
        exactly(
            "best MIG of Ada-GVAE, least of the other data less XYSquares",
            float(others["mig"].min() - ada.loc[HARD, "mig"]),
            count,
        ),
    )


def _bars(rows: list[tuple[str, float, str]]) -> Exhibit:
    shown = pd.DataFrame(rows, columns=["x", "y", "group"])
    mig = shown[shown["group"].str.endswith("mig") & ~shown["group"].str.startswith("paper")]
    return Exhibit(
        "bars",
        mig.assign(group=mig["group"].str.partition(",")[0]).reset_index(drop=True),
        "data",
        "best MIG over β and sizes",
        "The best of a sweep: XYSquares beside other data.",
    )


def smaller_betas(table: pd.DataFrame) -> Finding | None:
    """MIC-F6b: the largest β at which a model does not collapse, on XYSquares and elsewhere."""
    found = sweep(table, ("active_units", *SCORES))
    if found is None:
        return None
    rows = found.rows
    alive = rows.groupby(CELL)[["beta", "active_units"]].apply(_largest_alive).rename("decade")
    decades = alive.reset_index()
    hard = decades.loc[decades["data"] == HARD].set_index(["latents", "kind"])["decade"]
    other = decades.loc[decades["data"] != HARD].groupby(["latents", "kind"])["decade"].mean()
    best = rows.loc[rows.groupby(CELL)["mig"].idxmax()]
    chosen = np.log10(best.set_index("data")["beta"].astype(float))
    shown = decades.assign(
        x=decades["data"],
        y=10.0 ** decades["decade"].to_numpy(),
        group=decades["kind"].map(NAMES),
    )
    return Finding(
        (
            mean_of("decades of β, XYSquares less other data", (hard - other).dropna()),
            mean_of("decades of the β of best MIG, XYSquares", chosen[[HARD]]),
            mean_of("decades of the β of best MIG, other data", chosen.drop(HARD)),
        ),
        Exhibit(
            "violins",
            shown[["x", "y", "group"]],
            "data",
            "largest β without collapse",
            "The largest β of the sweep at which three latents or more are active.",
            logarithmic=("y",),
        ),
        found.remark,
    )


def _largest_alive(models: pd.DataFrame) -> float:
    """Decade of the largest β at which no model is collapsed, nor at any smaller one; half a decade
    below the sweep where there is none.
    """
    betas = np.sort(models["beta"].unique())
    least = models.groupby("beta")["active_units"].min().reindex(betas).to_numpy()
    dead = np.flatnonzero(least < COLLAPSED)
    alive = len(betas) if not len(dead) else int(dead[0])
    return math.log10(betas[alive - 1]) if alive else math.log10(betas[0]) - 0.5


def tangled_codes(table: pd.DataFrame) -> Finding | None:
    """MIC-F7: what the latents of the best β-VAE on XYSquares know of its factors."""
    found = sweep(table, SCORES)
    if found is None or "information" not in found.rows:
        return None
    rows = found.rows.loc[(found.rows["data"] == HARD) & (found.rows["kind"] == "beta")]
    rows = rows.loc[rows["information"].notna()]
    if rows.empty:
        return None
    best = rows.sort_values("mig").iloc[-1]
    names = [*best["factors"]]
    shares = np.asarray(best["information"], dtype=float).reshape(len(names), -1)
    latents = [str(number) for number in range(shares.shape[1])]
    return Finding(
        (
            exactly("DCI of the best β-VAE on XYSquares", float(best["dci"]), 1),
            exactly(
                "share of a factor's entropy in its best latent, mean",
                float(shares.max(axis=1).mean()),
                len(names),
            ),
        ),
        Exhibit(
            "matrix",
            pd.DataFrame(shares, index=names, columns=latents),
            "latent",
            "factor",
            f"Share of each factor's entropy in each latent, β-VAE with β {best['beta']:g}.",
        ),
        found.remark,
    )


def overlap_by_beta(table: pd.DataFrame) -> Finding | None:
    """MIC-S21: how often a draw from a posterior decodes to a neighbour, by β."""
    column = "distances.overlap"
    found = sweep(table, (column,))
    if found is None:
        return None
    cells = found.rows.groupby(CELL)[["beta", column]]
    each = cells.apply(lambda part: spearman(part["beta"], part[column]))
    span = cells.apply(_span)
    rows = found.rows.loc[found.rows["kind"] == "beta"]
    shown = rows.groupby(["data", "beta"])[column].mean().reset_index()
    return Finding(
        (
            mean_of("rank correlation of β and overlap", each),
            mean_of("overlap at the largest β less at the smallest", span),
        ),
        Exhibit(
            "lines",
            shown.set_axis(["group", "x", "y"], axis=1),
            "β",
            "share of draws that decode to a neighbour",
            "More regularisation, more decoding mistakes (β-VAE, mean over numbers of latents).",
            logarithmic=("x",),
        ),
        found.remark,
    )


def _span(models: pd.DataFrame) -> float:
    means = models.groupby("beta")["distances.overlap"].mean()
    return float(means.iloc[-1] - means.iloc[0])
