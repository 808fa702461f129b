# SPDX-License-Identifier: Apache-2.0
"""A recursion (rPU-VAE, Estermann et al. 2020) as one HTML page that opens offline: its stages,
what leaf-runs added, what was cut.

Every stage is a search with a page of its own, to which this one links; both lie in the recursion's
folder and move with it.
"""

from __future__ import annotations

import datetime
import math
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from unbraid.core.store import digest, write_bytes
from unbraid.report.page import render_page
from unbraid.report.reduce.context import CITATION, latent_sentence, stopped_sentence
from unbraid.report.reduce.figures import codes_figure, derivative_figure
from unbraid.report.rpu.figures import latent_rows, leaf_runs_figure
from unbraid.report.train.provenance import data_title, folder_files
from unbraid.report.train.settings import shown
from unbraid.search.reduce.reduction import Reduction, reduce_in_turn
from unbraid.search.rpu.labelling import Labelling, label
from unbraid.search.rpu.plan import RecursionPlan
from unbraid.search.rpu.recursion import Recursion
from unbraid.search.rpu.stages import Stage, StageKind

PAGE = "recursion.html"
MARK = b'<p class="kicker">Unbraid recursion</p>'
"""By which a page of ours is known from another file of its name."""
MOST_CUTS = 12
"""Cuts that are drawn; each is some 100 kB of curves for a latent."""
_PURPOSES = {
    "rpu.json": "everything needed to repeat the recursion",
    "summary.json": "the stages as in the table",
    "root/": "the search on all images",
}
_LEAF_PURPOSE = "searches on parts of the images, and which images those are"


def write_recursion_page(
    recursion: Recursion,
    stages: Sequence[Stage],
    scores: Mapping[int, Mapping[str, float]],
    device: torch.device,
) -> Path:
    """Write recursion.html into the folder of a finished recursion and return its path.

    *scores* are MIG and DCI (`mig`, `dci`) of the final winner by its number of leaf-runs, where the data has factors. Labels that
    a stage made and no longer has are made again on *device*.
    """
    context = page_context(recursion, stages, scores, device)
    page = render_page(
        "recursion.html.j2", context, styles=("discovery.css", "reduction.css", "recursion.css")
    )
    path = recursion.path / PAGE
    write_bytes(path, page.encode())
    return path


