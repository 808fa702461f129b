# SPDX-License-Identifier: Apache-2.0
"""The lineage of a search: ancestry by hand, figures that say what the table says, and a page that
a browser draws.
"""

from __future__ import annotations

import json
import math
import re
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.errors import InputError
from unbraid.report.pbt.context import page_context, write_pbt
from unbraid.report.pbt.figures import hyper_figure, lineage_figure, log_axis, spread_figure
from unbraid.report.pbt.lineage import ancestry, changes, hyper_columns

from ..pages import Page, assert_drawn, assert_sound, drawn, resized

HOSTILE = "<script>alert('x')</script> & \"2 < 3\""


def by_hand() -> pd.DataFrame:
    """Three individuals, three epochs: 2 takes over from 0 in epoch 1, and 1 from 2 in epoch 2; 0
    loses its score at the end.
    """
    rows = [
        (0, 0, -1, False, 0.5, False, 0.001, 4.0, 100),
        (0, 1, -1, False, 0.3, False, 0.002, 8.0, 100),
        (0, 2, -1, False, 0.1, False, 0.004, 1.0, 100),
        (1, 0, 0, False, 0.55, False, 0.001, 4.0, 200),
        (1, 1, 1, False, 0.35, False, 0.002, 8.0, 200),
        (1, 2, 0, True, 0.6, False, 0.0012, 8.0, 200),
        (2, 0, 0, False, math.nan, True, 0.001, 4.0, 250),
        (2, 1, 2, True, 0.7, False, 0.0012, 4.0, 300),
        (2, 2, 2, False, 0.65, False, 0.0012, 8.0, 300),
    ]
    names = [
        "epoch",
        "individual",
        "parent",
        "copied",
        "score",
        "diverged",
        "learning_rate",
        "beta",
        "images",
    ]
    return pd.DataFrame(rows, columns=names)


def simulated(individuals: int, epochs: int, seed: int = 0) -> pd.DataFrame:
    """A toy search: the score is nearness of two numbers to their best values; the worst fifth copy
    the best fifth.
    """
    generator = np.random.default_rng(seed)
    rate, beta = (
        10 ** generator.uniform(-5, -2, individuals),
        2.0 ** generator.integers(0, 8, individuals),
    )
    batch = 2 ** generator.integers(4, 9, individuals)
    rows = []
    parent, copied = np.full(individuals, -1), np.zeros(individuals, bool)
    for epoch in range(epochs):
        score = (
            np.exp(-(np.log10(rate / 3e-4) ** 2) - np.log2(beta / 6) ** 2 / 9)
            * 0.85
            * (1 - 0.8 ** (epoch + 1))
        )
        score += generator.normal(0, 0.01, individuals)
        diverged = rate > 8e-3
        score[diverged] = np.nan
        for slot in range(individuals):
            numbers = (rate[slot], int(batch[slot]), beta[slot], 737_280 * (epoch + 1))
            rows.append(
                (
                    epoch,
                    slot,
                    int(parent[slot]),
                    bool(copied[slot]),
                    score[slot],
                    bool(diverged[slot]),
                    *numbers,
                )
            )
        order = np.argsort(np.nan_to_num(score, nan=-1))
        fifth = math.ceil(0.2 * individuals)
        parent, copied = np.arange(individuals), np.zeros(individuals, bool)
        for slot in order[:fifth]:
            source = generator.choice(order[-fifth:])
            parent[slot], copied[slot] = source, True
            rate[slot], beta[slot], batch[slot] = rate[source], beta[source], batch[source]
            rate[slot] *= generator.choice([2, 1.2, 0.8, 0.5])
            beta[slot] = math.ceil(beta[slot] * generator.choice([2, 1.2, 0.8, 0.5]))
    names = [
        "epoch",
        "individual",
        "parent",
        "copied",
        "score",
        "diverged",
        "learning_rate",
        "batch_size",
        "beta",
        "images",
    ]
    return pd.DataFrame(rows, columns=names)


def best(lineage: pd.DataFrame) -> tuple[int, int, float]:
    row = lineage.loc[lineage["score"].idxmax()]
    return int(row["epoch"]), int(row["individual"]), float(row["score"])


