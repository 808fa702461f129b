# SPDX-License-Identifier: Apache-2.0
"""From a run that is trained, encoded and scored to rows of a study's table."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.analysis.perturbation.information_level import information_levels
from unbraid.codes.codes import Codes, CodeStore
from unbraid.metrics import mig
from unbraid.population.member import Member
from unbraid.population.run_folder import RunFolder
from unbraid.scoring.metric_names import base
from unbraid.studies.pool import BY_LATENT
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
    data: str = "",
    by_latent: bool = False,
    settings: Sequence[str] = (),
    more: Mapping[str, list[Any]] | None = None,
) -> pd.DataFrame:
    """A row for each model of *run*: what it is, its *scores*, what its latents know of factors,
    and where asked their KL and variance, its *settings*, and *more* columns as they are.


    *data* is what the table calls the run's data, by default their own name. *scores* are rows as
    `stored_scores` has them, those of *metrics* on mean codes and of *sampled* on sampled ones.
    """
    import pandas as pd

    states = run.members().set_index("member")
    supervised = any(member.supervision for member in run.plan.members)
    rows: list[dict[str, Any]] = []
    for member in run.plan.members:
        state = states.loc[member.id]
        rows.append(
            {"pool": pool, "slice": name, "data": data or run.plan.data}
            | _model(member)
            | _supervision(member, supervised)
            | {"steps": int(state["steps"]), "status": str(state["status"])}
        )
    columns = {column: [row[column] for row in rows] for column in rows[0]}
    columns |= _scores(scores, metrics, sampled, [one.id for one in run.plan.members])
    healthy = [row["status"] == "trained" for row in rows]
    columns |= {name: [_setting(run, one, name) for one in run.plan.members] for name in settings}
    columns |= _by_latent(run, healthy, by_latent)
    columns |= more or {}
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


def _by_latent(run: RunFolder, healthy: list[bool], whole: bool) -> dict[str, list[Any]]:
    """What latents know of factors, and where the *whole* is asked for all of `BY_LATENT`; None for
    models that diverged.
    """
    names = list(run.dataset.factor_names) if run.dataset.labelled else []
    wanted = BY_LATENT if whole else ("information", "factors") if names else ()
    columns: dict[str, list[Any]] = {name: [] for name in wanted}
    store = CodeStore(run)
    for member, fine in zip(run.plan.members, healthy if wanted else (), strict=False):
        codes = store.load(member.id) if fine else None
        noisy = whole and member.build().samples_latents
        known = {"factors": names} | ({} if codes is None else _known(codes, names, noisy))
        for name in wanted:
            columns[name].append(known.get(name))
    return columns


def _known(codes: Codes, names: list[str], noisy: bool) -> dict[str, Any]:
    """What is known of every latent of one model."""
    found: dict[str, Any] = {}
    variance = codes.mean_variances() if noisy else None
    if variance is not None:
        found["kl_by_latent"] = codes.kl_per_latent().tolist()
        found["variance_by_latent"] = variance.tolist()
    if names:
        gaps = mig(codes.mean, codes.factors)
        with np.errstate(invalid="ignore"):  # a constant factor has no entropy
            shares = gaps.mutual_information / gaps.factor_entropy
        found["information"] = shares.T.ravel().tolist()
        if variance is not None:
            levels = information_levels(variance.tolist(), gaps.mutual_information.T)
            found["information_level"] = levels.tolist()
    return found


def _setting(run: RunFolder, member: Member, name: str) -> float | str:
    """A setting of *member*: a hyperparameter as it was given, of its objective or of what it
    learns from beside images, its prior or an option of it, an option of data or network, or a
    field of the plan; NaN where it has no such.
    """
    plan = run.plan
    beside = [one.hyper() for one in member.build_supervision()]
    own = (member.given, member.settings(), *beside)
    places = (*own, plan.data_options, plan.network_options)
    for place in (*places, vars(plan)):
        if name in place:
            value = place[name]
            return float(value) if isinstance(value, (int, float)) else str(value)
    return math.nan
