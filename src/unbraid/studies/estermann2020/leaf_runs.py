# SPDX-License-Identifier: Apache-2.0
"""What final populations reach, by how many leaf-runs, and what they know (section 5)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from unbraid.studies.estermann2020.models import (
    LABELS,
    SCORES,
    Frame,
    ceiling,
    failures,
    finals,
    paired,
    present,
    ratio,
    stand_in,
    whole_finals,
)
from unbraid.studies.estermann2020.pools import DATA, EVERY_FINAL, LEAF_RUNS
from unbraid.studies.finding import Estimate, Exhibit, Finding
from unbraid.studies.intervals import mean_of, ratio_of_spreads

HELD = ("x", "y", "scale")
HUES = ("floor_hue", "wall_hue", "object_hue")
HOLDS = 0.1
"""Share of a hue's entropy from which a latent holds it."""


def leaf_runs(table: Frame) -> Finding | None:
    """EST-F6: scores and their spread by the number of leaf-runs."""
    rows = whole_finals(table)
    if rows.empty or rows.groupby("data")["seed"].nunique().min() < 2:
        return None
    parts = []
    for name in SCORES:
        groups = rows.groupby(["data", "leaf_runs"])[name]
        means = groups.agg(["mean", "std", "count"]).reset_index()
        width = means["std"] / np.sqrt(means["count"])
        parts.append(
            pd.DataFrame(
                {
                    "x": means["leaf_runs"],
                    "y": means["mean"],
                    "group": [f"{LABELS[name]}, {data}" for data in means["data"]],
                    "low": means["mean"] - width,
                    "high": means["mean"] + width,
                }
            )
        )
    return Finding(
        (*paired(rows, _gains), _spreads(rows)),
        Exhibit(
            "lines",
            pd.concat(parts, ignore_index=True),
            "leaf-runs",
            "score",
            "Mean scores of final models by leaf-runs, with standard errors over seeds.",
        ),
        f"{failures(rows)} {stand_in([*rows['data']], DATA)}".strip(),
    )


def _gains(rows: Frame) -> Mapping[str, float]:
    """Means over data sets."""
    told: dict[str, float] = {}
    for name in SCORES:
        means = rows.groupby(["data", "leaf_runs"])[name].mean().unstack()
        steps = means.diff(axis=1)
        last, rise = EVERY_FINAL[-1], steps.mean()
        told[f"{LABELS[name]} gained by three leaf-runs"] = float((means[last] - means[0]).mean())
        told[f"{LABELS[name]}, first step less the largest later one"] = float(
            rise[1] - rise.loc[2:].max()
        )
    return told


def _spreads(rows: Frame) -> Estimate:
    """Spread of MIG over seeds with all leaf-runs over that without, within data sets."""
    last, first = (
        [part["mig"].to_numpy() for _, part in rows.loc[rows["leaf_runs"] == count].groupby("data")]
        for count in (EVERY_FINAL[-1], 0)
    )
    return ratio_of_spreads("spread of MIG, three leaf-runs over none", last, first)


def _last_finals(table: Frame) -> Frame:
    """With all leaf-runs."""
    rows = finals(table)
    return rows.loc[rows["leaf_runs"] == LEAF_RUNS] if len(rows) else rows


def close_to_supervised(table: Frame) -> Finding | None:
    """EST-F4c: scores of final models against those of searches by MIG that train as long."""
    ours, best = _last_finals(table), ceiling(table)
    if ours.empty or best.empty:
        return None
    both = pd.concat([ours.assign(arm="rpu"), best.assign(arm="pbt")], ignore_index=True)
    count: Frame = both.groupby(["data", "seed"])["arm"].transform("nunique")
    both = both.loc[(count == 2).to_numpy()].reset_index(drop=True)
    data = present(both, DATA) if len(both) else []
    if not data or both.groupby("data")["seed"].nunique().min() < 2:
        return None
    names = {"rpu": "rPU-VAE", "pbt": "PBT by MIG"}
    shown = pd.DataFrame(
        {"x": both["arm"].map(names), "y": both["mig"], "group": both["data"]}
    ).reset_index(drop=True)
    return Finding(
        paired(both, _ratios),
        Exhibit("violins", shown, "search", "MIG", "MIG without labels and with all of them."),
        f"{failures(ours)} {stand_in(data, DATA)}".strip(),
    )


