# SPDX-License-Identifier: Apache-2.0
"""Points in the plane: what α and β do to q(z) (figure 2), and three overlaps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unbraid.studies.finding import Estimate, Exhibit, Finding
from unbraid.studies.intervals import leave_out_seeds, mean_of, spearman
from unbraid.studies.mathieu2019.pools import OVERLAP, PINWHEEL, REASONS, VARIANTS
from unbraid.studies.mathieu2019.rows import Rows, paired, rows_of, seed_means
from unbraid.studies.measures import CELLS

if TYPE_CHECKING:
    from numpy.typing import NDArray

KL, WIDTH, KEPT, DENSITY = (f"aggregate.{name}" for name in ("kl", "width", "kept", "density"))
_SETTINGS = ("alpha", "beta")
SHOWN_SEEDS = 2
PAIRS = "posterior_overlap.pairwise"


def _pinwheel(table: pd.DataFrame) -> tuple[Rows, pd.DataFrame, pd.DataFrame] | None:
    """All models, those with β = 0 and those with α = 0."""
    found = rows_of(table, PINWHEEL, (KL, WIDTH, KEPT), _SETTINGS)
    if found is None:
        return None
    rows = found.rows
    by_alpha, by_beta = rows.loc[rows["beta"] == 0], rows.loc[rows["alpha"] == 0]
    return None if by_alpha.empty or by_beta.empty else (found, by_alpha, by_beta)


def clusters_by_alpha(table: pd.DataFrame) -> Finding | None:
    """MAT-F2a: a larger α gives the prior's four clusters."""
    found = _pinwheel(table)
    if found is None:
        return None
    every, rows, _ = found
    most = rows["alpha"].max()
    last = rows.loc[rows["alpha"] == most]
    return Finding(
        (
            *leave_out_seeds(rows, _trend("KL(p||q)", KL, "alpha"), within=(-1.0, 1.0)),
            seed_means("latents in their arm's cluster, largest alpha", last, KEPT),
            *_levels(rows, "alpha"),
            *_reasons(table, "alpha"),
        ),
        _panels(rows, "alpha", "q(z) of the pinwheel by alpha; beta is 0."),
        every.remark,
    )


def overlap_by_beta(table: pd.DataFrame) -> Finding | None:
    """MAT-F2b: a larger β only widens the posteriors."""
    found = _pinwheel(table)
    if found is None:
        return None
    every, by_alpha, rows = found
    last = rows.loc[rows["beta"] == rows["beta"].max()]
    best = by_alpha.loc[by_alpha["alpha"] == by_alpha["alpha"].max()]
    return Finding(
        (
            *leave_out_seeds(rows, _trend("width", WIDTH, "beta"), within=(-1.0, 1.0)),
            seed_means("latents in their arm's cluster, largest beta", last, KEPT),
            paired("the same less that of the largest alpha", last, best, KEPT),
            *leave_out_seeds(rows, _trend("KL(p||q)", KL, "beta"), within=(-1.0, 1.0)),
            *_levels(rows, "beta"),
            *_reasons(table, "beta"),
        ),
        _panels(rows, "beta", "q(z) of the pinwheel by beta; alpha is 0."),
        every.remark,
    )


def _trend(what: str, column: str, name: str):
    def statistics(rows: pd.DataFrame) -> Mapping[str, float]:
        return {f"trend of {what} with {name}": spearman(rows[name], rows[column])}

    return statistics


def _levels(rows: pd.DataFrame, name: str) -> list[Estimate]:
    """KL(p || q) at each value, in nats."""
    return [
        seed_means(f"KL(p||q) at {name} {value:g}, nats", part, KL)
        for value, part in rows.groupby(name, sort=True)
    ]


def _reasons(table: pd.DataFrame, name: str) -> list[Estimate]:
    """What the largest α, or β, gives where one thing is changed."""
    other = "beta" if name == "alpha" else "alpha"
    found = rows_of(table, REASONS, (KL, KEPT), ("slice", *_SETTINGS))
    if found is None:
        return []
    estimates = []
    for variant in VARIANTS:
        rows = found.rows.loc[found.rows["slice"].str.startswith(f"pinwheel-{variant}-")]
        rows = rows.loc[rows[other] == 0]
        if rows.empty:
            continue
        ends = [rows.loc[rows[name] == edge(rows[name])] for edge in (min, max)]
        told = f"latents in their arm's cluster, largest {name}: {variant}"
        estimates += [
            seed_means(told, ends[1], KEPT),
            paired(f"KL(p||q) gained from least to largest {name}, nats: {variant}",
                   ends[1], ends[0], KL),
        ]  # fmt: skip
    return estimates


def _panels(rows: pd.DataFrame, name: str, caption: str) -> Exhibit | None:
    """Figure 2: densities, a row for each of the first seeds and a column for each value."""
    if DENSITY not in rows:
        return None
    values, seeds = sorted(rows[name].unique()), sorted(rows["seed"].unique())[:SHOWN_SEEDS]
    cells = [[_density(rows, name, value, seed) for value in values] for seed in seeds]
    columns = [f"{name} = {value:g}" for value in values]
    table = pd.DataFrame(index=[f"seed {seed}" for seed in seeds], columns=columns, dtype=object)
    for i, j in np.ndindex(table.shape):
        table.iat[i, j] = cells[i][j]
    return Exhibit("images", table, "latent 1, from -2 to 2", "latent 2", caption)


def _density(rows: pd.DataFrame, name: str, value: float, seed: int) -> NDArray[np.float64] | None:
    """One panel, the second latent upwards."""
    found = rows.loc[(rows[name] == value) & (rows["seed"] == seed), DENSITY]
    if found.empty or found.iloc[0] is None or np.ndim(found.iloc[0]) != 1:
        return None
    return np.flipud(np.asarray(found.iloc[0], dtype=float).reshape(CELLS, CELLS))


def three_overlaps(table: pd.DataFrame) -> Finding | None:
    """MAT-D: too little overlap loses the prior, too much loses the point."""
    found = rows_of(table, OVERLAP, (KL, PAIRS, "elbo.reconstruction"), ("beta",))
    if found is None:
        return None
    rows = found.rows
    values = sorted(rows["beta"].unique())
    if len(values) < 3:
        return None
    little, right, much = (rows.loc[rows["beta"] == value] for value in _ends(values))
    logs = [part.set_index("seed")[KL].clip(lower=1e-6).map(math.log10) for part in (little, right)]
    return Finding(
        (
            *leave_out_seeds(rows, _trend("overlap", PAIRS, "beta"), within=(-1.0, 1.0)),
            mean_of("log10 of KL(p||q), too little over right", (logs[0] - logs[1]).dropna()),
            paired("reconstruction error, too much less right, nats", much, right,
                   "elbo.reconstruction"),
        ),
        _panels(rows, "beta", "q(z) of points on a cross: too little overlap, right, too much."),
        found.remark,
    )  # fmt: skip


def _ends(values: Sequence[float]) -> tuple[float, float, float]:
    """The least, the middle and the largest."""
    return values[0], values[len(values) // 2], values[-1]
