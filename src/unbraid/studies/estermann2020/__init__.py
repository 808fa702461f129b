# SPDX-License-Identifier: Apache-2.0
"""Estermann et al. (2020): population-based training and rPU-VAE, good models without labels."""

from pathlib import Path

from unbraid.core.registry import Citation
from unbraid.studies.estermann2020.analysis import ANALYSES
from unbraid.studies.estermann2020.answer import answer
from unbraid.studies.estermann2020.pools import pools
from unbraid.studies.study import Study

STUDY = Study(
    name="estermann2020",
    title="population-based training, rPU-VAE",
    citation=Citation(
        "Estermann et al.",
        2020,
        "Robust Disentanglement of a Few Factors at a Time using rPU-VAE",
        "NeurIPS",
    ),
    folder=Path(__file__).parent,
    pools=pools,
    analyses=ANALYSES,
    answer=answer,
)
