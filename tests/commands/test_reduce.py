# SPDX-License-Identifier: Apache-2.0
"""The door to reduction: labels from arrays and files, what is written, what is said, what is
refused.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from typer.testing import CliRunner

import unbraid as ub
from unbraid.commands.command_line import app
from unbraid.commands.reduce import EXAMPLES
from unbraid.core.errors import InputError
from unbraid.report.reduce.words import latent_sentence
from unbraid.scoring.files import read_array
from unbraid.search.reduce.reduction import NO_PEAKS, ReductionRule
from unbraid.search.reduce.reduction import reduce as reduce_codes

DATA: dict[str, Any] = {"image_size": 16, "x": 8, "y": 8, "scale": 16}


@pytest.fixture
def codes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> NDArray[np.float64]:
    """Codes of the positions of drawn sprites, 16 scales of each, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    data = ub.load("sprites", **DATA)
    positions = data.factors(np.arange(len(data)))[
        :, [data.factor_names.index("x"), data.factor_names.index("y")]
    ]
    return positions + 0.01 * np.random.default_rng(0).standard_normal(positions.shape)


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_is_kept_is_written(codes: NDArray[np.float64]) -> None:
    made = ub.reduce(codes, out="out", names=["x", "y"])
    assert files(Path("out")) == ["kept.csv", "kept.npy", "reduce.html"]
    kept = np.load("out/kept.npy")
    assert kept.dtype == np.int64
    np.testing.assert_array_equal(kept, made.indices)
    np.testing.assert_array_equal(kept, reduce_codes(codes).indices)
    assert len(kept) == 16
    with open("out/kept.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == ["position", "x", "y"]
    assert [int(row[0]) for row in rows[1:]] == kept.tolist()
    np.testing.assert_array_equal(np.array(rows[1:], dtype=np.float64)[:, 1:], codes[kept])
    assert made.page == Path("out/reduce.html")
    np.testing.assert_array_equal(read_array(Path("out/kept.csv"), "labels")[:, 0], kept)


def test_one_position_is_left_and_scales_vary(codes: NDArray[np.float64]) -> None:
    """The kept images are of one place, at every scale there is: what was not found."""
    data = ub.load("sprites", **DATA)
    made = ub.reduce(codes, out="out", images=data)
    factors = data.factors(made.indices)
    varying = {name: len(np.unique(factors[:, at])) for at, name in enumerate(data.factor_names)}
    assert {name: varying[name] for name in ("x", "y", "scale")} == {"x": 1, "y": 1, "scale": 16}


def test_index_takes_another_candidate(codes: NDArray[np.float64]) -> None:
    made = [ub.reduce(codes, index=index, out=f"out-{index}") for index in range(3)]
    assert len({tuple(one.indices.tolist()) for one in made}) == 3
    assert ub.reduce(codes, index="2", out="text").indices.tolist() == made[2].indices.tolist()  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["codes.npy", "codes.npz", "codes.csv"])
def test_labels_from_files(codes: NDArray[np.float64], name: str) -> None:
    codes = codes.astype(np.float32)
    if name.endswith(".npy"):
        np.save(name, codes)
    elif name.endswith(".npz"):
        np.savez(name, labels=codes, other=np.zeros(3))
    else:
        np.savetxt(name, codes, delimiter=",", header="x,y", comments="")
    made = ub.reduce(name)
    assert made.folder == Path("reductions/codes-1")
    np.testing.assert_array_equal(made.indices, reduce_codes(codes).indices)
    assert ub.reduce(Path(name)).folder == Path("reductions/codes-2")
    assert ub.reduce(codes).folder == Path("reductions/labels-1")


def discovered(codes: NDArray[np.float64]) -> pd.DataFrame:
    """A table as `discover` writes it, with a third factor that has no steps."""
    numbers = np.arange(len(codes))
    noise = np.random.default_rng(5).standard_normal(len(codes))
    first = {"image": numbers, "name": [str(number) for number in numbers]}
    return pd.DataFrame(
        {**first, "factor_1_x": codes[:, 0], "factor_2_y": codes[:, 1], "doubtful_1": noise}
    )