def trace(figure: Any, name: str) -> dict[str, Any]:
    (found,) = [one for one in drawn(figure)["data"] if one["name"] == name]
    return found


def test_ancestry_by_hand() -> None:
    lineage = by_hand()
    assert ancestry(lineage, 2, 1) == [(0, 0), (1, 2), (2, 1)]
    assert ancestry(lineage, 2, 2) == [(0, 0), (1, 2), (2, 2)]
    assert ancestry(lineage, 2, 0) == [(0, 0), (1, 0), (2, 0)]
    assert ancestry(lineage, 1, 1) == [(0, 1), (1, 1)]
    assert ancestry(lineage, 0, 2) == [(0, 2)]
    assert ancestry(lineage.sample(frac=1, random_state=0), 2, 1) == [(0, 0), (1, 2), (2, 1)]


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.integers(1, 8), st.integers(0, 1000))
def test_every_ancestry_reaches_the_first_epoch_through_parents(
    individuals: int, epochs: int, seed: int
) -> None:
    lineage = simulated(individuals, epochs, seed)
    parents = {(row.epoch, row.individual): row.parent for row in lineage.itertuples()}
    for individual in range(individuals):
        line = ancestry(lineage, epochs - 1, individual)
        assert [epoch for epoch, _ in line] == list(range(epochs))
        assert line[-1] == (epochs - 1, individual)
        assert all(parents[after] == before[1] for before, after in pairwise(line))


def test_what_is_wrong_with_a_lineage_is_said() -> None:
    lineage = by_hand()
    cases = [
        (lambda: ancestry(lineage, 3, 1), "individual", "1 of epoch 3"),
        (
            lambda: ancestry(lineage[lineage["epoch"] != 0], 2, 1),
            "parent of individual 2 of epoch 1",
            "individual 0 of epoch 0",
        ),
        (
            lambda: spread_figure(lineage.drop(columns=["copied", "score"]), "UDR"),
            "lineage",
            "a table without copied, score",
        ),
        (lambda: spread_figure(lineage[:0], "UDR"), "lineage", "no row"),
        (
            lambda: ancestry(pd.concat([lineage, lineage[4:5]]), 0, 0),
            "lineage",
            "two for individual 1 in epoch 1",
        ),
    ]
    for call, name, value in cases:
        with pytest.raises(InputError) as refused:
            call()
        (problem,) = refused.value.problems
        assert (problem.name, str(problem.value)) == (name, value)


def test_changes_by_hand() -> None:
    assert changes(by_hand()) == [
        "",
        "",
        "",
        "",
        "",
        "learning rate 0.001 → 0.0012, β 4 → 8",
        "",
        "β 8 → 4",
        "",
    ]
    assert hyper_columns(by_hand().assign(note="text", flag=True)) == ["learning_rate", "beta"]


def test_values_that_are_missing_are_strokes() -> None:
    lineage = by_hand().astype({"beta": float})
    lineage.loc[[5, 7], "beta"] = [math.nan, math.nan]
    assert changes(lineage)[5:] == ["learning rate 0.001 → 0.0012, β 4 → –", "", "", "β – → 8"]
    figure = hyper_figure(lineage, "beta", (2, 1), "UDR")
    assert trace(figure, "the winner's ancestry")["y"] == [4.0, None, None]
    assert trace(figure, "individuals")["y"] == [4, 8, 1, 4, 8, 8]
    assert "winner" not in [one["name"] for one in drawn(figure)["data"]]


