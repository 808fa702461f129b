# SPDX-License-Identifier: Apache-2.0
"""The page of distances is whole, says what is true, loads nothing, and a browser draws it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

import unbraid as ub
from unbraid.analysis.distances.learnt import learnt_distances
from unbraid.analysis.distances.perceived_distances import Distances, perceived_distances
from unbraid.data.dataset import Dataset
from unbraid.report.distances.context import importance_sentence, order_sentence, write_distances
from unbraid.report.distances.figures import grid_svg, heat_map

from ..conftest import SMALL, small_train
from ..pages import Page, assert_drawn, assert_sound, drawn

KINDS = ["squares", "sprites", "own", "member", "points"]


def own_data() -> Dataset:
    """Labels that fill no grid: one factor lacks a pair, one has none, and a name that would break
    a page.
    """
    rows = np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0], [0, 1, 0], [2, 1, 1]])
    images = np.random.default_rng(0).integers(0, 256, (5, 16, 16, 3), dtype=np.uint8)
    return ub.load(images, factors=rows, factor_names=["a</script>", "b", "c"])


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Distances, Path]]:
    home = tmp_path_factory.mktemp("pages")
    run = small_train(home / "run")
    jobs: dict[str, tuple[Dataset, dict[str, Any]]] = {
        "squares": (ub.load("xysquares"), {"pairs": 30}),
        "sprites": (ub.load("sprites", **SMALL), {"loss": "mse+box3"}),
        "own": (own_data(), {}),
        "member": (run.dataset, {"run": run.folder, "member": 0}),
        "points": (ub.load("pinwheel"), {"pairs": 500}),
    }
    pages = {}
    for kind, (data, options) in jobs.items():
        found = perceived_distances(data, **options)
        pages[kind] = (found, write_distances(found, data, home / kind, "unbraid distances it"))
    return pages


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_is_sound_and_loads_nothing(
    made: dict[str, tuple[Distances, Path]], kind: str
) -> None:
    found, path = made[kind]
    page = Page(path)
    assert_sound(page, "distances")
    assert page.headings == [1, 2, 2, 2, 2, 2]
    assert len(page.figures) == 1 + (1 + len(found.levels)) * len(found.inputs.factors)
    assert len(page.all("img", class_="strip")) == len(found.inputs.factors)
    assert "unbraid distances it" in page.text


def test_squares_that_never_overlap_in_words(made: dict[str, tuple[Distances, Path]]) -> None:
    found, path = made["squares"]
    assert importance_sentence(found).startswith(
        "Under mse, every factor changes an image by the same 0.0104 on average; random"
    )
    assert (
        order_sentence(found)
        == "No order among the values can be seen: along every traversal all distances are equal."
    )
    page = Page(path)
    assert "xysquares · perceived distances" in page.text
    assert page.text.count("ρ undefined") == 6
    z = page.figures["map-inputs-0"]["data"][0]["z"]
    assert sorted({cell for row in z for cell in row}) == [0.0, 0.01042]
    assert page.figures["importance"]["data"][0]["y"] == [
        "random pairs",
        "x_R",
        "y_R",
        "x_G",
        "y_G",
        "x_B",
        "y_B",
    ]


def test_factors_of_two_values_are_left_out_of_the_question_of_order(tmp_path: Path) -> None:
    data = ub.load("sprites", x=6, y=4, scale=2, image_size=28)
    found = perceived_distances(data, pairs=60)
    said = order_sentence(found)
    assert said.startswith("Distances follow the order of the values best for ")
    assert "no order can be seen" not in said
    assert said.endswith(" Of two values no order is asked: scale.")
    text = Page(write_distances(found, data, tmp_path, "unbraid distances it")).text
    assert "two values" in text
    assert "ρ undefined" not in text
    few = perceived_distances(ub.load("sprites", x=2, y=2, scale=2, image_size=28), pairs=60)
    assert order_sentence(few) == (
        "Each factor has two values, of which no order is asked, only how far apart they are."
    )
    one = perceived_distances(ub.load("sprites", x=2, y=1, scale=1, image_size=28), pairs=60)
    assert order_sentence(one).startswith("The factor has two values, ")


def test_a_member_has_a_row_for_every_level(made: dict[str, tuple[Distances, Path]]) -> None:
    found, path = made["member"]
    page = Page(path)
    for name in ("Ground truth", "Inputs", "Latent means", "Posteriors", "Reconstructions"):
        assert name in page.text
    assert found.member in page.text
    assert "Distances follow the order of the values best for" in page.text
    assert {name.split("-")[1] for name in page.figures if name.startswith("map-")} == {
        "ground_truth",
        "inputs",
        "means",
        "posteriors",
        "reconstructions",
    }


def test_what_own_labels_lack_is_said(made: dict[str, tuple[Distances, Path]]) -> None:
    found, path = made["own"]
    page = Page(path)
    assert len(found.missing) == 1
    assert str(found.missing[0]) in page.text
    assert "a</script>" in page.text
    assert len(page.all("p", class_="note warning")) == 1
    assert page.figures["map-inputs-0"]["data"][0]["z"][0][0] == 0.0


def test_entries_that_no_traversal_has_are_gaps() -> None:
    figure = drawn(heat_map(np.array([[0.0, np.nan], [2.0, 0.0]]), np.arange(2)))
    assert figure["data"][0]["z"] == [[0.0, None], [2.0, 0.0]]
    assert figure["data"][0]["zmax"] == 2.0
    assert heat_map(np.zeros((2, 2)), np.arange(2)).data[0].zmax == 1.0


@pytest.mark.parametrize("kind", KINDS)
def test_files_beside_the_page(made: dict[str, tuple[Distances, Path]], kind: str) -> None:
    found, path = made[kind]
    for name, table in [
        ("importance", found.importance_table()),
        ("order", found.order_table()),
        ("matrices", found.matrix_table()),
    ]:
        read = pd.read_csv(path.with_name(f"{name}.csv"))
        pd.testing.assert_frame_equal(
            read, table.reset_index(drop=True), check_dtype=False, rtol=1e-12
        )
    drawing = ElementTree.fromstring(path.with_name("distances.svg").read_text())
    images = drawing.findall("{http://www.w3.org/2000/svg}image")
    assert len(images) == (1 + len(found.levels)) * len(found.inputs.factors)
    assert grid_svg(found.levels, "a < b").count("a &lt; b") == 1


@pytest.mark.browser
@pytest.mark.parametrize("kind", KINDS)
def test_a_browser_draws_every_map_without_a_complaint_or_a_fetch(
    browser: Any, open_page: Any, made: dict[str, tuple[Distances, Path]], kind: str
) -> None:
    found, path = made[kind]
    for width in (390, 1280) if kind in ("squares", "own") else (390,):
        open_page(path, width)
        maps = browser.execute_script(
            "return [...document.querySelectorAll('.maps .figure')].map(box => {"
            " const drawn = box.querySelector('.heatmaplayer image');"
            " const size = box.getBoundingClientRect();"
            " return [drawn !== null, size.width, size.height]; })"
        )
        assert len(maps) == (1 + len(found.levels)) * len(found.inputs.factors)
        assert all(drawn for drawn, _, _ in maps)
        assert all(wide == pytest.approx(high, abs=1) and wide > 80 for _, wide, high in maps)
        assert_drawn(browser, width)


def test_files_of_one_name_get_pages_of_their_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images = np.random.default_rng(0).integers(0, 256, (6, 16, 16), dtype=np.uint8)
    pages = set()
    for place in ("a", "b", "画像"):
        (tmp_path / place).mkdir()
        np.savez(tmp_path / place / "data.npz", images=images, factors=np.arange(6) % 3)
        pages.add(ub.distances(f"{place}/data.npz", pairs=10, quiet=True).page)
    assert len(pages) == 3
    assert all(page.parent.name.startswith("data-npz-mse-") for page in pages)


def test_all_models_of_a_run_stand_in_a_table(tmp_path: Path) -> None:
    run = small_train(tmp_path / "run")
    found = perceived_distances(run.dataset, run=run.folder, member=0)
    every = learnt_distances(run.folder)
    every.insert(1, "model", [run.folder.plan.members[one].label() for one in every["member"]])
    path = write_distances(
        found, run.dataset, tmp_path / "page", "unbraid distances it", (), "A sentence.", every
    )
    page = Page(path)
    assert_sound(page, "distances")
    assert page.headings == [1, 2, 2, 2, 2, 2, 2]
    text = path.read_text()
    assert "<strong>A sentence.</strong>" in text
    assert all(label in text for label in every["model"])
    assert (path.parent / "members.csv").is_file()
