# SPDX-License-Identifier: Apache-2.0
"""From s of every image to perturbed data: the pattern it needs, and the folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from unbraid.data.dataset import Dataset
from unbraid.data.perturbed.folder import write_perturbed
from unbraid.data.perturbed.pattern import (
    ROWS_PER_STEP,
    half_rows,
    make_pattern,
    steps_of,
    usual_shift_scale,
)


def write_by_pattern(
    folder: Path,
    base: Dataset,
    s: ArrayLike,
    *,
    epsilon: float,
    clip: bool = True,
    seed: int = 0,
    rows_per_step: float = ROWS_PER_STEP,
    shift_scale: float | None = None,
    provenance: dict[str, Any] | None = None,
) -> None:
    """Write *base*, perturbed by the pattern that moves with *s*, to *folder*.

    *s* has a number for each image, of mean 0 and variance 1; *shift_scale*, rows for each of its
    deviations, goes before *rows_per_step*.
    """
    values = np.asarray(s, dtype=np.float64)
    height, width, _ = base.image_shape
    steps = steps_of(base.factor_sizes, height, width)
    scale = shift_scale or usual_shift_scale(steps, rows_per_step)
    halves = half_rows(scale * values)
    write_perturbed(
        folder,
        base,
        epsilon=epsilon,
        clip=clip,
        seed=seed,
        pattern=make_pattern(seed, height, width, int(halves.min()), int(halves.max())),
        half_rows=halves,
        s=values,
        provenance=(provenance or {})
        | {
            "shift_scale": scale,
            "steps": steps,
            "rows_per_step": scale / usual_shift_scale(steps, 1.0),
        },
    )