@pytest.mark.parametrize("name", ["codes.csv", "codes.parquet", "a table"])
def test_the_codes_of_discover_are_read_by_name(codes: NDArray[np.float64], name: str) -> None:
    table = discovered(codes)
    source: Any = name
    if name == "codes.csv":
        table.to_csv(name, index=False)
    elif name == "codes.parquet":
        table.to_parquet(name)
    else:
        source = table
    made = ub.reduce(source, columns="factor_1_x,factor_2_y", out="out")
    assert made.names == ("factor_1_x", "factor_2_y")
    np.testing.assert_array_equal(made.indices, reduce_codes(codes).indices)
    lines = made.summary().splitlines()
    assert [line.partition(": ")[0] for line in lines[:2]] == ["factor_1_x", "factor_2_y"]
    page = made.page.read_text()
    assert '<h2 id="h-latent-0">factor_1_x</h2>' in page
    assert "latent 0" not in page
    if name == "a table":
        assert (
            "ub.reduce(labels, columns=[&#39;factor_1_x&#39;, &#39;factor_2_y&#39;], index=1)"
            in page
        )
    else:
        assert f"unbraid reduce {name} --columns factor_1_x,factor_2_y --index 1" in page
    kept = pd.read_csv("out/kept.csv", dtype={"name": str})
    assert kept.columns.tolist() == ["position", "name", "factor_1_x", "factor_2_y"]
    assert kept["name"].tolist() == table["name"].astype(str).iloc[made.indices].tolist()
    every = ub.reduce(source, out="all")
    assert every.names == ("factor_1_x", "factor_2_y", "doubtful_1")
    assert every.summary().splitlines()[4] == f"{NO_PEAKS} Without steps: doubtful_1."
    own = ub.reduce(source, columns=["factor_2_y"], names=["height"], out="own")
    assert own.names == ("height",)
    assert refusal(source, columns="x", out="taken") == [
        "column 'x' is unknown. Known: doubtful_1, factor_1_x, factor_2_y."
    ]
    assert not Path("taken").exists()


def test_the_command_takes_columns(codes: NDArray[np.float64]) -> None:
    discovered(codes).to_csv("codes.csv", index=False)
    told = CliRunner().invoke(
        app, ["reduce", "codes.csv", "--columns", "factor_2_y,factor_1_x", "--out", "out"]
    )
    assert told.exit_code == 0, told.output
    lines = told.output.splitlines()
    assert lines[0].startswith("factor_2_y: 7 steps")
    assert lines[1].startswith("factor_1_x: 7 steps")
    np.testing.assert_array_equal(np.load("out/kept.npy"), reduce_codes(codes[:, ::-1]).indices)


def test_the_summary(codes: NDArray[np.float64]) -> None:
    made = ub.reduce(codes, out="out", index=1)
    lines = made.summary().splitlines()
    sentences = [latent_sentence(made.reduction, at) for at in range(2)]
    assert lines[:2] == [f"latent {at}: {said}" for at, said in enumerate(sentences)]
    assert lines[2:] == [
        "",
        "16 of 1,024 images kept, candidate 1 of 0..24.",
        f"Written: {Path('out/kept.npy')}, {Path('out/kept.csv')}",
        f"Open in a browser: {Path('out/reduce.html')}",
    ]


def test_where_it_stops_only_the_page_is_written(codes: NDArray[np.float64]) -> None:
    noise = np.random.default_rng(0).random(len(codes))
    made = ub.reduce(
        np.column_stack([codes, noise]), out="out", images="sprites", data_options=DATA
    )
    assert files(Path("out")) == ["reduce.html"]
    assert made.reduction.stopped == NO_PEAKS
    assert made.summary().splitlines()[-3:] == [
        "",
        f"{NO_PEAKS} Without steps: latent 2.",
        f"Open in a browser: {Path('out/reduce.html')}",
    ]
    page = made.page.read_text()
    assert "images that are left out" in page
    assert "images that are kept" not in page
    assert "train on" in page
    assert "kept.npy" not in page


