# SPDX-License-Identifier: Apache-2.0
"""Claims and numbers of a study in words, for its page and its document."""

from __future__ import annotations

import math
from collections.abc import Iterable

from unbraid.core.words import count
from unbraid.studies.claim import VERDICTS, Claim, Rule, Source
from unbraid.studies.finding import Estimate
from unbraid.studies.results import Results, check_scale
from unbraid.studies.verdicts import Judged, run_command

SOURCES: dict[Source, str] = {
    "text": "printed in the text",
    "plot": "read off a plot",
    "extended": "from the extended version",
    "code": "from the authors' code",
    "memory": "from memory of the published version",
    "inferred": "inferred",
}
"""Whence the paper's numbers."""
SCALES: dict[str, str] = {
    "small": "small, a test of the machinery: its verdicts say nothing about the paper",
    "gpu": "gpu, a reduced study",
    "paper": "paper, all that the paper trained",
}
HOW_JUDGED = (
    "A claim is reproduced where the whole interval of every statistic lies on the side of its"
    " threshold that the claim demands, not reproduced where one interval lies wholly on the other"
    " side, and undecided in all other cases. Rules were written before the models were trained."
)
_LEAST = 1e-6


def number_shown(value: float, digits: int = 3) -> str:
    """A number with so many digits; a stroke where there is none, a bound where it is rounding.

    >>> [number_shown(one) for one in (0.12345, -2.0, 12600.0, 3e-10, float("nan"))]
    ['0.123', '−2', '12,600', '<1e−06', '–']
    """
    if not math.isfinite(value):
        return "–"
    if 0 < abs(value) < _LEAST:
        text = f"<{_LEAST:g}" if value > 0 else f">-{_LEAST:g}"
    else:
        text = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.{digits}g}"
    return text.replace("-", "−")


def estimate_shown(estimate: Estimate) -> str:
    """A number with its interval, where it has one.

    >>> estimate_shown(Estimate("rho", 0.7, 0.61, 0.8, 36))
    '0.7 [0.61, 0.8]'
    >>> estimate_shown(Estimate("share", 1.0, 0.99985, 1.0, 25_000))
    '1 [0.9999, 1]'
    >>> estimate_shown(Estimate("rho", 0.7, float("nan"), float("nan"), 1))
    '0.7 [no interval]'
    """
    value = number_shown(estimate.value)
    if math.isnan(estimate.low) or math.isnan(estimate.high):
        return f"{value} [no interval]"
    if estimate.low == estimate.high:
        return value
    for digits in range(3, 7):
        low, high = number_shown(estimate.low, digits), number_shown(estimate.high, digits)
        if low != high:
            break
    return f"{value} [{low}, {high}]"


def must_be(rule: Rule) -> str:
    """What a statistic must be.

    >>> must_be(Rule("rho", "above", 0.5, "95%"))
    'above 0.5'
    """
    return f"{rule.side} {number_shown(rule.threshold)}"


def tally(judged: Iterable[Judged]) -> dict[str, int]:
    """How many claims have each verdict."""
    found = [one.verdict for one in judged]
    return {verdict: found.count(verdict) for verdict in VERDICTS}


def tally_sentence(judged: Iterable[Judged]) -> str:
    """The verdicts in one sentence."""
    counts = tally(judged)
    told = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    return f"{count(sum(counts.values()), 'claim')}: {told}."


def command(results: Results, claim: Claim | None = None) -> str:
    """What makes the tables of a study, or those of one claim; what judges one without models."""
    if claim is not None and not claim.pools:
        words = f"unbraid study check {results.study.name} --scale {results.scale}"
        return words + results.place_given
    scale = check_scale((claim.scale if claim is not None else "") or results.scale)
    there = {pool.name for pool in results.study.pools(scale, results.first_seed)}
    pools = [name for name in claim.pools if name in there] if claim is not None else []
    return run_command(results, scale, pools)
