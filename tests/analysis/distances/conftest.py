# SPDX-License-Identifier: Apache-2.0
"""A small run whose distances are measured."""

from __future__ import annotations

from typing import Any

import pytest

import unbraid as ub

SMALL: dict[str, Any] = {"image_size": 16, "x": 5, "y": 4, "scale": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> ub.Run:
    """Two small trained members, the second without posteriors."""
    return ub.train(
        "sprites",
        ["beta_vae", "ae"],
        out=tmp_path_factory.mktemp("run") / "run",
        data_options=SMALL,
        network="mlp",
        network_options={"hidden": 16},
        steps=60,
        latents=3,
        learning_rate=1e-2,
        device="cpu",
        quiet=True,
    )