def test_the_page_shows_examples_and_how_to_go_on(codes: NDArray[np.float64]) -> None:
    np.save("my codes.npy", codes)
    made = ub.reduce(
        "my codes.npy", out="out", images="sprites", data_options=DATA, command="as typed"
    )
    page = made.page.read_text()
    assert f"{EXAMPLES} images that are kept" in page
    assert f"{EXAMPLES} images that are left out" in page
    assert (
        "unbraid reduce &#39;my codes.npy&#39; --images sprites:image_size=16,x=8,y=8,scale=16"
        " --index 1" in page
    )
    assert "as typed" in page
    (line,) = re.findall(r"^kept_images = (.*)$", page, re.MULTILINE)
    line = line.replace("&#39;", "'")
    assert line == "ub.load('sprites', image_size=16, x=8, y=8, scale=16).images(kept)"
    shown = eval(line, {"ub": ub, "kept": np.load("out/kept.npy")})
    np.testing.assert_array_equal(shown, ub.load("sprites", **DATA).images(made.indices))
    images = shown[:1].repeat(len(codes), axis=0)
    own = ub.reduce(codes, out="own", images=images).page.read_text()
    assert "kept_images = images[kept]  # your images" in own
    assert "ub.reduce(labels, index=1)" in own


def test_the_published_rule_is_offered_where_chance_refused_something(
    codes: NDArray[np.float64],
) -> None:
    noise = np.random.default_rng(1).random(20_000)
    assert "ub.reduce(labels, published=True)" in ub.reduce(noise, out="noise").page.read_text()
    assert (
        ub.reduce(noise, out="published", rule=ReductionRule(chance=None)).reduction.stopped is None
    )
    assert (
        "ub.reduce(labels, published=True)"
        not in ub.reduce(np.zeros(50), out="equal").page.read_text()
    )


def refusal(*arguments: Any, **options: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        ub.reduce(*arguments, **options)
    return str(caught.value).splitlines()


def test_bad_requests_write_nothing(codes: NDArray[np.float64]) -> None:
    Path("taken").mkdir()
    Path("taken/mine.txt").write_text("mine")
    Path("file").write_text("")
    before = files(Path())
    assert refusal(codes, out="taken") == [
        "out must be a new or empty folder; got 'taken'. Choose another folder."
    ]
    assert refusal(codes, out="file") == ["out must be a folder; got 'file'. Choose another name."]
    assert refusal("none.npy") == ["labels must be a file that exists; got 'none.npy'."]
    assert refusal("file") == [
        "labels must be a .npy, .npz, .csv or .parquet file; got 'file'. Save the array with"
        " np.save."
    ]
    assert refusal(codes, index=25) == [
        "index must be in 0..24, the candidates there are; got 25. Choose a smaller index."
    ]
    assert refusal(codes, names=["x"]) == ["names must be 2, one for each latent; got ['x']."]
    assert refusal(codes, names="x") == ["names must be 2, one for each latent; got ['x']."]
    assert refusal(codes, names=["x", "x"]) == [
        "names must differ from each other and not be empty; got ['x', 'x']."
    ]
    assert refusal(codes, names=["x", " "]) == [
        "names must differ from each other and not be empty; got ['x', ' ']."
    ]
    assert refusal(codes, images="sprites", data_options={**DATA, "x": 9}) == [
        "images must be 1,024, one for each row of the labels; got 1,152. Give the very images that"
        " were encoded, in their order."
    ]
    assert refusal([[np.nan]] * 3, images="sprite", index="first", out="taken") == [
        (
            "labels must be finite, less than 1e+100 in size; got nan for image 0, latent 0, and 2"
            " more. Leave such images out."
        ),
        *refusal(codes, images="sprite"),
        "index must be a whole number of at least 0; got 'first'.",
        "out must be a new or empty folder; got 'taken'. Choose another folder.",
    ]
    assert refusal(codes, images="sprite")[0].startswith(
        "dataset 'sprite' is unknown; did you mean 'sprites'?"
    )
    assert files(Path()) == before
    assert files(Path("taken")) == ["mine.txt"]


def test_an_empty_folder_is_free(codes: NDArray[np.float64]) -> None:
    Path("empty").mkdir()
    assert ub.reduce(codes, out="empty").folder == Path("empty")
    assert refusal(codes, out="empty") == [
        "out must be a new or empty folder; got 'empty'. Choose another folder."
    ]


def test_the_command_for_another_candidate_keeps_rule_and_columns(
    codes: NDArray[np.float64],
) -> None:
    pd.DataFrame({"name": range(len(codes)), "a": codes[:, 0], "b": codes[:, 1]}).to_csv(
        "t.csv", index=False
    )
    made = ub.reduce("t.csv", columns="b", published=True, out="out")
    assert "unbraid reduce t.csv --columns b --published --index 1" in made.page.read_text()
    kept = pd.read_csv("out/kept.csv")
    assert list(kept.columns) == ["position", "name", "b"]
    assert (kept["name"] == kept["position"]).all()
