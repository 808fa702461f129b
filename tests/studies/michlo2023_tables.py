# SPDX-License-Identifier: Apache-2.0
"""A table of models that never were, in which the claims of Michlo et al. 2023 are true or false.

Its rows are those of the study's own slices at the scale `gpu`, so that what analyses look for is
what pools train.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd
from tests.studies.worlds import Worlds

from unbraid.analysis.distances.learnt import COLUMNS
from unbraid.core.spelling import as_source
from unbraid.studies.michlo2023 import STUDY
from unbraid.studies.michlo2023.measured import distances_of
from unbraid.studies.michlo2023.models import KINDS, paper_name
from unbraid.studies.michlo2023.pools import BETAS, BLUR, COLLAPSE, PUBLISHED, VALUES
from unbraid.studies.michlo2023.published import BEST, BY_LOSS, BY_SPACING, RANDOM
from unbraid.studies.pool import Slice

POOLS = {one.name: one for one in STUDY.pools("gpu", 0) if not one.needs}
NOISE = 0.02


def grid() -> pd.DataFrame:
    """Every model of the pools that need no files, at every stage, without scores."""
    return pd.DataFrame([row for pool in POOLS.values() for one in pool.slices
                         for row in _rows(pool.name, one)])  # fmt: skip


def _rows(pool: str, one: Slice) -> Iterator[dict[str, Any]]:
    plan = one.plan
    for spelled in plan["objective"]:
        objective, options = as_source(spelled)
        for strength in options["beta"].split(","):
            for seed in plan["seeds"]:
                for steps in (*one.stages, plan["steps"]):
                    yield {
                        "pool": pool, "slice": one.name, "data": plan["data"],
                        "objective": objective, "strength": float(strength),
                        "strength_name": "beta", "seed": seed, "steps": steps,
                        "learning_rate": plan["learning_rate"], "status": "trained",
                        "spacing": _spacing(plan),
                        "latents": float(plan["latents"]), "likelihood": plan["likelihood"],
                    }  # fmt: skip


def _spacing(plan: Mapping[str, Any]) -> float:
    """As tables have it: that of the data, their default included."""
    usual = 8.0 if plan["data"] == "xysquares" else np.nan
    return float((plan.get("data_options") or {}).get("spacing", usual))


def world(true: bool = True, seed: int = 0) -> pd.DataFrame:
    """The whole study, all of its trained claims *true* or all false."""
    table, chance = grid(), np.random.default_rng(seed)
    scored = pd.DataFrame([_scores(row, true) for row in table.to_dict("records")])
    for name in scored.columns.difference(["information", "factors", "active_units"]):
        scored[name] += chance.normal(0.0, NOISE, len(scored))
    return pd.concat([table, scored], axis=1)


def beta_of(row: dict[str, Any]) -> float:
    """β as a mean over pixels and latents."""
    return row["strength"] * row["latents"] / VALUES.get(row["data"], 64 * 64 * 3)


def _scores(row: dict[str, Any], true: bool) -> dict[str, Any]:
    kind, hard = KINDS[row["objective"]], row["data"] == "xysquares"
    loss = "blur" if "+" in row["likelihood"] else "mse"
    mig, dci = (0.3, 0.4) if not true else _good(row, kind, loss)
    if not true and row["pool"] == BETAS:
        mig = dci = 0.9 if hard else 0.3
    regular = np.log10(beta_of(row)) / 10 + 0.5
    level = {"blur": 0.9, "mse": 0.8 if not hard else 0.1} if true else {"blur": 0.1, "mse": 0.6}
    inputs = 0.8 if true else 0.1
    distances = {name: level[loss] if "truth" in name else inputs for name in COLUMNS}
    distances["overlap"] = regular if true else 1 - regular
    if hard and loss == "mse" and not row["spacing"] < 8:
        distances["inputs_with_truth"] = np.nan
    return {
        **{"mig": mig, "dci": dci, "active_units": float(_active(row, true))},
        **{f"distances.{name}": value for name, value in distances.items()},
        **_information(row, loss, true),
    }


def _good(row: dict[str, Any], kind: str, loss: str) -> tuple[float, float]:
    """Scores as published."""
    if row["pool"] in (BLUR, COLLAPSE):
        return BY_LOSS[kind, loss]
    if row["pool"] == BETAS and row["data"] == "xysquares":
        return 0.02, 0.03
    if row["spacing"] > 0:
        place = int(row["spacing"]) - 1
        return BY_SPACING[kind, "mig"][place], BY_SPACING[kind, "dci"][place]
    return BEST[paper_name(row["data"]), kind]


def _active(row: dict[str, Any], true: bool) -> int:
    if row["pool"] == COLLAPSE:
        arm = row["slice"].partition("-")[0]
        lost = {True: 0 if arm == "start" else 8, False: 0 if arm == "published" else 15}[true]
        return 1 if row["seed"] < lost else 6
    if row["pool"] == BETAS:
        largest = 0.004 if (row["data"] == "xysquares") == true else 0.2
        return 6 if beta_of(row) < largest else 1
    return 6


def _information(row: dict[str, Any], loss: str, true: bool) -> dict[str, Any]:
    """The more the loss sees of a factor, the more a latent knows; turned round where false."""
    spaced = "" if np.isnan(row["spacing"]) else f":spacing={int(row['spacing'])}"
    data = row["data"] + spaced
    seen = distances_of(data, "mse+box31" if loss == "blur" else "mse")
    assert seen is not None
    factors = seen.drop(index=RANDOM)
    weight = factors["mean"] / factors["mean"].max() * factors["spearman"].fillna(0.0).clip(0.05)
    shares = weight.to_numpy() if true else 1.0 - 0.9 * weight.to_numpy()
    found = np.zeros((len(factors), int(row["latents"])))
    found[np.arange(len(factors)), np.arange(len(factors))] = np.clip(0.9 * shares, 0, 1)
    return {"information": found.ravel().tolist(), "factors": [*factors.index]}


def diverging(table: pd.DataFrame) -> np.ndarray:
    """Some models, but none of those whose seeds are counted."""
    chance = np.random.default_rng(5).random(len(table)) < 0.02
    return chance & (table["pool"] != COLLAPSE).to_numpy()


CLAIMS = {claim.id: world for claim in STUDY.claims if claim.pools}
COUNTED = ("MIC-F6a", "MIC-F6b", "MIC-F7", "MIC-P")
WORLDS = Worlds(
    STUDY,
    CLAIMS,
    size=18,  # 16 of the paper, two questions of our own
    one_seed=dict.fromkeys(("MIC-S21", *COUNTED[:3]), "reproduced") | {"MIC-P": "not run"},
    without_interval=COUNTED,
    without_exhibit=("MIC-E7", "MIC-E11"),
    untrained={"MIC-F3b": "not run"},  # the file of Cars3D is not here
    diverging=diverging,
    counts_diverged=("MIC-C",),
    settings=("spacing", "latents", "likelihood"),
    unclaimed=PUBLISHED,
    patches={"unbraid.studies.michlo2023.prediction.others": lambda: ()},
)
"""Of single models are MIC-F6a and MIC-F7 told, the largest β of MIC-F6b is no mean of seeds."""
