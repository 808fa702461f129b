# SPDX-License-Identifier: Apache-2.0
"""The page of a recursion: stages and links that are true, the curve of figure 6, cuts as they were
made, nothing loaded.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import f_oneway

import unbraid as ub
from unbraid.commands.pbt import Recursed
from unbraid.report.rpu.context import (
    MARK,
    MOST_CUTS,
    cuts_of,
    done_paragraph,
    following_commands,
    leaf_runs_section,
    page_context,
    write_recursion_page,
)
from unbraid.report.rpu.figures import explained, followed, leaf_runs_figure, moved_codes
from unbraid.report.train.member_view import FRAMES
from unbraid.search.reduce.reduction import ReductionRule
from unbraid.search.rpu.labelling import label
from unbraid.search.rpu.recursion import RecursionPlan, Stage, make_recursion

from . import test_browser
from .test_build import Page

browser = test_browser.browser
CPU = torch.device("cpu")
HOSTILE = "unbraid rpu run <script>alert('x')</script> & 2 < 3"
ROOM: dict[str, Any] = {"x": 10, "y": 8, "scale": 1, "image_size": 16}
EAGER = ReductionRule(chance=None, peak_deviations=0.5, fewest_images=3, separation=4, more_than=2)
"""Finds parts in the codes of models that hardly trained."""
QUICK: dict[str, Any] = {
    "network": "mlp", "network_options": {"hidden": 32}, "latents": 3, "population": 5, "models": 2, "epochs": 1,
    "epoch_images": 320, "leaf_images": 160, "hyper": {"beta": "0.2..0.5"}, "learning_rate": "5e-3..1e-2", "batch_size": 16,
    "leaf_runs": 2, "levels": 3, "reduction": EAGER, "seed": 1,
}  # fmt: skip


def recursed(out: Path, data: Any = "sprites", **options: Any) -> Recursed:
    options = {**QUICK, **({"data_options": ROOM} if isinstance(data, str) else {}), **options}
    return ub.recurse(data, "beta_vae", out=out, device="cpu", quiet=True, **options)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Recursed]:
    """Recursions with and without known factors, with one final population alone, and one whose
    root finds nothing.
    """
    home = tmp_path_factory.mktemp("recursions")
    own = ub.load("sprites", **ROOM).images(np.arange(80))
    return {
        "labelled": recursed(home / "labelled", every_final=True, command=HOSTILE),
        "own": recursed(home / "own", own, every_final=True, leaf_runs=1, levels=2),
        "one": recursed(home / "one", leaf_runs=1, levels=2),
        "alone": recursed(home / "alone", leaf_runs=0, levels=1),
        "nothing": recursed(home / "nothing", active_nats=1e6),
    }


KINDS = ["labelled", "own", "one", "alone", "nothing"]


def page_of(made: Recursed) -> Path:
    return made.path / "recursion.html"


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_is_sound_and_loads_nothing(made: dict[str, Recursed], kind: str) -> None:
    path = page_of(made[kind])
    assert MARK in path.read_bytes()
    page = Page(path)
    ids = [attributes["id"] for _, attributes in page.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    for tag, attributes in page.tags:
        for name in ("src", "href", "srcset", "data", "action", "poster"):
            address = attributes.get(name) or "data:,"
            if tag == "a" and name == "href":
                assert (
                    address[1:] in ids
                    if address.startswith("#")
                    else (path.parent / address).is_file()
                )
            else:
                assert address.startswith("data:")
    assert all(attributes.get("scope") for attributes in page.all("th"))
    assert all(attributes.get("alt") for attributes in page.all("img"))
    assert page.headings[0] == 1
    assert all(
        after <= before + 1 for before, after in zip(page.headings, page.headings[1:], strict=False)
    )
    drawn = [str(attributes["data-figure"]) for attributes in page.all("div", class_="figure")]
    assert sorted(drawn) == sorted(page.figures)
    assert all(figure["data"] for figure in page.figures.values())
    assert json.dumps(page.figures, allow_nan=False)
    assert len(page.all("script")) == 3
    for word in ("nan", "None", "NaN", "inf", "Undefined"):
        assert not re.search(rf"\b{word}\b", page.text)
    assert "Where this page came from" in page.text


def test_the_table_says_what_the_stages_say(made: dict[str, Recursed]) -> None:
    one = made["labelled"]
    page, table = Page(page_of(one)), one.table().set_index("stage")
    assert sum(stage.name.startswith("leaf") and stage.images > 0 for stage in one.stages) >= 2, (
        "else this shows little"
    )
    assert "Stage Images Score Active latents MIG DCI Its part" in page.text
    assert ("Why it ended there" in page.text) == any(stage.ended for stage in one.stages)
    links = [link["href"] for link in page.all("a")]
    for stage in one.stages:
        assert (f"{stage.name}/search.html" in links) == bool(stage.images)
        images = f"{stage.images:,}" if stage.images else "–"
        score = f"{stage.score:.3f}" if math.isfinite(stage.score) else "–"
        if stage.name.startswith("final"):
            known = [f"{table.loc[stage.name, name]:.3f}" for name in ("mig", "dci")]
            assert f"{stage.name} {images} {score} – {known[0]} {known[1]}" in page.text
        else:
            active = f"{len(stage.active)}" if math.isfinite(stage.score) else "–"
            cut = " how it was cut" if stage.name.startswith("leaf") else ""
            assert (
                f"{stage.name} {images} {score} {active} – –{cut} {stage.ended}".rstrip()
                in page.text
            )
    assert HOSTILE in page.text
    assert (
        "shows what the latents of the final winner do to an image unbraid report"
        f" {one.path / 'final-2'}" in page.text
    )


def test_pages_of_other_kinds(made: dict[str, Recursed]) -> None:
    own, nothing = Page(page_of(made["own"])).text, Page(page_of(made["nothing"])).text
    assert "Known factors none" in own
    assert "The data has no known factors, so there is no MIG or DCI" in own
    assert "Stage Images Score Active latents Its part" in own
    assert "Why it ended there" in nothing
    assert "no latent of the best model says more than 1e+06 nat" in nothing
    assert "What leaf-runs add" not in nothing
    assert "What each level found" not in nothing
    assert f"unbraid report {made['nothing'].path / 'root'}" in nothing
    assert "How the parts were cut" not in Page(page_of(made["alone"])).text
    assert (
        "Without leaf-runs there is nothing to compare it with."
        in Page(page_of(made["alone"])).text
    )
    assert (
        "with --every-final there is one for each number from 0 on"
        in Page(page_of(made["one"])).text
    )


def test_a_finished_recursion_gets_its_page_again(made: dict[str, Recursed]) -> None:
    path = page_of(made["one"])
    before = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", Page(path).text)
    path.unlink()
    ub.resume_search(path.parent, device="cpu", quiet=True)
    after = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", "", Page(path).text)
    sizes = r"[\d.]+ k?M?B"  # the pages of stages have a date in them
    assert re.sub(sizes, "", after) == re.sub(sizes, "", before)
    assert "recursion.html" not in after


def test_cuts_are_those_that_were_made(made: dict[str, Recursed]) -> None:
    recursion, stages = made["labelled"].recursion, made["labelled"].stages
    searches = {
        search.path.relative_to(recursion.path).as_posix(): search
        for search in recursion.searches()
    }
    labels = {
        name: label(search, CPU)
        for name, search in searches.items()
        if not name.startswith("final")
    }
    seen = 0
    for stage, source, found in cuts_of(recursion.plan, stages, labels):
        assert (found.stopped or "") == ("" if stage.images else stage.ended)
        if stage.images:
            kept = np.sort(recursion.places(searches[source])[found.indices])
            np.testing.assert_array_equal(kept, recursion.places(searches[stage.name]))
            seen += 1
    assert seen >= 2


def test_only_so_many_cuts_are_drawn(made: dict[str, Recursed]) -> None:
    recursion = made["labelled"].recursion
    stages = [
        made["labelled"].stages[0],
        *(Stage(f"leaf-{number}/level-2", 0, math.nan, (), "why") for number in range(15)),
    ]
    context = page_context(recursion, stages, {}, CPU)
    assert len(context["cuts"]) == MOST_CUTS
    assert context["undrawn"] == 3
    assert [bool(row["cut"]) for row in context["stages"]] == [False] + [True] * MOST_CUTS + [
        False
    ] * 3


def test_the_curve_is_that_of_the_final_winners(made: dict[str, Recursed]) -> None:
    one = made["labelled"]
    figure = Page(page_of(one)).figures["leaf-runs"]
    assert [line["name"] for line in figure["data"]] == ["MIG", "DCI"]
    assert figure["data"][0]["x"] == [0, 1, 2]
    for line, name in zip(figure["data"], ("mig", "dci"), strict=True):
        wanted = [
            one.final(count).winner.score(name, quiet=True)[name].iloc[0] for count in range(3)
        ]
        assert line["y"] == pytest.approx(wanted, rel=1e-4)
    own = made["own"]
    (line,) = Page(page_of(own)).figures["leaf-runs"]["data"]
    assert line["y"] == pytest.approx([own.final(count).score for count in range(2)], rel=1e-4)
    assert line["name"] == "gap with surrogate labels"


def test_a_missing_score_is_a_gap() -> None:
    figure = leaf_runs_figure([0, 1, 2], {"MIG": [0.1, math.nan, 0.3]}, "score")
    assert figure["data"][0]["y"] == [0.1, None, 0.3]
    assert figure["layout"]["showlegend"] is False
    assert figure["layout"]["xaxis"]["tickvals"] == [0, 1, 2]


@pytest.fixture(scope="module")
def plan() -> RecursionPlan:
    return make_recursion("sprites", data_options=ROOM, leaf_runs=3, population=16, network="mlp")[
        0
    ]


ROOT = Stage("root", 80, 0.8, (0, 2))
FINALS = [Stage(f"final-{count}", 80, 0.4 + count / 10) for count in range(4)]


def test_what_was_done_in_words(plan: RecursionPlan) -> None:
    first = (
        "First came a search without labels on all 80 images, the root: 16 individuals of 5 models"
        " each, selected by how well the models of an individual agree with each other (UDR)."
    )
    leaves = [
        Stage("leaf-0/level-2", 20, 0.5, (1,)),
        Stage("leaf-0/level-3", 12, 0.05, (), "no"),
        Stage("leaf-1/level-2", 0, math.nan),
    ]
    every = replace(plan, every_final=True)
    assert (
        done_paragraph(every, [ROOT, *leaves, *FINALS])
        == f"{first} The 2 active latents of its best model became surrogate labels. In 3 leaf-runs"
        " the data was cut down to parts in which such labels hardly vary, to search afresh"
        " there: 2 parts could be searched, and 1 gave new labels. 4 final populations were"
        " trained on all images and selected by the mutual information gap with the labels of"
        " all levels of 0 to 3 leaf-runs."
    )
    alone = done_paragraph(replace(plan, leaf_runs=0), [replace(ROOT, active=(1,)), FINALS[0]])
    assert (
        alone == f"{first} The 1 active latent of its best model became surrogate labels. A final"
        " population was trained on all images and selected by the mutual information gap with"
        " the root's labels."
    )
    assert "In 1 leaf-run the data was cut down" in done_paragraph(
        replace(plan, leaf_runs=1), [ROOT, FINALS[1]]
    )
    assert "to search afresh there: no part was found." in done_paragraph(
        plan, [ROOT, leaves[2], FINALS[3]]
    )
    failed = done_paragraph(
        plan,
        [replace(ROOT, active=(), ended="the models do not agree on anything (best score 0.050)")],
    )
    assert (
        failed
        == f"{first} It found nothing that could serve as labels, since the models do not agree on"
        " anything (best score 0.050): there is no final population."
    )


def test_what_is_said_of_leaf_runs(plan: RecursionPlan) -> None:
    assert leaf_runs_section(plan, [ROOT], {}, True) is None
    only = leaf_runs_section(plan, [ROOT, FINALS[3]], {3: {"mig": 0.25, "dci": 0.5}}, True)
    assert only == {
        "lead": (
            "The winner of the final population reaches a gap of 0.700 with its surrogate labels,"
            " and with the known factors MIG 0.250 and DCI 0.500. It used 3 leaf-runs; with"
            " --every-final there is one for each number from 0 on, and a curve like the paper's"
            " figure 6."
        ),
        "figure": None,
        "about": "",
    }
    needing_factors = leaf_runs_section(plan, [ROOT, *FINALS], {}, False)
    assert needing_factors is not None
    assert needing_factors["figure"]["data"][0]["y"] == [0.4, 0.5, 0.6, 0.7]
    assert needing_factors["lead"].endswith(
        " No leaf-run gave labels of its own, so all final populations had the same labels."
    )
    found = leaf_runs_section(
        plan, [ROOT, Stage("leaf-0/level-2", 20, 0.5, (1,)), *FINALS], {}, False
    )
    assert found is not None
    assert found["lead"].endswith("a lower one may belong to the better model.")
    assert needing_factors["lead"].startswith(
        "The data has no known factors, so there is no MIG or DCI to compare final winners by"
    )


def test_commands_hold_against_odd_folders() -> None:
    commands = following_commands(Path("my runs/it's"), [ROOT, FINALS[1]])
    assert commands[0][0] == """unbraid report 'my runs/it'"'"'s/final-1'"""


def test_moved_codes_by_hand() -> None:
    values = np.stack([np.arange(101.0), np.repeat(7.0, 101)], axis=1).astype(np.float32)
    codes = moved_codes(values, (3, 1), 0, 5)
    assert codes.shape == (FRAMES, 5)
    np.testing.assert_allclose(codes[:, 3], np.linspace(1, 99, FRAMES), rtol=1e-6)
    assert (codes[:, 1] == 7).all()
    assert (codes[:, [0, 2, 4]] == 0).all()


def test_explained_by_hand() -> None:
    assert explained(np.array([1.0, 1.0, 5.0, 5.0]), np.array([0, 0, 1, 1])) == (1.0, 0.0)
    # Within: 4 (1/2)^2 over 4 - 2; all: 2 (3/2)^2 + 2 (1/2)^2 over 3.
    share, chance = explained(np.array([0.0, 1.0, 2.0, 3.0]), np.array([0, 0, 1, 1]))
    assert share == pytest.approx(1 - 0.5 / (5 / 3))
    assert chance == pytest.approx(
        1 - math.sqrt(0.8)
    )  # F is 8 with 1 and 2 degrees: 1 - sqrt(8 / (8 + 2))
    for codes, values in (
        (np.arange(4.0), np.arange(4)),
        (np.ones(4), np.array([0, 0, 1, 1])),
        (np.arange(4.0), np.zeros(4)),
    ):
        assert explained(codes, values) == (0.0, 1.0)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10_000), st.integers(2, 12), st.floats(-3, 3), st.floats(0.1, 5))
def test_explained_is_the_adjusted_fit_of_group_means(
    seed: int, groups: int, offset: float, scale: float
) -> None:
    generator = np.random.default_rng(seed)
    values = np.concatenate([np.arange(groups), generator.integers(0, groups, 40)])
    codes = generator.standard_normal(len(values)) + 0.1 * values
    dummies = (values[:, None] == np.arange(groups)).astype(np.float64)
    rest = codes - dummies @ np.linalg.lstsq(dummies, codes, rcond=None)[0]
    adjusted = 1 - (rest @ rest / (len(codes) - groups)) / codes.var(ddof=1)
    chance = f_oneway(*(codes[values == group] for group in range(groups))).pvalue
    assert explained(codes, values) == pytest.approx((max(0.0, adjusted), chance), abs=1e-9)
    assert explained(offset + scale * codes, values * 7 + 3) == pytest.approx(
        explained(codes, values), abs=1e-9
    )


def test_factors_are_named_where_chance_is_out_of_the_question() -> None:
    generator = np.random.default_rng(0)
    factors = np.stack([generator.integers(0, 8, 200), generator.integers(0, 40, 200)], axis=1)
    codes = factors[:, 0] + generator.standard_normal(200)
    assert (
        followed(codes, factors, ["x", "orientation"])
        == f"x explains {explained(codes, factors[:, 0])[0]:.0%}"
    )
    assert followed(codes[:5], factors[:5], ["x", "orientation"]) == ""
    assert followed(codes, factors[:, :0], []) == ""
    noise = [
        followed(generator.standard_normal(94), factors[:94], ["x", "orientation"])
        for _ in range(300)
    ]
    assert (
        sum(map(bool, noise)) <= 9
    )  # 1% of them, and the chance of more than 9 of 300 is one in a thousand


def test_every_level_shows_its_latents(made: dict[str, Recursed]) -> None:
    one = made["labelled"]
    page = Page(page_of(one))
    levels = [stage for stage in one.stages if stage.active]
    assert len(page.all("img")) == sum(len(stage.active) for stage in levels)
    for stage in levels:
        for latent in stage.active:
            assert page.all(
                "img", alt=f"Images drawn as latent {latent} of {stage.name} goes from low to high"
            )


def test_write_gives_the_path(made: dict[str, Recursed]) -> None:
    one = made["alone"]
    assert (
        write_recursion_page(one.recursion, one.stages, one.final_scores, CPU)
        == page_of(one)
        == one.page()
    )


@pytest.mark.browser
@pytest.mark.parametrize("kind", KINDS)
def test_a_browser_draws_everything_without_a_complaint_or_a_fetch(
    browser: Any, open_page: Any, made: dict[str, Recursed], kind: str
) -> None:
    from selenium.webdriver.support.ui import WebDriverWait

    undrawn = (
        "return [...document.querySelectorAll('.figure')].filter(box =>"
        " !box.querySelector('svg.main-svg')).length"
    )
    for width in (390, 1280) if kind == "labelled" else (390,):
        open_page(page_of(made[kind]), width)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        for link in browser.find_elements("css selector", "a[href^='#']"):
            browser.execute_script("arguments[0].click()", link)  # opens the cut it leads to
        assert browser.execute_script(
            "return [...document.querySelectorAll('.cut')].every(part => part.open)"
        )
        WebDriverWait(browser, 30).until(lambda page: page.execute_script(undrawn) == 0)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= width
        fetched = (
            "return performance.getEntriesByType('resource').map(one => one.name).filter(name =>"
            " !name.startsWith('data:'))"
        )
        assert browser.execute_script(fetched) == []
        assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
