# SPDX-License-Identifier: Apache-2.0
"""Which metrics a request means: names, and groups of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from unbraid.errors import Problems, unknown
from unbraid.metrics import METRICS

USUAL = ("beta_vae_score", "factor_vae_score", "mig", "dci", "sap", "modularity")
"""The six of Locatello et al. (2019), which most papers report; without factors, the unsupervised ones take their place."""
FAMILIES = ("supervised", "unsupervised", "usefulness")
GROUPS = ("usual", *FAMILIES, "all")
WITHOUT_FACTORS = ("codes", "posterior", "elbo", "population")
"""Kinds of metric that look at no factors."""


def needs(name: str) -> str:
    """What metric *name* has to be given."""
    return METRICS.load(name).needs


def metric_names(wanted: Sequence[str], problems: Problems, *, labelled: bool, possible: Sequence[str] | None = None) -> list[str]:
    """The metrics that *wanted* means, each once, groups spelled out; what is unknown or needs factors goes to *problems*.

    Where there are no factors, or *possible* kinds of metric are given, groups mean those metrics that can be computed.
    """
    kinds = possible if possible is not None else None if labelled else WITHOUT_FACTORS
    names = [name for word in wanted for name in (_members(word, kinds) if word in GROUPS else [word])]
    names = list(dict.fromkeys(names))
    if not wanted:
        problems.add("metrics", "needs at least one name", list(wanted), f"Known: {', '.join(known_words())}.")
    elif not names:
        words = ", ".join(wanted)
        problems.say(f"without factors there is nothing to compute in '{words}'. Give factors, or ask for unsupervised metrics.")
    for name in names:
        if name not in METRICS:
            problems.say(unknown("metric", name, known_words()))
    return names


def known_words() -> list[str]:
    """Every word that can be asked for."""
    return [*GROUPS, *sorted(METRICS)]


def blind(names: Sequence[str]) -> list[str]:
    """Those of *names* that are known and cannot do without factors."""
    return [name for name in names if name in METRICS and needs(name) not in WITHOUT_FACTORS]


def _members(group: str, kinds: Sequence[str] | None) -> list[str]:
    if group == "usual" and kinds is not None and not any(needs(name) in kinds for name in USUAL):
        group = "unsupervised"
    functions: dict[str, Any] = {name: METRICS.load(name) for name in (USUAL if group == "usual" else sorted(METRICS))}
    return [
        name
        for name, metric in functions.items()
        if (group not in FAMILIES or metric.family == group) and (kinds is None or metric.needs in kinds)
    ]
