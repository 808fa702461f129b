# SPDX-License-Identifier: Apache-2.0
"""From a run that is trained, encoded and scored to rows of a study's table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.codes.codes import Codes, CodeStore
from unbraid.metrics import mig
from unbraid.population.member import Member
from unbraid.population.run_folder import RunFolder
from unbraid.scoring.metric_names import base
from unbraid.studies.pool import ABOUT_THE_MODEL
from unbraid.studies.results import ordered

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
    by_latent: bool = False,
    settings: Sequence[str] = (),
    distances: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """A row for each model of *run*: what it is, its *scores*, what its latents know of factors,
    and where asked their KL, its *settings* and its *distances*.

    *scores* are rows as `stored_scores` has them, those of *metrics* on mean codes and of *sampled*
    on sampled ones; *distances* are rows of `learnt_distances`.
    """
    import pandas as pd

    states = run.members().set_index("member")
    rows: list[dict[str, Any]] = []
    for member in run.plan.members:
        state = states.loc[member.id]
        rows.append(
            {"pool": pool, "slice": name, "data": run.plan.data}
            | _model(member)
            | {"steps": int(state["steps"]), "status": str(state["status"])}
        )
    columns = {column: [row[column] for row in rows] for column in ABOUT_THE_MODEL}
    columns |= _scores(scores, metrics, sampled, [one.id for one in run.plan.members])
    columns |= {name: [_setting(run, one, name) for one in run.plan.members] for name in settings}
    if distances is not None:
        own = distances.set_index("member").reindex([one.id for one in run.plan.members])
        columns |= {f"distances.{name}": own[name].tolist() for name in own}
    columns |= _by_latent(run, [row["status"] == "trained" for row in rows], by_latent)
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


def _by_latent(run: RunFolder, healthy: list[bool], with_kl: bool) -> dict[str, list[Any]]:
    """Information of every latent on every factor, and where asked its KL; None for models that
    diverged.
    """
    names = list(run.dataset.factor_names) if run.dataset.labelled else []
    columns: dict[str, list[Any]] = {name: [] for name in ("kl_by_latent",) if with_kl}
    columns |= {name: [] for name in ("information", "factors") if names}
    store = CodeStore(run)
    for member, fine in zip(run.plan.members, healthy, strict=True):
        codes = store.load(member.id) if fine and columns else None
        if with_kl:
            known = codes if member.build().samples_latents else None
            columns["kl_by_latent"].append(
                None if known is None else known.kl_per_latent().tolist()
            )
        if names:
            columns["factors"].append(names)
            columns["information"].append(None if codes is None else _information(codes))
    return columns


def _information(codes: Codes) -> list[float]:
    """Factors x latents, row by row: mutual information as a share of the factor's entropy."""
    found = mig(codes.mean, codes.factors)
    with np.errstate(invalid="ignore"):  # a constant factor has no entropy
        return (found.mutual_information / found.factor_entropy).T.ravel().tolist()


def _setting(run: RunFolder, member: Member, name: str) -> float | str:
    """A setting of *member*: a hyperparameter as it was given, of its objective or of what it
    learns from beside images, an option of data or network, or a field of the plan; NaN where it
    has no such.
    """
    plan = run.plan
    beside = [one.hyper() for one in member.build_supervision()]
    places = (member.given, member.hyper, *beside, plan.data_options, plan.network_options)
    for place in (*places, vars(plan)):
        if name in place:
            value = place[name]
            return float(value) if isinstance(value, (int, float)) else str(value)
    return math.nan
