# SPDX-License-Identifier: Apache-2.0
"""A study: a paper as a folder anybody can rerun.

The folder of its module holds claims.toml (what the paper says, and the rule of each verdict),
pools.py (what is trained), analysis.py (from a table of models to findings), README.md, and
results/<scale>/ with a table for each slice; once it is whole, OUTCOME.md says what came out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from unbraid.core.registry import Citation
from unbraid.studies.claim import Claim, read_claims
from unbraid.studies.finding import Finding
from unbraid.studies.pool import Pool, Scale

if TYPE_CHECKING:
    import pandas as pd

Analysis = Callable[["pd.DataFrame"], Finding | None]
"""From the table of a study's models to what it says of one claim; None where the models it needs
are not in the table.
"""


@dataclass(frozen=True)
class Study:
    """A paper, its claims, what is trained for them and how it is analysed."""

    name: str
    title: str
    """What it is about, in a few words."""
    citation: Citation
    folder: Path
    pools: Callable[[Scale, int], tuple[Pool, ...]]
    """The pools at a scale, with seeds from a number on."""
    analyses: Mapping[str, Analysis]
    """By claim."""
    answer: Analysis | None = None
    """What its page opens with: the figure that a reader looks for first, and in the remark what it
    says.
    """

    @cached_property
    def claims(self) -> tuple[Claim, ...]:
        """The claims of the paper, in its order."""
        return read_claims(self.folder / "claims.toml")
