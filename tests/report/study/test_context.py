# SPDX-License-Identifier: Apache-2.0
"""The page of a study: every claim with its verdict, failures as plain as successes."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from unbraid.core.registry import Citation
from unbraid.report.page import write_page
from unbraid.report.study.context import further, page_context, write_study
from unbraid.report.study.words import estimate_shown, number_shown
from unbraid.studies.claim import VERDICTS, Claim, Rule
from unbraid.studies.finding import Estimate, Exhibit, Finding
from unbraid.studies.results import Results, stacked
from unbraid.studies.verdicts import Judged, judge

from ..pages import Page, assert_drawn, assert_sound
from .conftest import World

WILD = "<script>alert('x')</script> & 2 < 3"


def shown(world: World, folder: Path) -> Page:
    context = page_context(world.results, world.table, world.judged)
    return Page(write_page(folder / "page.html", "study", context))


@pytest.fixture(scope="session")
def true_page(true_world: World, tmp_path_factory: pytest.TempPathFactory) -> Page:
    return shown(true_world, tmp_path_factory.mktemp("page"))


@pytest.fixture(scope="session")
def false_page(false_world: World, tmp_path_factory: pytest.TempPathFactory) -> Page:
    return shown(false_world, tmp_path_factory.mktemp("page"))


def verdicts(page: Page) -> list[tuple[str, str]]:
    """Claims with the verdicts of their headings, colour and word."""
    text = page.path.read_text("utf-8")
    heading = r'<h2 id="h-([^"]+)">\1 <span class="verdict ([^"]+)">([^<]+)</span>'
    found = re.findall(heading, text)
    assert all(colour == word.replace(" ", "-") for _, colour, word in found)
    return [(name, word) for name, _, word in found]


def test_the_page_is_sound_light_and_without_scripts(true_page: Page, false_page: Page):
    for page in (true_page, false_page):
        assert_sound(page, "study")
        assert page.all("script") == []
        assert page.path.stat().st_size < 700_000


def test_every_claim_has_its_verdict_at_the_top_and_in_its_section(
    true_page: Page, true_world: World, false_page: Page, false_world: World
):
    for page, world in ((true_page, true_world), (false_page, false_world)):
        expected = [(one.claim.id, one.verdict) for one in world.judged]
        assert len(expected) == 18
        assert verdicts(page) == expected
        rows = re.findall(
            r'<a href="#([^"]+)">\1</a></th><td><span class="verdict [a-z-]+">([^<]+)',
            page.path.read_text("utf-8"),
        )
        assert rows == expected


def test_failures_are_as_plain_as_successes(true_page: Page, false_page: Page):
    assert dict(verdicts(true_page))["LOC-K1"] == "reproduced"
    assert dict(verdicts(false_page))["LOC-K1"] == "not reproduced"
    assert {word for _, word in verdicts(true_page)} == set(VERDICTS)
    assert [word for _, word in verdicts(false_page)].count("not reproduced") >= 6
    counts = [word for _, word in verdicts(true_page)]
    told = ", ".join(f"{counts.count(verdict)} {verdict}" for verdict in VERDICTS)
    assert f"18 claims: {told}." in true_page.text


def test_numbers_of_paper_and_ours_stand_side_by_side(true_page: Page, true_world: World):
    for one in true_world.judged:
        for text in (one.claim.statement, one.claim.place, one.claim.paper, one.why):
            assert " ".join(text.replace("`", " ").split())[:60] in true_page.text
        for rule in one.claim.rules:
            assert rule.interval in true_page.text
            assert f"{rule.side} {number_shown(rule.threshold)}" in true_page.text
        for estimate in one.finding.estimates if one.finding else ():
            assert estimate_shown(estimate) in true_page.text
    (share,) = [one for one in true_world.judged if one.claim.id == "LOC-Ta"]
    assert share.finding is not None
    row = r"mean share </th><td[^>]*> *0\.338".replace(" </th>", "</th>")
    assert re.search(row, true_page.path.read_text("utf-8"))
    assert len(further(share)) == len(share.finding.estimates) - 2


def test_every_exhibit_is_drawn_for_both_widths(true_page: Page, true_world: World):
    exhibits = [one.finding.exhibit for one in true_world.judged if one.finding]
    assert {one.form for one in exhibits if one} == {
        "matrix",
        "lines",
        "points",
        "violins",
        "bars",
    }
    assert len(true_page.all("svg")) == 2 * (1 + len(exhibits))  # the answer's own first
    assert all(exhibit.caption in true_page.text for exhibit in exhibits if exhibit)


def test_the_page_says_what_was_trained_and_how_to_train_more(true_page: Page, true_world: World):
    lost = int((true_world.table["status"] == "diverged").sum())
    slices = len(true_world.results.slices())
    there = [one for one in true_world.results.slices() if true_world.results.done(*one)]
    plans = {one.plan["steps"] for _, one in there}
    steps = " or ".join(f"{one:,}" for one in sorted(plans))
    for words in (
        f"Models 1,110, {lost} of them diverged",
        f"Tables 20 of {slices} slices",
        "Data dsprites, color_dsprites, noisy_dsprites, shapes3d_drawn, scream_dsprites, sprites",
        "Seeds 0 to 9",
        f"Training steps {steps}",
        "Trained on a GPU",
        "Training and scoring 2.5 hours",
        "Made 2026-11-16",
        "Versions: unbraid 0.1.0, torch 2.6.0, numpy 2.0.0.",
        "Locatello et al. (2019)",
        "Scale gpu, a reduced study",
        f"unbraid study run locatello2019 --scale gpu --pool burgess --results"
        f" {true_world.results.folder}",
    ):
        assert words in true_page.text


@pytest.mark.slow
def test_without_tables_it_says_what_is_missing(true_world: World, tmp_path: Path):
    empty = Results(true_world.results.study, "gpu", tmp_path)
    page = shown(World(empty, empty.table(), judge(empty, stacked([]))), tmp_path)
    assert_sound(page, "study")
    assert [word for _, word in verdicts(page)].count("not run") == 16
    assert "Not run. No models of main on color_dsprites yet: unbraid study run" in page.text
    assert f"Tables 0 of {len(empty.slices())} slices" in page.text


def test_what_a_study_says_is_text(true_world: World, tmp_path: Path):
    rule = Rule(WILD, "above", 0.5, WILD)
    claim = Claim("W-1", WILD, f"{WILD} `{WILD}`", WILD, "text", WILD, (rule,), departs=WILD)
    points = pd.DataFrame({"x": [1.0, 2.0], "y": [1.0, 2.0], "group": [WILD, "b"]})
    finding = Finding(
        (Estimate(WILD, 0.7, 0.6, 0.8, 3, 0.9), Estimate(f"{WILD}2", 0.1, 0.1, 0.1, 3)),
        Exhibit("points", points, WILD, WILD, WILD),
        WILD,
    )
    results = Results(true_world.results.study, "gpu", tmp_path)
    results.study = dataclasses.replace(
        results.study, title=WILD, citation=Citation(WILD, 2026, WILD)
    )
    page = shown(
        World(results, results.table(), (Judged(claim, finding, "reproduced", WILD),)), tmp_path
    )
    assert_sound(page, "study")
    assert page.text.count(WILD) >= 15
    assert len(page.all("code")) == 4  # in the statement, here and above, and two commands


@pytest.mark.slow
def test_small_scales_say_that_they_prove_nothing(true_world: World, tmp_path: Path):
    results = Results(true_world.results.study, "small", tmp_path)
    page = Page(write_study(tmp_path / "page.html", results))
    assert "its verdicts say nothing about the paper" in page.text


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_shows_one_figure_of_each_claim_without_sideways_scrolling(
    browser: Any, open_page: Any, true_page: Page, true_world: World, width: int
):
    open_page(true_page.path, width)
    assert_drawn(browser, width)
    seen = "return [...document.querySelectorAll('svg')].filter(one => one.clientWidth > 0).length"
    found = sum(one.finding is not None for one in true_world.judged)
    assert browser.execute_script(seen) == 1 + found  # the answer's own first
    cut = (
        "return [...document.querySelectorAll('svg text')].filter(one => { const svg ="
        " one.ownerSVGElement.getBoundingClientRect(), box = one.getBoundingClientRect(); return"
        " box.width > 0 && (box.left < svg.left - 1 || box.right > svg.right + 1 || box.bottom >"
        " svg.bottom + 1); }).map(one => one.textContent)"
    )
    assert browser.execute_script(cut) == []


def test_a_page_opens_with_the_answer_where_a_study_has_one(tmp_path):
    from tests.studies import zietlow2021_tables as tables

    from unbraid.report.study.context import page_context
    from unbraid.studies import STUDIES
    from unbraid.studies.results import Results

    results = Results(STUDIES.load("zietlow2021"), "gpu", tmp_path)
    context = page_context(results, tables.best_noise(True), [])
    assert context["answer"].startswith("Is the effect real? Yes")
    assert "<svg" in context["answer_figure"]["wide"]
    empty = page_context(results, results.table(), [])
    assert (empty["answer"], empty["answer_figure"]) == ("", None)
    other = Results(STUDIES.load("locatello2019"), "gpu", tmp_path / "other")
    assert page_context(other, other.table(), [])["answer"] == ""
