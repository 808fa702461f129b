# SPDX-License-Identifier: Apache-2.0
"""What the runs that are scored here are trained with: a moment each."""

from __future__ import annotations

from typing import Any

SETTINGS: dict[str, Any] = {
    "network": "mlp",
    "network_options": {"hidden": 16},
    "latents": 3,
    "batch_size": 8,
    "steps": 20,
    "quiet": True,
    "device": "cpu",
}
SPRITES = {"x": 6, "y": 4, "scale": 2, "image_size": 28}
