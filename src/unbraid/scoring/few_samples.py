# SPDX-License-Identifier: Apache-2.0
"""Scores of too few samples: which they are, and what is said of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from unbraid.metrics import METRICS
from unbraid.scoring.metric_names import base, options


def few_samples(
    names: Iterable[str], rows: int, latents: int, factors: NDArray | None
) -> dict[str, int]:
    """The least number of samples of each metric that needs more than *rows*."""
    found = {}
    for name in names:
        rule = getattr(METRICS.load(base(name)), "least_samples", None)
        least = 0 if rule is None else rule(_sizes(factors), latents, options(name))
        if rows < least:
            found[name] = least
    return found


def few_samples_remark(few: Mapping[str, int], rows: int, factors: NDArray | None) -> str:
    """What is said of scores by metrics that need more samples than there are."""
    sizes = _sizes(factors)
    told = f" of factors with {', '.join(map(str, sizes))} values" if sizes else ""
    needs = ", ".join(f"{name} {least:,}" for name, least in few.items())
    return (
        f"Too few samples: {rows:,} rows{told}. These metrics need at least: {needs}. Below that"
        " noise can score well; give more samples before you compare such scores."
    )


def _sizes(factors: NDArray | None) -> list[int]:
    """How many values each factor takes, those with one left out."""
    if factors is None:
        return []
    return [size for column in factors.T if (size := len(np.unique(column))) > 1]
