# SPDX-License-Identifier: Apache-2.0
"""The page of a discovery says what is true of every kind of finding, in plain words, and a browser
shows it whole.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

import unbraid as ub
from unbraid.core.errors import InputError
from unbraid.report.discover.context import (
    agreement_curve,
    page_context,
    python_snippet,
    r_snippet,
    write_discover,
)
from unbraid.report.discover.words import table_columns
from unbraid.search.discover.findings import Certainty, Discovery, FoundFactor, Name

from ..pages import Page, assert_drawn, assert_sound

HOSTILE = "<script>alert('x')</script> & \"2 < 3\""
LONG = "2024-05-01_greenhouse_north_camera_3_exposure_0017_of_2000_corrected_final.png"
FRAMES = 9


@cache
def grey(factor: str) -> NDArray[np.uint8]:
    """Drawn sprites along one factor, the others in the middle."""
    data = ub.load("sprites", x=9, y=9, scale=9)
    at = np.full((FRAMES, 3), 4)
    at[:, data.grid.names.index(factor)] = np.arange(FRAMES)
    return data.images(data.grid.to_index(at))


@cache
def coloured() -> NDArray[np.uint8]:
    """Drawn sprites of nine hues."""
    data = ub.load("sprites", channels=3, hue=9, x=1, y=1, scale=1)
    return data.images(np.arange(9))


def factor(
    title: str,
    images: NDArray[np.uint8],
    latent: int,
    *,
    seen: int = 4,
    others: int = 4,
    names: tuple[str, ...] | None = None,
) -> FoundFactor:
    name = Name(
        title,
        f"From low to high, {title} grows (rank correlation 0.98).",
        "" if title.startswith("something") else "m",
        0.98,
    )
    files = tuple(f"img_{17 * place:04}.png" for place in range(FRAMES)) if names is None else names
    certainty = Certainty(0.97 if 2 * seen >= others else 0.31, seen, others)
    return FoundFactor(
        latent + 1,
        latent,
        2.5 - 0.1 * latent,
        name,
        certainty,
        0.38 / (latent + 1),
        images,
        images,
        files,
    )


def discovery(**changes: Any) -> Discovery:
    """A finding of two positions among grey sprites, with *changes*."""
    some = np.concatenate([grey("x")[::2], grey("y")[::2]])
    usual: dict[str, Any] = {
        "source": "my_images",
        "images": 2_000,
        "image_shape": some.shape[1:],
        "resized_from": None,
        "factors": (
            factor("horizontal position", grey("x"), 0),
            factor("vertical position", grey("y"), 3),
        ),
        "doubtful": (),
        "explained": 0.83,
        "udr": 0.71,
        "originals": some,
        "remembered": some // 2,
        "worst": some[:6],
        "worst_remembered": some[:6] // 3,
        "population": 8,
        "models_each": 5,
        "epochs": 7,
        "best_by_epoch": (0.11, 0.2, 0.38, 0.52, 0.66, 0.7, 0.71),
        "minutes": 14.8,
        "device": "the CPU, 2 threads",
        "objective": "beta_tcvae",
        "settings": {"learning_rate": 0.00096, "beta": 6.0},
        "run": "runs/mine/models",
        "tables": ("runs/mine/codes.parquet", "runs/mine/codes.csv"),
        "commands": (
            ("unbraid discover my_images --minutes 60 --out runs/longer", "Give it an hour"),
            ("unbraid report runs/mine/models", "Everything about the chosen models"),
        ),
        "command": "unbraid discover my_images --minutes 15 --out runs/mine",
        "facts": {"Seed": "0"},
    }
    return Discovery(**{**usual, **changes})


def wide(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """The same in colour and twice as wide as high."""
    return np.concatenate([images, images[:, :, ::-1]], axis=2)[:, 8:24]


def every_kind() -> dict[str, Discovery]:
    hues, tall = coloured(), grey("scale")[:, :, 8:24]
    strange = factor(
        HOSTILE, grey("x"), 0, names=tuple(f"{place} {HOSTILE}" for place in range(FRAMES))
    )
    many = tuple(
        factor(f"thing {number}", grey(("x", "y", "scale")[number % 3]), number)
        for number in range(12)
    )
    none = np.zeros((0, *hues.shape[1:]), np.uint8)
    return {
        "two": discovery(),
        "collapsed": discovery(
            factors=(), doubtful=(factor("size", grey("scale"), 0),), collapsed=True
        ),
        "none": discovery(
            factors=(),
            explained=0.12,
            udr=0.04,
            images=120,
            best_by_epoch=(0.02, 0.04),
            resized_from=(480, 640),
        ),
        "none_but_doubtful": discovery(
            factors=(), doubtful=(factor("size", grey("scale"), 2, seen=1),)
        ),
        "one": discovery(
            factors=(factor("size", tall, 1, seen=3),),
            image_shape=tall.shape[1:],
            doubtful=(
                factor("something in the lower left of the image", tall, 4, seen=1),
                factor("size", tall, 5, seen=0, names=(LONG,) * FRAMES),
            ),
            stages=(
                "All 2,000 images: two factors were found.",
                "210 images alike in both: one more was found.",
            ),
            warnings=("12 files could not be read and were left out.",),
        ),
        "twelve": discovery(factors=many),
        "colour": discovery(
            factors=(factor("colour", wide(hues), 0, names=()),),
            image_shape=(16, 64, 3),
            originals=wide(hues),
            remembered=wide(hues),
            worst=none,
            worst_remembered=none,
            tables=("/data/codes.csv",),
            device="one GPU",
            minutes=0.4,
        ),
        "hostile": discovery(
            factors=(strange,),
            doubtful=(factor(HOSTILE, grey("y"), 2, seen=0),),
            source=HOSTILE,
            tables=(f"{HOSTILE}.csv",),
            commands=((HOSTILE, HOSTILE),),
            command=HOSTILE,
            warnings=(HOSTILE,),
            stages=(HOSTILE,),
            facts={HOSTILE: HOSTILE},
            run=HOSTILE,
            device=HOSTILE,
            objective=HOSTILE,
        ),
        "unmeasured": discovery(
            factors=(
                replace(factor("size", grey("scale"), 0, seen=0, others=0), share=float("nan")),
            ),
            explained=float("nan"),
            udr=float("nan"),
            best_by_epoch=(float("nan"), 0.2, 0.3),
            tables=(),
            commands=(),
            command="",
        ),
    }


KINDS = ["two", "none", "none_but_doubtful", "one", "twelve", "colour", "hostile", "unmeasured"]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("discoveries")
    return {
        kind: write_discover(home / f"{kind}.html", found) for kind, found in every_kind().items()
    }


@pytest.fixture(scope="session")
def pages(made: dict[str, Path]) -> dict[str, Page]:
    return {kind: Page(path) for kind, path in made.items()}


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_is_sound_and_loads_nothing(
    made: dict[str, Path], pages: dict[str, Page], kind: str
) -> None:
    assert_sound(pages[kind], "discover", python_words=["None of", "None agrees"])
    assert made[kind].stat().st_size < 1_000_000


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "hostile"])
def test_plain_words_until_how_it_was_done(pages: dict[str, Page], kind: str) -> None:
    before, after = pages[kind].text.split("How it was done", 1)
    jargon = (
        r"\b(latents?|VAEs?|KL|nats|UDR|decod\w*|encod\w*|reconstruct\w*|hyper-?parameters?|"
        r"epochs?|population|posterior|β)\b"
    )
    assert re.findall(jargon, before) == []
    assert "variational autoencoder" in after


def test_two_factors_in_words(pages: dict[str, Page]) -> None:
    text = pages["two"].text
    assert (
        "Two things that vary in your 2,000 images were found: horizontal position, vertical"
        " position." in text
    )
    found = "4 of 4 other models, trained from other random starting points, found the same"
    assert text.count(f"{found} (agreement 0.97).") == 2
    assert text.count("All agree.") == 2
    assert "Without it, drawn images lose about 38% of the differences between your images." in text
    assert "From low to high, vertical position grows (rank correlation 0.98)." in text
    assert "The models redraw about 83% of the differences between your images." in text
    assert "the other 17%" in text
    assert "img_ 0136 .png" in text  # where a line may break
    assert "codes = pd.read_parquet('runs/mine/codes.parquet')" in text
    assert 'codes <- read.csv("runs/mine/codes.csv")' in text
    assert "Seen from the folder in which the command was run." in text
    assert "factor_2_vertical_position vertical position" in text
    assert (
        "8 groups of 5 models each were trained together for 7 rounds (epochs), which took 15"
        " minutes on the CPU, 2 threads." in text
    )
    assert (
        "Chosen learning rate 0.00096 Chosen β 6 Agreement score of the group 0.71 of at most 0.9"
        " (UDR)" in text
    )
    assert "Objective β-TCVAE" in text
    assert "Give it an hour unbraid discover my_images --minutes 60 --out runs/longer" in text
    assert "Agreement is no proof." in text
    assert "Names are guesses" in text
    assert "Not confirmed" not in text
    assert "Stages" not in text
    page = pages["two"]
    assert len(page.all("article")) == 2
    assert len(page.all("polyline")) == 1
    about = [str(attributes["alt"]) for attributes in page.all("img")]
    assert about[:2] == [
        "9 images drawn from low to high: horizontal position",
        "Your image img_0000.png, 1 of 9 from low to high",
    ]
    assert len(about) == 2 * (1 + FRAMES) + 4


def test_the_parts_come_in_order(pages: dict[str, Page]) -> None:
    sections = [str(attributes["id"]) for attributes in pages["one"].all("section")]
    assert sections == ["found", "doubtful", "missing", "table", "how", "next", "words"]
    assert [attributes["id"] for attributes in pages["none"].all("section")] == [
        "found",
        "missing",
        "table",
        "how",
        "next",
        "words",
    ]


def test_nothing_found_reads_well(pages: dict[str, Page]) -> None:
    page = pages["none"]
    assert "Nothing was found in your 120 images that several models agree on." in page.text
    assert "Nothing that several models agree on" in page.text
    assert page.all("article") == []
    assert page.all("div", class_="film") == []
    for remedy in (
        "It was short. Let it run longer",
        (
            "at 32 × 32 pixels instead of 480 × 640. They cannot see what is smaller than about 40"
            " pixels"
        ),
        "120 images are few.",
        "Your images may differ in too many ways at once",
    ):
        assert page.text.count(remedy) == 1
    assert "Nothing was found, so there are no numbers to work with" in page.text
    assert "pandas" not in page.text
    assert "read.csv" not in page.text
    assert "What was found" not in page.text
    doubt = pages["none_but_doubtful"].text
    assert "The chosen model uses one thing that the other models do not confirm." in doubt
    assert "not confirmed" in doubt


def test_a_page_of_collapsed_groups_counts_nothing_as_found(pages: dict[str, Page]) -> None:
    page = pages["collapsed"]
    assert "Nothing counts as found in your 2,000 images: every group" in page.text
    assert "What was found" not in page.text
    assert "The models have not learned enough yet" in page.text
    assert "Every group of models was collapsed, so it means little" in page.text
    assert "cannot draw your images" not in page.text
    assert "doubtful_1_size" in page.text
    assert "factor_1" not in page.text
    assert page.all("div", class_="film") == []


def test_doubtful_ones_are_set_apart(pages: dict[str, Page]) -> None:
    text = pages["one"].text
    assert (
        "One thing that varies in your 2,000 images was found: size. The chosen model uses two"
        " more things" in text
    )
    assert "Most agree. 3 of 4 other models" in text
    assert "Few agree. 1 of 4 other models" in text
    assert "found the same (agreement 0.31)." in text
    assert "None agrees. None of 4 other models" in text
    assert text.count("Look at the rows to see what it is.") == 1
    assert "Stages All 2,000 images: two factors were found. 210 images alike" in text
    assert "12 files could not be read and were left out." in text
    assert text.count("Full names of the images") == 1
    assert text.count(LONG) == FRAMES
    assert "2024- 05- 01…ted_ final .png" in text
    assert "doubtful_1_something_in_the_lower_left" in text
    assert "lower_left_of" not in text


def test_hostile_words_stay_words(made: dict[str, Path], pages: dict[str, Page]) -> None:
    source = made["hostile"].read_text()
    assert "<script" not in source
    assert pages["hostile"].text.count(HOSTILE) >= 15
    assert len(pages["hostile"].all("article")) == 2


def test_colour_without_names_or_worst_images(pages: dict[str, Page]) -> None:
    page = pages["colour"]
    assert "redrawn worst" not in page.text
    assert "redrawn worst" in pages["two"].text
    assert "Your image 1, 1 of 9 from low to high" in {
        str(attributes["alt"]) for attributes in page.all("img")
    }
    assert "Size 16 × 64, colour" in page.text
    assert "which took 24 seconds on one GPU" in page.text
    assert "codes = pd.read_csv('/data/codes.csv')" in page.text
    assert "Seen from the folder" not in page.text


def test_what_could_not_be_measured_is_said(pages: dict[str, Page]) -> None:
    text = pages["unmeasured"].text
    assert text.count("could not be measured") == 3  # the factor, all factors, and the facts
    assert "Not checked. There was no other model to compare with" in text
    assert "No table was written." in text
    assert "How to go on" not in text


def test_the_snippet_runs_on_a_table_with_the_columns(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = discovery()
    columns = table_columns(found)
    assert [(column.name, column.latent) for column in columns] == [
        ("image", None),
        ("name", None),
        ("factor_1_horizontal_position", 0),
        ("factor_2_vertical_position", 3),
    ]
    table = pd.DataFrame(
        [[0, "b.png", 1.0, 0.0], [1, "a.png", -1.0, 2.0]],
        columns=[column.name for column in columns],
    )
    table.to_parquet(tmp_path / "it's.parquet")
    table.to_csv(tmp_path / "codes.csv", index=False)
    for path in (tmp_path / "it's.parquet", tmp_path / "codes.csv"):
        snippet = python_snippet((str(path),), columns)
        assert len(snippet.splitlines()) == 3
        exec(snippet, {})
        assert re.search(r"1\s+a\.png.*\n.*0\s+b\.png", capsys.readouterr().out)
    assert (
        r_snippet(("a.parquet", 'my "codes".csv'), columns)
        == 'codes <- read.csv("my \\"codes\\".csv")'
    )
    assert python_snippet((), columns) == r_snippet(("a.parquet",), columns) == ""
    assert python_snippet(("a.csv",), columns[:2]) == r_snippet(("a.csv",), columns[:2]) == ""


def test_the_curve_of_agreement() -> None:
    curve = agreement_curve((0.0, 0.45, 0.9))
    assert curve is not None
    (left, low), (_, middle), (right, top) = curve["points"]
    assert (left, right) == (46, 468)
    assert middle == pytest.approx((low + top) / 2)
    assert [text for _, text in curve["y_ticks"]] == ["0", "0.3", "0.6", "0.9"]
    assert [text for _, text in curve["x_ticks"]] == [1, 2, 3]
    assert curve["y_ticks"][0][0] == low
    assert agreement_curve((0.3,)) is None
    assert agreement_curve((0.3, float("nan"))) is None
    gap = agreement_curve((0.3, float("nan"), 0.5))
    assert gap is not None
    assert len(gap["points"]) == 2


def test_records_that_do_not_fit_are_refused() -> None:
    wrong = discovery(
        factors=(factor("size", grey("scale"), 0, names=("a", "b")),), worst=grey("x")[:2]
    )
    with pytest.raises(InputError) as refused:
        page_context(wrong)
    found = [(problem.name, problem.value) for problem in refused.value.problems]
    assert found == [("factor 'size'", 2), ("worst_remembered", 6)]


@pytest.mark.browser
@pytest.mark.parametrize("kind", KINDS)
def test_a_browser_shows_it_whole(
    browser: Any, open_page: Any, made: dict[str, Path], kind: str
) -> None:
    for width in (390, 1280):
        open_page(made[kind], width)
        assert_drawn(browser, width)
        flat = (
            "return [...document.querySelectorAll('.real img')].filter(one =>"
            " one.getBoundingClientRect().width < 24).length"
        )
        assert browser.execute_script(flat) == 0
