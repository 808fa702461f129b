# SPDX-License-Identifier: Apache-2.0
"""The page of a run: scores, the best models, their latents, curves, and how it was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unbraid.core.folders import PAGES, record_path
from unbraid.metrics import METRICS
from unbraid.population.run_folder import RunFolder
from unbraid.report.page import write_page
from unbraid.report.train.advice import AdviceInputs, advice
from unbraid.report.train.facts import facts
from unbraid.report.train.figures import (
    curves_figure,
    latents_figure,
    quantity_label,
    scores_figure,
)
from unbraid.report.train.member_view import (
    FRAMES,
    QUANTILES,
    STILL_NATS,
    MemberView,
    view_member,
)
from unbraid.report.train.provenance import (
    data_title,
    folder_files,
    following_commands,
    python_call,
    searched_call,
)
from unbraid.report.train.run_summary import Metric, RunSummary, summarise
from unbraid.report.train.settings import mix, shown, swept_name, swept_value, symbol
from unbraid.report.train.variance import variance_of, what_matters
from unbraid.scoring.collapse import REMEDY, dead_codes_remark
from unbraid.scoring.counted import few_samples_lines, scale_lines, varying_factors
from unbraid.scoring.metric_names import USUAL
from unbraid.scoring.standard_errors import shown as with_error

MOST_VIEWS = 6
_MOST_TILES = 6
_LONG_TABLE = 20
_HEAT = "#0b4f8a"


def write_report(run: RunFolder) -> Path:
    """Write the page of a trained and encoded run into its folder and return its path."""
    return write_page(run.path / PAGES["train"], "train", page_context(run))


def page_context(run: RunFolder) -> dict[str, Any]:
    """Everything the template shows."""
    plan, dataset, found = run.plan, run.dataset, summarise(run)
    views = [
        view_member(run, member, found.names[member], why)
        for member, why in found.shown(MOST_VIEWS)
    ]
    families = list(dict.fromkeys(setting.family for setting in found.settings))
    figures: dict[str, Any] = {}
    scores = _score_figures(found, figures)
    curves = _curve_figures(found, figures)
    bars = _bar_figures(found, views, figures) if not dataset.labelled else {}
    return {
        "title": f"{data_title(plan)} · {', '.join(families)}",
        "data": data_title(plan),
        "steps": plan.steps,
        "trained": found.trained,
        "total": len(plan.members),
        "best_metric": found.metrics[0].label if found.metrics else "",
        "best_score": found.best_metric,
        "final_loss": found.final.get("loss", {}).get(-1 if found.best is None else found.best),
        "matters": _what_matters(found),
        "labelled": dataset.labelled,
        "diverged": found.diverged_names(),
        "collapsed": [
            (f"model {member} ({found.names[member]})", found.active[member])
            for member in sorted(found.collapsed)
        ],
        "few_samples": few_samples_lines(run, [m.name for m in found.metrics], list(found.active)),
        "sunk": {member: found.active[member] for member in found.collapsed},
        "latents": plan.latents,
        "varying": varying_factors(run),
        "scale": scale_lines(
            run,
            [m.name for m in found.metrics],
            [member for member in found.active if member not in found.collapsed],
        ),
        "with_errors": any(m.errors for m in found.metrics),
        "remedy": REMEDY,
        "facts": facts(run),
        "film": views[0].latents[:_MOST_TILES] if found.best is not None else (),
        "aspect": dataset.image_shape[1] / dataset.image_shape[0],
        "frames": FRAMES,
        "still_nats": f"{STILL_NATS:g}",
        "quantiles": [f"{round(100 * share)}" for share in QUANTILES],
        "best_rule": found.best_rule,
        "best_name": found.names[found.best] if found.best is not None else "",
        "scores": _grouped(scores),
        "scored": bool(found.metrics),
        "scores_stored": found.scores_stored,
        "score_columns": min(3, max(1, 12 // max(4, len(found.settings))), max(2, len(scores))),
        "settings": found.settings,
        "several_families": len(families) > 1,
        "family_colours": [
            (name, next(s.colour for s in reversed(found.settings) if s.family == name))
            for name in families
        ],
        "table": _table(found),
        "views": views,
        "heat": heat_style,
        "bars": bars,
        "curves": curves,
        "figures": figures,
        "how": {
            "command": plan.command,
            "python": (
                python_call(plan)
                if not record_path(run.path, "pbt").is_file()
                else searched_call(run.path)
            ),
            "following": following_commands(run.path, found.stored_metrics),
            "plan_digest": plan.digest(),
            "data_fingerprint": plan.data_fingerprint,
            "versions": plan.made_with,
            "files": folder_files(run.path),
            "data_options": {name: shown(value) for name, value in plan.data_options.items()},
        },
        "advice": _advice(run, found, views),
    }


def heat_style(share: float) -> str:
    """Background and text colour of a cell of the table of information."""
    if share != share:
        return ""
    level = min(1.0, max(0.0, share))
    return (
        f"background:{mix('#ffffff', _HEAT, level)};color:{'#ffffff' if level > 0.5 else '#1b2430'}"
    )


def _what_matters(found: RunSummary) -> str:
    """Whether settings or seeds matter more for the best model's score, where that decided."""
    if found.best_metric is None:
        return ""
    scores = found.metrics[0].scores
    sound = scores.keys() - found.collapsed
    groups = [[scores[m] for m in one.members if m in sound] for one in found.settings]
    return what_matters(variance_of([group for group in groups if group]))


