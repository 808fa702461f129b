# SPDX-License-Identifier: Apache-2.0
"""A claim of a paper, and the rule of its verdict, which is written before its data are made.

A study's claims.toml holds one table a claim:

    [[claim]]
    id = "LOC-K2"
    place = "slide 46, figure 2"
    statement = "MIG and DCI rank models alike."
    paper = "strongly correlated"
    source = "text"
    measured = "Spearman correlation of MIG and DCI over all models"
    pools = ["main"]
    data = ["noisy_dsprites"]

    [[claim.rule]]
    statistic = "mig with dci"
    side = "above"
    threshold = 0.5
    interval = "95%, bootstrap over models"
"""

from __future__ import annotations

import tomllib
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_args

from unbraid.core.errors import Problems, invalid
from unbraid.studies.finding import Estimate, Finding
from unbraid.studies.pool import Scale

Source = Literal["text", "plot", "extended", "code", "memory", "inferred"]
"""Whence the paper's numbers: text, a plot read by eye, the extended version, the authors' code,
memory of the published version, or inference.
"""
Side = Literal["above", "below"]
Verdict = Literal["reproduced", "not reproduced", "undecided", "not run"]
VERDICTS: tuple[Verdict, ...] = get_args(Verdict)


@dataclass(frozen=True)
class Rule:
    """One thing that must hold: a statistic lies on one side of a threshold."""

    statistic: str
    """The name of an estimate in the claim's finding."""
    side: Side
    threshold: float
    interval: str
    """How the estimate's interval is made, in words."""

    def verdict(self, estimate: Estimate) -> Verdict:
        """What *estimate* says: clear only where its whole interval lies on one side.

        >>> Rule("rho", "above", 0.5, "95%").verdict(Estimate("rho", 0.7, 0.6, 0.8, 36))
        'reproduced'
        """
        low, high = estimate.low - self.threshold, estimate.high - self.threshold
        if self.side == "below":
            low, high = -high, -low
        if low > 0:
            return "reproduced"
        return "not reproduced" if high < 0 else "undecided"  # NaN: undecided


@dataclass(frozen=True)
class Claim:
    """What a paper says, where, and what would show it."""

    id: str
    place: str
    statement: str
    paper: str
    """The paper's numbers, or its words where it prints none."""
    source: Source
    measured: str
    rules: tuple[Rule, ...]
    pools: tuple[str, ...] = ()
    """Whose models are measured; none where nothing is trained."""
    data: tuple[str, ...] = ()
    """On which data; those without tables here are named in the verdict."""
    departs: str = ""
    """How what is measured differs from what the paper did."""
    beside: tuple[str, ...] = ()
    """Studies whose tables its analysis reads beside its own pools."""
    scale: Scale | Literal[""] = ""
    """The only one whose models can speak of it, where it is not all."""

    def verdict(self, finding: Finding | None) -> Verdict:
        """Reproduced where all rules hold, not reproduced where one clearly fails."""
        if finding is None:
            return "not run"
        each = [rule.verdict(finding.estimate(rule.statistic)) for rule in self.rules]
        if "not reproduced" in each:
            return "not reproduced"
        return "undecided" if "undecided" in each else "reproduced"


def read_claims(path: Path) -> tuple[Claim, ...]:
    """The claims in *path*, a claims.toml; every mistake in it is told at once."""
    try:
        with path.open("rb") as file:
            rows = tomllib.load(file).get("claim", [])
    except tomllib.TOMLDecodeError as error:
        raise invalid(str(path), "must be TOML", str(error)) from error
    problems, claims = Problems(), []
    for number, row in enumerate(rows):
        name = f"claim {row.get('id', number)} of {path}"
        rules = [_made(Rule, rule, f"a rule of {name}", problems) for rule in row.pop("rule", [])]
        claim = _made(Claim, row | {"rules": tuple(rules)}, name, problems)
        if claim is not None and claim.id in [one.id for one in claims if one]:
            problems.add(name, "must have an id of its own", claim.id)
        if not rules:
            problems.add(name, "must have at least one [[claim.rule]]", 0)
        claims.append(claim)
    problems.raise_if_any()
    return tuple(one for one in claims if one is not None)


def _made(cls: type, row: dict[str, Any], name: str, problems: Problems) -> Any:
    """One of *cls* with the fields of *row*, or None and what is wrong with it in *problems*."""
    known = {item.name: item for item in fields(cls)}
    wrong = len(problems.found)
    for key in row.keys() - known.keys():
        problems.add(name, f"must have no '{key}'", row[key], f"Known: {', '.join(known)}.")
    missing = [key for key, item in known.items() if item.default is MISSING and key not in row]
    if missing:
        problems.add(name, f"must have {', '.join(missing)}", ", ".join(row))
    chosen = {"source": get_args(Source), "side": get_args(Side), "scale": get_args(Scale)}
    for key, choices in chosen.items():
        if key in row and row[key] not in choices:
            problems.add(f"{key} of {name}", f"must be one of {', '.join(choices)}", row[key])
    if len(problems.found) > wrong:
        return None
    return cls(**{key: tuple(value) if isinstance(value, list) else value
                  for key, value in row.items()})  # fmt: skip
