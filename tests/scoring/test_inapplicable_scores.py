# SPDX-License-Identifier: Apache-2.0
"""Scores that would mean nothing are left out: no posterior, another prior, no likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import unbraid as ub
from unbraid.core.citations import MATHIEU_2019
from unbraid.metrics import METRICS, describe

SMALL: dict[str, Any] = {
    "data_options": {"x": 6, "y": 4, "scale": 2, "image_size": 28},
    "network": "mlp:hidden=8",
    "latents": 3,
    "batch_size": 8,
    "steps": 6,
    "learning_rate": 1e-3,
    "quiet": True,
}


def test_without_a_posterior_there_is_no_bound_no_activity_and_no_draw(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    run = ub.train("sprites", ["vae", "qlae", "ae"], out=tmp_path / "run", **SMALL)
    table = run.score(["mig", "elbo", "active_units"], representation=["mean", "sampled"])
    warned = capsys.readouterr().err
    assert "elbo, active_units: left out for members 1, 2, whose objective" in warned
    assert "sampled: left out for members 1, 2, whose objective" in warned
    assert table.loc[(0, "vae")][["mig", "elbo", "active_units"]].notna().all().all()
    assert table.loc[(1, "qlae", "mean")][["elbo", "active_units"]].isna().all()
    assert table.loc[(1, "qlae", "mean")]["mig"] >= 0
    assert (1, "qlae", "sampled") not in table.index


@dataclass(frozen=True)
class _Score:
    range: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    higher_is_better: ClassVar[bool] = True
    score: float


@describe(label="Bound", needs="elbo", citation=MATHIEU_2019, result=_Score)
def bound_of_others(mean, logvar, reconstruction) -> _Score:
    """A bound of another package, which knows no prior."""
    return _Score(float(np.mean(reconstruction)))


def test_a_bound_needs_to_know_the_prior_and_a_likelihood(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    METRICS.register("bound_of_others", bound_of_others)
    run = ub.train(
        "sprites", "vae", prior=["isotropic", "student_t"], out=tmp_path / "prior", **SMALL
    )
    table = run.score(["elbo", "bound_of_others"])
    assert "bound_of_others: left out for members 1, whose prior" in capsys.readouterr().err
    assert table["elbo"].notna().all()
    assert table["bound_of_others"].notna().tolist() == [True, False]
    METRICS._registered.pop("bound_of_others")
    METRICS.__dict__.pop("_all", None)
    blurred = ub.train(
        "sprites", "vae", likelihood="gaussian+box3", out=tmp_path / "blurred", **SMALL
    )
    table = blurred.score(["mig", "elbo"])
    warned = capsys.readouterr().err
    assert "elbo: left out for members 0" in warned
    assert "overlap loss gaussian+box3" in warned
    assert "elbo" not in table.columns
