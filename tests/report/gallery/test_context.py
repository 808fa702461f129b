# SPDX-License-Identifier: Apache-2.0
"""The gallery's page: every statement computed and shown, nothing loaded."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from unbraid.analysis.theory.local_axes import local_axes
from unbraid.analysis.theory.pinwheel_decomposition import pinwheel_decomposition
from unbraid.analysis.theory.three_overlaps import three_overlaps
from unbraid.commands.gallery import GalleryResult, gallery
from unbraid.core.registry import Citation
from unbraid.report.gallery import statements
from unbraid.report.gallery.context import held_sentence
from unbraid.report.gallery.figures import Panel
from unbraid.report.gallery.statements import STATEMENTS, Statement, Verdict

from ..pages import Page, assert_drawn, assert_sound, drawn

KEYS = [
    "impossibility",
    "beta_prior",
    "beta_rotation",
    "linear_pca",
    "local_axes",
    "optimal_rotation",
    "pinwheel",
    "three_overlaps",
    "overlap_information",
]
TRAINED = ("local_axes", "pinwheel", "three_overlaps")
"""Those that take longer than the others together."""
UNSEEN = "<script>alert('x')</script> & 2 < 3"


def quick() -> list[Statement]:
    """All statements, but with trainings too short for those that train."""
    short = {
        "local_axes": lambda seed: local_axes(steps=20, restarts=2, seed=seed),
        "pinwheel": lambda seed: pinwheel_decomposition(steps=5, seed=seed),
        "three_overlaps": lambda seed: three_overlaps(steps=5, seed=seed),
    }
    return [replace(one, compute=short.get(one.key, one.compute)) for one in STATEMENTS]


def own(holds: bool) -> Statement:
    """A statement from outside, with text that would break a page."""
    figure = go.Figure(go.Scatter(x=[0, 1], y=[0, 1], name=UNSEEN), {"height": 200})
    return Statement(
        "own",
        f"Mine {UNSEEN}",
        (Citation("Nobody", 2026, "A Title"),),
        "A statement.",
        lambda seed: seed + 1,
        lambda found: [Panel("Heading", figure, f"Found {found}.")],
        lambda found: Verdict(holds, (("number", str(found)),), f"number {found}"),
        "mine(seed={seed})",
    )


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> GalleryResult:
    return gallery(
        out=tmp_path_factory.mktemp("gallery"),
        seed=3,
        statements=[*quick(), own(False)],
        command="it",
        quiet=True,
    )


def test_every_statement_can_be_shown() -> None:
    assert [one.key for one in STATEMENTS[: len(KEYS)]] == KEYS
    assert len({one.key for one in STATEMENTS}) == len(STATEMENTS)
    for one in STATEMENTS:
        assert re.fullmatch(r"[a-z_]+", one.key)
        assert one.papers
        imported, called = one.call.splitlines()
        assert "{seed}" in called
        exec(imported, {})


@pytest.mark.parametrize(
    "key", ["impossibility", "beta_prior", "beta_rotation", "linear_pca", "optimal_rotation"]
)
def test_statements_hold(made: GalleryResult, key: str) -> None:
    (one,) = [one for one in made.checked if one.statement.key == key]
    assert one.verdict.holds
    assert one.verdict.line
    assert one.panels


def test_untrained_networks_fail_and_are_said_to(made: GalleryResult) -> None:
    """A few steps are far too few, and a verdict that could not fail would be none."""
    failed = [one.statement.key for one in made.checked if not one.verdict.holds]
    assert failed == ["local_axes", "pinwheel", "three_overlaps", "own"]
    assert (
        held_sentence(made.checked)
        == "6 of 10 statements hold in this computation. Not met: A nonlinear VAE follows local"
        " axes; Overlap and structure are two knobs; Too little overlap, the right one, too much;"
        f" Mine {UNSEEN}."
    )


def test_verdicts_turn_with_the_evidence(made: GalleryResult) -> None:
    """Each decisive number, made wrong, turns its verdict."""
    found: dict[str, Any] = {
        one.key: one.compute(0) for one in STATEMENTS if one.key not in TRAINED
    }
    unlike = found["impossibility"]
    for change in (
        {"log_density_gap": 1e-3},
        {"mig_after": 0.4},
        {"mig_before": 0.5},
        {"data_gap": 0.1},
        {"data_p": np.array([1e-9])},
        {"smallest_slope": 0.0},
    ):
        assert statements._impossibility(unlike).holds
        assert not statements._impossibility(replace(unlike, **change)).holds
    one = found["beta_prior"]
    assert not statements._theorem_one(replace(one, left=one.left + 1e-5)).holds
    two = found["beta_rotation"]
    bent = two.full + 1e-5 * np.sin(two.degrees)
    for change in (
        {"full": bent},
        {"diagonal": two.full},
        {"aligned_gap": 1e-3},
        {"permutation_gap": 1e-3},
    ):
        assert not statements._theorem_two(replace(two, **change)).holds
    pca = found["linear_pca"]
    assert not statements._pca(replace(pca, distinct=pca.equal)).holds
    assert not statements._pca(replace(pca, equal=pca.equal[:1])).holds
    told = found["overlap_information"]
    for change in (
        {"ball_overlap": told.ball_overlap + 0.1},
        {"information": told.information / 2},
        {"normal_overlap": told.normal_overlap / 2},
    ):
        assert not statements._information(replace(told, **change)).holds
    sweep = found["optimal_rotation"]
    assert not statements._rotation(replace(sweep, searched_loss=sweep.searched_loss - 1e-5)).holds
    assert not statements._rotation(replace(sweep, losses=sweep.losses - 1.0)).holds


def test_the_page_is_sound_and_loads_nothing(made: GalleryResult) -> None:
    page = Page(made.page)
    assert_sound(page, "gallery")
    assert [str(link["href"])[1:] for link in page.all("a")] == [*KEYS, "own"]
    assert len(page.figures) == sum(len(one.panels) for one in made.checked)


def test_every_figure_has_finite_values_and_named_axes(made: GalleryResult) -> None:
    figures = [drawn(panel.figure) for one in made.checked[:-1] for panel in one.panels]
    for figure in figures:
        assert figure["layout"]["xaxis"]["title"]["text"]
        categories = any(isinstance(value, str) for line in figure["data"] for value in line["y"])
        assert categories or figure["layout"]["yaxis"]["title"]["text"]
        for line in figure["data"]:
            assert len(line["x"]) == len(line["y"]) > 0
            assert all(
                np.isfinite(value)
                for axis in "xy"
                for value in line[axis]
                if not isinstance(value, str)
            )


def test_the_page_says_what_was_found(made: GalleryResult) -> None:
    page = Page(made.page)
    for one in made.checked:
        assert one.statement.title in page.text
        assert str(one.statement.papers[0]) in page.text
        for name, value in one.verdict.numbers:
            assert f"{name} {value}" in page.text
        assert one.statement.call.format(seed=3).splitlines()[-1] in page.text
    assert page.text.count("holds by the numbers") == 6
    assert page.text.count("fails by the numbers") == 4
    assert "number 4" in page.text


def test_the_mixed_grid_is_that_of_the_map(made: GalleryResult) -> None:
    before, after = (drawn(panel.figure)["data"][0] for panel in made.checked[0].panels[:2])
    found = made.checked[0].statement.compute(3)
    z = np.stack([before["x"], before["y"]], axis=1)
    np.testing.assert_allclose(
        found.mapping(z), np.stack([after["x"], after["y"]], axis=1), atol=1e-4
    )
    assert before["marker"]["color"] == after["marker"]["color"]


@pytest.mark.slow
def test_the_whole_gallery_holds_in_two_minutes_of_one_core(tmp_path: Path) -> None:
    import time

    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    began = time.process_time()
    try:
        found = gallery(out=tmp_path, seed=11, quiet=True)
    finally:
        torch.set_num_threads(threads)
    assert [one.statement.key for one in found.checked if not one.verdict.holds] == []
    assert time.process_time() - began < 120


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_draws_everything_without_a_complaint_or_a_fetch(
    browser: Any, open_page: Any, made: GalleryResult, width: int
) -> None:
    open_page(made.page, width)
    assert_drawn(browser, width)
