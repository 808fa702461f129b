# SPDX-License-Identifier: Apache-2.0
"""Which metrics a request means: names, with options as in `infomec:pruning=tripod`, and groups."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from unbraid.core.errors import Problem, Problems, invalid, unknown
from unbraid.core.spelling import as_named, split_names
from unbraid.metrics import METRICS
from unbraid.metrics._describe import OnGpu
from unbraid.metrics._resampled import Resampled

USUAL = ("beta_vae_score", "factor_vae_score", "mig", "dci", "sap", "modularity")
"""The six of Locatello et al. (2019), which most papers report; where there are no factors, the
unsupervised ones take their place.
"""
FAMILIES = ("supervised", "unsupervised", "usefulness")
GROUPS = ("usual", *FAMILIES, "all")
WITHOUT_FACTORS = ("codes", "posterior", "elbo", "population")
"""Kinds of metric that look at no factors."""


def base(name: str) -> str:
    """The metric that *name* means, its options left off."""
    return name.partition(":")[0]


def options(name: str) -> dict[str, Any]:
    """The options in *name*, as values.

    >>> options("infomec:pruning=tripod,neighbours=5"), options("mig")
    ({'pruning': 'tripod', 'neighbours': 5}, {})
    """
    return as_named(name)[1]


def metric(name: str) -> Callable[..., Any]:
    """The function that *name* means, its options set."""
    return functools.partial(METRICS.load(base(name)), **options(name))


def needs(name: str) -> str:
    """What metric *name* has to be given."""
    return METRICS.load(base(name)).needs


def revision(name: str) -> int:
    """Which of its definitions a metric computes today, with its options."""
    described = METRICS.load(base(name))
    changed = described.revision_with
    return max([described.revision, *(changed[key] for key in options(name) if key in changed)])


def resampled(name: str) -> Resampled | None:
    """How the standard error of metric *name* is found, if it has one."""
    return METRICS.load(base(name)).error


def is_cheap(name: str) -> bool:
    """Whether metric *name* takes so little time that its standard error comes with it."""
    how = resampled(name)
    return how is not None and how.cost == "cheap"


def on_gpu(name: str) -> OnGpu | None:
    """How a GPU helps to compute *name* for many members, if it does with its options."""
    found: OnGpu | None = getattr(METRICS.load(base(name)), "on_gpu", None)
    given = options(name)
    if found is None or not set(given) <= set(inspect.signature(found.part).parameters):
        return None
    rest = found.rest and functools.partial(found.rest, **given)
    return OnGpu(functools.partial(found.part, **given), rest)


def higher_is_better(name: str) -> bool:
    """Whether a higher score of *name* is the better one."""
    return METRICS.load(base(name)).result.higher_is_better


def metric_names(
    wanted: Sequence[str],
    problems: Problems,
    *,
    labelled: bool,
    possible: Sequence[str] | None = None,
    option: str = "metrics",
) -> list[str]:
    """The metrics that *wanted*, given as *option*, means, each once; what is unknown goes to
    *problems*.

    A group means all its metrics, or where there are no factors, or *possible* kinds of metric are
    given, those that can be computed.
    """
    kinds = possible if possible is not None else None if labelled else WITHOUT_FACTORS
    names = [
        name for word in wanted for name in (_members(word, kinds) if word in GROUPS else [word])
    ]
    names = list(dict.fromkeys(names))
    if not wanted:
        known = f"Known: {', '.join(known_words())}."
        problems.add(option, "needs at least one name", [], known)
    elif not names:
        sentence = f"without factors there is nothing to compute in '{', '.join(wanted)}'."
        remedy = f"Give factors, or ask for {{{option}=unsupervised}}."
        rule = "must be possible without factors"
        problems.say(Problem(option, rule, list(wanted), remedy, sentence))
    for name in names:
        if base(name) not in METRICS:
            problems.say(unknown("metric", base(name), known_words()))
            continue
        parameters = inspect.signature(METRICS.load(base(name))).parameters
        known = [key for key, item in parameters.items() if item.default is not item.empty]
        given = problems.collect(functools.partial(options, name)) or {}
        for key, value in given.items():
            if key not in known:
                problems.say(unknown(f"option of {base(name)}", key, known))
            elif isinstance(value, list) and not isinstance(parameters[key].default, tuple):
                problems.add(f"{base(name)}: {key}", "must be a single value", value)
    return names


def left_out(wanted: Sequence[str], names: Sequence[str]) -> list[str]:
    """Metrics of the groups in *wanted* that cannot be computed and so are not among *names*."""
    whole = [name for word in wanted if word in GROUPS for name in _members(word, None)]
    return [name for name in dict.fromkeys(whole) if name not in names]


def asked(metrics: str | Sequence[str]) -> list[str]:
    """The names in *metrics*, a list or words with commas."""
    if isinstance(metrics, str):
        return split_names(metrics, known_words())
    if not isinstance(metrics, Sequence) or not all(isinstance(one, str) for one in metrics):
        remedy = "For example {metrics=mig,dci}."
        raise invalid("metrics", "must be names, in a list or with commas", metrics, remedy)
    return list(metrics)


def known_words() -> list[str]:
    """Every word that can be asked for."""
    return [*GROUPS, *sorted(METRICS)]


def needing_factors(names: Iterable[str]) -> list[str]:
    """Those of *names* that are known and cannot do without factors."""
    return [name for name in names if base(name) in METRICS and needs(name) not in WITHOUT_FACTORS]


def _members(group: str, kinds: Sequence[str] | None) -> list[str]:
    if group == "usual" and kinds is not None and not any(needs(name) in kinds for name in USUAL):
        group = "unsupervised"
    functions: dict[str, Any] = {
        name: METRICS.load(name) for name in (USUAL if group == "usual" else sorted(METRICS))
    }
    return [
        name
        for name, function in functions.items()
        if (group not in FAMILIES or function.family == group)
        and (kinds is None or function.needs in kinds)
    ]
