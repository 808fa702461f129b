# SPDX-License-Identifier: Apache-2.0
"""The analysis of each claim: a table of models in, a finding or None out."""

from __future__ import annotations

from collections.abc import Mapping

from unbraid.studies.mathieu2019 import points, priors, sparsity, theory
from unbraid.studies.mathieu2019.matched import matched_prior
from unbraid.studies.study import Analysis

ANALYSES: Mapping[str, Analysis] = {
    "MAT-TH1": theory.annealed_prior,
    "MAT-TH2": theory.rotations,
    "MAT-TH1b": priors.overlap_by_beta,
    "MAT-D": points.three_overlaps,
    "MAT-OBJ": theory.objective,
    "MAT-F1a": priors.anisotropic,
    "MAT-F1b": priors.student_t,
    "MAT-F1c": priors.cost,
    "MAT-F2a": points.clusters_by_alpha,
    "MAT-F2b": points.overlap_by_beta,
    "MAT-F3a": sparsity.by_class,
    "MAT-F3b": sparsity.traversals,
    "MAT-F3c": sparsity.by_alpha,
    "MAT-E5": theory.information,
    "MAT-B1": matched_prior,
}
