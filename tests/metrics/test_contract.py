# SPDX-License-Identifier: Apache-2.0
"""Every metric keeps the contract, is found by name and costs nothing to import."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import unbraid.metrics
from unbraid.core.errors import InputError
from unbraid.metrics import METRICS
from unbraid.testing.checks import check_test_file
from unbraid.testing.metric_contract import check_metric

# What grows a predictor for each factor learns from fewer rows here than in its own tests.
CHEAPER: dict[str, dict[str, Any]] = {
    "downstream": {"train_sizes": (100,)},
    "downstream_reduced": {"train": 200, "test": 100},
    "downstream_strong": {"experiments": 1},
    "dci_es": {"trees": 20},
    "clustering": {"starts": 2, "samples": 400},
}


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "downstream_reduced" else name
        for name in METRICS.built_in
    ],
)
def test_metric_keeps_the_contract(name: str) -> None:
    check_metric(name, **CHEAPER.get(name, {}))


def test_every_public_file_is_a_metric() -> None:
    files = Path(unbraid.metrics.__file__).parent.glob("[a-z]*.py")
    assert {file.stem for file in files} == set(METRICS.built_in)


@pytest.mark.parametrize("name", list(METRICS.built_in))
def test_metric_has_a_test_file_and_is_bound_by_name(name: str) -> None:
    check_test_file(Path(__file__).parent / f"test_{name}.py")
    function = METRICS.load(name)
    assert getattr(unbraid.metrics, name) is function
    assert getattr(unbraid.metrics, function.result.__name__) is function.result


def test_a_missing_test_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"test_mine\.py is missing"):
        check_test_file(tmp_path / "test_mine.py")


def test_unknown_metric_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(InputError) as caught:
        METRICS.load("factor_vae")
    (problem,) = caught.value.problems
    assert (problem.name, problem.value) == ("metric", "factor_vae")
    assert "did you mean 'factor_vae_score'?" in problem.sentence


def test_import_loads_no_predictors() -> None:
    heavy = "{'torch', 'sklearn', 'scipy', 'lightgbm', 'pandas'}"
    program = f"import sys, unbraid.metrics; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_the_contract_catches_a_metric_that_breaks_it(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    from unbraid.metrics.mig import mig

    def touching(codes, factors):
        """A MIG that moves the global generator."""
        np.random.random()  # noqa: NPY002
        return mig(codes, factors)

    touching.__dict__.update(mig.__dict__)
    monkeypatch.setattr(METRICS, "load", lambda name: touching)
    with pytest.raises(AssertionError, match="touching must not touch NumPy's global generator"):
        check_metric("touching")
