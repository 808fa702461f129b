# SPDX-License-Identifier: Apache-2.0
"""The page of a reduction: figures that show what was cut where, sentences that are true, nothing
loaded.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from unbraid.report.reduce.context import MOST_CANDIDATES, Examples, page_context, write_reduce
from unbraid.report.reduce.figures import MOST_POINTS, codes_figure, derivative_figure, envelope
from unbraid.report.reduce.words import latent_sentence, stopped_sentence, variance_left
from unbraid.search.reduce.reduction import Latent, Reduction, ReductionRule, reduce

from ..pages import Page, assert_drawn, assert_sound, drawn, resized

UNSEEN = "<script>alert('x')</script> & 2 < 3"


def grid_codes(first: int, second: int, each: int, seed: int = 0) -> NDArray[np.float64]:
    rng = np.random.default_rng(seed)
    values = np.stack(
        [
            one.ravel()
            for one in np.meshgrid(range(first), range(second), range(each), indexing="ij")[:2]
        ],
        axis=1,
    )
    return values + 0.01 * rng.standard_normal(values.shape)


def staircase() -> NDArray[np.float64]:
    """Four plateaus of 50, the second the flattest: codes 1 to 1.01."""
    return np.repeat(np.arange(4.0), 50) + np.repeat([0.03, 0.01, 0.02, 0.03], 50) * np.tile(
        np.linspace(0.0, 1.0, 50), 4
    )


KINDS: dict[str, Reduction] = {
    "one": reduce(staircase()),
    "cell": reduce(grid_codes(4, 8, 30), index=1),
    "long": reduce(grid_codes(10, 10, 120)),
    "noise": reduce(np.random.default_rng(0).standard_normal((20_000, 1))),
    "constant": reduce(np.zeros((30, 2))),
    "few": reduce(np.repeat([0.0, 1.0, 2.0], [40, 9, 40]) + np.linspace(0.0, 0.001, 89)),
    "explained": reduce(grid_codes(20, 20, 1)),
    "exact": reduce(np.repeat(np.arange(5), 40)),
    "tiny": reduce([0.0, 1.0]),
}


def names_of(found: Reduction) -> list[str]:
    return [f"latent {at}" for at in range(len(found.latents))]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("pages")
    images = np.random.default_rng(0).integers(0, 256, (6, 8, 8, 3), dtype=np.uint8)
    steps = [("Do this.", "a line\nanother"), (UNSEEN, "")]
    return {
        kind: write_reduce(
            home / f"{kind}.html",
            found,
            [f"{name} {UNSEEN}" for name in names_of(found)] if kind == "cell" else names_of(found),
            source="codes.npy",
            examples=Examples(images, images[:0]) if kind == "cell" else None,
            next_steps=steps,
            command="unbraid reduce codes.npy",
        )
        for kind, found in KINDS.items()
    }


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_is_sound_and_loads_nothing(written: dict[str, Path], kind: str) -> None:
    page = Page(written[kind])
    assert_sound(page, "reduce", python_words=["ReductionRule(chance=None)", "chance=None"])
    assert len(page.figures) == 2 * len(KINDS[kind].latents)
    assert "another" in page.text


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_is_finite_and_named(kind: str) -> None:
    for latent in KINDS[kind].latents:
        for figure in map(drawn, (codes_figure(latent), derivative_figure(latent))):
            assert figure["layout"]["xaxis"]["title"]["text"] == "place in the sorted order"
            assert figure["layout"]["yaxis"]["title"]["text"]
            for line in figure["data"]:
                assert len(line["x"]) == len(line["y"]) > 0
                assert np.isfinite(line["x"]).all()
                assert np.isfinite(line["y"]).all()
            for shape in figure["layout"].get("shapes", []):
                assert shape["x0"] <= shape["x1"]


def marked(figure: Any, name: str) -> dict[float, float]:
    return {
        x: y
        for line in drawn(figure)["data"]
        if line["name"] == name
        for x, y in zip(line["x"], line["y"], strict=True)
    }


def test_the_figure_shows_codes_peaks_threshold_and_interval() -> None:
    (latent,) = KINDS["one"].latents
    codes, rises = codes_figure(latent), derivative_figure(latent)
    assert marked(codes, "code") == pytest.approx(dict(enumerate(latent.values)), abs=1e-5)
    assert marked(rises, "rise") == pytest.approx(
        {at + 0.5: one for at, one in enumerate(latent.derivative)}, abs=1e-5
    )
    # A rise stands between its two places: the steps after 50, 100 and 150 codes.
    assert marked(rises, "peak") == pytest.approx({49.5: 0.97, 99.5: 0.99, 149.5: 0.98})
    assert set(marked(rises, "least height").values()) == {float(f"{latent.threshold:.6g}")}
    for figure in (codes, rises):
        kept = drawn(figure)["layout"]["shapes"][-1]
        assert (kept["x0"], kept["x1"]) == (49.5, 99.5)
    left, right = drawn(rises)["layout"]["shapes"][:2]
    # Of 199 rises 13 are ignored at each end: those at 0.5 to 12.5 and at 186.5 to 198.5.
    assert (left["x0"], left["x1"], right["x0"], right["x1"]) == (-0.5, 13, 186, 199.5)
    assert rises.layout.yaxis.range == (0.0, pytest.approx(1.12 * 0.99))


def test_nothing_is_shaded_where_nothing_is_chosen() -> None:
    (latent,) = KINDS["noise"].latents
    assert codes_figure(latent).layout.shapes == ()
    assert len(derivative_figure(latent).layout.shapes) == 2
    assert len(marked(derivative_figure(latent), "maybe chance")) == len(latent.by_chance) > 0
    assert marked(derivative_figure(latent), "peak") == {}
    steepest = latent.derivative[latent.ignored : -latent.ignored].max()
    assert derivative_figure(latent).layout.yaxis.range[1] == pytest.approx(1.12 * steepest)


def test_long_curves_are_thinned_and_keep_every_peak_and_step() -> None:
    for latent in KINDS["long"].latents:
        codes, rises = codes_figure(latent), derivative_figure(latent)
        assert len(latent.values) == 12_000
        drawn, line = marked(codes, "code"), marked(rises, "rise")
        assert len(drawn) <= 2_000
        assert len(line) <= 2_000
        assert len(latent.peaks) == 9
        for at in latent.peaks.tolist():
            assert line[at + 0.5] == pytest.approx(latent.derivative[at], rel=1e-5)
            assert {at, at + 1} <= set(drawn)
        assert {0, 11_999} <= set(drawn)


@pytest.mark.parametrize(
    "count", [MOST_POINTS - 1, MOST_POINTS, MOST_POINTS + 1, 3 * MOST_POINTS + 7, 100_003]
)
def test_the_envelope_hides_no_peak(count: int) -> None:
    derivative = np.random.default_rng(count).standard_exponential(count)
    entries = envelope(derivative, [5, count - 2])
    assert len(entries) <= MOST_POINTS + 4
    assert (np.diff(entries) > 0).all()
    assert {0, 5, count - 2, count - 1, int(np.argmax(derivative))} <= set(entries.tolist())
    # Whatever is left out, something at least as high is drawn less than one part away.
    width = -(-count // MOST_POINTS)
    for at in np.random.default_rng(0).integers(0, count, 2_000):
        near = entries[np.abs(entries - at) < max(width, 1)]
        assert derivative[near].max(initial=0.0) >= derivative[at]


def test_places_of_large_sets_are_not_rounded() -> None:
    values = np.repeat(np.arange(3.0), [300_001, 137_281, 300_000])
    (latent,) = reduce(values + 1e-9 * np.arange(len(values))).latents
    assert list(marked(derivative_figure(latent), "peak")) == [300_000.5, 437_281.5]
    assert codes_figure(latent).layout.shapes[0].x1 == 437_281.5


def test_a_sentence_has_the_numbers_of_its_latent() -> None:
    one = latent_sentence(KINDS["one"], 0)
    # Of three steps the ends are left out; 1e-4 51 / (12 49) of 1.256 is left of the variance.
    for part in ("3 steps cut", "2 intervals, not counting the ends", "1 to 1.01", "50 images",
                 "number 1 of 2", "Among these it keeps 0.00069% of its variance"):  # fmt: skip
        assert part in one
    cell = KINDS["cell"]
    share = 100 * variance_left(cell.latents[0], cell.indices)
    said = latent_sentence(cell, 0)
    assert "4 intervals." in said
    assert f"Among the images chosen in all latents it keeps {share:.2g}%" in said
    halves = reduce(np.concatenate([np.linspace(0, 0.1, 50), np.linspace(1, 1.2, 50)]))
    assert latent_sentence(halves, 0).startswith("1 step cuts its codes into 2 intervals.")
    noise = KINDS["noise"]
    low, high = noise.latents[0].values[[0, -1]]
    said = latent_sentence(noise, 0)
    assert f"from {low:.4g} to {high:.4g} without a step" in said
    assert f"{len(noise.latents[0].by_chance)} rises are above the least height" in said
    assert "Chosen" not in said
    assert latent_sentence(KINDS["constant"], 0) == "All its codes are 0."


def test_variance_left_by_hand() -> None:
    latent: Latent = reduce([3.0, 1.0, 2.0, 8.0]).latents[0]
    assert variance_left(latent, np.array([0, 2])) == pytest.approx(
        0.25 / np.var([3.0, 1.0, 2.0, 8.0])
    )
    assert variance_left(latent, np.arange(4)) == pytest.approx(1.0)


def test_a_stop_names_the_latents_and_numbers() -> None:
    assert stopped_sentence(KINDS["one"], ["a"]) == ""
    for kind, end in (
        ("constant", "Without steps: a, b."),
        ("few", "There are 9, and 10 are needed."),
        ("explained", "More than 5 are needed in one of them."),
    ):
        assert stopped_sentence(KINDS[kind], ["a", "b"]) == f"{KINDS[kind].stopped} {end}"


def test_the_rule_is_stated_with_its_numbers(tmp_path: Path) -> None:
    changed = ReductionRule(
        ignored_ends=16, peak_deviations=7.5, usual_deviations=4.5, separation=51, chance=0.02,
        few_peaks=4, end_height=1.5, best_intervals=6, more_than=7, fewest_images=11, trim=0.125,
    )  # fmt: skip
    both = reduce(grid_codes(4, 8, 30), rule=changed)
    text = Page(write_reduce(tmp_path / "both.html", both, ["a", "b"])).text
    rule = text.split("How steps were found")[1]
    for number in ("1/16", "7.5", "4.5", "1/51", "2%", "4 steps", "1.5", "6 best", "than 7", "11",
                   "12.5%"):  # fmt: skip
        assert number in rule
    alone = reduce(staircase(), rule=ReductionRule(chance=None))
    text = Page(write_reduce(tmp_path / "alone.html", alone, ["a"])).text
    assert "chance" not in text.split("How steps were found")[1]


def test_the_page_says_what_was_found(written: dict[str, Path]) -> None:
    one = Page(written["one"]).text
    assert "50 of 200 images kept" in one
    assert (
        "Labels codes.npy Images 200 Latents 1 Candidates 2 Candidate taken number 0 Kept 50 (25%)"
        in one
    )
    assert latent_sentence(KINDS["one"], 0) in one
    assert (
        "Estermann, Marks and Yanik (2020). Robust Disentanglement of a Few Factors at a Time."
        in one
    )
    assert "unbraid reduce codes.npy" in one
    for kind in ("noise", "constant", "few", "explained", "tiny"):
        page = Page(written[kind]).text
        assert "Nothing is kept" in page
        assert stopped_sentence(KINDS[kind], names_of(KINDS[kind])) in page
    assert "Each point is the largest of its neighbours" in Page(written["long"]).text
    assert "Each point is the largest of its neighbours" not in one
    assert "What else could be kept" not in Page(written["noise"]).text
    assert "∞" in Page(written["exact"]).text


def test_the_table_of_candidates(written: dict[str, Path]) -> None:
    found = KINDS["cell"]
    rows = page_context(found, ["a", "b"])["candidates"]
    assert len(found.candidates) == 20
    assert [row["number"] for row in rows] == list(range(20))
    assert [row["taken"] for row in rows] == [False, True] + [False] * 18
    first, second = found.latents
    values = found.images(1)
    codes = grid_codes(4, 8, 30)
    for column, latent in enumerate((first, second)):
        low, high = map(float, rows[1]["spans"][column].split(" to "))
        assert (
            low - 0.01 <= codes[values, column].min() <= codes[values, column].max() <= high + 0.01
        )
        assert latent.chosen == found.candidates[1].ranks[column]
    assert "1 taken 30" in Page(written["cell"]).text


def test_a_long_table_is_cut_but_shows_what_was_taken() -> None:
    found = reduce(grid_codes(9, 9, 30), index=23)
    context = page_context(found, ["a", "b"])
    assert len(found.candidates) == 25
    assert [row["number"] for row in context["candidates"]] == [*range(MOST_CANDIDATES), 23]
    assert context["unlisted"] == 4


def test_examples_are_shown_where_there_are_some(written: dict[str, Path]) -> None:
    images = Page(written["cell"]).all("img")
    assert [one["alt"] for one in images] == ["6 images that are kept"]
    assert Page(written["one"]).all("img") == []


@pytest.mark.browser
@pytest.mark.parametrize("kind", ["cell", "long", "noise"])
@pytest.mark.parametrize("width", [390, 1280])
def test_a_browser_draws_everything_without_a_complaint_or_a_fetch(
    browser: Any, open_page: Any, written: dict[str, Path], width: int, kind: str
) -> None:
    open_page(written[kind], width)
    assert_drawn(browser, width)
    shaded = (
        "return [...document.querySelectorAll('.figure')].map(box =>"
        " box.querySelectorAll('.shapelayer path').length)"
    )
    ends, kept = (2, 1) if kind != "noise" else (2, 0)
    assert browser.execute_script(shaded) == [kept, ends + kept] * len(KINDS[kind].latents)


@pytest.mark.browser
def test_axis_titles_stay_clear_of_captions(
    browser: Any, open_page: Any, written: dict[str, Path]
) -> None:
    # Plotly forgets a height on resize; the title then slid under the caption below the figure.
    below = (
        "return [...document.querySelectorAll('.panel')].map(panel =>"
        " panel.querySelector('.small').getBoundingClientRect().top -"
        " panel.querySelector('.xtitle').getBoundingClientRect().bottom)"
    )
    heights = (
        "return [...document.querySelectorAll('.main-svg')].map(one =>"
        " one.getBoundingClientRect().height)"
    )
    open_page(written["cell"], 1280)
    for width in (1280, 760, 640, 1100):
        resized(browser, width)
        assert set(browser.execute_script(heights)) == {300}
        assert min(browser.execute_script(below)) >= 0