def _score_figures(found: RunSummary, figures: dict[str, Any]) -> list[dict[str, str]]:
    """Scores by setting; where there are none, what the training ended with."""
    name = swept_name(found.plan, found.settings)
    if len(found.settings) == 1:
        ticks, axis = [found.settings[0].label], ""
    elif name is None:
        ticks, axis = [setting.tick for setting in found.settings], ""
    else:
        ticks, axis = (
            [swept_value(found.plan, setting, name) for setting in found.settings],
            symbol(name),
        )
    if found.metrics:
        sources = [
            (m.name, m.label, m.scores, m.bounds, _note(m), _group(m), m.errors)
            for m in found.metrics
        ]
    else:
        free = (float("-inf"), float("inf"))
        sources = [
            (q, f"{quantity_label(q)} at the end", v, free, "nats", "", {})
            for q, v in found.final.items()
            if v
        ]
    shown_figures = []
    for key, label, values, bounds, note, group, errors in sources:
        figures[f"score-{key}"] = scores_figure(
            values,
            found.settings,
            found.names,
            title=label,
            ticks=ticks,
            axis=axis,
            best=found.best if len(found.names) > 1 else None,
            bounds=bounds,
            collapsed=found.collapsed,
            errors=errors,
        )
        about = (
            f"{label} of every model by setting, from {min(values.values()):.3g} to"
            f" {max(values.values()):.3g}"
        )
        shown_figures.append(
            {"id": f"score-{key}", "heading": label, "note": note, "about": about, "group": group}
        )
    return shown_figures


def _note(metric: Metric) -> str:
    parts = [metric.citation, "lower is better" if metric.lower_is_better else ""]
    return "; ".join(part for part in (*parts, dead_codes_remark(metric.name)) if part)


def _group(metric: Metric) -> str:
    """The heading under which a figure is folded away; the usual metrics stand open."""
    if metric.name in USUAL or metric.name not in METRICS:
        return ""
    return (
        f"{metric.family.capitalize()} scores"
        if metric.family != "supervised"
        else "More supervised scores"
    )


def _grouped(figures: list[dict[str, str]]) -> list[tuple[str, list[dict[str, str]]]]:
    """Figures under their headings, the open group first; where none is open, the first is."""
    headings = sorted(
        dict.fromkeys(one["group"] for one in figures), key=lambda heading: heading != ""
    )
    groups = [
        (heading, [one for one in figures if one["group"] == heading]) for heading in headings
    ]
    return [("", groups[0][1]), *groups[1:]] if groups else []


def _curve_figures(found: RunSummary, figures: dict[str, Any]) -> list[dict[str, str]]:
    shown_figures = []
    for quantity in found.final:
        figure = curves_figure(found.history, quantity, found.settings, found.names, found.diverged)
        if figure.data:
            figures[f"curve-{quantity}"] = figure
            label = quantity_label(quantity)
            shown_figures.append(
                {
                    "id": f"curve-{quantity}",
                    "heading": label,
                    "about": f"{label} of every model against the step",
                }
            )
    return shown_figures


