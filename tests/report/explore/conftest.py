# SPDX-License-Identifier: Apache-2.0
"""Populations of every kind that can be explored, each made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from unbraid.commands.run import Run
from unbraid.search.discover import image_source
from unbraid.search.discover import plan as discovery_plan

from ...damage import making
from ..conftest import small_train


@pytest.fixture(scope="session")
def explored(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of two strengths with three seeds, scored, whose latents hold something."""
    import unbraid as ub

    run = ub.train(
        "sprites",
        ub.BetaVAE(beta=[0.5, 2]),
        data_options={"image_size": 28, "x": 8, "y": 6, "scale": 2},
        network="mlp",
        network_options={"hidden": 64},
        seeds=3,
        steps=300,
        log_every=10,
        latents=5,
        learning_rate=4e-3,
        batch_size=16,
        out=tmp_path_factory.mktemp("explored") / "run",
        quiet=True,
        device="cpu",
    )
    run.score(["mig", "sap"], quiet=True)
    return run


@pytest.fixture(scope="session")
def search(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explored") / "search"
    making.finished_search(str(folder))
    return folder


@pytest.fixture(scope="session")
def recursion(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("explored") / "recursion"
    making.finished_recursion(str(folder))
    return folder


@pytest.fixture
def small_discoveries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Discoveries end in a moment."""
    for module, names in (
        (discovery_plan, ("EPOCHS", "BATCH", "MOST_IMAGES", "make_search", "make_recursion")),
        (image_source, ("MOST_IMAGES",)),
    ):
        for name in names:
            monkeypatch.setattr(module, name, getattr(module, name))
    making.few_epochs()


@pytest.fixture
def discovery(tmp_path: Path, small_discoveries: None) -> Path:
    folder = tmp_path / "discovery"
    making.discovery("sprites", str(folder))
    return folder


@pytest.fixture(scope="session")
def points(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run on points, whose images are drawn."""
    out = tmp_path_factory.mktemp("explored") / "points"
    return small_train(out, data="pinwheel", seeds=2, latents=2)
