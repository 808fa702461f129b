# SPDX-License-Identifier: Apache-2.0
"""The tables of a run, summed up: scores, final losses, which members diverged, which is best."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from unbraid.codes.codes import CodeStore
from unbraid.core.errors import InputError
from unbraid.metrics import METRICS
from unbraid.metrics._resampled import STANDARD_ERROR
from unbraid.metrics.mig import mig
from unbraid.population.plan import Plan
from unbraid.population.run_folder import RunFolder
from unbraid.report.train.settings import Setting, find_settings
from unbraid.scoring.counted import active_latents, collapsed_members
from unbraid.scoring.metric_names import USUAL
from unbraid.scoring.score_table import stored_scores

if TYPE_CHECKING:
    import pandas as pd

_NOT_QUANTITIES = ("member", "step")


@dataclass(frozen=True)
class Metric:
    """One score of every member that has it."""

    name: str
    label: str
    citation: str
    bounds: tuple[float, float]
    scores: dict[int, float]
    family: str = "supervised"
    lower_is_better: bool = False
    errors: dict[int, float] = field(default_factory=dict)
    """Standard errors over samples, of members that have one."""


@dataclass(frozen=True)
class RunSummary:
    """The tables of a run as the page needs them, members by their number."""

    plan: Plan
    settings: list[Setting]
    names: dict[int, str]
    """Setting and seed of each member."""
    seeds: dict[int, int]
    status: dict[int, str]
    diverged_at: dict[int, int]
    history: pd.DataFrame
    final: dict[str, dict[int, float]]
    """Last recorded value of every quantity, loss first; healthy members only."""
    metrics: list[Metric]
    """MIG first."""
    stored_metrics: list[str]
    """Names of the metrics found on disk; MIG is computed for the page where it is not among them.
    """
    best: int | None
    best_metric: float | None
    """MIG of the best member; None where it was chosen by its loss."""
    best_rule: str
    active: dict[int, int] = field(default_factory=dict)
    """How many latents of each healthy member are active."""
    collapsed: frozenset[int] = frozenset()
    """Members that use too few: never the best."""

    @property
    def diverged(self) -> set[int]:
        """Members that diverged."""
        return set(self.diverged_at)

    @property
    def trained(self) -> int:
        """How many members were trained to the end."""
        return sum(status == "trained" for status in self.status.values())

    @property
    def scores_stored(self) -> bool:
        """Whether every score shown comes from disk."""
        return all(metric.name in self.stored_metrics for metric in self.metrics)

    @property
    def by_mig(self) -> bool:
        """Whether MIG decides which member is better."""
        return bool(self.metrics) and self.metrics[0].name == "mig"

    def diverged_names(self) -> list[tuple[str, int]]:
        """Name and step of every member that diverged."""
        return [
            (f"model {member} ({self.names[member]})", step)
            for member, step in self.diverged_at.items()
        ]

    def rank(self, member: int) -> tuple[float, ...]:
        """Sort key, best first: by MIG where there is one, then by loss; where no member is best,
        by their numbers.

        Collapsed members follow, and diverged ones.
        """
        state = 2 * (member in self.diverged) + (member in self.collapsed)
        if self.best is None:
            return state, member
        score = (
            self.metrics[0].scores.get(member, -math.inf)
            if self.by_mig
            else float(member == self.best)
        )
        return (
            state,
            -score,
            self.final.get("loss", {}).get(member, math.inf),
            member,
        )

    def shown(self, most: int) -> list[tuple[int, str]]:
        """Members to look at closely and why: the best of the run, then of each other setting."""
        firsts = [min(setting.members, key=self.rank) for setting in self.settings]
        if self.best is None:
            sunk = sorted(self.collapsed & set(firsts), key=self.rank)[:most]
            return [(member, "collapsed") for member in sunk]
        others = sorted(
            (m for m in firsts if m != self.best and m not in self.diverged), key=self.rank
        )[: most - 1]
        others.sort(key=firsts.index)
        return [
            (self.best, "best of the run" if len(self.names) > 1 else "the only model"),
            *(
                (member, "collapsed" if member in self.collapsed else "best of its setting")
                for member in others
            ),
        ]


def summarise(run: RunFolder) -> RunSummary:
    """Read the tables of a trained run."""
    plan, members, history = run.plan, run.members(), run.history()
    settings = find_settings(plan)
    names = {m: f"{s.label}, seed {plan.members[m].seed}" for s in settings for m in s.members}
    status = dict(zip(members["member"].tolist(), members["status"].tolist(), strict=True))
    steps = dict(zip(members["member"].tolist(), members["steps"].tolist(), strict=True))
    healthy = [member for member, state in status.items() if state != "diverged"]
    final = final_values(history, healthy)
    stored = stored_metrics(run, healthy)
    metrics = list(stored)
    if run.dataset.labelled and not any(metric.name == "mig" for metric in stored):
        metrics = [metric for metric in [_computed_mig(run, healthy)] if metric.scores] + metrics
    active = active_latents(run, healthy)
    collapsed = frozenset(collapsed_members(run, healthy))
    worth = [member for member in healthy if member not in collapsed]
    best, best_metric, rule = choose_best(metrics, final, worth, labelled=run.dataset.labelled)
    return RunSummary(
        plan=plan,
        settings=settings,
        names=names,
        seeds={member.id: member.seed for member in plan.members},
        status=status,
        diverged_at={
            member: steps[member] for member, state in status.items() if state == "diverged"
        },
        history=history,
        final=final,
        metrics=metrics,
        stored_metrics=[metric.name for metric in stored],
        best=best,
        best_metric=best_metric,
        best_rule=rule,
        active=active,
        collapsed=collapsed,
    )


def final_values(history: pd.DataFrame, healthy: Sequence[int]) -> dict[str, dict[int, float]]:
    """Last finite record of each quantity by member, loss, reconstruction and KL first."""
    quantities = [name for name in history.columns if name not in _NOT_QUANTITIES]
    first = [name for name in ("loss", "reconstruction", "kl") if name in quantities]
    values: dict[str, dict[int, float]] = {}
    for name in [*first, *(name for name in quantities if name not in first)]:
        rows = history.loc[history["member"].isin(list(healthy)), ["member", name]].dropna()
        last = rows.groupby("member")[name].last()
        values[name] = {int(m): float(v) for m, v in last.items() if math.isfinite(v)}  # pyright: ignore[reportArgumentType]
    return values


def stored_metrics(run: RunFolder, healthy: Sequence[int]) -> list[Metric]:
    """Scores on disk of the mean representation: MIG, the usual ones, then as registered."""
    table = stored_scores(run)
    table = table[(table["representation"] == "mean") & table["member"].isin(list(healthy))]
    order = list(dict.fromkeys(["mig", *USUAL, *METRICS]))
    found = set(table.loc[table["quantity"] == "score", "metric"])
    names = [name for name in order if name in found] + sorted(found - set(order))

    def by_member(name: str, quantity: str) -> dict[int, float]:
        rows = table[(table["metric"] == name) & (table["quantity"] == quantity)]
        pairs = zip(rows["member"].tolist(), rows["value"].tolist(), strict=True)
        return {int(member): float(value) for member, value in pairs if math.isfinite(value)}

    metrics = []
    for name in names:
        if scores := by_member(name, "score"):
            metrics.append(_described(name, scores, by_member(name, STANDARD_ERROR)))
    return metrics


def choose_best(
    metrics: Sequence[Metric],
    final: dict[str, dict[int, float]],
    healthy: Sequence[int],
    *,
    labelled: bool,
) -> tuple[int | None, float | None, str]:
    """The best member, its MIG where that decided, and the rule in words.

    Only *healthy* members count: those that neither diverged nor collapsed. Without factors UDR
    decides where it was scored, and else the loss. Where no member is healthy there is none.
    """

    def among(values: dict[int, float]) -> dict[int, float]:
        return {member: value for member, value in values.items() if member in healthy}

    scores = among(metrics[0].scores) if metrics and metrics[0].name == "mig" else {}
    if scores:
        best = max(scores, key=lambda member: (scores[member], -member))
        return best, scores[best], "the highest MIG"
    agreement = next((among(metric.scores) for metric in metrics if metric.name == "udr"), {})
    if not labelled and agreement:
        best = max(agreement, key=lambda member: (agreement[member], -member))
        return best, None, "the highest UDR, agreement with models of other seeds"
    losses = among(final.get("loss", {}))
    reason = (
        "no MIG could be computed"
        if labelled
        else "without factors, UDR of several seeds would be a better judge"
    )
    if losses:
        best = min(losses, key=lambda member: (losses[member], member))
        return (
            best,
            None,
            (
                f"the lowest final loss ({reason}; losses of different settings weigh their terms"
                " differently)"
            ),
        )
    if healthy:
        return healthy[0], None, "the first trained (no loss was recorded)"
    return None, None, ""


def _computed_mig(run: RunFolder, healthy: Sequence[int]) -> Metric:
    store, scores = CodeStore(run), {}
    for member in healthy:
        codes = store.load(member)
        try:
            scores[member] = mig(codes.mean, codes.factors).score
        except InputError:  # no factor varies in the sample: there is no score
            continue
    return _described(
        "mig", {member: score for member, score in scores.items() if math.isfinite(score)}
    )


def _described(
    name: str, scores: dict[int, float], errors: dict[int, float] | None = None
) -> Metric:
    if name not in METRICS:
        return Metric(name, name, "", (-math.inf, math.inf), scores, errors=errors or {})
    function = METRICS.load(name)
    citation = f"{function.citation.authors} ({function.citation.year})"
    lower = not function.result.higher_is_better
    bounds, family = function.result.range, function.family
    return Metric(
        name, function.label, citation, bounds, scores, family, lower, errors=errors or {}
    )
