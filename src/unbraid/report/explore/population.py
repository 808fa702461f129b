# SPDX-License-Identifier: Apache-2.0
"""A population as the page shows it: a row for each model, with settings, scores and training.

Rows come from a run, a search, a recursion, a discovery or a study. A row whose weights are kept
can be opened: `Population.opened` says of which run it is which member.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from unbraid.metrics import METRICS
from unbraid.objectives import OBJECTIVES
from unbraid.population.run_folder import RunFolder
from unbraid.report.train.run_summary import Metric, final_values, stored_metrics
from unbraid.report.train.settings import HUES, find_settings, shades, shown, symbol
from unbraid.scoring.collapse import dead_codes_remark
from unbraid.scoring.counted import (
    active_latents,
    collapsed_members,
    few_samples_lines,
    scale_lines,
)

if TYPE_CHECKING:
    import pandas as pd

    from unbraid.data.dataset import Dataset

Status = Literal["trained", "diverged", "collapsed"]
ACTIVE = "active_latents"
NOT_SCORED = "Nothing is scored yet: `unbraid score` does it."
_NOT_SETTINGS = ("prior",)


@dataclass(frozen=True)
class Column:
    """Something that is known of models: a number, or one of a few words."""

    key: str
    label: str
    group: Literal["setting", "score", "training"]
    better: Literal["higher", "lower", "none"] = "none"
    remark: str = ""


@dataclass
class Row:
    """One model."""

    key: str
    name: str
    setting: str
    """Models of one setting differ by their seed alone."""
    colour: str
    seed: int
    status: Status
    values: dict[str, Any]
    errors: dict[str, float] = field(default_factory=dict)
    """Standard errors of scores."""
    can_be_opened: bool = False


@dataclass
class Population:
    """Models, what is known of them, and the runs that hold those that can be opened."""

    title: str
    kind: str
    data: str
    columns: list[Column]
    rows: list[Row]
    dataset: Dataset | None = None
    notes: list[str] = field(default_factory=list)
    opened: dict[str, tuple[RunFolder, int]] = field(default_factory=dict)
    """Run and member of every row that can be opened, by its key."""
    best: str | None = None
    """The row that is opened first."""

    def record(self) -> dict[str, Any]:
        """What the page's script is given of it."""
        settings = {row.setting: row.colour for row in self.rows}
        places = {label: place for place, label in enumerate(settings)}
        columns = [one for one in self.columns if self._varies(one.key)]
        keys = [one.key for one in columns]
        return {
            "title": self.title,
            "kind": self.kind,
            "data": self.data,
            "columns": [vars(one) | {"type": self._type(one.key)} for one in columns],
            "rows": {
                "key": [row.key for row in self.rows],
                "name": [row.name for row in self.rows],
                "setting": [places[row.setting] for row in self.rows],
                "seed": [row.seed for row in self.rows],
                "status": [row.status for row in self.rows],
                "model": [row.can_be_opened for row in self.rows],
                "values": {key: [_plain(row.values.get(key)) for row in self.rows] for key in keys},
                "errors": {
                    key: [_plain(row.errors.get(key)) for row in self.rows]
                    for key in keys
                    if any(key in row.errors for row in self.rows)
                },
            },
            "settings": [{"label": label, "colour": colour} for label, colour in settings.items()],
            "start": self._start(columns),
            "notes": self.notes,
        }

    def _varies(self, key: str) -> bool:
        """Whether a column says anything; of one model every one does."""
        values = {repr(_plain(row.values.get(key))) for row in self.rows}
        return values != {"None"} and (len(values) > 1 or len(self.rows) == 1 or key == ACTIVE)

    def _type(self, key: str) -> str:
        texts = any(isinstance(_plain(row.values.get(key)), str) for row in self.rows)
        return "category" if texts else "number"

    def _start(self, columns: Sequence[Column]) -> dict[str, Any]:
        """What the axes show at first: a setting, and the first score or loss."""
        settings = [one.key for one in columns if one.group == "setting" and one.key != "seed"]
        results = [one.key for one in columns if one.group != "setting"]
        numbers = [key for key in settings if self._type(key) == "number"]
        across = (numbers or settings or [one.key for one in columns])[:1]
        up = (results or [one.key for one in columns])[:1]
        return {
            "x": across[0] if across else None,
            "y": up[0] if up else None,
            "colour": "setting",
            "size": "none",
            "model": self.best,
        }