def test_the_lineage_figure_by_hand() -> None:
    figure = lineage_figure(by_hand(), (2, 1), "UDR")
    # 0 to 0 in the last epoch has no end, since the score is lost.
    went = trace(figure, "went on")
    assert went["x"] == [1, 2, None, 1, 2, None, 2, 3, None]
    assert went["y"] == [0.5, 0.55, None, 0.3, 0.35, None, 0.6, 0.65, None]
    copies = trace(figure, "copied from another")
    assert copies["x"] == [1, 2, None, 2, 3, None]
    assert copies["y"] == [0.5, 0.6, None, 0.6, 0.7, None]
    ancestors = trace(figure, "the winner's ancestry")
    assert (ancestors["x"], ancestors["y"]) == ([1, 2, 3], [0.5, 0.6, 0.7])
    assert ancestors["line"]["width"] > 2 * copies["line"]["width"]
    assert len({one["line"]["color"] for one in (went, copies, ancestors)}) == 3
    lost = trace(figure, "no score")
    assert lost["x"] == [3]
    assert lost["y"][0] < 0.1
    assert lost["text"] == ["epoch 3, individual 0: no score, diverged<br>learning rate 0.001, β 4"]
    assert trace(figure, "individuals that copied")["text"] == [
        (
            "epoch 2, individual 2: 0.600<br>learning rate 0.0012, β 8<br>"
            "copied from individual 0: learning rate 0.001 → 0.0012, β 4 → 8"
        ),
        (
            "epoch 3, individual 1: 0.700<br>learning rate 0.0012, β 4<br>copied from individual 2:"
            " β 8 → 4"
        ),
    ]
    assert (trace(figure, "winner")["x"], trace(figure, "winner")["y"]) == ([3], [0.7])


def test_the_spread_by_hand() -> None:
    lineage = by_hand()
    figure = spread_figure(lineage, "UDR")
    # Epochs as people count them.
    assert all(one["x"] == [1, 2, 3] for one in drawn(figure)["data"])
    assert [trace(figure, name)["y"] for name in ("best", "median", "worst")] == [
        [0.5, 0.6, 0.7],
        [0.3, 0.55, 0.675],
        [0.1, 0.35, 0.65],
    ]
    lineage.loc[lineage["epoch"] == 1, "score"] = math.nan
    assert trace(spread_figure(lineage, "UDR"), "best")["y"] == [0.5, None, 0.7]


def test_collapsed_individuals_are_marked_and_never_the_best() -> None:
    table = by_hand()
    table["active_latents"] = pd.array([2, 2, 2, 2, 2, 0, None, 0, 1], dtype="Int64")
    table["collapsed"] = [False] * 5 + [True, False, True, False]
    assert hyper_columns(table) == ["learning_rate", "beta"]
    figure = lineage_figure(table, (2, 2), "MIG").to_plotly_json()["data"]
    marks = next(trace for trace in figure if trace["name"] == "collapsed")
    assert list(zip(marks["x"], marks["y"], strict=True)) == [(2, 0.6), (3, 0.7)]
    best = spread_figure(table, "MIG").to_plotly_json()["data"][0]
    assert (best["name"], list(best["y"])) == ("best", [0.5, 0.55, 0.65])
    context = page_context(title="", lineage=table, score_label="MIG", winner=(2, 2, 0.65))
    rows = [[cell for cell, _ in row["cells"]] for row in context["table"]["rows"]]
    assert [(row[0], row[4], row[-1]) for row in rows] == [
        ("2", "1", "went on"),
        ("1", "0", "collapsed; copied from individual 2"),
        ("0", "–", "diverged"),
    ]
    assert dict(context["facts"])["Collapsed"] == "2 of 9 individual epochs"
    table.loc[table["epoch"] == 2, "collapsed"] = True
    best = spread_figure(table, "MIG").to_plotly_json()["data"][0]
    assert list(best["y"]) == [0.5, 0.55, 0.7], "by score where all are collapsed"


def test_a_collapsed_individual_has_no_colour_among_hyperparameters() -> None:
    """However high its score is, which would make it the brightest dot."""
    table = by_hand()
    table["active_latents"] = [2] * 9
    table["collapsed"] = [False] * 7 + [True, False]
    figure = hyper_figure(table, "beta", (2, 2), "MIG")
    marks, dots = trace(figure, "collapsed"), trace(figure, "individuals")
    assert (len(marks["y"]), marks["y"], marks["text"]) == (1, [4.0], ["0.700"])
    assert marks["marker"]["symbol"] == "circle-open"
    assert isinstance(marks["marker"]["color"], str)
    assert len(dots["y"]) == 7
    assert max(dots["marker"]["color"]) == 0.65
    table["collapsed"] = table["score"].notna()
    figure = hyper_figure(table, "beta", (2, 1), "MIG")
    assert len(trace(figure, "collapsed")["y"]) == 8
    assert "individuals" not in [one["name"] for one in drawn(figure)["data"]]


