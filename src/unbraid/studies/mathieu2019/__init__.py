# SPDX-License-Identifier: Apache-2.0
"""Mathieu et al. (2019): disentanglement as decomposition, put to the test."""

from pathlib import Path

from unbraid.core.citations import MATHIEU_2019
from unbraid.studies.mathieu2019.analysis import ANALYSES
from unbraid.studies.mathieu2019.pools import pools
from unbraid.studies.study import Study

STUDY = Study(
    name="mathieu2019",
    title="decomposition, overlap and structure of latents",
    citation=MATHIEU_2019,
    folder=Path(__file__).parent,
    pools=pools,
    analyses=ANALYSES,
)
