# SPDX-License-Identifier: Apache-2.0
"""What every metric scores on standard codes, computed again beside the numbers of the docs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unbraid.metrics import METRICS
from unbraid.testing.standard_codes import (
    GRID,
    KINDS,
    TRAIN,
    arguments,
    behaviour,
    standard_codes,
)

ROOT = Path(__file__).resolve().parents[2]
RECORDED = json.loads(
    (ROOT / "benchmarks" / "results" / "metric_behaviour.json").read_text("utf-8")
)["scores"]
TOLERANCE = 0.01
"""Boosted trees and solvers may differ by so much between versions and processors."""


EXPENSIVE = (
    "dci",
    "dci_es",
    "unified_scores",
    "downstream",
    "downstream_reduced",
    "downstream_strong",
    "fairness",
)
"""They grow trees by the hundred: three kinds of code in every run, all of them in slow ones."""
FEW_KINDS = ("rotated", "duplicated", "missing")
SAME_SCORE: dict[str, dict[str, Any]] = {
    "downstream": {"predictor": "trees", "train_sizes": (TRAIN,)}
}
"""Options without which a metric computes more than its score."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "downstream_reduced" else name
        for name in METRICS.built_in
    ],
)
def test_the_documented_scores_are_those_computed_now(name: str) -> None:
    kinds = FEW_KINDS if name in EXPENSIVE else tuple(KINDS)
    _check_recorded(name, kinds, **SAME_SCORE.get(name, {}))


@pytest.mark.slow  # repeats test_the_documented_scores_are_those_computed_now for all kinds
@pytest.mark.parametrize("name", EXPENSIVE)
def test_all_documented_scores_are_those_computed_now(name: str) -> None:
    _check_recorded(name, tuple(KINDS))


def _check_recorded(name: str, kinds: tuple[str, ...], **options: Any) -> None:
    remedy = f"measure it: python benchmarks/metric_behaviour.py {name}, then make docs"
    assert list(RECORDED.get(name, ())) == list(KINDS), remedy
    found = behaviour(name, kinds, **options)
    assert list(found) == list(kinds)
    for kind, score in found.items():
        assert score == pytest.approx(RECORDED[name][kind], abs=TOLERANCE, rel=TOLERANCE), kind


def test_standard_codes_are_what_they_are_called() -> None:
    factors = GRID.to_factors(np.arange(GRID.size))
    made = {kind: standard_codes(kind, factors) for kind in KINDS}
    assert np.linalg.matrix_rank(made["duplicated"]) == 4
    assert made["duplicated"].shape[1] == 8
    correlation = np.corrcoef(made["perfect"].T, factors.T)[:4, 4:]
    assert correlation == pytest.approx(np.eye(4), abs=1e-9)
    assert np.abs(np.corrcoef(made["missing"].T, factors[:, 2])[-1, :-1]).max() < 1e-9
    assert np.cov(made["rotated"].T, ddof=0) == pytest.approx(np.eye(4), abs=1e-9)
    for latent in range(4):  # warps keep the order of values
        rank = np.argsort(np.argsort(made["warped"][:, latent], kind="stable"), kind="stable")
        assert np.array_equal(np.sort(factors[:, latent]), factors[np.argsort(rank), latent])
    assert made["dead"][:, 4:].std() == pytest.approx(1e-3, rel=0.1)
    assert np.array_equal(standard_codes("noisy", factors, 1), standard_codes("noisy", factors, 1))
    assert not np.array_equal(standard_codes("noisy", factors, 1), made["noisy"])


def test_models_that_are_compared_are_turned_and_keep_their_divergences() -> None:
    codes, kl = arguments("population", "dead")
    assert codes.shape == (3, 1000, 7)
    for model in range(3):
        assert np.array_equal(kl[model] < 0.01, codes[model].std(axis=0) < 0.01)
