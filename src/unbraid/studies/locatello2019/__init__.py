# SPDX-License-Identifier: Apache-2.0
"""Locatello et al. (2019): common assumptions of unsupervised disentanglement, put to the test."""

from pathlib import Path

from unbraid.core.citations import LOCATELLO_2019
from unbraid.studies.locatello2019.analysis import ANALYSES
from unbraid.studies.locatello2019.answer import answer
from unbraid.studies.locatello2019.pools import pools
from unbraid.studies.study import Study

STUDY = Study(
    name="locatello2019",
    title="common assumptions of unsupervised disentanglement",
    citation=LOCATELLO_2019,
    folder=Path(__file__).parent,
    pools=pools,
    analyses=ANALYSES,
    answer=answer,
)