def _ratios(rows: Frame) -> Mapping[str, float]:
    means = rows.groupby(["arm", "data"])[[*SCORES]].mean()
    ours, best = means.loc["rpu"], means.loc["pbt"]
    told = {
        f"{LABELS[name]} as a share of that of PBT by MIG": ratio(
            float(ours[name].mean()), float(best[name].mean())
        )
        for name in SCORES
    }
    gap = (best["mig"] - ours["mig"]).to_dict()
    if {*DATA} <= {*gap}:
        told["gap of MIG, 3D Shapes less dSprites"] = float(gap[DATA[1]] - gap[DATA[0]])
    else:
        told["gap of MIG, 3D Shapes less dSprites"] = float("nan")
    return told | {f"gap of MIG, {name}": float(value) for name, value in gap.items()}


def knowledge(row: Frame) -> dict[str, NDArray[np.float64]]:
    """By factor the share of its entropy that each latent knows; 0 of a constant factor."""
    names = [str(name) for name in row["factors"]]
    values = np.asarray(row["information"], dtype=float).reshape(len(names), -1)
    return dict(zip(names, np.nan_to_num(values), strict=True))


def _knowing(rows: Frame) -> Frame:
    """Winners whose information is there."""
    return rows.loc[[isinstance(one, (list, np.ndarray)) for one in rows.get("information", [])]]


def finals_hold(table: Frame) -> Finding | None:
    """EST-S5: what the final models of dSprites know, those of searches by MIG too."""
    ours, best = _last_finals(table), ceiling(table)
    both = pd.concat([ours.assign(arm="rPU-VAE"), best.assign(arm="PBT by MIG")], ignore_index=True)
    both = _knowing(both)
    if both.empty or both["arm"].nunique() < 2:
        return None
    both = both.loc[both["data"].isin(present(both, ("dsprites",)))]
    if both.empty:
        return None
    found = [
        {name: float(shares.max()) for name, shares in knowledge(row).items()}
        for _, row in both.iterrows()
    ]
    by_model = both[["data", "seed", "arm"]].assign(
        held=[min(one[name] for name in HELD) for one in found],
        other=[max((one[name] for name in one if name not in HELD), default=0.0) for one in found],
    )

    def statistics(rows: Frame) -> dict[str, float]:
        means = rows.groupby("arm")[["held", "other"]].mean()
        return {
            "least known of x, y and scale": float(means["held"].min()),
            "best known of the other factors": float(means["other"].max()),
        }

    known: Frame = pd.DataFrame(found).assign(arm=both["arm"].to_numpy()).groupby("arm").mean()
    return Finding(
        paired(by_model, statistics),
        Exhibit(
            "matrix",
            known.round(2),
            "factor",
            "search",
            "Share of each factor's entropy that the best latent knows.",
        ),
        f"{failures(ours)} {stand_in([*both['data']], ('dsprites',))}".strip(),
    )


def hues_of_finals(table: Frame) -> Finding | None:
    """EST-F4d: over how many latents the hues of 3D Shapes are spread."""
    ours = _knowing(_last_finals(table))
    ours = ours.loc[ours["data"] == "shapes3d_drawn"] if len(ours) else ours
    if len(ours) < 2:
        return None
    known = [knowledge(row) for _, row in ours.iterrows()]
    counts = pd.DataFrame([{hue: int((one[hue] >= HOLDS).sum()) for hue in HUES} for one in known])
    shown = counts.melt(var_name="x", value_name="y").assign(group="final models")
    mean = mean_of("latents that hold a hue", counts.mean(axis=1))
    caption = f"Latents that know at least {HOLDS:.0%} of each hue."
    return Finding(
        (mean, *(mean_of(f"latents that hold {hue}", counts[hue]) for hue in HUES)),
        Exhibit("violins", shown, "hue", "latents", caption),
        stand_in(["shapes3d_drawn"], DATA),
    )