def of_run(run: RunFolder, title: str, kind: str = "train", prefix: str = "") -> Population:
    """The members of a trained run; *prefix* leads their keys where there are several runs."""
    plan, members, history = run.plan, run.members(), run.history()
    status = dict(zip(members["member"].tolist(), members["status"].tolist(), strict=True))
    steps = dict(zip(members["member"].tolist(), members["steps"].tolist(), strict=True))
    healthy = [member for member, state in status.items() if state != "diverged"]
    metrics, final = stored_metrics(run, healthy), final_values(history, healthy)
    collapsed = collapsed_members(run, healthy) if healthy else {}
    active = active_latents(run, healthy) if healthy else {}
    settings = {member: one for one in find_settings(plan) for member in one.members}
    # A term of a loss may be called what a metric is.
    scored = {one.name for one in metrics}
    keys = {name: f"{name} in training" if name in scored else name for name in final}
    rows = []
    for member in plan.members:
        own, sunk = settings[member.id], member.id in collapsed
        values = {**_settings(member.settings()), "seed": member.seed}
        values |= {keys[name]: by.get(member.id) for name, by in final.items()}
        values |= {one.name: one.scores.get(member.id) for one in metrics}
        values |= {ACTIVE: active.get(member.id), "steps": steps.get(member.id)}
        lost = status.get(member.id) == "diverged"
        rows.append(
            Row(
                key=f"{prefix}{member.id}",
                name=f"{own.label}, seed {member.seed}",
                setting=own.label,
                colour=own.colour,
                seed=member.seed,
                status="diverged" if lost else "collapsed" if sunk else "trained",
                values=values,
                errors={
                    one.name: one.errors[member.id] for one in metrics if member.id in one.errors
                },
                can_be_opened=not lost,
            )
        )
    names = [one.name for one in metrics]
    worth = [member for member in healthy if member not in collapsed]
    columns = [
        *_setting_columns(rows),
        *map(_metric_column, metrics),
        *_training(keys, comparable=len({row.setting for row in rows}) == 1),
    ]
    opened = {f"{prefix}{member}": (run, member) for member in healthy}
    return Population(
        title=title,
        kind=kind,
        data=plan.data,
        columns=columns,
        rows=rows,
        dataset=run.dataset,
        notes=_notes(run, metrics, collapsed, healthy)
        + few_samples_lines(run, names, healthy)
        + scale_lines(run, names, worth),
        opened=opened,
        best=next((row.key for row in ranked(columns, rows) if row.key in opened), None),
    )


def of_lineage(
    lineage: pd.DataFrame, score: str, colour: str, prefix: str = ""
) -> tuple[list[Column], list[Row]]:
    """The individuals of a search, epoch by epoch, counted from 1 as in all that is shown of them;
    their weights are not kept.
    """
    fixed = ("individual", "parent", "copied", "change", "diverged", "collapsed", "score")
    numbers = [name for name in lineage.columns if name not in fixed]
    columns = [Column(name, symbol(name), "setting") for name in numbers if name not in _COUNTS]
    columns += [Column(name, symbol(name), "training") for name in numbers if name in _COUNTS]
    columns.append(_known_column(score))
    rows = []
    for one in lineage.to_dict("records"):
        sunk = one.get("collapsed") is True
        rows.append(
            Row(
                key=f"{prefix}epoch-{one['epoch']}-{one['individual']}",
                name=f"individual {one['individual']}, epoch {one['epoch'] + 1}",
                setting=f"individual {one['individual']}",
                colour=colour,
                seed=int(one["individual"]),
                status="diverged" if one["diverged"] else "collapsed" if sunk else "trained",
                values={str(name): one[name] for name in numbers}
                | {"epoch": one["epoch"] + 1, score: one["score"]},
            )
        )
    return columns, rows


_COUNTS = ("epoch", "images", ACTIVE)


def of_table(table: pd.DataFrame, title: str) -> Population:
    """The models of a study, by its table."""
    settings = _colours(table)
    names = [str(name) for name in table.columns if name not in _NOT_SHOWN]
    about = ("pool", "data", "objective", "strength", "seed", "steps", "learning_rate")
    columns = [
        Column(name, symbol(name), "setting") if name in about else _known_column(name)
        for name in names
    ]
    rows = []
    for number, one in enumerate(table.to_dict("records")):
        setting = _study_setting(one)
        rows.append(
            Row(
                key=str(number),
                name=f"{one['data']}: {setting}, seed {one['seed']}, {one['steps']:,} steps",
                setting=setting,
                colour=settings[setting],
                seed=int(one["seed"]),
                status="diverged" if one["status"] == "diverged" else "trained",
                values={name: one[name] for name in names}
                | {"objective": _label_of_objective(one["objective"])},
            )
        )
    data = ", ".join(dict.fromkeys(table["data"].tolist()))
    return Population(title, "study", data, columns, rows)


