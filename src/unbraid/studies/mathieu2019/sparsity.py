# SPDX-License-Identifier: Apache-2.0
"""Sparse latents of clothes (figure 3): by class, one at a time, and as α grows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import exactly, leave_out_seeds, mean_of, spearman
from unbraid.studies.mathieu2019.pools import SPARSITY
from unbraid.studies.mathieu2019.rows import Rows, paired, rows_of, seed_means, stand_in

if TYPE_CHECKING:
    from numpy.typing import NDArray

PUBLISHED_ALPHA = 100.0
"""That of the authors' scripts."""
SPARSE_GAMMA = 0.8
SHOWN_LATENTS = 12
SEEN = 25.0
"""Change of a pixel, of 255, that a person sees."""
CLOTHES = (
    *("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag"),
    "ankle boot",
)
_SETTINGS = ("alpha", "beta", "prior_gamma")
HOYER, KL, CLASSES = "hoyer", "elbo.kl", "class_sparsity"


def _found(table: pd.DataFrame, *columns: str) -> Rows | None:
    """Models with β = 1, where the scale has others."""
    found = rows_of(table, SPARSITY, columns, _SETTINGS)
    if found is None:
        return None
    rows = found.rows.loc[found.rows["beta"] == 1.0]
    if rows.empty or rows["prior_gamma"].nunique() < 2 or rows["alpha"].nunique() < 2:
        return None
    return Rows(rows, stand_in(found, "fashion_mnist"))


def _judged_alpha(rows: pd.DataFrame) -> float:
    """The published one, else the largest that was trained."""
    alphas = rows["alpha"].unique()
    return PUBLISHED_ALPHA if PUBLISHED_ALPHA in alphas else float(max(alphas))


def _at(rows: pd.DataFrame, gamma: float, alpha: float) -> pd.DataFrame:
    return rows.loc[(rows["prior_gamma"] == gamma) & (rows["alpha"] == alpha)]


def by_class(table: pd.DataFrame) -> Finding | None:
    """MAT-F3a: a class uses few of the latents in use."""
    used, in_use = f"{CLASSES}.used_by_a_class", f"{CLASSES}.in_use"
    found = _found(table, CLASSES, used, in_use, KL)
    if found is None:
        return None
    alpha = _judged_alpha(found.rows)
    sparse, plain = (_at(found.rows, gamma, alpha) for gamma in (SPARSE_GAMMA, 0.0))
    return Finding(
        (
            seed_means("share of the latents in use that a class leaves out", sparse, CLASSES),
            paired("the same less that of gamma 0", sparse, plain, CLASSES),
            seed_means("latents that a class uses", sparse, used),
            seed_means("latents in use", sparse, in_use),
            seed_means("KL of sparse models, nats", sparse, KL),
        ),
        _sizes(sparse, alpha),
        found.remark,
    )


def _sizes(rows: pd.DataFrame, alpha: float) -> Exhibit | None:
    """Figure 3, left: mean |z| by class and latent, the first seed's largest latents."""
    if "class_sizes" not in rows or rows.empty:
        return None
    first = rows.sort_values("seed").iloc[0]
    given = first["class_sizes"]
    if np.ndim(given) != 1:
        return None
    clothes = first["data"] == "fashion_mnist"
    size = np.asarray(given, dtype=float).reshape(int(first["classes"]), -1)
    order = np.sort(np.argsort(-np.nanmax(size, axis=0), kind="stable")[:SHOWN_LATENTS])
    names = CLOTHES if clothes else [f"class {place}" for place in range(len(size))]
    table = pd.DataFrame(size[:, order], index=[*names], columns=[f"{one}" for one in order])
    caption = f"Mean |z| by class and latent, gamma 0.8, alpha {alpha:g}: the latents used most."
    return Exhibit("matrix", table, "latent", "class", caption)


