# SPDX-License-Identifier: Apache-2.0
"""Inputs of the golden `tiny/*` numbers, drawn again as disentanglement_lib drew them
(tests/golden/metrics_extras.json).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

EXTRAS = json.loads(
    (Path(__file__).resolve().parents[1] / "golden" / "metrics_extras.json").read_text()
)
KINDS = ("perfect_jitter", "rotation", "noisy_mixture")
SEEDS = (0, 1)
BATCH = 16

Encoder = Callable[[np.ndarray], np.ndarray]
Part = tuple[np.ndarray, np.ndarray]


def expected(kind: str, task: str, seed: int) -> dict[str, float]:
    """What the reference computed with *seed*, by its own names."""
    return {
        name: found["per_seed"][seed]
        for name, found in EXTRAS[f"tiny/{kind}"]["scores"][task].items()
    }


def sizes_of(kind: str) -> list[int]:
    return EXTRAS[f"tiny/{kind}"]["sizes"]


def encoder(kind: str, noise: np.random.RandomState) -> Encoder:
    """The map from factors to codes, with fresh noise at every call where it has any."""
    sizes, given = np.array(sizes_of(kind)), EXTRAS[f"tiny/{kind}"]["params"]

    def encode(factors: np.ndarray) -> np.ndarray:
        unit = (factors - (sizes - 1) / 2) / np.sqrt((sizes**2 - 1) / 12)
        match kind:
            case "perfect_jitter":
                return (unit + given["noise"] * noise.normal(size=unit.shape)) * np.array(
                    given["scale"]
                )
            case "rotation":
                return unit @ np.array(given["Q"]).T
            case _:
                mixing = np.array(given["W"])
                return unit @ mixing.T + given["noise"] * noise.normal(
                    size=(len(factors), len(mixing))
                )

    return encode


def draw_factors(count: int, sizes: list[int], draws: np.random.RandomState) -> np.ndarray:
    return np.column_stack([draws.randint(size, size=count) for size in sizes])


def draw_batches(
    count: int, sizes: list[int], draws: np.random.RandomState, encode: Encoder
) -> Part:
    """Codes and factors, drawn and encoded sixteen at a time as the reference does."""
    factors, codes = [], []
    for begin in range(0, count, BATCH):
        factors.append(draw_factors(min(BATCH, count - begin), sizes, draws))
        codes.append(encode(factors[-1]))
    return np.concatenate(codes), np.concatenate(factors)


def splits(kind: str, seed: int, train: tuple[int, ...], test: int) -> list[tuple[Any, ...]]:
    """Training and test parts for each size in turn, all from one stream of draws."""
    draws, encode = np.random.RandomState(seed), encoder(kind, np.random.RandomState(10_000 + seed))
    sizes = sizes_of(kind)
    return [
        (*draw_batches(size, sizes, draws, encode), *draw_batches(test, sizes, draws, encode))
        for size in train
    ]


def large_sample(kind: str, count: int, seed: int = 0) -> Part:
    """Rows enough to take the reference's draws from: codes and factors."""
    factors = draw_factors(count, sizes_of(kind), np.random.RandomState(seed))
    return encoder(kind, np.random.RandomState(20_000 + seed))(factors), factors
