# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: it draws, sorts, switches, fits a phone and fetches nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from unbraid.commands.train import Run

pytestmark = pytest.mark.browser

HEADINGS = [
    "Scores by setting",
    "Where the factors are",
    "What each latent does",
    "What comes back",
    "How training went",
    "How this was made",
]


def program(*names: str) -> str:
    """The first of the programs that is installed; missing all of them fails in CI and skips
    elsewhere.
    """
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        message = f"{' or '.join(names)} is not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return found


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
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


def opened(browser: Any, run: Run, width: int = 1280) -> None:
    """Show a run's page at a width and wait until its figures are drawn."""
    from selenium.webdriver.support.ui import WebDriverWait

    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    browser.get(run.report().as_uri())
    WebDriverWait(browser, 60).until(
        lambda page: page.execute_script("return document.documentElement.dataset.ready") == "yes"
    )


def rows(browser: Any, column: int) -> list[str]:
    script = (
        "return [...document.querySelectorAll('#members tbody tr')].map(row =>"
        " row.cells[arguments[0]].innerText.trim())"
    )
    return browser.execute_script(script, column)


@pytest.mark.parametrize(
    "kind", ["sweep", "two", "one", "own", "points", "diverged", "all_diverged", "ae", "colour"]
)
def test_everything_is_drawn_without_a_complaint_or_a_fetch(
    browser: Any, runs: dict[str, Run], kind: str
) -> None:
    opened(browser, runs[kind])
    undrawn = browser.execute_script(
        "return [...document.querySelectorAll('.figure')]"
        ".filter(box => box.offsetParent !== null && !box.querySelector('svg.main-svg'))"
        ".map(box => box.dataset.figure)"
    )
    assert undrawn == []
    broken = (
        "return [...document.images].filter(one => !(one.complete && one.naturalWidth > 0)).length"
    )
    assert browser.execute_script(broken) == 0
    # Data URIs are listed as resources too, though nothing is fetched for them.
    fetched = (
        "return performance.getEntriesByType('resource').map(one => one.name).filter(name =>"
        " !name.startsWith('data:'))"
    )
    assert browser.execute_script(fetched) == []
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("kind", ["sweep", "own", "diverged"])
def test_the_page_fits_its_window(
    browser: Any, runs: dict[str, Run], kind: str, width: int
) -> None:
    opened(browser, runs[kind], width)
    assert browser.execute_script("return window.innerWidth") == width
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    overflowing = browser.execute_script(
        "return [...document.querySelectorAll('.figure .main-svg')]"
        ".filter(box => box.getBoundingClientRect().right > innerWidth).length"
    )
    assert overflowing == 0


def test_headings_in_order(browser: Any, runs: dict[str, Run]) -> None:
    opened(browser, runs["sweep"])
    assert (
        browser.execute_script(
            "return [...document.querySelectorAll('h2')].map(one => one.innerText)"
        )
        == HEADINGS
    )
    assert (
        browser.execute_script("return document.querySelector('h1').innerText") == "sprites · β-VAE"
    )


def test_the_table_sorts_by_the_chosen_column(browser: Any, runs: dict[str, Run]) -> None:
    opened(browser, runs["sweep"])
    column = browser.execute_script(
        "return [...document.querySelectorAll('#members thead th')].findIndex(one =>"
        " one.innerText.startsWith('SAP'))"
    )
    button = browser.find_elements("css selector", "#members thead button")[column]
    expected = sorted(float(value) for value in rows(browser, column))
    browser.execute_script("arguments[0].click()", button)
    assert [float(value) for value in rows(browser, column)] == expected[::-1]
    browser.execute_script("arguments[0].click()", button)
    assert [float(value) for value in rows(browser, column)] == expected
    assert (
        browser.execute_script("return [...document.querySelectorAll('[aria-sort]')].length") == 1
    )


def test_members_without_a_score_stay_last(browser: Any, runs: dict[str, Run]) -> None:
    opened(browser, runs["diverged"])
    for _ in range(2):
        browser.execute_script("document.querySelectorAll('#members thead button')[3].click()")
        assert rows(browser, 3)[2:] == ["–", "–"]


def test_choosing_a_model_shows_it_everywhere(browser: Any, runs: dict[str, Run]) -> None:
    from selenium.webdriver.support.ui import Select

    opened(browser, runs["own"])
    choosers = [Select(one) for one in browser.find_elements("css selector", "select.who")]
    assert len(choosers) == 3
    choosers[1].select_by_index(1)
    member = choosers[1].options[1].get_attribute("value")
    visible = browser.execute_script(
        "return [...document.querySelectorAll('.portrait')].filter(one => one.offsetParent).map(one"
        " => one.dataset.member)"
    )
    assert visible == [member] * 3
    assert [one.first_selected_option.get_attribute("value") for one in choosers] == [member] * 3
    assert (
        browser.execute_script(
            f"return document.querySelectorAll('[data-figure=bars-{member}] svg.main-svg').length"
        )
        > 0
    )


def test_a_setting_can_be_hidden_in_all_curves(browser: Any, runs: dict[str, Run]) -> None:
    opened(browser, runs["sweep"])
    shown = (
        "return [...document.querySelectorAll('.curves .figure')]"
        ".map(box => box.data.filter(line => line.visible !== false).length)"
    )
    assert browser.execute_script(shown) == [9, 9, 9]
    browser.execute_script("document.querySelector('button.key').click()")
    assert browser.execute_script(shown) == [6, 6, 6]
    assert (
        browser.execute_script(
            "return document.querySelector('button.key').getAttribute('aria-pressed')"
        )
        == "false"
    )
    browser.execute_script("document.querySelector('button.key').click()")
    assert browser.execute_script(shown) == [9, 9, 9]
