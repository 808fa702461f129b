# SPDX-License-Identifier: Apache-2.0
"""The page of an ε sweep: s beside the factors, near by and overall, and where it passes them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from unbraid.analysis.perturbation.epsilon_sweep import EpsilonSweep
from unbraid.data.dataset import Dataset
from unbraid.report.page import write_page
from unbraid.report.study.figures import NARROW, draw
from unbraid.studies.finding import Exhibit

QUANTITIES = {
    "local": (
        "Near by",
        "L2 change for a deviation of the factor",
        "How fast images change as s or a factor moves on: a VAE's least noisy latents follow it.",
    ),
    "overall": (
        "Overall",
        "explained variance, summed over pixels",
        "How much of the variance over all images s or a factor explains: PCA would follow it.",
    ),
}
"""Titles, what is along the second axis, and what is to be seen."""


def write_crossings(path: Path, found: EpsilonSweep, dataset: Dataset, command: str = "") -> Path:
    """Write the page to *path* and return it."""
    return write_page(path, "crossings", page_context(found, dataset, command))


def page_context(found: EpsilonSweep, dataset: Dataset, command: str = "") -> dict[str, Any]:
    """Everything the template shows."""
    from markupsafe import Markup

    figures = []
    for quantity, (title, axis, caption) in QUANTITIES.items():
        exhibit = figure(found, quantity)
        figures.append(
            {
                "id": quantity,
                "title": title,
                "caption": caption,
                "wide": Markup(draw(exhibit)),
                "narrow": Markup(draw(exhibit, NARROW)),
                "axis": axis,
            }
        )
    return {
        "title": f"{dataset.name} · s and epsilon",
        "summary": sentence(found),
        "facts": [
            ("Data", f"{dataset.name}, {len(dataset):,} images"),
            ("s", f"{found.steps} values, {found.rows_per_step:g} rows for each"),
            ("Values", "clipped to [0, 1]" if found.clip else "not clipped"),
            ("Factors", _sample(found)),
        ],
        "panels": figures,
        "rows": [
            (name, _shown(one), _shown(other))
            for name, one, other in found.crossings.table().itertuples()
        ],
        "command": command,
    }


def figure(found: EpsilonSweep, quantity: str) -> Exhibit:
    """The lines of `local` or `overall` over ε."""
    _, axis, caption = QUANTITIES[quantity]
    return Exhibit("lines", found.lines(quantity), "epsilon", axis, caption, logarithmic=("y",))


def sentence(found: EpsilonSweep) -> str:
    """Where s passes which factor first and last, near by."""
    local = pd.Series(found.crossings.local, index=[*found.factors.factors]).dropna()
    if local.empty:
        return "s passes no factor near by, whatever epsilon."
    order = local.sort_values()
    each = ", ".join(f"{name} at {value:.3f}" for name, value in order.items())
    return f"Near by, deviation for deviation, s passes {each}."


def _sample(found: EpsilonSweep) -> str:
    of = "all images" if found.factors.exact else f"{found.factors.images:,} images"
    return f"measured on {of}"


def _shown(value: float) -> str:
    return "never" if value != value else f"{value:.3f}"
