# SPDX-License-Identifier: Apache-2.0
"""The page of a recursion: stages and links that are true, the curve of figure 6, cuts as they were
made, nothing loaded.
"""

from __future__ import annotations

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
from unbraid.commands.rpu import RpuResult
from unbraid.core.folders import PAGES
from unbraid.report.rpu.context import (
    MOST_CUTS,
    cuts_of,
    final_scores,
    following_commands,
    page_context,
    what_was_done,
    write_rpu,
)
from unbraid.report.rpu.figures import explained, followed, leaf_runs_figure, moved_codes
from unbraid.report.train.member_view import FRAMES
from unbraid.search.reduce.reduction import ReductionRule
from unbraid.search.rpu.labelling import label
from unbraid.search.rpu.plan import RecursionPlan, make_recursion
from unbraid.search.rpu.stages import Stage, StageKind

from ..pages import Page, assert_drawn, assert_sound, drawn

CPU = torch.device("cpu")
HOSTILE = "unbraid rpu run <script>alert('x')</script> & 2 < 3"
ROOM: dict[str, Any] = {"x": 10, "y": 8, "scale": 1, "image_size": 16}
EAGER = ReductionRule(chance=None, peak_deviations=0.5, fewest_images=3, separation=4, more_than=2)
"""Finds parts in the codes of models that hardly trained."""
QUICK: dict[str, Any] = {
    "network": "mlp", "network_options": {"hidden": 32}, "latents": 3, "population": 5,
    "models": 2, "epochs": 1, "epoch_images": 160, "leaf_images": 80, "batch_size": 16,
    "hyper": {"beta": "0.2..0.5"}, "learning_rate": "5e-3..1e-2", "leaf_runs": 1, "levels": 2,
    "reduction": EAGER, "seed": 1,
}  # fmt: skip


def recursed(out: Path, data: Any = "sprites", **options: Any) -> RpuResult:
    options = {**QUICK, **({"data_options": ROOM} if isinstance(data, str) else {}), **options}
    return ub.rpu(data, "beta_vae", out=out, device="cpu", quiet=True, **options)


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, RpuResult]:
    """With and without known factors, with one final population alone, and with a failed root."""
    home = tmp_path_factory.mktemp("recursions")
    own = ub.load("sprites", **ROOM).images(np.arange(80))
    return {
        "labelled": recursed(
            home / "labelled",
            every_final=True,
            leaf_runs=2,
            levels=3,
            epoch_images=320,
            leaf_images=160,
            command=HOSTILE,
        ),
        "own": recursed(home / "own", own, every_final=True),
        "one": recursed(home / "one"),
        "alone": recursed(home / "alone", leaf_runs=0, levels=1),
        "nothing": recursed(home / "nothing", active_nats=1e6),
    }


KINDS = ["labelled", "own", "one", "alone", "nothing"]


def page_of(made: RpuResult) -> Path:
    return made.path / PAGES["rpu"]


