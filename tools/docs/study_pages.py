# SPDX-License-Identifier: Apache-2.0
"""A page for each study with its claims, verdicts and figures, from its committed tables."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from tools.docs import DocsError
from tools.docs.tables import cell, paper, table
from tools.docs.templates import render
from unbraid.core.errors import UnbraidError
from unbraid.core.words import count
from unbraid.report.study import words
from unbraid.report.study.context import Numbers, further, numbers
from unbraid.report.study.figures import draw
from unbraid.report.study.provenance import provenance
from unbraid.studies import STUDIES
from unbraid.studies.finding import Finding
from unbraid.studies.results import Results
from unbraid.studies.verdicts import Judged, judge

if TYPE_CHECKING:
    import pandas as pd

SCALE = "gpu"
"""Whose tables are committed."""
FOLDER = Path("docs/studies")


def names() -> list[str]:
    """The studies in the order of their table."""
    return list(STUDIES.built_in)


@cache
def found(name: str) -> tuple[Results, pd.DataFrame, tuple[Judged, ...]]:
    """What the tables of a study say, computed once."""
    try:
        results = Results(STUDIES.load(name), SCALE)
        models = results.table()
        return results, models, judge(results, models)
    except UnbraidError as error:
        raise DocsError(f"the tables of study {name} cannot be shown: {error}") from error


def files() -> dict[Path, str]:
    """Pages and figures of all studies by their place in the repository."""
    made: dict[Path, str] = {}
    for name in names():
        results, models, judged = found(name)
        lead = results.study.answer(models) if results.study.answer else None
        made[FOLDER / f"{name}.md"] = page(results, models, judged, lead)
        if lead and lead.exhibit:
            made[FOLDER / name / "answer.svg"] = draw(lead.exhibit)
        for one in judged:
            if one.finding and one.finding.exhibit:
                made[FOLDER / name / f"{one.claim.id}.svg"] = draw(one.finding.exhibit)
    return made


def page(
    results: Results, models: pd.DataFrame, judged: tuple[Judged, ...], lead: Finding | None
) -> str:
    """The whole page of a study."""
    study, made = results.study, provenance(results, models)
    return render(
        "study",
        answer=lead,
        study=study,
        outcome=(study.folder / "OUTCOME.md").is_file(),
        paper=paper(study),
        summary=words.tally_sentence(judged),
        facts=table("what | here", [("Scale", words.SCALES[results.scale]), *made.facts]),
        versions=made.versions,
        how_judged=words.HOW_JUDGED,
        overview=table(
            "claim | verdict | what the paper says",
            (
                (
                    f"[{one.claim.id}](#{one.claim.id.lower()})",
                    one.verdict,
                    cell(one.claim.statement),
                )
                for one in judged
            ),
        ),
        claims=[_claim(results, one) for one in judged],
        command=words.command(results),
    )


def _claim(results: Results, one: Judged) -> dict[str, object]:
    claim, finding = one.claim, one.finding
    rest = further(one)
    shown = {
        "The paper": f"{claim.paper} ({words.SOURCES[claim.source]})",
        "Measured here": claim.measured,
        "What departs": claim.departs,
        "To keep in mind": f"{finding.remark} {one.why}".strip() if finding else "",
    }
    return {
        "claim": claim,
        "judged": one,
        "sides": {name: text for name, text in shown.items() if text},
        "rules": table(
            "statistic | paper | ours [95% interval] | must be | verdict | n | interval",
            (
                (
                    cell(rule.statistic),
                    own.paper,
                    own.ours,
                    words.must_be(rule),
                    own.verdict(rule),
                    own.count,
                    cell(rule.interval),
                )
                for rule in claim.rules
                for own in [numbers(finding, rule.statistic)]
            ),
        ),
        "exhibit": finding.exhibit if finding else None,
        "more": count(len(rest), "further number"),
        "further": table(
            "statistic | paper | ours [95% interval] | n",
            (
                (cell(each.name), own.paper, own.ours, own.count)
                for each in rest
                for own in [Numbers(each)]
            ),
        )
        if rest
        else "",
        "command": words.command(results, claim),
    }


def reproductions() -> str:
    """How many claims of each paper have each verdict."""
    rows: list[tuple[object, ...]] = []
    for name in names():
        results, _, judged = found(name)
        link = f"[{paper(results.study)}]({FOLDER}/{name}.md), {cell(results.study.title)}"
        rows.append((link, len(judged), *words.tally(judged).values()))
    return table("study | claims | reproduced | not | undecided | not run", rows)


def overview() -> str:
    """One row per study."""
    return table(
        "study | paper | what it is about",
        (
            (f"[`{name}`]({name}.md)", paper(study), cell(study.title))
            for name in names()
            for study in [STUDIES.load(name)]
        ),
    )
