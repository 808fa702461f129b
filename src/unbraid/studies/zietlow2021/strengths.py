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
from numpy.typing import NDArray

from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import leave_out_seeds, share_of
from unbraid.studies.study import Analysis
from unbraid.studies.zietlow2021.models import ON_DSPRITES, ON_SHAPES, Models, mean_mig, models
from unbraid.studies.zietlow2021.pools import SCALED_METHODS
from unbraid.studies.zietlow2021.settings import MODIFIED, ORIGINAL, Originals

UNITS = "active_units"


def recovery(among: Sequence[Originals]) -> Analysis:
    """Recovery on the modified version of the first of *among* that there is."""
    return partial(_recovery, among=among)


def _recovery(table: pd.DataFrame, *, among: Sequence[Originals]) -> Finding | None:
    found = models(table, among, (ORIGINAL, MODIFIED), SCALED_METHODS, ("mig", UNITS))
    if found is None or len({*found.of(MODIFIED, "beta_vae")["scale"]}) < 2:
        return None
    latents = found.own.latents
    modified = (found.rows["version"] == MODIFIED).to_numpy(dtype=bool)
    active = found.rows[UNITS].to_numpy(dtype=float) >= latents
    back, full, pruned = recovered(found), modified & active, modified & ~active

    def statistics(rows: pd.DataFrame) -> Mapping[str, float]:
        original = rows.loc[(rows["version"] == ORIGINAL) & (rows["scale"] == 1.0)]
        whole = rows.loc[(rows["version"] == MODIFIED) & (rows[UNITS] >= latents)]
        means = [
            mean_mig(whole.loc[whole["objective"] == one])
            / mean_mig(original.loc[original["objective"] == one])
            for one in SCALED_METHODS
        ]
        known = [one for one in means if np.isfinite(one)]
        name = "MIG with all latents active, as a share of the original's"
        return {name: float(np.mean(known)) if known else np.nan}

    told = f"Of {modified.sum()} models on modified data {full.sum()} have all latents active."
    return Finding(
        (
            share_of(
                "share of models with all latents active that recover",
                int((back & full).sum()),
                int(full.sum()),
            ),
            *leave_out_seeds(found.rows, statistics),
            share_of(
                "share of models with fewer active that recover",
                int((back & pruned).sum()),
                int(pruned.sum()),
            ),
        ),
        _figure(found),
        f"{found.remark} {told}".strip(),
    )


def recovered(found: Models) -> NDArray[np.bool_]:
    """Which rows have a MIG past the middle of their method's two means."""
    middle = {}
    for one in SCALED_METHODS:
        means = [mean_mig(found.of(version, one, 1.0)) for version in (ORIGINAL, MODIFIED)]
        # Where the modification takes nothing away there is nothing to recover.
        middle[one] = float(np.mean(means)) if means[0] > means[1] else np.inf
    needed = np.array([middle[str(one)] for one in found.rows["objective"]])
    return found.rows["mig"].to_numpy(dtype=float) > needed


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