@pytest.fixture(scope="session")
def pages(made: dict[str, RpuResult]) -> dict[str, Page]:
    return {kind: Page(page_of(one)) for kind, one in made.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_is_sound_and_loads_nothing(pages: dict[str, Page], kind: str) -> None:
    assert_sound(pages[kind], "rpu")
    assert "Where this page came from" in pages[kind].text


def test_the_table_says_what_the_stages_say(
    made: dict[str, RpuResult], pages: dict[str, Page]
) -> None:
    one, page = made["labelled"], pages["labelled"]
    table = one.table().set_index("stage")
    searched = [stage for stage in one.stages if stage.kind is StageKind.LEAF and stage.images]
    searches = {stage.name: search for stage, search in one.recursion.searches()}
    assert len(searched) >= 2, "else this shows little"
    assert "Stage Images Score Active latents MIG DCI Its part" in page.text
    assert ("Why it ended there" in page.text) == any(stage.ended for stage in one.stages)
    links = [link["href"] for link in page.all("a")]
    for stage in one.stages:
        assert (f"{stage.name}/pbt.html" in links) == bool(stage.images)
        images = f"{stage.images:,}" if stage.images else "–"
        score = f"{stage.score:.3f}" if math.isfinite(stage.score) else "–"
        if stage.name in searches and (remark := searches[stage.name].remark()):
            score += " (collapsed)"
            assert f"{stage.name}: {remark}" in page.text
        if stage.kind is StageKind.FINAL:
            known = " ".join(f"{table.loc[stage.name, name]:.3f}" for name in ("mig", "dci"))
            row = f"{stage.name} {images} {score} – {known}"
        else:
            active = f"{len(stage.active)}" if math.isfinite(stage.score) else "–"
            cut = " how it was cut" if stage.kind is StageKind.LEAF else ""
            row = f"{stage.name} {images} {score} {active} – –{cut} {stage.ended}".rstrip()
        assert row in page.text
    assert HOSTILE in page.text
    assert f"unbraid report {one.path / 'final-2'}" in page.text


def test_pages_of_other_kinds(made: dict[str, RpuResult], pages: dict[str, Page]) -> None:
    own, nothing = pages["own"].text, pages["nothing"].text
    assert "Known factors none" in own
    assert "The data has no known factors" in own
    assert "Stage Images Score Active latents Its part" in own
    assert "Why it ended there" in nothing
    assert "no latent of the best model carries more than 1e+06 nat" in nothing
    assert "What leaf-runs add" not in nothing
    assert "What each level found" not in nothing
    assert f"unbraid report {made['nothing'].path / 'root'}" in nothing
    assert "How the parts were cut" not in pages["alone"].text
    assert "Without leaf-runs there is nothing to compare it with." in pages["alone"].text
    assert "with --every-final there is one" in pages["one"].text


def test_a_finished_recursion_gets_its_page_again(made: dict[str, RpuResult]) -> None:
    path = page_of(made["one"])
    # Dates, and sizes of files that have a date in them.
    changing = r"\d{4}-\d\d-\d\d \d\d:\d\d UTC|[\d.]+ k?M?B"
    before = re.sub(changing, "", Page(path).text)
    path.unlink()
    ub.resume(path.parent, device="cpu", quiet=True)
    after = re.sub(changing, "", Page(path).text)
    assert after == before
    assert path.name not in after


def test_cuts_are_those_that_were_made(made: dict[str, RpuResult]) -> None:
    recursion, stages = made["labelled"].recursion, made["labelled"].stages
    labels = {
        stage.name: label(search, CPU)
        for stage, search in recursion.searches()
        if stage.kind is not StageKind.FINAL
    }
    seen = 0
    for stage, source, found in cuts_of(recursion.plan, stages, labels):
        assert source == stage.source.name
        assert (found.stopped or "") == ("" if stage.images else stage.ended)
        if stage.images:
            kept = np.sort(recursion.places(stage.source)[found.indices])
            np.testing.assert_array_equal(kept, recursion.places(stage))
            seen += 1
    assert seen >= 2


def test_only_so_many_cuts_are_drawn(made: dict[str, RpuResult]) -> None:
    recursion = made["labelled"].recursion
    stages = [
        made["labelled"].stages[0],
        *(Stage(StageKind.LEAF, leaf=number, level=2, ended="why") for number in range(15)),
    ]
    context = page_context(recursion, stages, {}, CPU)
    assert len(context["cuts"]) == MOST_CUTS
    assert context["undrawn"] == 3
    assert [bool(row["cut"]) for row in context["stages"]] == [False] + [True] * MOST_CUTS + [
        False
    ] * 3


def test_the_curve_is_that_of_the_final_winners(
    made: dict[str, RpuResult], pages: dict[str, Page]
) -> None:
    one, figure = made["labelled"], pages["labelled"].figures["leaf-runs"]
    assert [line["name"] for line in figure["data"]] == ["MIG", "DCI"]
    assert figure["data"][0]["x"] == [0, 1, 2]
    for line, name in zip(figure["data"], ("mig", "dci"), strict=True):
        wanted = [
            one.final(count).winner.score(name, quiet=True)[name].iloc[0] for count in range(3)
        ]
        assert line["y"] == pytest.approx(wanted, rel=1e-4)
    own = made["own"]
    (line,) = pages["own"].figures["leaf-runs"]["data"]
    assert line["y"] == pytest.approx([own.final(count).score for count in range(2)], rel=1e-4)
    assert line["name"] == "gap with surrogate labels"


def test_a_missing_score_is_a_gap() -> None:
    figure = drawn(leaf_runs_figure([0, 1, 2], {"MIG": [0.1, math.nan, 0.3]}, "score"))
    assert figure["data"][0]["y"] == [0.1, None, 0.3]
    assert figure["layout"]["showlegend"] is False
    assert figure["layout"]["xaxis"]["tickvals"] == [0, 1, 2]


@pytest.fixture(scope="module")
def plan() -> RecursionPlan:
    return make_recursion("sprites", data_options=ROOM, leaf_runs=3, population=16, network="mlp")[
        0
    ]


ROOT = Stage(StageKind.ROOT, images=80, score=0.8, active=(0, 2))
LEAVES = [
    Stage(StageKind.LEAF, leaf=0, level=2, images=20, score=0.5, active=(1,)),
    Stage(StageKind.LEAF, leaf=0, level=3, images=12, score=0.05, ended="no"),
    Stage(StageKind.LEAF, leaf=1, level=2),
]
FINALS = [
    Stage(StageKind.FINAL, leaf_runs=count, images=80, score=0.4 + count / 10) for count in range(4)
]


def test_what_was_done_is_counted(plan: RecursionPlan) -> None:
    done = what_was_done(replace(plan, every_final=True), [ROOT, *LEAVES, *FINALS])
    assert done == {
        "images": 80, "population": 16, "models": 5, "failed": "", "labels": 2, "leaf_runs": 3,
        "parts": 2, "labelled_parts": 1, "finals": 4, "most_leaf_runs": 3, "every_final": True,
    }  # fmt: skip
    alone = what_was_done(replace(plan, leaf_runs=0), [ROOT, FINALS[0]])
    assert (alone["parts"], alone["finals"], alone["most_leaf_runs"]) == (0, 1, 0)
    assert what_was_done(plan, [replace(ROOT, ended="why")])["failed"] == "why"


def test_what_was_done_in_words(pages: dict[str, Page], made: dict[str, RpuResult]) -> None:
    said = {kind: page.text.partition("Data ")[0] for kind, page in pages.items()}
    for text in said.values():
        assert "on all 80 images, the root: 5 individuals of 2 models each" in text
    searched = [one for one in made["labelled"].stages if one.kind is StageKind.LEAF and one.images]
    assert (
        "In 2 leaf-runs the data was cut down to parts in which such labels hardly vary, to"
        in (said["labelled"])
    )
    assert f"{len(searched)} parts could be searched" in said["labelled"]
    assert "labels of all levels of 0 to 2 leaf-runs." in said["labelled"]
    assert "In 1 leaf-run the data" in said["one"]
    assert "A final population was trained" in said["one"]
    assert "gap with the root's labels." in said["alone"]
    assert "leaf-run" not in said["alone"]
    assert "nothing that could serve as labels, since no latent" in said["nothing"]


def test_final_scores_are_those_of_the_stages() -> None:
    assert final_scores([ROOT], {}, True) is None
    only = final_scores([ROOT, FINALS[3]], {3: {"mig": 0.25, "dci": 0.5}}, True)
    assert only is not None
    assert (only["counts"], only["gap"]) == ([3], "0.700")
    assert only["last"] == [("MIG", "0.250"), ("DCI", "0.500")]
    blind = final_scores([ROOT, *FINALS], {}, False)
    assert blind is not None
    assert blind["series"] == {"gap with surrogate labels": pytest.approx([0.4, 0.5, 0.6, 0.7])}
    assert blind["same_labels"]
    found = final_scores([ROOT, LEAVES[0], *FINALS], {}, False)
    assert found is not None
    assert not found["same_labels"]


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


def test_every_level_shows_its_latents(made: dict[str, RpuResult], pages: dict[str, Page]) -> None:
    one, page = made["labelled"], pages["labelled"]
    levels = [stage for stage in one.stages if stage.active]
    assert len(page.all("img")) == sum(len(stage.active) for stage in levels)
    for stage in levels:
        for latent in stage.active:
            assert page.all(
                "img",
                alt=f"Images decoded as latent {latent} of {stage.name} goes from low to high",
            )


def test_write_gives_the_path(made: dict[str, RpuResult]) -> None:
    one = made["alone"]
    assert write_rpu(one.recursion, one.stages, one.final_scores, CPU) == page_of(one) == one.page()


@pytest.mark.browser
@pytest.mark.parametrize("kind", KINDS)
def test_a_browser_draws_everything_without_a_complaint_or_a_fetch(
    browser: Any, open_page: Any, made: dict[str, RpuResult], kind: str
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
        WebDriverWait(browser, 30, poll_frequency=0.03).until(
            lambda page: page.execute_script(undrawn) == 0
        )
        assert_drawn(browser, width)
