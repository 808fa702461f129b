# SPDX-License-Identifier: Apache-2.0
"""What tests of commands share: a small run, trained once, and a copy of it to spoil."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import unbraid as ub
from unbraid.core.errors import InputError, Problem

SPRITES: dict[str, Any] = {"x": 6, "y": 4, "scale": 2, "image_size": 28}
SMALL: dict[str, Any] = {
    "data_options": SPRITES,
    "network": "mlp",
    "network_options": {"hidden": 16},
    "latents": 3,
    "batch_size": 8,
    "steps": 20,
    "learning_rate": 1e-3,
    "quiet": True,
    "device": "cpu",
}
DATA = "sprites:x=6,y=4,scale=2,image_size=28"
WORDS = (
    *("--network", "mlp:hidden=16", "--latents", "3", "--batch-size", "8"),
    *("--steps", "20", "--device", "cpu"),
)
"""The same on a command line."""


def words_with(**changed: object) -> tuple[str, ...]:
    """`WORDS` with other values, since a flag may be given once."""
    flags = dict(zip(WORDS[::2], WORDS[1::2], strict=True))
    flags |= {f"--{name.replace('_', '-')}": str(value) for name, value in changed.items()}
    return tuple(word for pair in flags.items() for word in pair)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four members: β of 1 and 4, two seeds each."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    ub.train("sprites", ub.BetaVAE(beta=[1, 4]), seeds=2, out=folder, **SMALL)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def refused() -> Callable[[Callable[[], Any]], tuple[Problem, ...]]:
    """Calls something that must be refused, and returns its problems."""

    def call(make: Callable[[], Any]) -> tuple[Problem, ...]:
        with pytest.raises(InputError) as caught:
            make()
        return caught.value.problems

    return call


@pytest.fixture
def contents() -> Callable[[Path], dict[str, bytes]]:
    """Every file of a folder."""

    def read(folder: Path) -> dict[str, bytes]:
        return {
            str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(folder.rglob("*"))
            if path.is_file() and path.name != ".lock"
        }

    return read


@pytest.fixture
def image_folder(tmp_path: Path) -> Path:
    """A folder with a dozen images of noise."""
    folder = tmp_path / "images"
    folder.mkdir()
    for number in range(12):
        pixels = np.random.default_rng(number).integers(0, 256, (28, 28), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number}.png")
    return folder
