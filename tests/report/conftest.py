# SPDX-License-Identifier: Apache-2.0
"""Small trained runs of every kind the page must be right for, and a browser to open pages in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unbraid as ub
from unbraid.commands.run import Run
from unbraid.core.store import write_table
from unbraid.scoring.collapse import ACTIVE
from unbraid.scoring.metric_inputs import COLUMNS
from unbraid.scoring.score_table import stored_scores

from .pages import Page

SMALL: dict[str, Any] = {"image_size": 16, "x": 6, "y": 4, "scale": 3}
KINDS = ["sweep", "two", "one", "own", "points", "diverged", "all_diverged", "ae", "colour"]


def small_train(
    out: Path, data: Any = "sprites", objective: Any = "beta_vae", **options: Any
) -> Run:
    """A run of a few quick steps with a small dense network."""
    usual: dict[str, Any] = {
        "network": "mlp",
        "network_options": {"hidden": 24},
        "steps": 20,
        "latents": 4,
        "learning_rate": 1e-3,
    }
    if isinstance(data, str) and data == "sprites" and "data_options" not in options:
        usual["data_options"] = SMALL
    return ub.train(data, objective, out=out, quiet=True, device="cpu", **{**usual, **options})


def every_run(home: Path) -> dict[str, Run]:
    """One run of each kind, by name; only `sweep` has stored scores."""
    own = np.random.default_rng(0).integers(0, 256, (60, 16, 16, 3), dtype=np.uint8)
    two = [ub.BetaVAE(beta=[1, 4]), ub.FactorVAE(gamma=10)]  # type: ignore[attr-defined]
    made = {
        "sweep": small_train(home / "sweep", objective=ub.BetaVAE(beta=[16, 1, 4]), seeds=3),
        "two": small_train(home / "two", objective=two, seeds=2, steps=4),
        "one": small_train(home / "one", objective="vae"),
        "own": small_train(home / "own", data=own, objective=ub.BetaVAE(beta=[1, 4]), seeds=2),
        "points": small_train(home / "points", data="pinwheel", seeds=2, latents=2),
        "diverged": small_train(home / "diverged", seeds=2, learning_rate=[1e-3, 1e6]),
        "all_diverged": small_train(home / "all_diverged", learning_rate=1e6),
        "ae": small_train(home / "ae", objective="ae", seeds=2),
        "colour": small_train(home / "colour", data_options={**SMALL, "channels": 3, "hue": 3}),
    }
    made["sweep"].score(["mig", "sap"], quiet=True)
    for run in made.values():
        set_active_latents(run, 4)
    return made


def set_active_latents(run: Run, count: int) -> None:
    """Let members have so many active latents; after a moment's training they would have none."""
    stored = stored_scores(run.folder)
    rows = [(m.id, ACTIVE, "mean", "count", float(count), 0.0, 1) for m in run.folder.plan.members]
    others = stored[(stored["metric"] != ACTIVE) | (stored["quantity"] != "count")]
    table = pd.DataFrame(rows, columns=COLUMNS)
    table = pd.concat([others, table], ignore_index=True) if len(others) else table
    write_table(run.path / "scores.parquet", table)


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    return every_run(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="session")
def pages(runs: dict[str, Run]) -> dict[str, Page]:
    """The report of each run, written once."""
    return {name: Page(runs[name].report()) for name in KINDS}


def program(*names: str) -> str:
    """The first of the programs that is installed; without any it fails in CI, else it skips."""
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        message = f"{' or '.join(names)} is not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """One headless Chromium for all tests."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = program("chromium", "chromium-browser", "google-chrome", "chrome")
    profile = tmp_path_factory.mktemp("profile")
    for flag in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-background-networking",
        f"--user-data-dir={profile}",
    ):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = Chrome(options=options, service=Service(program("chromedriver")))
    yield driver
    driver.quit()


@pytest.fixture
def open_page(browser: Any) -> Callable[[Path, int], None]:
    """Shows a page in a window of so many pixels, a phone's below 600, and waits for figures."""
    from selenium.webdriver.support.ui import WebDriverWait

    ready = (
        "return document.getElementById('figures') === null ||"
        " document.documentElement.dataset.ready === 'yes'"
    )

    def show(page: Path, width: int) -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
        browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        browser.get(page.as_uri())
        WebDriverWait(browser, 60, poll_frequency=0.03).until(lambda it: it.execute_script(ready))

    return show
