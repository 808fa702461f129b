# SPDX-License-Identifier: Apache-2.0
"""The page in a real browser: it draws, sorts, switches, fits a phone and fetches nothing."""

from __future__ import annotations

from typing import Any

import pytest

from .conftest import KINDS
from .pages import Page, assert_drawn

pytestmark = pytest.mark.browser

HEADINGS = [
    "Scores by setting",
    "Where the factors are",
    "What each latent does",
    "Reconstructions",
    "How training went",
    "How this was made",
]


def rows(browser: Any, column: int) -> list[str]:
    script = (
        "return [...document.querySelectorAll('#members tbody tr')].map(row =>"
        " row.cells[arguments[0]].innerText.trim())"
    )
    return browser.execute_script(script, column)


@pytest.mark.parametrize("kind", KINDS)
def test_everything_is_drawn_without_a_complaint_or_a_fetch(
    browser: Any, open_page: Any, pages: dict[str, Page], kind: str
) -> None:
    for width in (390, 1280) if kind in ("sweep", "own", "diverged") else (1280,):
        open_page(pages[kind].path, width)
        assert_drawn(browser, width)


def test_headings_in_order(browser: Any, open_page: Any, pages: dict[str, Page]) -> None:
    open_page(pages["sweep"].path, 1280)
    assert (
        browser.execute_script(
            "return [...document.querySelectorAll('h2')].map(one => one.innerText)"
        )
        == HEADINGS
    )
    assert (
        browser.execute_script("return document.querySelector('h1').innerText") == "sprites · β-VAE"
    )


def test_the_table_sorts_by_the_chosen_column(
    browser: Any, open_page: Any, pages: dict[str, Page]
) -> None:
    open_page(pages["sweep"].path, 1280)
    column = browser.execute_script(
        "return [...document.querySelectorAll('#members thead th')].findIndex(one =>"
        " one.innerText.startsWith('SAP'))"
    )
    button = browser.find_elements("css selector", "#members thead button")[column]

    def scores() -> list[float]:
        return [float(value.partition(" ")[0]) for value in rows(browser, column)]

    expected = sorted(scores())
    browser.execute_script("arguments[0].click()", button)
    assert scores() == expected[::-1]
    browser.execute_script("arguments[0].click()", button)
    assert scores() == expected
    assert (
        browser.execute_script("return [...document.querySelectorAll('[aria-sort]')].length") == 1
    )


def test_members_without_a_score_stay_last(
    browser: Any, open_page: Any, pages: dict[str, Page]
) -> None:
    open_page(pages["diverged"].path, 1280)
    for _ in range(2):
        browser.execute_script("document.querySelectorAll('#members thead button')[3].click()")
        assert rows(browser, 3)[2:] == ["–", "–"]


def test_choosing_a_model_shows_it_everywhere(
    browser: Any, open_page: Any, pages: dict[str, Page]
) -> None:
    from selenium.webdriver.support.ui import Select

    open_page(pages["own"].path, 1280)
    choosers = [Select(one) for one in browser.find_elements("css selector", "select.who")]
    assert len(choosers) == 3
    choosers[1].select_by_index(1)
    member = choosers[1].options[1].get_attribute("value")
    visible = browser.execute_script(
        "return [...document.querySelectorAll('.member')].filter(one => one.offsetParent).map(one"
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


def test_a_setting_can_be_hidden_in_all_curves(
    browser: Any, open_page: Any, pages: dict[str, Page]
) -> None:
    open_page(pages["sweep"].path, 1280)
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
