# SPDX-License-Identifier: Apache-2.0
"""The search space: how a hyperparameter is drawn at the start and where it may move.

After Jaderberg et al. (2017), section 3.

Spelled as people write them, in Python and on the command line alike:

    1e-4..3e-3       drawn log-uniformly between the two and free to move between them
    32,64,128        drawn from the list; after a move the nearest of the list by ratio, and of two
                     equally near the other one
    0.001            fixed: not evolved
    published        learning rate, batch size or beta as in Estermann et al. (2020)

Whole numbers (batch sizes, and fields that say so) stay whole, rounded up as in the authors' code.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from unbraid.core.checks import is_finite, plain
from unbraid.core.errors import Shown, invalid
from unbraid.core.records import from_record
from unbraid.core.spelling import as_number

PUBLISHED_BETAS = (
    *(1, 2, 3, 4, 5, 6, 8, 10, 13, 17, 22, 28, 37),
    *(47, 60, 77, 99, 127, 163, 208, 267, 342, 437),
)
PUBLISHED_RATES = tuple(float(rate) for rate in np.logspace(-5, 0, 30))
PUBLISHED_BATCHES = tuple(2**power for power in range(3, 11))
LARGEST_PUBLISHED_BATCH = 1024
_ROUNDING = 1e-9
"""By what share a product of decimal fractions may miss the whole number it means: 50 times 1.1 is
55.00000000000001 here.
"""


@dataclass(frozen=True)
class SearchDimension:
    """One hyperparameter that evolves."""

    low: float
    high: float
    """Where it may move; infinite for no limit."""
    listed: tuple[float, ...] = ()
    """What it is drawn from at the start; without a list, log-uniformly from low to high."""
    keeps_to_list: bool = False
    """After a move the nearest listed value is taken."""
    whole: bool = False

    def draw(self, chance: float) -> float:
        """The value at the start for *chance* in [0, 1)."""
        if self.listed:
            return self._kept(self.listed[int(chance * len(self.listed))])
        return self._kept(self.low * (self.high / self.low) ** chance)

    def move(self, value: float, factor: float) -> float:
        """*value* times *factor*, within the bounds."""
        moved = value * factor
        if self.keeps_to_list:
            # Halfway between two, a move leaves where it was: taking always the lower of the two
            # could only ever fall.
            moved = min(
                self.listed, key=lambda one: (round(abs(math.log(one / moved)), 9), one == value)
            )
        return self._kept(moved)

    def _kept(self, value: float) -> float:
        value = min(max(value, self.low), self.high)
        if not self.whole:
            return float(value)
        return max(math.ceil(value - _ROUNDING * value), math.ceil(self.low))

    def record(self) -> dict[str, Any]:
        """As JSON values; no limit is None."""
        ends = {"low": self.low, "high": None if math.isinf(self.high) else self.high}
        return {
            **ends,
            "listed": list(self.listed),
            "keeps_to_list": self.keeps_to_list,
            "whole": self.whole,
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any], name: str = "") -> SearchDimension:
        """The inverse of `record`, which is called *name* in a larger one."""
        unbounded = {} if record.get("high", 0) is not None else {"high": math.inf}
        found = from_record(cls, record, name, **unbounded)
        least = found.listed[0] if found.listed else found.low
        if not (0 <= found.low <= found.high and least > 0 and min(found.listed, default=1) > 0):
            raise invalid(name, "must be a range above 0, the lower end first", dict(record))
        if found.keeps_to_list and not found.listed:
            raise invalid(name, "must list what it keeps to", dict(record))
        return found


_PUBLISHED = {
    "learning_rate": SearchDimension(0.0, math.inf, PUBLISHED_RATES),
    "batch_size": SearchDimension(2, LARGEST_PUBLISHED_BATCH, PUBLISHED_BATCHES, whole=True),
    "beta": SearchDimension(1, math.inf, PUBLISHED_BETAS, whole=True),
}


def read_dimension(name: str, given: Any, *, whole: bool = False) -> SearchDimension | None:
    """How the hyperparameter *name* evolves; None where *given* is one value, which stays."""
    if isinstance(given, SearchDimension):
        return given
    given = plain(given)
    if given == "published":
        if name not in _PUBLISHED:
            raise invalid(name, "has no published range", given, "Write it as in 1..60.")
        return _PUBLISHED[name]
    if isinstance(given, str) and ".." in given:
        ends = [as_number(part.strip()) for part in given.split("..")]
        if len(ends) != 2 or not all(_is_positive(end) for end in ends) or ends[0] >= ends[1]:
            raise invalid(
                name, "must be two numbers above 0, the smaller first, as in 1e-4..3e-3", given
            )
        _check_whole(name, ends, whole)
        return SearchDimension(ends[0], ends[1], whole=whole)
    values = _listed(given)
    if values is not None:
        if not values or not all(_is_positive(value) for value in values):
            raise invalid(name, "must be a list of numbers above 0 to evolve", Shown(str(values)))
        _check_whole(name, values, whole)
        if len(set(values)) == 1:
            return None
        listed = tuple(sorted(set(values)))
        return SearchDimension(listed[0], listed[-1], listed, keeps_to_list=True, whole=whole)
    return None


def fixed_value(given: Any) -> Any:
    """The single value of a hyperparameter that does not evolve."""
    given = plain(given)
    values = _listed(given)
    if values and all(value == values[0] for value in values):
        return values[0]
    return as_number(given) if isinstance(given, str) else given


def _listed(given: Any) -> list[Any] | None:
    """The values of a list, or of text with commas that is no schedule; None for anything else."""
    if isinstance(given, str) and "," in given and "(" not in given:
        return [as_number(part.strip()) for part in given.split(",") if part.strip()]
    return [plain(value) for value in given] if isinstance(given, (list, tuple)) else None


def _is_positive(value: Any) -> bool:
    return is_finite(value) and value > 0


def _check_whole(name: str, values: list[Any] | tuple[Any, ...], whole: bool) -> None:
    if whole and not all(float(value).is_integer() for value in values):
        raise invalid(name, "must be whole numbers", Shown(", ".join(map(str, values))))
