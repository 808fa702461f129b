# SPDX-License-Identifier: Apache-2.0
"""`crossings`: from which ε on a faint pattern counts more than the factors of data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from unbraid.commands import options as declared
from unbraid.commands.verb import Option, command
from unbraid.core.checks import real, whole
from unbraid.core.errors import Problems
from unbraid.core.spelling import as_numbers

if TYPE_CHECKING:
    import pandas as pd

    from unbraid.analysis.perturbation.epsilon_sweep import EpsilonSweep


@dataclass(frozen=True)
class CrossingsResult:
    """s beside the factors over ε, and the page that shows it."""

    sweep: EpsilonSweep
    page: Path

    def table(self) -> pd.DataFrame:
        """The ε at which s passes each factor, near by and overall; NaN for never."""
        return self.sweep.crossings.table()

    def summary(self) -> str:
        """The table, and where the page is."""
        shown = self.table().to_string(float_format=lambda value: f"{value:.4g}", na_rep="never")
        return f"{shown}\n\nOpen in a browser: {self.page}"


@command
def crossings(
    data: declared.Data,
    *,
    epsilons: Annotated[
        str | Sequence[float] | None,
        Option("Values of epsilon that the figures show; by default 0.025 to 0.3."),
    ] = None,
    steps: Annotated[int, Option("How many values s has.")] = 32,
    rows_per_step: Annotated[
        float, Option("Rows that the pattern slides from one value of s to the next.")
    ] = 4.0,
    clip: Annotated[bool, Option("Keep values in [0, 1].")] = True,
    seed: Annotated[int, Option("Seed of the pattern.")] = 0,
    data_options: declared.DataOptions = None,
    out: Annotated[
        str | Path | None, Option("File of the page; by default crossings.html, here.")
    ] = None,
    command: declared.Command = "",
) -> CrossingsResult:
    """From which epsilon on an independent s counts more than each factor; trains nothing.

    Zietlow et al. (2021), figure 4: local expansiveness (change of images per standard deviation)
    and explained variance of s, which shows in images through a faint pattern alone, beside those
    of the factors. Writes a page.
    """
    from unbraid.analysis.perturbation.epsilon_sweep import EPSILONS, epsilon_sweep
    from unbraid.core.folders import PAGES
    from unbraid.data.perturbed.dataset import check_base
    from unbraid.report.crossings.context import write_crossings
    from unbraid.report.page import page_place

    problems = Problems()
    dataset = problems.collect(lambda: declared.open_data(data, data_options))
    if dataset is not None:
        check_base(problems, dataset)
    steps = whole(problems, "steps", steps, 2, 1024)
    rows = real(problems, "rows_per_step", rows_per_step, 0.01, 64.0)
    seed = whole(problems, "seed", seed, 0, 2**62)
    name = PAGES["crossings"]
    page = problems.collect(lambda: page_place(name if out is None else out, name, "crossings"))
    problems.raise_if_any()
    assert dataset is not None
    assert page is not None
    given = as_numbers(epsilons, always_list=True) if isinstance(epsilons, str) else epsilons
    found = epsilon_sweep(
        dataset,
        EPSILONS if given is None else [given] if isinstance(given, (int, float)) else given,
        steps=steps,
        rows_per_step=rows,
        clip=bool(clip),
        seed=seed,
    )
    return CrossingsResult(found, write_crossings(page, found, dataset, command))
