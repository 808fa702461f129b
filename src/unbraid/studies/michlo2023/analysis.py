# SPDX-License-Identifier: Apache-2.0
"""The analysis of each claim: a table of models in, a finding or None out."""

from __future__ import annotations

from collections.abc import Mapping

from unbraid.studies.michlo2023.betas import (
    best_over_sweep,
    overlap_by_beta,
    smaller_betas,
    tangled_codes,
)
from unbraid.studies.michlo2023.blur import overlap_loss_disentangles
from unbraid.studies.michlo2023.collapse import causes_of_collapse
from unbraid.studies.michlo2023.datasets import importances, ordered_factors, unordered_kinds
from unbraid.studies.michlo2023.exact import (
    constant_distances,
    order_by_spacing,
    overlap_loss,
    overlapping_pairs,
)
from unbraid.studies.michlo2023.levels import blur_orders_levels, levels_follow_inputs
from unbraid.studies.michlo2023.prediction import found_as_foreseen
from unbraid.studies.michlo2023.spacings import ada_by_spacing, beta_by_spacing
from unbraid.studies.study import Analysis

ANALYSES: Mapping[str, Analysis] = {
    "MIC-E7": constant_distances,
    "MIC-F3a": ordered_factors,
    "MIC-F3b": unordered_kinds,
    "MIC-A1": importances,
    "MIC-S21": overlap_by_beta,
    "MIC-F4": levels_follow_inputs,
    "MIC-F6a": best_over_sweep,
    "MIC-F6b": smaller_betas,
    "MIC-F7": tangled_codes,
    "MIC-F8": order_by_spacing,
    "MIC-S54": overlapping_pairs,
    "MIC-F9a": ada_by_spacing,
    "MIC-F9b": beta_by_spacing,
    "MIC-E11": overlap_loss,
    "MIC-F10": blur_orders_levels,
    "MIC-F11": overlap_loss_disentangles,
    "MIC-C": causes_of_collapse,
    "MIC-P": found_as_foreseen,
}
