# SPDX-License-Identifier: Apache-2.0
"""What a metric function says about itself: its label, its paper, its result and what it has to be given.

`needs` tells a caller that scores many metrics what to pass:

- `sample`: `(codes, factors)`;
- `split`: `(codes, factors, test_codes, test_factors)`;
- `grid`: `(codes, grid)`, codes of a whole factor grid, or of any rows with their factor values in place of the grid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal, Protocol, TypeVar

from unbraid.errors import InputError, Shown, problem
from unbraid.registry import Citation

Needs = Literal["sample", "split", "grid"]
Function = TypeVar("Function", bound=Callable[..., object])


class Result(Protocol):
    """What every metric returns: a frozen dataclass with a score, its range and its direction, and the evidence."""

    range: ClassVar[tuple[float, float]]
    higher_is_better: ClassVar[bool]

    @property
    def score(self) -> float:
        """The one number of the metric."""
        ...


def describe(
    *, label: str, needs: Needs, citation: Citation, result: type[Result], compares_factors: bool = False
) -> Callable[[Function], Function]:
    """Put `label`, `needs`, `citation` and `result` (the class returned) on a metric function as attributes.

    *compares_factors* says that the metric asks which of the factors a latent knows: with a single one everything is perfect.
    """
    for needed in ("range", "higher_is_better"):
        if not hasattr(result, needed):
            raise InputError(problem(f"result {result.__name__}", f"must have the class variable {needed}", Shown("none")))

    def attach(function: Function) -> Function:
        about = {"label": label, "needs": needs, "citation": citation, "result": result, "compares_factors": compares_factors}
        function.__dict__.update(about)
        return function

    return attach
