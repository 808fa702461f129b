# SPDX-License-Identifier: Apache-2.0
"""Golden numbers of disentanglement_lib and the inputs they belong to (tests/golden/metrics.json
says whence).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unbraid.core.grid import FactorGrid

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
NUMBERS = json.loads((GOLDEN / "metrics.json").read_text())
WARPS = {
    "sinh": np.sinh,
    "exp": np.exp,
    "cube": lambda x: x**3,
    "tanh(2x)": lambda x: np.tanh(2 * x),
    "sigmoid(3x)": lambda x: 1 / (1 + np.exp(-3 * x)),
    "signed_sqrt": lambda x: np.sign(x) * np.sqrt(np.abs(x)),
}


@dataclass(frozen=True)
class GoldenCase:
    """One input and what disentanglement_lib computed on it."""

    name: str

    @property
    def expected(self) -> dict[str, Any]:
        return NUMBERS["cases"][self.name]

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        with np.load(GOLDEN / "metrics_cases.npz") as file:
            return {
                key.removeprefix(f"{self.name}/"): file[key]
                for key in file
                if key.startswith(f"{self.name}/")
            }

    @property
    def sample(self) -> tuple[np.ndarray, np.ndarray]:
        return self.arrays["codes"], self.arrays["factors"]

    @property
    def split(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        return (*self.sample, self.arrays["test_codes"], self.arrays["test_factors"])

    @property
    def grid(self) -> FactorGrid:
        sizes = self.expected["sizes"]
        return FactorGrid(tuple(f"factor {column}" for column in range(len(sizes))), tuple(sizes))

    def codes_of(self, factors: np.ndarray, seed: int = 0) -> np.ndarray:
        """The map from factors to codes that made the case, with fresh noise where it has any."""
        generator = np.random.default_rng(seed)
        sizes = np.array(self.expected["sizes"])
        given = {
            key.removeprefix("parameter_"): value
            for key, value in self.arrays.items()
            if key.startswith("parameter_")
        }
        unit = (factors - (sizes - 1) / 2) / np.sqrt((sizes**2 - 1) / 12)
        rows = len(factors)
        match self.name.split("/")[1]:
            case "perfect":
                return unit * given["scale"]
            case "const_latent":
                return np.column_stack([unit * given["scale"], np.zeros(rows)])
            case "perm_flip_dead":
                dead = given["dead_sigma"] * generator.normal(
                    size=(rows, len(given["order"]) - len(sizes))
                )
                return np.column_stack([unit[:, given["perm"]] * given["scale"], dead])[
                    :, given["order"]
                ]
            case "rotation":
                return unit @ given["Q"].T
            case "noise":
                return generator.normal(size=(rows, int(given["d"])))
            case "duplicated":
                return np.column_stack([unit * given["a"], unit * given["b"]])
            case "noisy_mixture":
                return unit @ given["W"].T + given["noise"] * generator.normal(
                    size=(rows, len(given["W"]))
                )
            case "one_missing":
                return np.delete(unit, int(given["missing"]), axis=1) * given["scale"]
            case "warped":
                return np.column_stack(
                    [
                        WARPS[str(warp)](column)
                        for warp, column in zip(given["warps"], unit.T, strict=False)
                    ]
                )
            case "perfect_jitter":
                return (unit + given["noise"] * generator.normal(size=unit.shape)) * given["scale"]
            case kind:
                raise LookupError(kind)


@pytest.fixture(params=list(NUMBERS["cases"]))
def golden_case(request: pytest.FixtureRequest) -> GoldenCase:
    return GoldenCase(request.param)


@pytest.fixture
def make_case() -> Callable[[str], GoldenCase]:
    return GoldenCase


@pytest.fixture(scope="session")
def golden_numbers() -> dict[str, Any]:
    return NUMBERS


@pytest.fixture
def sample() -> tuple[np.ndarray, np.ndarray]:
    """300 codes of quality between perfect and noise over factors of sizes 3, 4, 5."""
    generator = np.random.default_rng(3)
    factors = generator.integers([3, 4, 5], size=(300, 3))
    mixing = np.array([[1.0, 0.2, 0.0], [0.0, -1.5, 0.3], [0.1, 0.0, 2.0], [0.5, 0.5, 0.5]])
    return factors @ mixing.T + 0.2 * generator.normal(size=(300, 4)), factors
