# SPDX-License-Identifier: Apache-2.0
"""Claims that need no training: the impossibility theorem and a blind spot of a metric."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unbraid.core.grid import FactorGrid
from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import exactly, mean_of, share_of

if TYPE_CHECKING:
    from unbraid.analysis.theory.impossibility import Impossibility

ALPHAS = (0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45)
"""Each gives another map."""
DRAWS = 5
GRID = FactorGrid(("scale", "orientation", "x", "y"), (6, 10, 16, 16))
"""As large as a seed's test takes a second."""


def impossibility(table: pd.DataFrame) -> Finding | None:
    """LOC-TH1: maps that mix three latents of different laws and keep the joint law."""
    return mixing_maps(ALPHAS)


def mixing_maps(alphas: Sequence[float]) -> Finding:
    """The theorem's construction at each of *alphas*, several draws of each."""
    from scipy import stats

    from unbraid.analysis.theory.impossibility import impossibility, mixing_reflection

    laws = (stats.norm(), stats.uniform(-1.0, 2.0), stats.logistic())
    found: list[Impossibility] = [
        impossibility(
            laws,
            rotation=mixing_reflection(len(laws), alpha),
            samples=4_000,
            seed=number * DRAWS + draw,
        )
        for number, alpha in enumerate(alphas)
        for draw in range(DRAWS)
    ]
    p = np.concatenate(
        [np.concatenate([one.marginal_p, one.independence_p, one.data_p]) for one in found]
    )
    after = mean_of("MIG of mixed latents", [one.mig_after for one in found])
    return Finding(
        (
            exactly(
                "largest change of the log density, nats",
                max(one.log_density_gap for one in found),
                len(found),
            ),
            share_of("tests that tell the laws apart at 5%", int((p < 0.05).sum()), len(p)),
            exactly("smallest slope", min(one.smallest_slope for one in found), len(found)),
            after,
            mean_of("MIG of the latents themselves", [one.mig_before for one in found]),
        ),
        _clouds(found[len(found) // 2]),
    )


def _clouds(one: Impossibility) -> Exhibit:
    """Two latents before and after the map."""
    clouds = [
        pd.DataFrame({"x": points[:400, 0], "y": points[:400, 1], "group": name})
        for name, points in (("z", one.z), ("f(z)", one.mixed))
    ]
    return Exhibit(
        "points",
        pd.concat(clouds, ignore_index=True),
        "first latent",
        "second latent",
        "Latents and mixed latents have one law.",
    )


def missing_factor(table: pd.DataFrame) -> Finding | None:
    """LOC-KM3: the BetaVAE score of codes that know x, y and scale of four factors."""
    return score_without(("orientation",))


def score_without(missing: Sequence[str]) -> Finding:
    """The score of codes that hold every factor of the grid but *missing*, over five seeds."""
    from unbraid.metrics import beta_vae_score

    factors = GRID.to_factors(np.arange(GRID.size)).astype(float)
    factors = (factors - factors.mean(axis=0)) / factors.std(axis=0)
    kept = [place for place, name in enumerate(GRID.names) if name not in missing]
    points = 5_000
    scores = [
        beta_vae_score(factors[:, kept], GRID, test_points=points, seed=seed).score
        for seed in range(5)
    ]
    whole = beta_vae_score(factors, GRID, test_points=points).score
    hits = round(sum(scores) * points)
    bars = pd.DataFrame(
        [("all four", whole), ("without " + ", ".join(missing), float(np.mean(scores)))],
        columns=["x", "y"],
    ).assign(group="codes")
    return Finding(
        (
            share_of("accuracy without the factor", hits, points * len(scores), 1.0),
            share_of("accuracy with all factors", round(whole * points), points),
        ),
        Exhibit("bars", bars, "factors in the codes", "BetaVAE score", "The metric sees no loss."),
    )
