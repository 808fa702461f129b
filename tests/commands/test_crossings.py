# SPDX-License-Identifier: Apache-2.0
"""`crossings`: the table, the page, and what is refused, all of it at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import unbraid as ub
from unbraid.analysis.perturbation.effect import crossings, uniform_s
from unbraid.core.errors import InputError

SPRITES = {"image_size": 16, "x": 5, "y": 4, "scale": 2}


def test_the_table_is_that_of_the_analysis_and_the_page_shows_it(tmp_path: Path):
    page = tmp_path / "page.html"
    made = ub.crossings("sprites", data_options=SPRITES, out=page, epsilons=[0.1, 0.2, 0.3])
    data = ub.load("sprites", **SPRITES)
    expected = crossings(data, uniform_s(data, steps=32))
    assert made.table().equals(expected.table())
    text = page.read_text()
    for name, local in zip(("scale", "x", "y"), expected.local, strict=True):
        assert f"{name} at {local:.3f}" in text
    assert text.count("<svg") == 4  # two figures, wide and narrow
    assert made.summary().endswith(f"Open in a browser: {page}")
    assert ub.crossings("sprites", data_options=SPRITES, out=page).page == page  # its own page


def test_table_and_headline_are_where_the_lines_of_the_figure_cross(tmp_path: Path):
    """Of factors with 2, 4 and 5 values beside an s of 32: a step of each is another length."""
    shown, page = np.linspace(0.0005, 1.0, 2000), tmp_path / "page.html"
    made = ub.crossings(
        "sprites", data_options=SPRITES, out=page, epsilons=shown.tolist(), clip=False
    )
    lines = made.sweep.lines("local").pivot(index="x", columns="group", values="y")
    assert {*lines.columns} == {"s", *made.table().index}
    for name, passed in made.table()["local"].items():
        first = (lines["s"] >= lines[name]).idxmax()
        assert first - 0.0005 <= passed <= first, name
        assert f"{name} at {passed:.3f}" in page.read_text()
    # Not step for step: of s that is a sixteenth of one of scale, which has two values.
    factors, s = made.sweep.factors, made.sweep.change / np.array(made.sweep.epsilons)
    step_for_step = factors.change[0] / s.mean()
    assert made.table().loc["scale", "local"] < 0.1 * step_for_step


def test_a_factor_that_is_never_passed_is_told_as_such(tmp_path: Path):
    """Clipped and with rows that hardly move, the step of s changes next to nothing."""
    made = ub.crossings(
        "sprites", data_options=SPRITES, out=tmp_path / "p.html", rows_per_step=0.01
    )
    assert np.isnan(made.table()["local"]).all()
    assert "never" in made.summary()
    assert "s passes no factor near by" in (tmp_path / "p.html").read_text()


def test_what_cannot_be_is_refused(tmp_path: Path):
    (tmp_path / "mine.html").write_text("mine")
    with pytest.raises(InputError) as told:
        ub.crossings(
            "sprites", data_options=SPRITES, out=tmp_path / "mine.html", steps=1,
            rows_per_step=0, seed=-1,
        )  # fmt: skip
    assert [line.split()[0] for line in str(told.value).splitlines()] == [
        "steps", "rows_per_step", "seed", "out",
    ]  # fmt: skip
    with pytest.raises(InputError, match="epsilons must be numbers above 0 and at most 1"):
        ub.crossings("sprites", data_options=SPRITES, epsilons="0.1,7", out=tmp_path / "n.html")
    with pytest.raises(InputError, match="at most 1; got 0"):  # as the command line reads -0
        ub.crossings("sprites", data_options=SPRITES, epsilons=0, out=tmp_path / "n.html")  # pyright: ignore
    np.save(tmp_path / "own.npy", np.zeros((8, 16, 16, 1), np.uint8))
    with pytest.raises(InputError, match="must have factors that s can be compared with"):
        ub.crossings(tmp_path / "own.npy", out=tmp_path / "n.html")
    assert (tmp_path / "mine.html").read_text() == "mine"
    assert not (tmp_path / "n.html").exists()