def test_where_lower_is_better_the_lowest_is_called_the_best() -> None:
    shown = spread_figure(by_hand(), "TC", higher_is_better=False).to_plotly_json()["data"]
    assert list(shown[0]["y"]) == [0.1, 0.35, 0.65]
    context = page_context(
        title="", lineage=by_hand(), score_label="TC", winner=(0, 2, 0.1), higher_is_better=False
    )
    assert [row["cells"][0][0] for row in context["table"]["rows"]] == ["2", "1", "0"]
    assert context["table"]["sorted_by"] == ("TC", "ascending")


def test_a_hyper_parameter_by_hand() -> None:
    figure = hyper_figure(by_hand(), "beta", (2, 1), "UDR")
    assert trace(figure, "the winner's ancestry")["y"] == [4.0, 8.0, 4.0]
    dots = trace(figure, "individuals")
    assert trace(figure, "the winner's ancestry")["x"] == [
        0.75,
        2.25,
        3.0,
    ]  # individuals 0, 2, 1, side by side
    assert dots["y"] == [4, 8, 1, 4, 8, 8, 4, 8]
    assert dots["marker"]["color"] == [0.5, 0.3, 0.1, 0.55, 0.35, 0.6, 0.7, 0.65]
    assert dots["customdata"][3] == [2, 0]
    assert np.abs(np.array(dots["x"]) - [1, 1, 1, 2, 2, 2, 3, 3]).max() <= 0.25
    assert trace(figure, "no score")["y"] == [4]
    assert figure.layout.yaxis.type == "log"
    zero = hyper_figure(by_hand().assign(beta=0.0), "beta", (2, 1), "UDR")
    assert zero.layout.yaxis.type is None


@given(st.floats(1e-8, 1e6), st.floats(1, 1e8))
def test_log_axes_hold_their_values_with_few_ticks(low: float, ratio: float) -> None:
    axis = log_axis(low, low * ratio)
    bottom, top = axis["range"]
    assert bottom < math.log10(low) <= math.log10(low * ratio) < top
    assert all(bottom <= math.log10(tick) <= top for tick in axis["tickvals"])
    assert len(axis["tickvals"]) <= 10


def test_scores_that_are_all_missing_still_make_figures() -> None:
    lineage = by_hand().assign(score=math.nan, diverged=True)
    figure = lineage_figure(lineage, (2, 1), "UDR")
    assert [one.name for one in figure.data] == ["no score", "the winner's ancestry"]
    assert trace(figure, "the winner's ancestry")["y"] == [None] * 3
    assert trace(spread_figure(lineage, "UDR"), "best")["y"] == [None] * 3
    assert trace(hyper_figure(lineage, "beta", (2, 1), "UDR"), "no score")["y"][:3] == [4, 8, 1]


def test_a_large_search_stays_light() -> None:
    lineage = simulated(280, 40)
    epoch, slot, score = best(lineage)
    context = page_context(
        title="large", lineage=lineage, score_label="UDR", winner=(epoch, slot, score)
    )
    for name, figure in ((name, drawn(one)) for name, one in context["figures"].items()):
        assert len(figure["data"]) <= 7
        assert len(json.dumps(figure)) < (1_200_000 if name == "lineage" else 250_000)
        assert sum(len(one["x"]) for one in figure["data"] if one["mode"] == "markers") <= (
            7_000 if name == "lineage" else 4_000
        )
    assert context["every"] == 3
    assert len(trace(context["figures"]["lineage"], "went on")["x"]) > 20_000  # no line is left out


