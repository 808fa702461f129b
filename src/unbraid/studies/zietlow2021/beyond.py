# SPDX-License-Identifier: Apache-2.0
"""Whether the modification also defeats methods that the paper does not have. Nobody published it.

Every method is judged at the strength that is best on the original data, so that what it loses is
lost by a model that worked: each half of the seeds, on all versions, at the one that is best for
the other half.
"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import leave_out_seeds
from unbraid.studies.study import Analysis
from unbraid.studies.zietlow2021.models import (
    at_best,
    best_scale,
    mean_mig,
    of_halves,
    two_groups,
)
from unbraid.studies.zietlow2021.pools import BEYOND_POOL
from unbraid.studies.zietlow2021.settings import (
    DSPRITES,
    MODIFIED,
    NOISE,
    ORIGINAL,
    SMALL,
    STRENGTH,
    VERSIONS,
    data_name,
)

NAMES = {
    ("later", "qlae"): "QLAE",
    ("later", "ada_gvae"): "Ada-GVAE",
    ("labels", "beta_vae"): "1,000 labels",
    ("overlap", "beta_vae"): "overlap loss",
}
"""Methods by a word of their slices' names and their objective."""


def beyond(table: pd.DataFrame) -> Finding | None:
    """ZIE-X: what is left of the MIG of later methods, with the pattern and with noise."""
    rows = _rows(table)
    if rows is None:
        return None
    strengths = {
        one: best_scale(
            rows.loc[(rows["method"] == one) & (rows["version"] == ORIGINAL)], "strength"
        )
        for one in NAMES.values()
    }
    judged = pd.concat([_judged(rows.loc[rows["method"] == one]) for one in NAMES.values()])
    if judged.empty:  # one seed alone, for which no other can choose
        return None
    rows = rows.loc[rows["strength"] == [strengths[str(one)] for one in rows["method"]]]

    def statistics(rows: pd.DataFrame) -> Mapping[str, float]:
        mean = {
            (one, version): mean_mig(
                rows.loc[(rows["method"] == one) & (rows["version"] == version)]
            )
            for one in NAMES.values()
            for version in VERSIONS
        }
        told: dict[str, float] = {}
        for version in (MODIFIED, NOISE):
            for one in NAMES.values():
                told[f"{one}: share left, {version}"] = mean[one, version] / mean[one, ORIGINAL]
        return told | {f"{one}: MIG, {version}": value for (one, version), value in mean.items()}

    places = {name: place for place, name in enumerate((*VERSIONS, *NAMES.values()))}
    ordered = rows.sort_values(
        ["version", "method"], key=lambda names: names.map(places), kind="stable"
    )
    shown = {"x": ordered["method"], "y": ordered["mig"], "group": ordered["version"]}
    return Finding(
        of_halves(leave_out_seeds(judged, statistics)),
        Exhibit(
            "violins",
            pd.DataFrame(shown),
            "method",
            "MIG",
            "MIG of every model of later methods on original, modified and noisy data.",
        ),
        _remark(rows, strengths),
    )


def _judged(rows: pd.DataFrame) -> pd.DataFrame:
    """Models of one method, seeds at the strength that is best on the original for others."""
    chosen = at_best(rows.loc[rows["version"] == ORIGINAL], "strength")
    strength = dict(zip(chosen["seed"], chosen["strength"], strict=True))
    return rows.loc[rows["strength"] == rows["seed"].map(strength.get)]


def _rows(table: pd.DataFrame) -> pd.DataFrame | None:
    """Trained models with `method` and `version`; None unless every method has every version."""
    if table.empty or "mig" not in table:
        return None
    rows = table.loc[(table["pool"] == BEYOND_POOL) & (table["status"] == "trained")]
    rows = rows.loc[rows["mig"].notna()].reset_index(drop=True)
    for own in (DSPRITES, SMALL):
        names = {data_name(own.data, version): version for version in VERSIONS}
        here = rows.loc[rows["data"].isin([*names])]
        method = [
            NAMES.get((_kind(str(name)), objective), "")
            for name, objective in zip(here["slice"], here["objective"], strict=True)
        ]
        here = here.assign(method=method, version=here["data"].map(names))
        here = here.loc[here["method"] != ""]
        if len({*zip(here["method"], here["version"], strict=True)}) == len(NAMES) * len(VERSIONS):
            return here
    return None


def _kind(name: str) -> str:
    """Which word of `NAMES` a slice's name has."""
    return next((kind for kind, _ in NAMES if f"-{kind}-" in name), "")


def _remark(rows: pd.DataFrame, strengths: Mapping[str, float]) -> str:
    hyper = {NAMES[key]: STRENGTH[key[1]] for key in NAMES}
    told = ", ".join(f"{one} {hyper[one]} = {value:g}" for one, value in strengths.items())
    split = [
        f"{one}, {version}"
        for one in NAMES.values()
        for version in VERSIONS
        if two_groups(rows.loc[(rows["method"] == one) & (rows["version"] == version), "mig"])
    ]
    also = f" Two groups of seeds: {'; '.join(split)}." if split else ""
    small = "Measured on sprites. " if rows["data"].iloc[0].startswith("sprites") else ""
    return f"{small}Best on the original: {told}.{also}"


ANALYSES: Mapping[str, Analysis] = {"ZIE-X": beyond}
