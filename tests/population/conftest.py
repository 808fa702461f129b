# SPDX-License-Identifier: Apache-2.0
"""Small plans that train in a moment, and the bits of what a run folder holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from unbraid.core.store import read_tensors
from unbraid.data.dataset import Dataset
from unbraid.population import chunk_training
from unbraid.population.background_save import BackgroundSave, Write
from unbraid.population.plan import Plan, make_plan
from unbraid.population.run_folder import RunFolder

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


def plan(
    objective: Any = "beta_vae", data: Any = "sprites", **options: Any
) -> tuple[Plan, Dataset]:
    settings = {**SMALL, **options}
    if not isinstance(data, str) or data != "sprites":
        settings.pop("data_options")
    return make_plan(data, objective, **settings)


def create(
    folder: Path,
    objective: Any = "beta_vae",
    data: Any = "sprites",
    chunk_size: int = 1,
    keep_optimiser: bool = True,
    **options: Any,
) -> RunFolder:
    made, dataset = plan(objective, data, **options)
    return RunFolder.create(folder, made, chunk_size, dataset, keep_optimiser=keep_optimiser)


def bits(run: RunFolder) -> dict[int, dict[str, torch.Tensor]]:
    """Every tensor of every member's newest state, as bytes."""
    found = {}
    for chunk in run.chunks():
        tensors, _ = read_tensors(run.checkpoints(chunk).files()[0][1])
        for position, member in enumerate(chunk):
            found[member.id] = {
                name: tensor[position].contiguous().view(torch.uint8)
                for name, tensor in tensors.items()
                if tensor.dim() > 1
            }
            found[member.id]["diverged_at"] = tensors["diverged_at"][position]
    return found


def same(left: dict[str, torch.Tensor], right: dict[str, torch.Tensor]) -> bool:
    return left.keys() == right.keys() and all(
        torch.equal(left[name], right[name]) for name in left
    )


class SaveAtOnce(BackgroundSave):
    """Waits until what it saves is on disk."""

    def __call__(self, tensors: Mapping[str, torch.Tensor], step: int, write: Write) -> None:
        super().__call__(tensors, step, write)
        self.wait()


@pytest.fixture
def save_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints as often as the plan says, however long they take to write beside such small
    trainings.
    """
    monkeypatch.setattr(chunk_training, "_LEAST_TRAINING_PER_SAVING", 0)
    monkeypatch.setattr(chunk_training, "BackgroundSave", SaveAtOnce)


@pytest.fixture
def small_plan() -> Callable[..., tuple[Plan, Dataset]]:
    return plan


@pytest.fixture
def new_run() -> Callable[..., RunFolder]:
    return create


@pytest.fixture
def bits_of() -> Callable[[RunFolder], dict[int, dict[str, torch.Tensor]]]:
    return bits


@pytest.fixture
def same_bits() -> Callable[[dict[str, torch.Tensor], dict[str, torch.Tensor]], bool]:
    return same
