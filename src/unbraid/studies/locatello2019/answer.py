# SPDX-License-Identifier: Apache-2.0
"""What the study's page opens with: every number that the paper prints against ours, and what
decides a score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import pandas as pd

from unbraid.studies.finding import Estimate, Exhibit, Finding
from unbraid.studies.intervals import spearman
from unbraid.studies.locatello2019.agreement import unsupervised_scores
from unbraid.studies.locatello2019.downstream import PARTS, TASKS, downstream_accuracy
from unbraid.studies.locatello2019.models import ORDER, SCORES
from unbraid.studies.locatello2019.transfer import (
    OTHER_BOTH,
    OTHER_DATA,
    SAME,
    transfer_of_choices,
    transfer_of_settings,
)
from unbraid.studies.locatello2019.variance import variance_by_objective, variance_by_setting

PRINTED: dict[str, Callable[[pd.DataFrame], Finding | None]] = {
    "variance by objective": variance_by_objective,
    "variance by setting": variance_by_setting,
    "settings on other data": transfer_of_settings,
    "scores without labels": unsupervised_scores,
    "downstream": downstream_accuracy,
}
"""Tables that the paper prints, as the figure names them; the last in three parts."""


def answer(table: pd.DataFrame) -> Finding | None:
    """Three sentences and the figure, once all of these tables can be told."""
    found = {name: analysis(table) for name, analysis in PRINTED.items()}
    chances = transfer_of_choices(table)
    if chances is None or not all(found.values()):
        return None
    if any(math.isnan(chances.estimate(name).value) for name in (SAME, OTHER_DATA, OTHER_BOTH)):
        return None  # of one seed
    findings = {name: one for name, one in found.items() if one is not None}
    rows = [
        (one.paper, one.value, group)
        for name, finding in findings.items()
        for group, one in _cells(name, finding)
    ]
    points = pd.DataFrame(rows, columns=["x", "y", "group"]).dropna(ignore_index=True)
    ends = [min(points["x"].min(), points["y"].min()), max(points["x"].max(), points["y"].max())]
    equal = pd.DataFrame({"x": ends, "y": ends, "group": "paper"})
    told = [
        _agreement(points),
        _shares(findings["variance by objective"], findings["variance by setting"]),
        _chances(chances),
        findings["variance by setting"].remark,
    ]
    figure = Exhibit(
        "points",
        pd.concat([points, equal], ignore_index=True),
        "the paper's number",
        "ours",
        f"All {len(points)} numbers that the paper prints in tables, for data that are here; on the"
        " grey line ours are equal.",
    )
    return Finding((), figure, " ".join(told))


def _cells(name: str, finding: Finding) -> Iterator[tuple[str, Estimate]]:
    """Numbers of a table that the paper prints, with the group that each is shown in."""
    columns = (*SCORES, *TASKS, *ORDER)
    for one in finding.estimates:
        column = max(one.name.partition(": ")[2], one.name.partition(" with ")[2])
        if one.paper is None or column not in columns:
            continue
        yield next((part for part, is_one in PARTS.items() if is_one(column)), name), one


def _agreement(points: pd.DataFrame) -> str:
    """Rank correlation with the paper, table by table."""
    each = [
        f"{group} {spearman(part['x'], part['y']):.2f}"
        for group, part in points.groupby("group", sort=False)
    ]
    return f"Do the paper's tables come back? Rank correlations with them: {', '.join(each)}."


def _shares(objective: Finding, setting: Finding) -> str:
    """What explains the scores, beside the paper's numbers for the same data."""
    alone, both = (one.estimate("mean share") for one in (objective, setting))
    parts = [("objective", alone.value, alone.paper)]
    if alone.paper is None or both.paper is None:  # none of the paper's data
        parts += [("strength", both.value - alone.value, None), ("seed", 1 - both.value, None)]
    else:
        parts += [
            ("strength", both.value - alone.value, both.paper - alone.paper),
            ("seed", 1 - both.value, 1 - both.paper),
        ]
    each = ", ".join(
        f"the {name} {value:.0%}" + ("" if paper is None else f" ({paper:.0%})")
        for name, value, paper in parts
    )
    return f"What decides a score? Of its variance (the paper's in brackets) {each}."


def _chances(chances: Finding) -> str:
    """How often a setting that one seed chose beats a random model."""
    each = [
        f"{name} {one.value:.0%}{_interval(one)} ({one.paper:.0%})"
        for name in (SAME, OTHER_DATA, OTHER_BOTH)
        for one in [chances.estimate(name)]
    ]
    return f"Does a good setting stay good? It beats a random model: {'; '.join(each)}."


def _interval(one: Estimate) -> str:
    """As words, where there are seeds enough for one."""
    return "" if math.isnan(one.low) else f" [{one.low:.0%} to {one.high:.0%}]"
