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
from unbraid.studies.zietlow2021.settings import DSPRITES, EPSILONS

IMAGES = 64
SHOWN = 6
LEAST = EPSILONS["gpu"][0]
"""The smallest ε of figure 4: which one figure 3 has is not said."""


def visibility(table: pd.DataFrame) -> Finding:
    """ZIE-F3: the peak signal-to-noise ratio at the ε of the study, beside that at the faintest."""
    data = WithS(DSPRITES.data, epsilon=DSPRITES.epsilon)
    indices = np.sort(np.random.default_rng(0).choice(len(data), IMAGES, replace=False))
    found = side_by_side(data, indices)
    faint = side_by_side(WithS(data.base, epsilon=LEAST), indices)
    rows = {"original": found.original, "pattern": found.pattern, "modified": found.changed}
    pictures = pd.DataFrame(
        {str(place + 1): [images[place] for images in rows.values()] for place in range(SHOWN)},
        index=[*rows],
    )
    return Finding(
        (
            mean_of("PSNR, dB", found.psnr),
            mean_of(f"PSNR at epsilon {LEAST:g}, dB", faint.psnr),
        ),
        Exhibit(
            "images",
            pictures,
            "",
            "",
            f"dSprites, the pattern at epsilon {data.epsilon:g} (grey is no change), and both.",
        ),
        "What is barely visible is a judgement, and depends on an epsilon that the paper does not"
        " say: the rule is about that of this study. The images are those of an independent s.",
    )


ANALYSES: Mapping[str, Analysis] = {"ZIE-F3": visibility}