_NOT_SHOWN = ("slice", "status", "strength_name", "kl_by_latent", "information", "factors")


def merged_columns(several: Iterable[Sequence[Column]]) -> list[Column]:
    """The columns of several tables, the first of each key, in the order of their groups."""
    found: dict[str, Column] = {}
    for one in itertools.chain.from_iterable(several):
        found.setdefault(one.key, one)
    groups = ("setting", "score", "training")
    return sorted(found.values(), key=lambda one: groups.index(one.group))


def _colours(table: pd.DataFrame) -> dict[str, str]:
    """A hue for each objective, darker with its strength, by setting."""
    found: dict[str, str] = {}
    about = table.drop_duplicates(["objective", "strength"]).sort_values("strength", kind="stable")
    for place, (_, own) in enumerate(about.groupby("objective", sort=False)):
        labels = [_study_setting(row) for row in own.to_dict("records")]
        found |= zip(labels, shades(HUES[place % len(HUES)], len(labels)), strict=True)
    return found


def _study_setting(row: Mapping[str, Any]) -> str:
    label = _label_of_objective(str(row["objective"]))
    strength, name = row["strength"], row["strength_name"]
    known = isinstance(strength, (int, float)) and math.isfinite(strength)
    return f"{label}, {symbol(str(name))} = {shown(float(strength))}" if known else label


def _label_of_objective(key: str) -> str:
    return OBJECTIVES.load(key).label if key in OBJECTIVES else key


def _settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a member as numbers and words."""
    found = {name: value for name, value in given.items() if name not in _NOT_SETTINGS}
    found["objective"] = _label_of_objective(str(given["objective"]))
    return found | ({"prior": given["prior"]} if given.get("prior") != "isotropic" else {})


def _setting_columns(rows: Sequence[Row]) -> list[Column]:
    """A column for each setting, those in which models differ; the objective comes first."""
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    settings = names[: names.index("seed")] if "seed" in names else []
    return [Column(name, symbol(name), "setting") for name in (*settings, "seed")]


def _training(keys: Mapping[str, str], *, comparable: bool) -> list[Column]:
    """Columns of what training recorded; losses of several settings weigh their terms differently,
    so that only reconstructions are *comparable* then.
    """
    lower = ("loss", "reconstruction") if comparable else ("reconstruction",)
    columns = [
        Column(key, key.replace("_", " "), "training", "lower" if name in lower else "none")
        for name, key in keys.items()
    ]
    return [
        *columns,
        Column(ACTIVE, "active latents", "training"),
        Column("steps", "steps done", "training"),
    ]


def _metric_column(metric: Metric) -> Column:
    better = "lower" if metric.lower_is_better else "higher"
    return Column(metric.name, metric.label, "score", better, dead_codes_remark(metric.name))


def _known_column(name: str) -> Column:
    """The column of a score by its name, which may have options or a field of its result."""
    base = name.partition(":")[0].partition(".")[0].removesuffix("_sampled")
    if base not in METRICS:
        return Column(name, name.replace("_", " "), "score")
    function = METRICS.load(base)
    label = function.label + name.removeprefix(base).replace("_", " ")
    higher = function.result.higher_is_better
    whole = name == base or name == f"{base}_sampled"
    better = ("higher" if higher else "lower") if whole else "none"
    return Column(name, label, "score", better, dead_codes_remark(base))


def _notes(
    run: RunFolder, metrics: Sequence[Metric], collapsed: Mapping[int, int], healthy: Sequence[int]
) -> list[str]:
    notes = []
    if not metrics:
        notes.append(NOT_SCORED)
    if collapsed:
        notes.append(
            f"{len(collapsed)} of {len(healthy)} models are collapsed: they use too few latents for"
            " their scores to mean anything."
        )
    return notes


def ranked(columns: Sequence[Column], rows: Sequence[Row]) -> list[Row]:
    """*rows* with the best first: by the first score, else by what training recorded where that can
    be compared; collapsed ones follow.
    """
    judged = [one for one in columns if one.better != "none"]
    by = next((one for one in judged if one.group == "score"), next(iter(judged), None))

    def rank(row: Row) -> tuple[bool, bool, float]:
        value = _plain(row.values.get(by.key)) if by else None
        known = isinstance(value, (int, float))
        sign = 1.0 if by and by.better == "lower" else -1.0
        return row.status != "trained", not known, sign * value if known else 0.0

    return sorted(rows, key=rank)


def _plain(value: Any) -> float | int | str | None:
    """A value as JSON has it; what is not finite is None."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return value if math.isfinite(value) else None
    return str(value).lower() if isinstance(value, bool) else str(value)
