# SPDX-License-Identifier: Apache-2.0
"""Zietlow et al. (2021): a change that is hardly seen, and VAEs lose the factors they had found."""

from pathlib import Path

from unbraid.core.registry import Citation
from unbraid.studies.study import Study
from unbraid.studies.zietlow2021.analysis import ANALYSES
from unbraid.studies.zietlow2021.answer import answer
from unbraid.studies.zietlow2021.pools import pools

STUDY = Study(
    name="zietlow2021",
    title="perturbed data that turn the axes of VAEs",
    citation=Citation(
        "Zietlow et al.",
        2021,
        "Demystifying inductive biases for (β-)VAE based architectures",
        "ICML",
    ),
    folder=Path(__file__).parent,
    pools=pools,
    analyses=ANALYSES,
    answer=answer,
)