KINDS = ["hand", "large", "one", "hostile", "lost"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("searches")
    tables = {
        "hand": by_hand(),
        "large": simulated(56, 26),
        "one": simulated(1, 1, seed=2),
        "hostile": by_hand().rename(columns={"beta": HOSTILE}),
        "lost": by_hand().assign(score=math.nan, diverged=True),
    }
    pages = {}
    for kind, lineage in tables.items():
        said = HOSTILE if kind == "hostile" else "it"
        pages[kind] = write_pbt(
            home / f"{kind}.html",
            title=f"sprites · {said}",
            lineage=lineage,
            score_label="UDR" if kind != "hostile" else HOSTILE,
            winner=best(lineage) if kind != "lost" else (2, 1, math.nan),
            facts=[("Scored by", said), ("Seed", "0")],
            commands=[(f"unbraid score {said}", f"Scores of {said}")],
            sentences=[f"A population on {said}."],
        )
    return pages


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_is_sound_and_loads_nothing(made: dict[str, Path], kind: str) -> None:
    assert_sound(Page(made[kind]), "pbt")


def test_the_page_says_what_the_table_says(made: dict[str, Path]) -> None:
    page = Page(made["hand"])
    assert (
        "A population on it. The best has UDR 0.700 (individual 1, in the last epoch);"
        " its weights passed to another individual twice." in page.text
    )
    assert "The winner has no UDR (individual 1, in the last epoch)" in Page(made["lost"]).text
    assert (
        "Individuals 3 Epochs 3 Copies 2 Diverged 1 of 9 individual epochs Images seen by each 250"
        " to 300" in page.text
    )
    assert "UDR 0.700 Epoch, individual 3, 1 learning rate 0.0012 β 4" in page.text
    assert (
        "2 2 0.600 0.0012 8 copied from individual 0: learning rate 0.001 → 0.0012, β 4 → 8"
        in page.text
    )
    assert "1 0 0.500 0.001 4 began" in page.text
    assert "All 3 individuals of epoch 3" in page.text
    last = (
        "1 best 0.700 0.0012 4 300 copied from individual 2 2 0.650 0.0012 8 300 went on 0 – 0.001"
        " 4 250 diverged"
    )
    assert last in page.text
    assert "Scored by it Seed 0" in page.text
    assert "Scores of it unbraid score it" in page.text


@pytest.mark.parametrize("kind", KINDS)
def test_one_word_for_an_individual(made: dict[str, Path], kind: str) -> None:
    page = Page(made[kind])
    texts = [
        page.text,
        *(
            str(one.get("text")) + str(one.get("hovertemplate"))
            for f in page.figures.values()
            for one in f["data"]
        ),
    ]
    for word in ("slot", "member", "Slot", "Member"):
        assert not any(re.search(rf"\b{word}s?\b", text) for text in texts)


def test_greek_letters_stay_small() -> None:
    heads = page_context(title="", lineage=by_hand(), score_label="UDR", winner=(2, 1, 0.7))
    assert [panel["heading"] for panel in heads["panels"]] == ["Learning rate", "β"]


def test_a_winner_of_an_earlier_epoch() -> None:
    context = page_context(title="", lineage=by_hand(), score_label="MIG", winner=(1, 0, 0.55))
    best = {"score": "0.550", "individual": 0, "epoch": 2, "last": 3, "moves": 0}
    assert context["best"] == best
    assert not any(row["best"] for row in context["table"]["rows"])


@pytest.mark.browser
def test_figures_keep_their_height_when_the_window_is_resized(
    browser: Any, open_page: Any, made: dict[str, Path]
) -> None:
    heights = (
        "return [...document.querySelectorAll('.figure')].map(box => [box.clientHeight,"
        " box.querySelector('.main-svg').getBoundingClientRect().height])"
    )
    open_page(made["hand"], 1280)
    for width in (1280, 820, 1000):
        resized(browser, width)
        assert browser.execute_script(heights) == [[420, 420], [320, 320], [320, 320], [320, 320]]


def test_hostile_words_stay_words(made: dict[str, Path]) -> None:
    page = Page(made["hostile"])
    assert page.text.count(HOSTILE) > 5
    for figure in page.figures.values():
        axes = [figure["layout"][axis] for axis in ("xaxis", "yaxis")]
        titles = [axis.get("title", {}).get("text", "") for axis in axes]
        hovers = [str(one.get("hovertemplate")) + str(one.get("text")) for one in figure["data"]]
        assert not any("<script" in text for text in titles + hovers)


@pytest.mark.browser
@pytest.mark.parametrize("kind", KINDS)
def test_a_browser_draws_everything_without_a_complaint_or_a_fetch(
    browser: Any, open_page: Any, made: dict[str, Path], kind: str
) -> None:
    for width in (390, 1280) if kind == "large" else (390,):
        open_page(made[kind], width)
        assert_drawn(browser, width)
