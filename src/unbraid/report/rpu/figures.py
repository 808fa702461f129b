# SPDX-License-Identifier: Apache-2.0
"""Figures of a recursion: the final winner by the number of leaf-runs, and each level's latents.

The curve is that of Estermann et al. (2020), figure 6. Departs: one seed, where theirs has the
spread of several.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray

from unbraid.codes.model import Model
from unbraid.codes.traversals import traverse
from unbraid.report.figure import ACCENT, BLUE, INK, figure, line
from unbraid.report.images import row_uri
from unbraid.report.train.member_view import FRAMES, QUANTILES
from unbraid.search.pbt.search import SearchRun
from unbraid.search.rpu.labelling import Labelling

LEAST_SHARE, MOST_CHANCE = 0.1, 0.01
"""A factor is named beside a latent where it explains at least so much of its codes, and is so
unlikely to do so by chance.
"""


def leaf_runs_figure(
    counts: Sequence[int], series: Mapping[str, Sequence[float]], axis: str
) -> go.Figure:
    """One line for each of *series* by the number of leaf-runs; a missing score is a gap."""
    lines = [
        line(
            list(counts),
            list(values),
            name,
            colour,
            mode="lines+markers",
            marker_size=8,
            hovertemplate=f"{name} %{{y:.3f}} at %{{x}}<extra></extra>",
        )
        for (name, values), colour in zip(series.items(), (ACCENT, BLUE, INK), strict=False)
    ]
    return figure(
        lines,
        x="leaf-runs",
        y=axis,
        height=320,
        xaxis={"tickvals": list(counts), "range": [counts[0] - 0.3, counts[-1] + 0.3]},
        yaxis_rangemode="tozero",
        showlegend=len(series) > 1,
    )


def moved_codes(
    values: NDArray[np.float32], latents: Sequence[int], at: int, size: int
) -> NDArray[np.float32]:
    """Codes `(frames, size)` in which the active latent number *at* goes from low to high.

    *values* `(images, active latents)` are the codes of *latents*. The other active latents rest at
    their medians, and those that say next to nothing at 0, the middle of their prior.
    """
    code = np.zeros(size, dtype=np.float32)
    code[list(latents)] = np.median(values, axis=0)
    return traverse(code, latents[at], values[:, at], FRAMES, QUANTILES)


def explained(codes: NDArray[Any], values: NDArray[Any]) -> tuple[float, float]:
    """Share of the variance of *codes* `(n,)` that groups of equal *values* explain, and its p.

    The share is the correlation ratio with unbiased variances, at least 0, since many groups of a
    few images explain a lot by chance. The probability is that of the F test of equal means. Where
    there is nothing to compare they are 0 and 1.
    """
    from scipy.special import fdtrc

    codes = codes.astype(np.float64)
    _, place = np.unique(values, return_inverse=True)
    groups = int(place.max()) + 1
    if groups < 2 or groups >= len(codes) or codes.min() == codes.max():
        return 0.0, 1.0
    means = np.bincount(place, codes) / np.bincount(place)
    within = float(((codes - means[place]) ** 2).sum()) / (len(codes) - groups)
    between = float(((means[place] - codes.mean()) ** 2).sum()) / (groups - 1)
    share = max(0.0, 1.0 - within / float(codes.var(ddof=1)))
    return share, (
        float(fdtrc(groups - 1, len(codes) - groups, between / within)) if within > 0.0 else 0.0
    )


def followed(codes: NDArray[Any], factors: NDArray[np.int64], names: Sequence[str]) -> str:
    """The known factor that alone explains most of the codes; empty where it may be chance."""
    found = [
        (*explained(codes, column), name) for column, name in zip(factors.T, names, strict=True)
    ]
    share, chance, name = max(found, key=lambda one: one[0], default=(0.0, 1.0, ""))
    return (
        f"{name} explains {share:.0%}"
        if share >= LEAST_SHARE and chance * len(found) <= MOST_CHANCE
        else ""
    )


def latent_rows(search: SearchRun, found: Labelling) -> list[dict[str, Any]]:
    """For every active latent of a level's best model: KL, known factor, latent traversal."""
    model, dataset = Model(search.winner(), found.model), search.dataset
    size = len(found.kl_per_latent)
    factors = dataset.factors(np.arange(len(dataset)))
    rows = []
    for at, latent in enumerate(found.latents):
        frames = model.decode(moved_codes(found.values, found.latents, at, size))
        follows = followed(found.values[:, at], factors, dataset.factor_names)
        rows.append(
            {
                "latent": latent,
                "nats": f"{found.kl_per_latent[latent]:.2f}",
                "follows": follows,
                "uri": row_uri(frames),
            }
        )
    return rows
