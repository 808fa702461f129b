# SPDX-License-Identifier: Apache-2.0
"""What a sweep of β shows on XYSquares and on other data (figures 1, 6 and 7)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unbraid.studies.finding import Estimate, Exhibit, Finding
from unbraid.studies.intervals import exactly, mean_of, spearman
from unbraid.studies.michlo2023.models import (
    COLLAPSED,
    NAMES,
    OVERLAP,
    Models,
    by,
    models,
    paper_name,
)
from unbraid.studies.michlo2023.pools import SWEEPS
from unbraid.studies.michlo2023.published import BEST

SCORES = ("mig", "dci")
HARD = "xysquares"
CELL = ["data", "latents", "kind"]
"""What a sweep of β is made of: data, number of latents, objective."""


def sweep(table: pd.DataFrame, columns: Sequence[str]) -> Models | None:
    """The models of figure 6; None without XYSquares or without any other data."""
    found = models(table, SWEEPS, columns)
    if found is None:
        return None
    rows = found.rows.assign(data=[name.partition(":")[0] for name in found.rows["data"]])
    if HARD not in {*rows["data"]} or len({*rows["data"]}) < 2:
        return None
    return Models(rows, found.remark)


def best_over_sweep(table: pd.DataFrame) -> Finding | None:
    """MIC-F6a: the best score over all β and sizes, on XYSquares and elsewhere."""
    found = sweep(table, SCORES)
    if found is None:
        return None
    told, bars, ada = [], [], {}
    for place, score in enumerate(SCORES):
        for (data, kind), values in by(found.rows, ["data", "kind"], score).items():
            best, paper = float(values.max()), BEST[paper_name(data), kind][place]
            name = f"{data}, {NAMES[kind]}: best {score.upper()}"
            told.append(exactly(name, best, len(values), paper))
            if score == "mig":
                bars += [(data, best, NAMES[kind])]
                ada |= {data: best} if kind == "ada" else {}
    if {*ada} != {*found.rows["data"]}:
        return None
    return Finding(
        (*_poor(ada), *sorted(told, key=lambda one: one.name)), _bars(bars), found.remark
    )


def _poor(ada: Mapping[str, float]) -> tuple[Estimate, ...]:
    """How poor Ada-GVAE's best on XYSquares is, and how far below the worst of the other data."""
    least = min(best for data, best in ada.items() if data != HARD)
    gap = "best MIG of Ada-GVAE, least of the other data less XYSquares"
    return (
        exactly("best MIG of Ada-GVAE on XYSquares", ada[HARD], len(ada)),
        exactly(gap, least - ada[HARD], len(ada)),
    )


def _bars(rows: list[tuple[str, float, str]]) -> Exhibit:
    return Exhibit(
        "bars",
        pd.DataFrame(rows, columns=["x", "y", "group"]),
        "data",
        "best MIG over β and sizes",
        "The best of a sweep: XYSquares beside other data.",
    )


def smaller_betas(table: pd.DataFrame) -> Finding | None:
    """MIC-F6b: the largest β at which a model does not collapse, on XYSquares and elsewhere."""
    found = sweep(table, ("active_units", *SCORES))
    if found is None:
        return None
    decades, best = {}, {True: [], False: []}
    for cell, part in _cells(found.rows):
        decades[cell] = _largest_alive(part)
        chosen = part["beta"].to_numpy(dtype=float)[part["mig"].to_numpy(dtype=float).argmax()]
        best[cell[0] == HARD].append(math.log10(chosen))
    gaps = [
        decade - np.mean([one for (data, *own), one in decades.items() if data != HARD
                          and own == rest])
        for (name, *rest), decade in decades.items()
        if name == HARD
    ]  # fmt: skip
    shown = [(data, 10.0**decade, NAMES[kind]) for (data, _, kind), decade in decades.items()]
    return Finding(
        (
            mean_of("decades of β, XYSquares less other data", gaps),
            mean_of("decades of the β of best MIG, XYSquares", best[True]),
            mean_of("decades of the β of best MIG, other data", best[False]),
        ),
        Exhibit(
            "violins",
            pd.DataFrame(shown, columns=["x", "y", "group"]),
            "data",
            "largest β without collapse",
            "The largest β of the sweep at which three latents or more are active.",
            logarithmic=("y",),
        ),
        found.remark,
    )


def _cells(rows: pd.DataFrame) -> list[tuple[tuple[Any, ...], pd.DataFrame]]:
    """Each sweep of β: data, number of latents and objective, with its models."""
    keys = list(zip(*(rows[name] for name in CELL), strict=True))
    return [
        (cell, rows.loc[[key == cell for key in keys]].sort_values(by="beta"))
        for cell in sorted({*keys})
    ]


def _largest_alive(models: pd.DataFrame) -> float:
    """Decade of the largest β at which no model is collapsed, nor at any smaller one; half a decade
    below the sweep where there is none.
    """
    least = {beta: values.min() for (beta,), values in by(models, ["beta"], "active_units").items()}
    betas = sorted(least)
    alive = next((at for at, beta in enumerate(betas) if least[beta] < COLLAPSED), len(betas))
    return math.log10(betas[alive - 1]) if alive else math.log10(betas[0]) - 0.5


def tangled_codes(table: pd.DataFrame) -> Finding | None:
    """MIC-F7: what the latents of the best β-VAE on XYSquares know of its factors."""
    found = sweep(table, SCORES)
    if found is None or "information" not in found.rows:
        return None
    every = found.rows.to_dict("records")
    own = [one for one in every if (one["data"], one["kind"]) == (HARD, "beta")]
    own = [one for one in own if one["information"] is not None]
    if not own:
        return None
    best = max(own, key=lambda one: one["mig"])
    names = [*best["factors"]]
    shares: NDArray[np.float64] = np.asarray(best["information"], dtype=float)
    shares = shares.reshape(len(names), -1)
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
    found = sweep(table, (OVERLAP,))
    if found is None:
        return None
    cells = [part for _, part in _cells(found.rows)]
    own = found.rows.loc[found.rows["kind"] == "beta"]
    lines = [
        (beta, float(values.mean()), data)
        for (data, beta), values in by(own, ["data", "beta"], OVERLAP).items()
    ]
    return Finding(
        (
            mean_of(
                "rank correlation of β and overlap",
                [spearman(part["beta"], part[OVERLAP]) for part in cells],
            ),
            mean_of("overlap at the largest β less at the smallest", [*map(_span, cells)]),
        ),
        Exhibit(
            "lines",
            pd.DataFrame(lines, columns=["x", "y", "group"]),
            "β",
            "share of draws that decode to a neighbour",
            "Decoding mistakes of β-VAE by β, mean over numbers of latents.",
            logarithmic=("x",),
        ),
        found.remark,
    )


def _span(models: pd.DataFrame) -> float:
    overlaps = by(models, ["beta"], OVERLAP)
    return float(overlaps[max(overlaps)].mean() - overlaps[min(overlaps)].mean())
