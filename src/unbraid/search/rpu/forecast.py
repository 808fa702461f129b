# SPDX-License-Identifier: Apache-2.0
"""How long a recursion will take at most, told before it starts: every stage with all its epochs.

Leaf-runs are taken to see as many images as they do at least; of parts that are larger, rare where
several latents cut, they see more.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import torch

from unbraid.core.errors import UnbraidError
from unbraid.data.dataset import Dataset
from unbraid.search.pbt.forecast import Pace, seconds, trial
from unbraid.search.pbt.scorer import MOST_POINTS, Scorer
from unbraid.search.rpu.plan import RecursionPlan


def at_most(plan: RecursionPlan, dataset: Dataset, device: torch.device) -> float:
    """Seconds that all stages of *plan* take if they take all their epochs, by a trial of moments;
    NaN where it cannot be made, which the root will explain.
    """
    try:
        of_root = trial(plan.root, dataset, device, Path())
        final = plan.final_search()
        # What surrogate labels cost is about what factors do.
        known = "mig" if dataset.labelled else "active_units"
        judged = replace(final, scorer=Scorer(known, MOST_POINTS, 1, final.seed))
        of_final = trial(judged, dataset, device, Path())
    except UnbraidError:
        return math.nan
    share = plan.leaf_images / plan.root.epoch_images
    leaf = seconds(plan.root, Pace(of_root.training * share, of_root.scoring))
    leaves, finals = plan.leaf_runs * (plan.levels - 1), len(plan.finals())
    return seconds(plan.root, of_root) + leaves * leaf + finals * seconds(final, of_final)
