# SPDX-License-Identifier: Apache-2.0
"""Whether more strength brings MIG back on modified data, and at what price (figure 5).

A model has recovered where its MIG is past the middle between the means of its method on original
and on modified data at the stated strength. All its latents are active where as many as there are
factors are. The paper says that recovery comes with lost latents alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import pandas as pd

from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import leave_out_seeds, share_of
from unbraid.studies.study import Analysis
from unbraid.studies.zietlow2021.models import ON_DSPRITES, ON_SHAPES, Models, models
from unbraid.studies.zietlow2021.pools import SCALED_METHODS
from unbraid.studies.zietlow2021.settings import MODIFIED, ORIGINAL, Originals

UNITS = "active_units"


def recovery(among: Sequence[Originals]) -> Analysis:
    """Recovery on the modified version of the first of *among* that there is."""
    return partial(_recovery, among=among)


def _recovery(table: pd.DataFrame, *, among: Sequence[Originals]) -> Finding | None:
    found = models(table, among, (ORIGINAL, MODIFIED), SCALED_METHODS, ("mig", UNITS))
    if found is None or found.of(MODIFIED, "beta_vae")["scale"].nunique() < 2:
        return None
    latents = found.own.latents
    full = found.rows.loc[(found.rows["version"] == MODIFIED) & (found.rows[UNITS] >= latents)]
    back = recovered(found)
    pruned = found.rows.loc[(found.rows["version"] == MODIFIED) & (found.rows[UNITS] < latents)]

    def statistics(rows: pd.DataFrame) -> Mapping[str, float]:
        original = rows.loc[(rows["version"] == ORIGINAL) & (rows["scale"] == 1.0)]
        whole = rows.loc[(rows["version"] == MODIFIED) & (rows[UNITS] >= latents)]
        means = [
            whole.loc[whole["objective"] == one, "mig"].mean()
            / original.loc[original["objective"] == one, "mig"].mean()
            for one in SCALED_METHODS
        ]
        known = [one for one in means if np.isfinite(one)]
        name = "MIG with all latents active, as a share of the original's"
        return {name: float(np.mean(known)) if known else np.nan}

    return Finding(
        (
            share_of(
                "share of models with all latents active that recover",
                int(back[full.index].sum()),
                len(full),
            ),
            *leave_out_seeds(found.rows, statistics),
            share_of(
                "share of models with fewer active that recover",
                int(back[pruned.index].sum()),
                len(pruned),
            ),
        ),
        _figure(found),
        f"{found.remark} {_counts(full, pruned)}".strip(),
    )


def recovered(found: Models) -> pd.Series:
    """Which rows have a MIG past the middle of their method's two means."""
    middle = {}
    for one in SCALED_METHODS:
        means = [found.of(version, one, 1.0)["mig"].mean() for version in (ORIGINAL, MODIFIED)]
        # Where the modification takes nothing away there is nothing to recover.
        middle[one] = float(np.mean(means)) if means[0] > means[1] else np.inf
    return found.rows["mig"] > found.rows["objective"].map(middle)


def _counts(full: pd.DataFrame, pruned: pd.DataFrame) -> str:
    return (
        f"Of {len(full) + len(pruned)} models on modified data {len(full)} have all latents active."
    )


def _figure(found: Models) -> Exhibit:
    rows = found.rows.sort_values("version", ascending=False, kind="stable")
    shown = {"x": rows[UNITS], "y": rows["mig"], "group": rows["version"]}
    return Exhibit(
        "violins",
        pd.DataFrame(shown),
        "active latents",
        "MIG",
        "MIG of every model of three methods at all strengths, by its active latents.",
    )


ANALYSES: Mapping[str, Analysis] = {
    "ZIE-F5a": recovery(ON_DSPRITES),
    "ZIE-F5b": recovery(ON_SHAPES),
}
