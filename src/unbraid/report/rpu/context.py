# SPDX-License-Identifier: Apache-2.0
"""The page of rPU-VAE (Estermann et al. 2020): its stages, what leaf-runs added, what was cut.

Every stage is a search with a page of its own, to which this one links; both lie in the folder of
the recursion and move with it.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from unbraid.core.folders import PAGES, record_path
from unbraid.core.store import digest
from unbraid.core.words import count
from unbraid.report.page import write_page
from unbraid.report.reduce.figures import codes_figure, derivative_figure
from unbraid.report.reduce.words import CITATION, latent_sentence, stopped_sentence
from unbraid.report.rpu.figures import latent_rows, leaf_runs_figure
from unbraid.report.train.provenance import data_title, folder_files
from unbraid.report.train.settings import shown
from unbraid.report.words import score_shown
from unbraid.search.reduce.reduction import Reduction, reduce_in_turn
from unbraid.search.rpu.labelling import Labelling, label
from unbraid.search.rpu.plan import RecursionPlan
from unbraid.search.rpu.recursion import Recursion
from unbraid.search.rpu.stages import Stage, StageKind

MOST_CUTS = 12
"""Cuts that are drawn; each is some 100 kB of curves for a latent."""
_LABELS = {"mig": "MIG", "dci": "DCI"}
_GAP = "gap with surrogate labels"

Scores = Mapping[int, Mapping[str, float]]
"""MIG and DCI (`mig`, `dci`) of the final winner by its number of leaf-runs, with known factors."""


def write_rpu(
    recursion: Recursion, stages: Sequence[Stage], scores: Scores, device: torch.device
) -> Path:
    """Write the page into the folder of a finished recursion and return its path.

    Labels that a stage made and no longer has are made again on *device*.
    """
    context = page_context(recursion, stages, scores, device)
    return write_page(recursion.path / PAGES["rpu"], "rpu", context, recursion.digest)


def page_context(
    recursion: Recursion, stages: Sequence[Stage], scores: Scores, device: torch.device
) -> dict[str, Any]:
    """Everything the template shows."""
    plan, figures = recursion.plan, dict[str, Any]()
    labels: dict[str, Labelling] = {}
    levels, sunk = [], dict[str, str]()
    for stage, search in recursion.searches():
        sunk[stage.name] = search.remark()
        if stage.kind is not StageKind.FINAL:
            found = labels[stage.name] = label(search, device, plan.active_nats)
            if found.latents:
                images, rows = f"{len(search.dataset):,}", latent_rows(search, found)
                levels.append({"name": stage.name, "images": images, "rows": rows})
    cuts = [
        _cut(stage, source, cut, [f"latent {one}" for one in labels[source].latents], figures)
        for stage, source, cut in cuts_of(plan, stages, labels)
    ]
    curve = final_scores(stages, scores, recursion.dataset.labelled)
    if curve and len(curve["counts"]) > 1:
        figures["leaf-runs"] = leaf_runs_figure(curve["counts"], curve["series"], curve["axis"])
    drawn = {cut["stage"]: cut["id"] for cut in cuts}
    return {
        "title": f"{data_title(plan.root.plan)} · {plan.root.plan.members[0].objective} · rPU-VAE",
        "done": what_was_done(plan, stages),
        "facts": _facts(recursion),
        "heads": [
            name for key, name in _LABELS.items() if any(key in one for one in scores.values())
        ],
        "stages": [
            _row(
                recursion.path,
                stage,
                scores,
                drawn.get(stage.name, ""),
                collapsed=bool(sunk.get(stage.name)),
            )
            for stage in stages
        ],
        "warnings": [f"{name}: {remark}" for name, remark in sunk.items() if remark],
        "reasons": any(stage.ended for stage in stages),
        "curve": curve,
        "levels": levels,
        "cuts": cuts,
        "undrawn": sum(stage.kind is StageKind.LEAF for stage in stages) - len(cuts),
        "nats": f"{plan.active_nats:g}",
        "commands": following_commands(recursion.path, stages),
        "paper": str(CITATION),
        "how": _how(recursion),
        "figures": figures,
    }


def what_was_done(plan: RecursionPlan, stages: Sequence[Stage]) -> dict[str, Any]:
    """The numbers that the first paragraph is made of."""
    root = stages[0]
    searched = _leaves(stages, searched=True)
    return {
        "images": root.images,
        "population": plan.root.population,
        "models": plan.root.models,
        "failed": root.ended,
        "labels": len(root.active),
        "leaf_runs": plan.leaf_runs,
        "parts": len(searched),
        "labelled_parts": sum(not stage.ended for stage in searched),
        "finals": sum(stage.kind is StageKind.FINAL and not stage.ended for stage in stages),
        "most_leaf_runs": plan.finals()[-1],
        "every_final": len(plan.finals()) > 1,
    }


def final_scores(stages: Sequence[Stage], scores: Scores, labelled: bool) -> dict[str, Any] | None:
    """Scores of the final winners by the number of leaf-runs; None without a final population.

    With known factors they are MIG and DCI, as in figure 6 of the paper.
    """
    finals = {stage.leaf_runs: stage.score for stage in stages if stage.kind is StageKind.FINAL}
    if not finals:
        return None
    counts = sorted(finals)
    known = labelled and bool(scores)
    series = {_GAP: [finals[at] for at in counts]}
    if known:
        series = {
            name: [scores.get(at, {}).get(key, math.nan) for at in counts]
            for key, name in _LABELS.items()
        }
    return {
        "counts": counts,
        "known": known,
        "gap": score_shown(finals[counts[-1]]),
        "last": [(name, score_shown(values[-1])) for name, values in series.items()],
        "series": series,
        "axis": "score" if known else _GAP,
        "same_labels": not any(not stage.ended for stage in _leaves(stages, searched=True)),
    }


def _leaves(stages: Sequence[Stage], *, searched: bool = False) -> list[Stage]:
    """The stages of leaf-runs, or those of them with images to search in."""
    leaves = [stage for stage in stages if stage.kind is StageKind.LEAF]
    return [stage for stage in leaves if stage.images or not searched]


def cuts_of(
    plan: RecursionPlan, stages: Sequence[Stage], labels: Mapping[str, Labelling]
) -> Iterator[tuple[Stage, str, Reduction]]:
    """For the first leaf-run stages: the stage, whose labels cut its part out, and how.

    One by one, since each is large.
    """
    for stage in _leaves(stages)[:MOST_CUTS]:
        source = stage.source.name
        yield stage, source, reduce_in_turn(labels[source].values, stage.rank, plan.reduction)


def following_commands(path: Path, stages: Sequence[Stage]) -> list[tuple[str, str]]:
    """What a person can type next, each with what it does."""
    last = shlex.quote(str(path / stages[-1].name))
    whose = "the final winner" if stages[-1].kind is StageKind.FINAL else "the root's winner"
    return [
        (f"unbraid report {last}", f"shows what the latents of {whose} do to an image"),
        (f"unbraid score {last}", f"scores the models of {whose}"),
    ]


def _cut(
    stage: Stage, source: str, found: Reduction, names: Sequence[str], figures: dict[str, Any]
) -> dict[str, Any]:
    """One cut for the page; its curves go to *figures*."""
    key = "cut-" + stage.name.replace("/", "-")
    latents = []
    for at, (name, latent) in enumerate(zip(names, found.latents, strict=True)):
        codes, rises = f"{key}-codes-{at}", f"{key}-rises-{at}"
        figures[codes], figures[rises] = codes_figure(latent), derivative_figure(latent)
        latents.append(
            {"name": name, "sentence": latent_sentence(found, at), "codes": codes, "rises": rises}
        )
    return {
        "id": key,
        "stage": stage.name,
        "source": source,
        "stopped": stopped_sentence(found, names),
        "kept": len(found.indices),
        "images": len(found.cells),
        "index": found.index,
        "candidates": len(found.candidates),
        "latents": latents,
    }


def _row(path: Path, stage: Stage, scores: Scores, cut: str, *, collapsed: bool) -> dict[str, Any]:
    """One stage in the table."""
    final = stage.kind is StageKind.FINAL
    known = scores.get(stage.leaf_runs, {}) if final else {}
    page = f"{stage.name}/{PAGES['pbt']}"
    return {
        "name": stage.name,
        "page": page if (path / page).is_file() else "",
        "images": f"{stage.images:,}" if stage.images else "–",
        "score": score_shown(stage.score),
        "collapsed": collapsed,
        "active": "–" if final or not math.isfinite(stage.score) else f"{len(stage.active)}",
        "known": [score_shown(known.get(name, math.nan)) for name in _LABELS],
        "cut": cut,
        "ended": stage.ended,
    }


def _facts(recursion: Recursion) -> list[tuple[str, str]]:
    plan, root = recursion.plan, recursion.plan.root
    return [
        ("Data", f"{data_title(root.plan)}, {len(recursion.dataset):,} images"),
        ("Known factors", ", ".join(recursion.dataset.factor_names) or "none"),
        ("Objective", root.plan.members[0].objective),
        ("Network", f"{root.plan.network}, {root.plan.latents} latents"),
        (
            "Searches without labels",
            f"{root.population} individuals of {root.models} models, {root.epochs} epochs at most",
        ),
        ("Leaf-runs", f"{plan.leaf_runs}, {plan.levels} levels at most with the root's"),
        (
            "Final population",
            f"{plan.final_population} individuals, {plan.final_epochs} epochs at most",
        ),
        ("Latents are active above", f"{plan.active_nats:g} nat"),
        ("Seed", f"{root.seed}"),
    ]


def _how(recursion: Recursion) -> dict[str, Any]:
    """Where the page came from: command, how to open it again, fingerprints, versions, files."""
    plan, path = recursion.plan.root.plan, recursion.path
    purposes = _purposes(recursion.plan)
    purposes[record_path(path, "rpu").name] = "everything needed to repeat the recursion"
    return {
        "command": plan.command,
        "python": f"import unbraid as ub\n\nmade = ub.resume({str(path)!r})\nmade.table()",
        "plan_digest": digest(recursion.plan.record()),
        "data_fingerprint": plan.data_fingerprint,
        "data_options": {name: shown(value) for name, value in plan.data_options.items()},
        "versions": plan.made_with,
        "files": [
            (name, size, purposes.get(name, ""))
            for name, size, _ in folder_files(path)
            if name != PAGES["rpu"]
        ],
    }


def _purposes(plan: RecursionPlan) -> dict[str, str]:
    """What the files and folders of a recursion hold, by name."""
    held = {
        "summary.json": "the stages as in the table",
        "root/": "the search on all images",
    }
    for stage in plan.stages():
        if stage.kind is StageKind.LEAF:
            folder = f"{stage.name.partition('/')[0]}/"
            held[folder] = "searches on parts of the images, and which images those are"
        elif stage.kind is StageKind.FINAL:
            held[f"{stage.name}/"] = (
                f"the final population with {count(stage.leaf_runs, 'leaf-run')}"
            )
    return held
