# SPDX-License-Identifier: Apache-2.0
"""The page of a dataset: samples, one traversal per factor, sizes, statistics, and its source."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.core.errors import invalid
from unbraid.core.folders import check_writable
from unbraid.core.registry import summary
from unbraid.data.dataset import Dataset
from unbraid.report.data.statistics import statistics
from unbraid.report.images import row_uri
from unbraid.report.page import is_page, write_page

SAMPLE_ROWS, SAMPLE_COLUMNS = 3, 12
MOST_VALUES = 16
"""Images in a row; a factor with more values shows so many, evenly spread."""
_GOLDEN = 0.6180339887498949


def page_place(source: str, out: Path | None) -> Path:
    """Where the page of *source* goes; a file that is not such a page is not written over."""
    stem = re.sub(r"[^\w=.-]+", "-", source).strip("-.")
    path = Path(f"data-{stem}.html") if out is None else Path(out)
    if path.is_dir():
        path = path / f"data-{stem}.html"
    try:
        ours = not path.exists() or is_page(path, "data")
    except OSError as error:
        raise invalid(
            "out", "must be a file that can be written", str(path), f"{error.strerror}."
        ) from error
    if not ours:
        raise invalid(
            "out", "must be a new file, or a page of a dataset", str(path), "Choose another name."
        )
    check_writable("out", path.parent)
    return path


def write_data(
    path: Path, dataset: Dataset, source: str, about: list[tuple[str, str]] | None = None
) -> Path:
    """Write the page of *dataset* to *path*; *source* names it, *about* are further facts."""
    return write_page(path, "data", page_context(dataset, source, about or []))


def page_context(dataset: Dataset, source: str, about: list[tuple[str, str]]) -> dict[str, Any]:
    """Everything the template shows."""
    found = statistics(dataset)
    chosen = np.random.default_rng(0).choice(
        len(dataset), min(len(dataset), SAMPLE_ROWS * SAMPLE_COLUMNS), replace=False
    )
    rows = np.array_split(chosen, max(1, -(-len(chosen) // SAMPLE_COLUMNS)))
    height, width, channels = dataset.image_shape
    kinds = {
        "sizes": " × ".join(map(str, dataset.factor_sizes)),
        "count": len(dataset.factor_names),
    }
    facts = [
        ("Images", f"{len(dataset):,}"),
        ("Size", f"{height} × {width}, {'grey' if channels == 1 else 'colour'}"),
        ("Factors", f"{kinds['count']} ({kinds['sizes']})" if dataset.labelled else "unknown"),
        ("Licence", dataset.licence or "not stated"),
        *about,
        *dataset.about,
    ]
    return {
        "title": source,
        "summary": summary(type(dataset)),
        "departs": (
            "An index of this set has many images; these are the ones used for codes and scores."
            if dataset.fresh
            else ""
        ),
        "facts": facts,
        "citation": str(dataset.citation) if dataset.citation else "",
        "samples": [
            (row_uri(dataset.images(row)), ", ".join(map(str, row.tolist()))) for row in rows
        ],
        "fresh": _fresh_row(dataset, int(chosen[0])) if dataset.fresh else "",
        "traversals": _traversals(dataset),
        "on_a_grid": dataset.grid.names == dataset.factor_names,
        "changed": _changed(dataset),
        "statistics": found,
        "channels": ("grey",) if channels == 1 else ("red", "green", "blue"),
        "mean_image": row_uri(found.mean_image[None]),
        "commands": (
            [
                f"unbraid train {shlex.quote(source)} beta_vae --beta 4 --seeds 3",
                f"unbraid distances {shlex.quote(source)}",
            ]
            if dataset.labelled
            else [f"unbraid train {shlex.quote(source)} beta_vae --beta 4 --seeds 3"]
        ),
    }


def _fresh_row(dataset: Dataset, index: int) -> str:
    """Several images of one index."""
    import torch

    numbers = torch.arange(SAMPLE_COLUMNS)
    samples = dataset.sampler("cpu")(torch.full_like(numbers, index), numbers)
    return row_uri(dataset.as_images(samples.numpy()))


def _changed(dataset: Dataset) -> dict[str, Any]:
    """Original, change and result of some images of perturbed data; nothing for other data."""
    from unbraid.data.perturbed.dataset import Perturbed
    from unbraid.data.perturbed.with_s import WithS

    if not isinstance(dataset, (Perturbed, WithS)):
        return {}
    from unbraid.analysis.perturbation.visibility import side_by_side

    count = min(len(dataset), SAMPLE_COLUMNS)
    indices = np.sort(np.random.default_rng(1).choice(len(dataset), count, replace=False))
    found = side_by_side(dataset, indices)
    return {
        "rows": [
            ("original", row_uri(found.original)),
            ("the change, grey where there is none", row_uri(found.pattern)),
            ("as it is trained on", row_uri(found.changed)),
        ],
        "psnr": f"{found.psnr.mean():.1f}",
        "least": f"{found.psnr.min():.1f}",
        "most": f"{found.psnr.max():.1f}",
    }


def _traversals(dataset: Dataset) -> list[dict[str, Any]]:
    """A row of images for each factor, the others held where the data lets them be."""
    if not dataset.labelled:
        return []
    on_a_grid = dataset.grid.names == dataset.factor_names
    # Places that differ between factors: three hues all in the middle of the circle would be one
    # colour.
    spread = [int(size * ((k + 1) * _GOLDEN % 1.0)) for k, size in enumerate(dataset.grid.sizes)]
    middle = int(dataset.grid.to_index([spread])[0]) if on_a_grid else 0
    factors = None if on_a_grid else dataset.factors(np.arange(len(dataset)))
    rows = []
    for column, (name, size) in enumerate(
        zip(dataset.factor_names, dataset.factor_sizes, strict=True)
    ):
        if factors is None:
            indices = dataset.grid.traversal(middle, name)
        else:
            indices = np.unique(factors[:, column], return_index=True)[1]
        values = np.unique(
            np.linspace(0, len(indices) - 1, min(len(indices), MOST_VALUES))
            .round()
            .astype(np.int64)
        )
        shown = "all of them" if len(values) == size else f"{len(values)} of them"
        rows.append(
            {
                "name": name,
                "size": size,
                "shown": shown,
                "uri": row_uri(dataset.images(indices[values])),
                "images": len(values),
            }
        )
    return rows
