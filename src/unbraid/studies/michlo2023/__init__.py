# SPDX-License-Identifier: Apache-2.0
"""Michlo et al. (2023): perceived distance, XYSquares and the overlap loss, put to the test."""

from pathlib import Path

from unbraid.core.citations import MICHLO_2023
from unbraid.studies.michlo2023.analysis import ANALYSES
from unbraid.studies.michlo2023.pools import pools
from unbraid.studies.study import Study

STUDY = Study(
    name="michlo2023",
    title="perceived distance and the overlap loss",
    citation=MICHLO_2023,
    folder=Path(__file__).parent,
    pools=pools,
    analyses=ANALYSES,
)
