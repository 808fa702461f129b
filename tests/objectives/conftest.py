# SPDX-License-Identifier: Apache-2.0
"""Golden losses of disentanglement_lib, and small posteriors to compute on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from unbraid.objectives.objective import Forward

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


@pytest.fixture(scope="session")
def golden() -> SimpleNamespace:
    """`values` by name, `relative` tolerance, `forward` (one member) and the images, channels
    first.
    """
    record = json.loads((GOLDEN / "losses.json").read_text())
    with np.load(GOLDEN / "losses_inputs.npz") as inputs:
        arrays = {name: torch.from_numpy(inputs[name]).unsqueeze(0) for name in inputs.files}
    forward = Forward(
        reconstruction=torch.zeros(arrays["mu"].shape[:2]),
        mean=arrays["mu"],
        logvar=arrays["logvar"],
        z=arrays["z"],
        step=torch.tensor(0.0),
    )
    images, logits = (arrays[name].permute(0, 1, 4, 2, 3) for name in ("images", "logits"))
    return SimpleNamespace(
        values=record["values"],
        relative=record["tolerance"]["relative"],
        forward=forward,
        images=images,
        logits=logits,
    )


@pytest.fixture
def make_forward() -> Callable[..., Forward]:
    """A float64 forward pass with random posteriors; any part can be given."""

    def make(members: int = 3, batch: int = 8, latents: int = 4, seed: int = 0, **given) -> Forward:
        generator = torch.Generator().manual_seed(seed)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        mean, logvar, noise = (normal(members, batch, latents) for _ in range(3))
        parts = {
            "reconstruction": 50.0 + normal(members, batch),
            "mean": mean,
            "logvar": 0.5 * logvar - 1.0,
            "step": torch.tensor(0.0, dtype=torch.float64),
        } | given
        parts.setdefault("z", parts["mean"] + torch.exp(0.5 * parts["logvar"]) * noise)
        return Forward(**parts)

    return make
