# SPDX-License-Identifier: Apache-2.0
"""What the models of a study say about a claim: numbers with intervals, and one exhibit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import pandas as pd

Form = Literal["matrix", "lines", "points", "violins", "bars", "images"]


@dataclass(frozen=True)
class Estimate:
    """One statistic with its 95% interval."""

    name: str
    value: float
    low: float
    high: float
    count: int
    """Of how many models (or other units) it was computed."""
    paper: float | None = None
    """The paper's number, where it prints one."""


@dataclass(frozen=True)
class Exhibit:
    """A figure as data, in the form the paper gave it; pages and documents draw it.

    *table* has, for a matrix, a row and a column for each of its own and numbers in its cells; for
    images the same with pictures in them: uint8 `(height, width)` or with channels behind, or
    densities `(height, width)`, None for no picture; for every other form columns `x`, `y` and
    `group`, and where there are intervals `low` and `high`. Groups `a, b` and `a, c` share a
    colour; one called `paper` is grey, and among points a line.
    """

    form: Form
    table: pd.DataFrame
    x: str
    """What is along the first axis, with its unit."""
    y: str
    caption: str
    """What is to be seen, in one sentence."""
    logarithmic: tuple[str, ...] = ()
    """Which of the axes x, y are."""
    paper: pd.DataFrame | None = None
    """Of a matrix, the paper's numbers in the same form; NaN where it prints none."""


@dataclass(frozen=True)
class Finding:
    """What an analysis found in a table of models."""

    estimates: tuple[Estimate, ...]
    exhibit: Exhibit | None = None
    remark: str = ""
    """What a reader must know so as not to be misled: few seeds, a stand-in, models left out."""

    def estimate(self, name: str) -> Estimate:
        """The statistic *name*."""
        found = [one for one in self.estimates if one.name == name]
        if not found:
            known = ", ".join(one.name for one in self.estimates)
            raise KeyError(f"no statistic '{name}' in a finding with: {known}")
        return found[0]
