# SPDX-License-Identifier: Apache-2.0
"""How a metric's standard error over samples is found: what `describe` is told of it.

`scoring/standard_errors.py` computes it and says why so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

STANDARD_ERROR = "standard_error"
"""The quantity under which a table of scores keeps it."""
Cost = Literal["cheap", "dear"]


@dataclass(frozen=True)
class FromInformation:
    """A metric that is a function of information by counting, which chance raises."""

    count: Callable[..., Any]
    """What the metric is called with and `bins`: `Information`."""
    score: Callable[..., Any]
    """`(information)` and the metric's other options: its result."""


@dataclass(frozen=True)
class Resampled:
    """The standard error of a score from its scores of parts of the samples."""

    cost: Cost = "dear"
    """Cheap ones come with the score, dear ones on request."""
    replicates: int = 16
    with_replacement: bool = False
    """As many rows as there are, some of them twice, instead of half of them once."""
    decided_by_fitting: str = ""
    """The option with which rows for fitting alone decide the score, and not those for testing."""
    quick: Mapping[str, Any] = field(default_factory=dict)
    """Options that spare work which the score does not need."""
    information: FromInformation | None = None
    sum_of_squares: bool = False
    """Whether the score adds squared correlations of all pairs of latents, which chance raises."""


ON_REQUEST = Resampled()
