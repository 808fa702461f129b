# SPDX-License-Identifier: Apache-2.0
"""From a run that is trained, encoded and scored to rows of a study's table."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.codes.codes import CodeStore
from unbraid.metrics import mig
from unbraid.population.member import Member
from unbraid.population.run_folder import RunFolder
from unbraid.scoring.metric_names import base
from unbraid.studies.results import BY_LATENT, ordered

if TYPE_CHECKING:
    import pandas as pd


def slice_table(
    run: RunFolder,
    scores: pd.DataFrame,
    metrics: list[str],
    sampled: list[str],
    *,
    pool: str,
    name: str,
    by_latent: bool,
) -> pd.DataFrame:
    """A row for each model of *run*: what it is, its *scores*, and where asked KL and information
    of its latents.

    *scores* are rows as `stored_scores` has them, those of *metrics* on mean codes and of *sampled*
    on sampled ones.
    """
    import pandas as pd

    states = run.members().set_index("member")
    supervised = any(member.supervision for member in run.plan.members)
    rows: list[dict[str, Any]] = []
    for member in run.plan.members:
        state = states.loc[member.id]
        rows.append(
            {"pool": pool, "slice": name, "data": run.plan.data}
            | _model(member)
            | _supervision(member, supervised)
            | {"steps": int(state["steps"]), "status": str(state["status"])}
        )
    columns = {column: [row[column] for row in rows] for column in rows[0]}
    columns |= _scores(scores, metrics, sampled, [one.id for one in run.plan.members])
    if by_latent:
        healthy = [row["status"] == "trained" for row in rows]
        columns |= _by_latent(run, healthy)
    return pd.DataFrame({name: columns[name] for name in ordered(columns)})


def _model(member: Member) -> dict[str, Any]:
    """What a model is: its objective, strength, seed and learning rate."""
    name = member.build().strength
    return {
        "objective": member.objective,
        "strength": _number(member.hyper[name]) if name else math.nan,
        "strength_name": name or "",
        "seed": member.seed,
        "learning_rate": _number(member.learning_rate),
    }


def _supervision(member: Member, supervised: bool) -> dict[str, Any]:
    """What supervision a model has, in tables where some have it."""
    if not supervised:
        return {}
    weight = member.supervision_hyper.get("weight", math.nan)
    return {"supervision": member.supervision, "supervision_weight": _number(weight)}


def _number(value: Any) -> float:
    """*value*; NaN for one that changes while a model trains."""
    return float(value) if isinstance(value, (int, float)) else math.nan


def _scores(
    scores: pd.DataFrame, metrics: list[str], sampled: list[str], members: list[int]
) -> dict[str, list[float]]:
    """A column for each metric and for each further number of its results."""
    found: dict[str, dict[int, float]] = {}
    for kind, names in (("mean", metrics), ("sampled", sampled)):
        shared = Counter(map(base, names))
        for name in names:
            # By its own name, where no other spelling of the metric would have the same.
            column = name if shared[base(name)] > 1 else base(name)
            column += "_sampled" if kind == "sampled" else ""
            found[column] = {}
            rows = scores[(scores["metric"] == name) & (scores["representation"] == kind)]
            for member, quantity, value in zip(
                rows["member"], rows["quantity"], rows["value"], strict=True
            ):
                place = column if quantity == "score" else f"{column}.{quantity}"
                found.setdefault(place, {})[int(member)] = float(value)
    return {
        column: [values.get(member, math.nan) for member in members]
        for column, values in found.items()
    }


def _by_latent(run: RunFolder, healthy: list[bool]) -> dict[str, list[Any]]:
    """KL of every latent, and its information on every factor; None for models that diverged."""
    store, names = CodeStore(run), list(run.dataset.factor_names)
    columns: dict[str, list[Any]] = {name: [] for name in BY_LATENT}
    for member, fine in zip(run.plan.members, healthy, strict=True):
        kl = shares = None
        if fine:
            codes = store.load(member.id)
            if member.build().samples_latents:
                kl = codes.kl_per_latent().tolist()
            if names:
                found = mig(codes.mean, codes.factors)
                with np.errstate(invalid="ignore"):  # a constant factor has no entropy
                    shares = (found.mutual_information / found.factor_entropy).T.ravel().tolist()
        for name, value in zip(BY_LATENT, (kl, shares, names), strict=True):
            columns[name].append(value)
    return columns
