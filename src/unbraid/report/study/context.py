# SPDX-License-Identifier: Apache-2.0
"""The page of a study: every claim with paper, ours and verdict, failures as plain as successes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.report.page import write_page
from unbraid.report.study import words
from unbraid.report.study.figures import NARROW, draw
from unbraid.report.study.provenance import provenance
from unbraid.studies.claim import Rule, Verdict
from unbraid.studies.finding import Estimate, Exhibit, Finding
from unbraid.studies.results import Results
from unbraid.studies.verdicts import Judged, judge

if TYPE_CHECKING:
    import pandas as pd
    from markupsafe import Markup


def write_study(path: Path, results: Results) -> Path:
    """Write the page of a study's results to *path* and return it."""
    table = results.table()
    return write_page(path, "study", page_context(results, table, judge(results, table)))


def page_context(results: Results, table: pd.DataFrame, judged: Sequence[Judged]) -> dict[str, Any]:
    """Everything the template shows."""
    study, made = results.study, provenance(results, table)
    lead = study.answer(table) if study.answer else None
    return {
        "answer": _marked(lead.remark) if lead else "",
        "answer_figure": _exhibit(lead.exhibit) if lead and lead.exhibit else None,
        "title": f"{study.citation.authors} {study.citation.year}: {study.title}",
        "citation": str(study.citation),
        "summary": words.tally_sentence(judged),
        "facts": [("Scale", words.SCALES[results.scale]), *made.facts],
        "how_judged": words.HOW_JUDGED,
        "claims": [claim_context(results, one) for one in judged],
        "pools": made.pools,
        "versions": made.versions,
        "command": words.command(results),
    }


def claim_context(results: Results, one: Judged) -> dict[str, Any]:
    """What the section of a claim shows."""
    claim, finding = one.claim, one.finding
    return {
        "id": claim.id,
        "statement": _marked(claim.statement),
        "place": claim.place,
        "paper": _marked(claim.paper),
        "source": words.SOURCES[claim.source],
        "measured": _marked(claim.measured),
        "departs": _marked(claim.departs),
        "remark": _marked(finding.remark) if finding else "",
        "why": _marked(one.why),
        "verdict": one.verdict,
        "rules": [
            {
                "statistic": rule.statistic,
                "must_be": words.must_be(rule),
                "interval": rule.interval,
                "verdict": own.verdict(rule),
                "own": own,
            }
            for rule in claim.rules
            for own in [numbers(finding, rule.statistic)]
        ],
        "further": [{"statistic": each.name, "own": Numbers(each)} for each in further(one)],
        "exhibit": _exhibit(finding.exhibit) if finding and finding.exhibit else None,
        "command": words.command(results, claim),
    }


def further(one: Judged) -> list[Estimate]:
    """The numbers of a finding that no rule asks for."""
    ruled = {rule.statistic for rule in one.claim.rules}
    found = one.finding or Finding(())
    return [each for each in found.estimates if each.name not in ruled]


@dataclass(frozen=True)
class Numbers:
    """A statistic as cells of a table, strokes where there is none."""

    estimate: Estimate | None

    @property
    def ours(self) -> str:
        """Our number with its interval."""
        return words.estimate_shown(self.estimate) if self.estimate else "–"

    @property
    def paper(self) -> str:
        """The paper's number."""
        given = self.estimate.paper if self.estimate else None
        return "–" if given is None else words.number_shown(given)

    @property
    def count(self) -> str:
        """Of how many models, or other units."""
        return f"{self.estimate.count:,}" if self.estimate else "–"

    def verdict(self, rule: Rule) -> Verdict:
        """What *rule* says of it."""
        return rule.verdict(self.estimate) if self.estimate else "not run"


def numbers(finding: Finding | None, statistic: str) -> Numbers:
    """A statistic of *finding*, if there is one."""
    return Numbers(finding.estimate(statistic) if finding else None)


def _exhibit(exhibit: Exhibit) -> dict[str, Any]:
    """The figure for a page and for a phone; both are escaped where they are drawn."""
    from markupsafe import Markup

    return {
        "wide": Markup(draw(exhibit)),
        "narrow": Markup(draw(exhibit, NARROW)),
        "caption": exhibit.caption,
    }


def _marked(text: str) -> Markup:
    """*text* with what stands in backticks as code, all else escaped.

    >>> str(_marked("a < `b`"))
    'a &lt; <code>b</code>'
    """
    from markupsafe import Markup, escape

    parts = text.split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if place % 2 else escape(part)
        for place, part in enumerate(parts)
    )
