# SPDX-License-Identifier: Apache-2.0
"""A discovery as its page tells it: what was found, how, and what to type next."""

from __future__ import annotations

import math
import platform
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from unbraid.core.words import count
from unbraid.population.devices import cores
from unbraid.search.discover.find import LITTLE_EXPLAINED, ModelFindings
from unbraid.search.discover.findings import Discovery
from unbraid.search.discover.plan import DiscoveryPlan
from unbraid.search.pbt.lineage import best_by_epoch
from unbraid.search.pbt.search import SearchRun
from unbraid.search.rpu.stages import Stage, StageKind

if TYPE_CHECKING:
    import pandas as pd


def described(
    folder: Path,
    plan: DiscoveryPlan,
    root: SearchRun,
    final: SearchRun,
    findings: ModelFindings,
    stages: list[Stage],
    device: torch.device,
    minutes: float,
) -> Discovery:
    """What was found in *minutes*, by the winner of *final* and what *root* and *stages* did."""
    lineage, record = root.lineage, root.winner_record()
    settings = {name: value for name, value in final.winner_record()["values"].items()}
    warnings = []
    if plan.drawn_from > len(root.dataset):
        warnings.append(
            f"Of the {plan.drawn_from:,} images {len(root.dataset):,} were drawn at random and"
            " looked at."
        )
    if plan.depth:
        warnings.append(plan.depth)
    if plan.stretched:
        warnings.append(plan.stretched)
    if plan.resized_from is not None:
        side = root.dataset.image_shape[0]
        warnings.append(
            f"The models saw the images at {side} × {side} pixels; details smaller than that cannot"
            " be found."
        )
    where = "a GPU" if device.type == "cuda" else f"a CPU with {cores()} core{'s' * (cores() != 1)}"
    longer = max(1, round(4 * (plan.minutes or minutes)))
    again = (
        again_with(plan.command, plan.source, longer),
        "the same with more time, into a new folder",
    )
    if findings.collapsed:
        warnings.append(
            "Every group of models was collapsed: too few of the numbers by which a model of it"
            " describes an image say anything about the image, so nothing counts as found. Give it"
            " more time."
        )
    elif findings.explained < LITTLE_EXPLAINED:
        warnings.append(
            "The models reconstruct hardly anything of the images yet, so nothing counts as found."
            " Give it more time."
        )
    return Discovery(
        source=plan.source or "an array",
        images=len(root.dataset),
        image_shape=root.dataset.image_shape,
        resized_from=plan.resized_from,
        factors=findings.factors,
        doubtful=findings.doubtful,
        explained=findings.explained,
        collapsed=findings.collapsed,
        udr=record["score"],
        originals=findings.originals,
        remembered=findings.remembered,
        worst=findings.worst,
        worst_remembered=findings.worst_remembered,
        population=root.search.population,
        models_each=root.search.models,
        epochs=len(set(lineage["epoch"].tolist())),
        best_by_epoch=tuple(
            0.0 if math.isnan(one.score) else one.score
            for one in best_by_epoch(lineage.to_dict("records"), root.search.scorer.better)
        ),
        minutes=minutes,
        device=where,
        objective=root.search.plan.members[0].objective,
        settings=settings,
        run=str(final.path),
        tables=(str(folder / "codes.parquet"), str(folder / "codes.csv")),
        from_final=final is not root,
        stages=tuple(_stage_sentence(stage) for stage in stages),
        warnings=tuple(warnings),
        commands=(
            *([again] if plan.source else []),
            (f"unbraid report {final.path}", "the winning models in technical detail"),
            (f"unbraid score {final.path} --metrics unsupervised", "their scores without labels"),
        ),
        command=plan.command,
        facts={
            "Collapsed groups": _collapsed(lineage),
            "Seed": f"{root.search.seed}",
            "Machine": platform.machine(),
        },
    )


def _collapsed(lineage: pd.DataFrame) -> str:
    """How many groups were collapsed, round by round."""
    if "collapsed" not in lineage:
        return "not counted"
    many = sum(lineage["collapsed"].tolist())
    told = f"{many:,} of {len(lineage):,}, over all rounds"
    return f"{told}; never chosen where others are not" if many else "none"


def again_with(command: str, source: str, minutes: int) -> str:
    """The command that was typed, with so many minutes and without its folder.

    A plain one where it was a call from Python.

    >>> again_with("unbraid discover my/ --minutes 1 --resize 64 --out=runs/a", "my/", 4)
    'unbraid discover my/ --resize 64 --minutes 4'
    """
    words, kept = shlex.split(command), list[str]()
    if words[:2] != ["unbraid", "discover"]:
        return f"unbraid discover {shlex.quote(source)} --minutes {minutes}"
    at = 0
    while at < len(words):
        name, equals, _ = words[at].partition("=")
        if name in ("--minutes", "--steps", "--out"):
            at += 1 if equals else 2
        else:
            kept.append(words[at])
            at += 1
    return f"{shlex.join(kept)} --minutes {minutes}"


def _stage_sentence(stage: Stage) -> str:
    if stage.kind is StageKind.ROOT:
        found = (
            f"models agreed on {count(len(stage.active), 'thing')} (agreement {stage.score:.2f})"
        )
        return f"In all {stage.images:,} images, {stage.ended or found}."
    if stage.kind is StageKind.FINAL:
        return (
            "A last population was trained on all images to hold everything that was seen (score"
            f" {stage.score:.2f})."
        )
    part = f"Part {stage.leaf + 1}"
    if stage.images == 0:
        return f"{part}: {stage.ended}"
    what = stage.ended or f"models agreed on {len(stage.active)} more (agreement {stage.score:.2f})"
    return f"{part}: in {stage.images:,} images in which those hardly vary, {what}."
