# SPDX-License-Identifier: Apache-2.0
"""How visible the modification is: original, pattern and modified image side by side (figure 3)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from unbraid.analysis.perturbation.visibility import side_by_side
from unbraid.data.perturbed.with_s import WithS
from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import mean_of
from unbraid.studies.study import Analysis
from unbraid.studies.zietlow2021.settings import DSPRITES

IMAGES = 64
SHOWN = 6


def visibility(table: pd.DataFrame) -> Finding:
    """ZIE-F3: the peak signal-to-noise ratio at the ε of the study."""
    data = WithS(DSPRITES.data, epsilon=DSPRITES.epsilon)
    indices = np.sort(np.random.default_rng(0).choice(len(data), IMAGES, replace=False))
    found = side_by_side(data, indices)
    rows = {"original": found.original, "pattern": found.pattern, "modified": found.changed}
    pictures = pd.DataFrame(
        {str(place + 1): [images[place] for images in rows.values()] for place in range(SHOWN)},
        index=[*rows],
    )
    return Finding(
        (mean_of("PSNR, dB", found.psnr),),
        Exhibit(
            "images",
            pictures,
            "",
            "",
            f"dSprites, the pattern at epsilon {data.epsilon:g} (grey is no change), and both.",
        ),
        "What is barely visible is a judgement; the rule takes what pictures that were compressed"
        " well have at least. The images are those of an independent s.",
    )


ANALYSES: Mapping[str, Analysis] = {"ZIE-F3": visibility}
