# SPDX-License-Identifier: Apache-2.0
"""The analysis of each claim: a table of models in, a finding or None out."""

from __future__ import annotations

from collections.abc import Mapping

from unbraid.studies.locatello2019.agreement import metric_agreement, unsupervised_scores
from unbraid.studies.locatello2019.burgess import (
    capacity_gap,
    order_of_factors,
    spread_of_position,
)
from unbraid.studies.locatello2019.dominance import dominance
from unbraid.studies.locatello2019.downstream import downstream_accuracy, downstream_efficiency
from unbraid.studies.locatello2019.overlap import overlap_of_objectives, seeds_and_strengths
from unbraid.studies.locatello2019.size import size
from unbraid.studies.locatello2019.theory import impossibility, missing_factor
from unbraid.studies.locatello2019.total_correlation import total_correlation
from unbraid.studies.locatello2019.transfer import transfer_of_choices, transfer_of_settings
from unbraid.studies.locatello2019.variance import variance_by_objective, variance_by_setting
from unbraid.studies.study import Analysis

ANALYSES: Mapping[str, Analysis] = {
    "LOC-N": size,
    "LOC-TH1": impossibility,
    "LOC-K1": total_correlation,
    "LOC-K2": metric_agreement,
    "LOC-F3l": overlap_of_objectives,
    "LOC-F3r": seeds_and_strengths,
    "LOC-Ta": variance_by_objective,
    "LOC-Tb": variance_by_setting,
    "LOC-K4a": dominance,
    "LOC-K4b": unsupervised_scores,
    "LOC-K4c": transfer_of_settings,
    "LOC-K4d": transfer_of_choices,
    "LOC-F5": downstream_accuracy,
    "LOC-F6": downstream_efficiency,
    "LOC-B1": spread_of_position,
    "LOC-B3": order_of_factors,
    "LOC-B8": capacity_gap,
    "LOC-KM3": missing_factor,
}