def traversals(table: pd.DataFrame) -> Finding | None:
    """MAT-F3b: along an active latent one part of the picture changes, and can be seen to."""
    found = _found(table, HOYER, KL)
    if found is None or "traversals" not in found.rows:
        return None
    alpha = _judged_alpha(found.rows)
    rows = _at(found.rows, SPARSE_GAMMA, alpha).sort_values("seed")
    rows = rows.loc[[np.ndim(one) == 1 for one in rows["traversals"]]]
    if rows.empty:
        return None
    row = rows.iloc[0]
    frames, traversed = int(row["traversal_frames"]), [int(one) for one in row["traversed"]]
    pixels = np.asarray(row["traversals"], dtype=float).reshape(len(traversed), frames, -1)
    change = np.ptp(pixels, axis=1)
    seen = change.max(axis=1) >= SEEN
    total = np.square(change).sum(axis=1)
    # Of the pixels that clothes ever cover: the background changes for no latent.
    covered = np.maximum(1, (pixels.max(axis=1) >= SEEN).sum(axis=1))
    local = np.square(change.sum(axis=1)) / np.where(total > 0, total, 1.0) / covered
    return Finding(
        (
            exactly("share of active latents whose change can be seen", float(seen.mean()),
                    len(seen)),
            exactly("share of the clothes that a latent changes", float(local[seen].mean())
                    if seen.any() else float("nan"), int(seen.sum())),
        ),
        _pictures(pixels, traversed, alpha),
        found.remark,
    )  # fmt: skip


def _pictures(pixels: NDArray[np.float64], traversed: list[int], alpha: float) -> Exhibit:
    """Figure 3, right: a row for each latent."""
    side = round(pixels.shape[2] ** 0.5)
    frames = pixels.shape[1]
    columns = [f"{frame + 1}" for frame in range(frames)]
    index = [f"latent {latent}" for latent in traversed]
    table = pd.DataFrame(index=index, columns=columns, dtype=object)
    for i, j in np.ndindex(table.shape):
        table.iat[i, j] = pixels[i, j].reshape(side, side).astype(np.uint8)
    caption = f"Pictures along the latents that move most, gamma 0.8, alpha {alpha:g}."
    return Exhibit("images", table, "from low to high", "", caption)


def by_alpha(table: pd.DataFrame) -> Finding | None:
    """MAT-F3c: Hoyer sparsity grows with α under the sparse prior, and not without."""
    found = _found(table, HOYER, KL)
    if found is None:
        return None
    rows, alpha = found.rows, _judged_alpha(found.rows)
    gains = [
        paired(f"gain of sparsity from alpha 0, gamma {gamma:g}",
               _at(rows, gamma, alpha), _at(rows, gamma, 0.0), HOYER)
        for gamma in (SPARSE_GAMMA, 0.0)
    ]  # fmt: skip
    sparse = rows.loc[rows["prior_gamma"] == SPARSE_GAMMA]
    judged = rows.loc[(rows["prior_gamma"] == SPARSE_GAMMA) | rows["alpha"].isin([0.0, alpha])]
    further = [
        mean_of(f"log-likelihood, gamma {gamma:g}, alpha {own:g}, nats", part["log_likelihood"])
        for gamma, own, part in _by_setting(rows)
        if "log_likelihood" in part and np.isfinite(part["log_likelihood"].to_numpy(float)).any()
    ]
    return Finding(
        (
            *gains,
            *leave_out_seeds(sparse, _trend, within=(-1.0, 1.0)),
            exactly("least KL of a judged model, nats", float(judged[KL].min()), len(judged)),
            *further,
        ),
        _curves(rows),
        found.remark,
    )


def _by_setting(rows: pd.DataFrame) -> list[tuple[float, float, pd.DataFrame]]:
    """γ, α and their models."""
    parts = [part for _, part in rows.groupby(["prior_gamma", "alpha"], sort=True)]
    return [
        (float(part["prior_gamma"].iloc[0]), float(part["alpha"].iloc[0]), part) for part in parts
    ]


def _trend(rows: pd.DataFrame) -> Mapping[str, float]:
    return {"trend of sparsity with alpha, gamma 0.8": spearman(rows["alpha"], rows[HOYER])}


def _curves(rows: pd.DataFrame) -> Exhibit:
    """Figure 3, middle: sparsity against α, a line for each γ."""
    lines = []
    for gamma, alpha, part in _by_setting(rows):
        one = mean_of("", part[HOYER])
        lines.append((alpha, one.value, f"gamma {gamma:g}", one.low, one.high))
    table = pd.DataFrame(lines, columns=["x", "y", "group", "low", "high"])
    return Exhibit(
        "lines",
        table.sort_values(["group", "x"], ignore_index=True),
        "alpha",
        "Hoyer sparsity",
        "Sparsity of codes by alpha, with and without a sparse prior.",
    )