def _bar_figures(
    found: RunSummary, views: list[MemberView], figures: dict[str, Any]
) -> dict[int, str]:
    """Bars of KL (or spread) by latent, for data without factors: the figure of each portrait."""
    made, tops = {}, {}
    for one in views:
        tops[one.measure] = max(max(one.sizes), tops.get(one.measure, 0.0))
    for one in views:
        order = sorted(range(len(one.sizes)), key=lambda latent: -one.sizes[latent])
        unit = "KL divergence (nats)" if one.measure == "kl" else "spread of codes"
        made[one.member] = f"bars-{one.member}"
        colour = next(setting.colour for setting in found.settings if one.member in setting.members)
        figures[made[one.member]] = latents_figure(
            [one.sizes[latent] for latent in order], order, colour, unit, active=one.active,
            top=tops[one.measure],
        )  # fmt: skip
    return made


def _table(found: RunSummary) -> dict[str, Any]:
    """All members with their scores, best first, or by their numbers where none is best."""
    quantities = [name for name in ("loss", "reconstruction", "kl") if name in found.final]
    heads = [
        "Model",
        "Setting",
        "Seed",
        "Active latents",
        *(m.label for m in found.metrics),
        *(quantity_label(q) for q in quantities),
    ]
    uneven = len(set(found.status.values())) > 1
    rows = []
    for place, setting in enumerate(found.settings):
        for member in setting.members:
            scores = [(m.scores.get(member), m.errors.get(member)) for m in found.metrics]
            losses = [found.final[q].get(member) for q in quantities]
            cells: list[tuple[str, Any]] = [
                (str(member), member),
                (setting.label, place),
                (str(found.seeds[member]), found.seeds[member]),
                _activity(found, member),
            ]
            cells += [_score(value, error) for value, error in scores]
            cells += [("–", None) if v is None else (f"{v:#.4g}".rstrip("."), v) for v in losses]
            if uneven:
                cells.append((found.status[member], found.status[member]))
            rows.append(
                {
                    "cells": cells,
                    "best": member == found.best and len(found.names) > 1,
                    "colour": setting.colour,
                    "rank": (member,) if found.best is None else found.rank(member),
                }
            )
    rows.sort(key=lambda row: row["rank"])
    return {
        "heads": [*heads, *(["Status"] if uneven else [])],
        "rows": rows,
        "long": len(rows) > _LONG_TABLE,
        "numeric": range(2, len(heads)),
        "sorted_by": (
            ("Model", "ascending")
            if found.best is None
            else (found.metrics[0].label, "descending")
            if found.by_mig
            else (quantity_label("loss"), "ascending")
        ),
    }


def _score(value: float | None, error: float | None) -> tuple[str, float | None]:
    """A cell of the table: a score, with its standard error where that is known."""
    if value is None:
        return "–", None
    return with_error(value, error, ".3f"), value


def _activity(found: RunSummary, member: int) -> tuple[str, int | None]:
    """A cell of the table: how many latents are active, and whether those are too few."""
    if member not in found.active:
        return "–", None
    count = found.active[member]
    return f"{count} (collapsed)" if member in found.collapsed else str(count), count


def _advice(run: RunFolder, found: RunSummary, views: list[MemberView]) -> list[str]:
    plan = found.plan
    name = swept_name(plan, found.settings)
    best = next((setting for setting in found.settings if found.best in setting.members), None)
    by_strength = (
        found.best_metric is not None
        and name is not None
        and best is not None
        and best.strength is not None
    )
    by_strength = (
        by_strength
        and name != "learning_rate"
        and len({s.strength for s in found.settings}) == len(found.settings)
    )
    losses = (
        found.history.loc[found.history["member"] == found.best, "loss"].to_list()
        if found.best is not None
        else []
    )
    active = found.active[found.best] if found.best is not None else None
    stored = [metric for metric in found.metrics if metric.name in found.stored_metrics]
    scored = {one for metric in stored for one in metric.scores}
    return advice(
        AdviceInputs(
            path=str(run.path),
            labelled=run.dataset.labelled,
            missing_metrics=(
                tuple(name for name in USUAL if name not in found.stored_metrics)
                if run.dataset.labelled
                else ()
            ),
            unscored=(
                len(plan.members) - len(scored | found.diverged) if found.stored_metrics else 0
            ),
            seeds=len({member.seed for member in plan.members}),
            diverged=len(found.diverged),
            best_loss=losses,
            swept_strength=symbol(name) if by_strength and name else "",
            strengths=(
                [s.strength for s in found.settings if s.strength is not None]
                if by_strength
                else []
            ),
            best_strength=best.strength if by_strength and best else None,
            active_latents=active,
            latents=plan.latents,
            lost_factors=(
                tuple(row.name for row in views[0].rows if not row.where.found) if views else ()
            ),
            collapsed=len(found.collapsed),
            models=len(plan.members),
        )
    )
