# SPDX-License-Identifier: Apache-2.0
"""The analysis of each claim: a table of searches in, a finding or None out."""

from __future__ import annotations

from collections.abc import Mapping

from unbraid.studies.estermann2020.baselines import against_six_methods
from unbraid.studies.estermann2020.labels import (
    levels,
    plateaus,
    roots_find_position,
    roots_score_low,
    variance_left,
)
from unbraid.studies.estermann2020.leaf_runs import (
    close_to_supervised,
    finals_hold,
    hues_of_finals,
    leaf_runs,
)
from unbraid.studies.estermann2020.others import celeba_labels
from unbraid.studies.estermann2020.supervised import few_labels, judges, sensitivity
from unbraid.studies.study import Analysis

ANALYSES: Mapping[str, Analysis] = {
    "EST-F1a": judges,
    "EST-F1b": few_labels,
    "EST-F1c": sensitivity,
    "EST-F2a": roots_find_position,
    "EST-F2b": roots_score_low,
    "EST-F3": plateaus,
    "EST-S42": variance_left,
    "EST-F4a": lambda table: against_six_methods(table, "dsprites"),
    "EST-F4b": lambda table: against_six_methods(table, "shapes3d_drawn"),
    "EST-F4c": close_to_supervised,
    "EST-F4d": hues_of_finals,
    "EST-F5": levels,
    "EST-F6": leaf_runs,
    "EST-S5": finals_hold,
    "EST-F13": celeba_labels,
}
