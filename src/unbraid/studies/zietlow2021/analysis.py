# SPDX-License-Identifier: Apache-2.0
"""The analysis of each claim: a table of models in, a finding or None out."""

from __future__ import annotations

from collections.abc import Mapping

from unbraid.studies.study import Analysis
from unbraid.studies.zietlow2021 import (
    axes,
    beyond,
    computed,
    effect,
    extra_factor,
    pictures,
    strengths,
)

ANALYSES: Mapping[str, Analysis] = {
    **axes.ANALYSES,
    **computed.ANALYSES,
    **pictures.ANALYSES,
    **effect.ANALYSES,
    **extra_factor.ANALYSES,
    **strengths.ANALYSES,
    **beyond.ANALYSES,
}
