# SPDX-License-Identifier: Apache-2.0
"""Small plans that train in a moment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from unbraid.data.dataset import Dataset
from unbraid.population.plan import Plan, make_plan

SMALL: dict[str, Any] = {
    "data_options": {"x": 6, "y": 4, "scale": 2, "image_size": 28},
    "network": "mlp",
    "network_options": {"hidden": 8},
    "latents": 3,
    "batch_size": 8,
    "steps": 20,
    "learning_rate": 1e-3,
    "log_every": 5,
    "checkpoint_seconds": 1e6,
}


def plan(objective: Any = "beta_vae", **options: Any) -> tuple[Plan, Dataset]:
    return make_plan("sprites", objective, **{**SMALL, **options})


@pytest.fixture
def small_plan() -> Callable[..., tuple[Plan, Dataset]]:
    return plan
