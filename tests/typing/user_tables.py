# SPDX-License-Identifier: Apache-2.0
"""What people do with tables of scores; not strict, since pandas itself is not fully typed."""

from __future__ import annotations

import unbraid as ub


def tables() -> None:
    """Means over seeds, the best score, how training ended."""
    run = ub.train("dsprites", ub.BetaVAE(beta=[1, 4, 16]), seeds=10)
    means = run.score(["mig", "dci"]).groupby("beta").mean()
    best = ub.pbt("dsprites").lineage["score"].max()
    print(means, best, ub.score("runs/mine", metrics="all").mean(), run.members["status"].tolist())