def page_context(
    recursion: Recursion,
    stages: Sequence[Stage],
    scores: Mapping[int, Mapping[str, float]],
    device: torch.device,
) -> dict[str, Any]:
    """Everything the template shows."""
    plan, figures = recursion.plan, dict[str, Any]()
    labels: dict[str, Labelling] = {}
    levels = []
    for stage, search in recursion.searches():
        name = stage.name
        if stage.kind is not StageKind.FINAL:
            labels[name] = label(search, device, plan.active_nats)
            if labels[name].latents:
                levels.append(
                    {
                        "name": name,
                        "images": f"{len(search.dataset):,}",
                        "rows": latent_rows(search, labels[name]),
                    }
                )
    cuts = []
    for stage, source, found in cuts_of(plan, stages, labels):
        names = [f"latent {latent}" for latent in labels[source].latents]
        cuts.append(_cut(stage, source, found, names, figures))
    curve = leaf_runs_section(plan, stages, scores, recursion.dataset.labelled)
    if curve and curve["figure"]:
        figures["leaf-runs"] = curve["figure"]
    drawn = {cut["stage"]: cut["id"] for cut in cuts}
    return {
        "title": f"{data_title(plan.root.plan)} · {plan.root.plan.members[0].objective} · rPU-VAE",
        "summary": done_paragraph(plan, stages),
        "facts": _facts(recursion),
        "heads": [
            label
            for key, label in (("mig", "MIG"), ("dci", "DCI"))
            if any(key in one for one in scores.values())
        ],
        "stages": [
            _row(recursion.path, stage, scores, drawn.get(stage.name, "")) for stage in stages
        ],
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


def done_paragraph(plan: RecursionPlan, stages: Sequence[Stage]) -> str:
    """What was done, for a researcher who knows VAEs and not this method."""
    root, search = stages[0], plan.root
    said = [
        f"First came a search without labels on all {root.images:,} images, the root:"
        f" {search.population} individuals of {search.models} models each, selected by how well the"
        " models of an individual agree with each other (UDR)."
    ]
    if root.ended:
        return (
            f"{said[0]} It found nothing that could serve as labels, since {root.ended}: there is"
            " no final population."
        )
    said.append(
        f"The {_many(len(root.active), 'active latent')} of its best model became surrogate labels."
    )
    if plan.leaf_runs:
        leaves = [stage for stage in stages if stage.kind is StageKind.LEAF and stage.images]
        told = (
            f"{_many(len(leaves), 'part')} could be searched, and"
            f" {sum(not stage.ended for stage in leaves)} gave new labels"
        )
        said.append(
            f"In {_many(plan.leaf_runs, 'leaf-run')} the data was cut down to parts in which such"
            " labels hardly vary, to search afresh there:"
            f" {told if leaves else 'no part was found'}."
        )
    finals = plan.finals()
    trained = sum(stage.kind is StageKind.FINAL and not stage.ended for stage in stages)
    who = "A final population was" if trained == 1 else f"{trained} final populations were"
    which = "the root's labels" if finals == [0] else "the labels of all levels"
    each = "" if len(finals) == 1 else f" of 0 to {finals[-1]} leaf-runs"
    said.append(
        f"{who} trained on all images and selected by the mutual information gap with"
        f" {which}{each}."
    )
    return " ".join(said)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" + ("" if count == 1 else "s")


def cuts_of(
    plan: RecursionPlan, stages: Sequence[Stage], labels: Mapping[str, Labelling]
) -> Iterator[tuple[Stage, str, Reduction]]:
    """For the first stages of leaf-runs: the stage, whose labels cut its part out, and how. One by
    one, since each is large.
    """
    leaves = [stage for stage in stages if stage.kind is StageKind.LEAF]
    for stage in leaves[:MOST_CUTS]:
        source = stage.source.name
        yield stage, source, reduce_in_turn(labels[source].values, stage.rank, plan.reduction)


def leaf_runs_section(
    plan: RecursionPlan,
    stages: Sequence[Stage],
    scores: Mapping[int, Mapping[str, float]],
    labelled: bool,
) -> dict[str, Any] | None:
    """The curve of the paper's figure 6 where there is one, and what to make of it; None without a
    final population.
    """
    finals = {stage.leaf_runs: stage.score for stage in stages if stage.kind is StageKind.FINAL}
    if not finals:
        return None
    counts = sorted(finals)
    gave = any(
        stage.kind is StageKind.LEAF and stage.images and not stage.ended for stage in stages
    )
    alike = (
        ""
        if gave
        else " No leaf-run gave labels of its own, so all final populations had the same labels."
    )
    if len(counts) == 1:
        return {
            "lead": _only_final(plan, counts[0], finals[counts[0]], scores.get(counts[0], {})),
            "figure": None,
            "about": "",
        }
    if labelled and scores:
        series = {
            name.upper(): [scores[count].get(name, math.nan) for count in counts]
            for name in ("mig", "dci")
        }
        lead = (
            "MIG and DCI of every final winner against the number of leaf-runs whose labels it was"
            " selected by; 0 is the root's labels alone. They are computed with the known factors,"
            " which training did not see. Figure 6 of the paper is this curve, there with the"
            " spread over seeds; here it is one seed, and small steps may be chance."
        )
        figure = leaf_runs_figure(counts, series, "score")
        return {
            "lead": lead + alike,
            "figure": figure,
            "about": "MIG and DCI by the number of leaf-runs",
        }
    lead = (
        "The data has no known factors, so there is no MIG or DCI to compare final winners by, as"
        " figure 6 of the paper does. Shown is the score that each was selected by, the gap with"
        " its surrogate labels. More leaf-runs bring more labels, so that the points measure"
        " different things: a lower one may belong to the better model."
    )
    figure = leaf_runs_figure(
        counts,
        {"gap with surrogate labels": [finals[count] for count in counts]},
        "gap with surrogate labels",
    )
    return {
        "lead": lead + alike,
        "figure": figure,
        "about": "Gap with surrogate labels by the number of leaf-runs",
    }


def _only_final(plan: RecursionPlan, count: int, score: float, known: Mapping[str, float]) -> str:
    told = (
        f"The winner of the final population reaches a gap of {_score(score)} with its surrogate"
        " labels"
    )
    if known:
        told += (
            ", and with the known factors"
            f" {' and '.join(f'{name.upper()} {_score(value)}' for name, value in known.items())}"
        )
    if plan.leaf_runs == 0:
        return f"{told}. Without leaf-runs there is nothing to compare it with."
    more = (
        "with --every-final there is one for each number from 0 on, and a curve like the paper's"
        " figure 6."
    )
    return f"{told}. It used {_many(count, 'leaf-run')}; {more}"


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
    told = stopped_sentence(found, names)
    if not told:
        which = f"candidate {found.index} of 0 to {len(found.candidates) - 1}"
        told = f"{len(found.indices):,} of {len(found.cells):,} images are kept, {which}."
    return {
        "id": key,
        "stage": stage.name,
        "source": source,
        "told": told,
        "shaded": found.chosen is not None,
        "latents": latents,
    }


def _row(
    path: Path, stage: Stage, scores: Mapping[int, Mapping[str, float]], cut: str
) -> dict[str, Any]:
    """One stage in the table."""
    final = stage.kind is StageKind.FINAL
    known = scores.get(stage.leaf_runs, {}) if final else {}
    return {
        "name": stage.name,
        "page": (
            f"{stage.name}/search.html" if (path / stage.name / "search.html").is_file() else ""
        ),
        "images": f"{stage.images:,}" if stage.images else "–",
        "score": _score(stage.score),
        "active": "–" if final or not math.isfinite(stage.score) else f"{len(stage.active)}",
        "known": [_score(known[name]) if name in known else "–" for name in ("mig", "dci")],
        "cut": cut,
        "ended": stage.ended,
    }


def _score(value: float) -> str:
    return f"{value:.3f}" if math.isfinite(value) else "–"


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
        ("Page made", datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")),
    ]


def _how(recursion: Recursion) -> dict[str, Any]:
    """Where the page came from: the command or how to open it again, fingerprints, versions, files."""
    plan = recursion.plan.root.plan
    python = (
        f"import unbraid as ub\n\nmade = ub.resume_search({str(recursion.path)!r})\nmade.table()"
    )
    files = [row for row in folder_files(recursion.path) if row[0] != PAGE]
    purposes = _purposes(recursion.plan)
    return {
        "command": plan.command,
        "python": python,
        "plan_digest": digest(recursion.plan.record()),
        "data_fingerprint": plan.data_fingerprint,
        "data_options": {name: shown(value) for name, value in plan.data_options.items()},
        "versions": plan.made_with,
        "files": [(name, size, purposes.get(name, "")) for name, size, _ in files],
    }


def _purposes(plan: RecursionPlan) -> dict[str, str]:
    """What the folders of the stages hold, by name."""
    told = dict(_PURPOSES)
    for stage in plan.stages():
        if stage.kind is StageKind.LEAF:
            told[f"{stage.name.partition('/')[0]}/"] = _LEAF_PURPOSE
        elif stage.kind is StageKind.FINAL:
            which = _many(stage.leaf_runs, "leaf-run")
            told[f"{stage.name}/"] = f"the final population with {which}"
    return told
