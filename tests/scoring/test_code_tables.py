# SPDX-License-Identifier: Apache-2.0
"""Codes from tables with names: which columns count, which are asked for, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from unbraid.core.errors import InputError
from unbraid.scoring.code_tables import read_codes

TABLE = pd.DataFrame(
    {
        "image": [0, 1, 2],
        "name": ["10", "11", "12"],
        "size": [0.5, -1.25, 1e-3],
        "species": ["fir", "oak", "fir"],
        "x": [1, 2, 3],
        "sharp": [True, False, True],
    }
)


@pytest.fixture(params=["frame", "csv", "parquet"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """The same table in each of its forms."""
    if request.param == "csv":
        TABLE.to_csv(tmp_path / "t.csv", index=False)
    elif request.param == "parquet":
        TABLE.to_parquet(tmp_path / "t.parquet", index=False)
    else:
        return TABLE
    return tmp_path / f"t.{request.param}"


def refusal(source: Any, columns: Any = None) -> str:
    with pytest.raises(InputError) as caught:
        read_codes(source, columns, "labels")
    return str(caught.value)


def test_all_columns_of_numbers_but_the_images_own_are_codes(source: Any):
    found = read_codes(source, None, "labels")
    assert found.names == ("size", "x")
    np.testing.assert_array_equal(found.codes, TABLE[["size", "x"]].to_numpy())


@pytest.mark.parametrize("columns", ["x, size", ["x", "size"], ("x", "size")])
def test_columns_come_in_the_order_asked_for(source: Any, columns: Any):
    found = read_codes(source, columns, "labels")
    assert found.names == ("x", "size")
    np.testing.assert_array_equal(found.codes, TABLE[["x", "size"]].to_numpy())


def test_columns_that_are_no_codes_are_answered_with_those_there_are(source: Any):
    assert refusal(source, "sise,x,image").splitlines() == [
        "column 'sise' is unknown; did you mean 'size'? Known: size, x.",
        "columns must hold codes; got 'image'. Those that do: size, x.",
    ]
    assert (
        refusal(source, "species")
        == "columns must hold codes; got 'species'. Those that do: size, x."
    )
    for none in ("", [], ["x", "x"]):
        assert (
            refusal(source, none)
            == f"columns must name one or more columns, each once; got {none!r}."
        )


def test_what_is_not_taken_is_named(source: Any):
    found = read_codes(source, None, "labels")
    assert (found.numbered, found.left_out) == ((), ("image", "name", "species", "sharp"))


def test_words_and_truth_values_of_factors_are_numbered_by_value(source: Any):
    found = read_codes(source, None, "factors", factors=True)
    assert found.names == ("size", "species", "x", "sharp")
    assert found.codes[:, [1, 3]].tolist() == [[0, 1], [1, 0], [0, 1]]
    assert (found.numbered, found.left_out) == (("species", "sharp"), ("image", "name"))


def test_a_column_of_factors_with_another_word_in_every_row_describes(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text("photo,shape,x\na.png,b,1\nb.png, b ,1\nc.png,a,2\n")
    found = read_codes(path, None, "factors", factors=True)
    assert found.codes.tolist() == [[1, 1], [1, 1], [0, 2]]
    assert (found.numbered, found.left_out) == (("shape",), ("photo",))


def test_categories_of_numbers_are_numbered_in_their_order():
    table = pd.DataFrame({"size": pd.Categorical([10, 9, 10, 2]), "x": [1, 2, 3, 4]})
    found = read_codes(table, None, "factors", factors=True)
    assert found.codes[:, 0].tolist() == [2, 1, 2, 0]


def test_a_missing_word_of_a_factor_is_refused_with_its_row(tmp_path: Path):
    table = pd.DataFrame({"shape": ["a", "b", None, "a"], "x": [1, 2, 3, 4]})
    table.to_csv(tmp_path / "t.csv", index=False)
    for source, where in (
        (table, "the table of factors"),
        (tmp_path / "t.csv", tmp_path / "t.csv"),
    ):
        with pytest.raises(InputError) as caught:
            read_codes(source, None, "factors", factors=True)
        assert str(caught.value) == (
            f"column 'shape' of {where} must have a value in every row; got none in row 2, counted"
            " from 0. Fill it in, or remove the column."
        )


def test_arrays_have_no_columns_to_choose(tmp_path: Path):
    array = np.arange(6.0).reshape(3, 2)
    np.save(tmp_path / "a.npy", array)
    np.savetxt(tmp_path / "a.csv", array, delimiter=",")
    for source, shown in (
        (array, "an array"),
        *((tmp_path / name, f"{tmp_path / name}") for name in ("a.npy", "a.csv")),
    ):
        found = read_codes(source, None, "labels")
        assert found.names is None
        np.testing.assert_array_equal(found.codes, array)
        assert (
            refusal(source, "x")
            == f"columns can be chosen only where they have names; got {shown}. "
            "Leave them out, or give a .csv or .parquet with a line of names."
        )


def test_a_table_without_codes_is_refused_with_what_it_has(tmp_path: Path):
    path, two = tmp_path / "codes.csv", TABLE[["image", "name"]]
    two.to_csv(path, index=False)
    end = (
        "must have a column of codes; got the columns image, name. A column of numbers for each"
        " latent, separated by commas."
    )
    assert refusal(path) == f"{path} {end}"
    assert refusal(two) == f"the table of labels {end}"


def test_numbers_and_words_in_one_column_are_refused_where_it_counts(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text("name,x,y\na,1,2\n\nb,3,\nc,none,4\n")
    remedy = "Write a number there, or remove the column."
    assert refusal(path).splitlines() == [
        f"line 5 of {path}, 'x' must be a number; got 'none'. {remedy}",
        f"line 4 of {path}, 'y' must be a number; got ''. {remedy}",
    ]
    path.write_text("name,x,y\na,1,2\nb,3,\n")
    assert read_codes(path, "x", "labels").codes.tolist() == [[1.0], [3.0]]


def test_files_that_are_no_tables_are_refused(tmp_path: Path):
    path = tmp_path / "t.csv"
    path.write_text("x,y\n1,2\n3\n")
    assert (
        refusal(path)
        == f"line 3 of {path} must have 2 values; got 3. Separate them by commas, as many in each"
        " line."
    )
    path.write_text("x,x\n1,2\n")
    assert refusal(path) == f"{path} must have another name for each column; got ['x', 'x']."
    path.write_text(",x\n1,2\n")
    assert (
        refusal(path)
        == f"{path} must not have a column without a name, such as an index; got ['', 'x']. "
        "Write it without (pandas: to_csv(..., index=False))."
    )
    path.write_bytes(b"\xff\xfe\x00x")
    assert refusal(path).startswith(
        f"{path} must be a comma-separated text file in UTF-8; got another ("
    )
    torn = tmp_path / "t.parquet"
    TABLE.to_parquet(torn)
    torn.write_bytes(torn.read_bytes()[:200])
    assert refusal(torn).startswith(
        f"{torn} must be a complete Parquet file; got one that cannot be read ("
    )
    other = tmp_path / "t.txt"
    other.write_text("x")
    told = (
        f"labels must be a .npy, .npz, .csv or .parquet file; got '{other}'. Save the array with"
        " np.save."
    )
    assert refusal(other) == told
    assert (
        refusal(tmp_path / "none.parquet")
        == f"labels must be a file that exists; got '{tmp_path / 'none.parquet'}'."
    )


def test_two_columns_of_one_name_are_refused():
    twice = pd.DataFrame([[1.0, 2.0]], columns=["x", "x"])
    assert (
        refusal(twice)
        == "the table of labels must have another name for each column; got ['x', 'x']."
    )


def test_missing_numbers_of_a_table_stay_missing(tmp_path: Path):
    table = pd.DataFrame({"x": pd.array([1, None, 3], dtype="Int64")})
    table.to_parquet(tmp_path / "t.parquet")
    for source in (table, tmp_path / "t.parquet"):
        np.testing.assert_array_equal(
            read_codes(source, None, "labels").codes, [[1.0], [np.nan], [3.0]]
        )


def test_names_may_be_numbers_and_a_first_line_that_could_be_either_is_refused(tmp_path: Path):
    path = tmp_path / "t.CSV"
    path.write_text("a,1\n0.5,2\n0.25,3\n")
    found = read_codes(path, None, "labels")
    assert found.names == ("a", "1")
    np.testing.assert_array_equal(found.codes, [[0.5, 2.0], [0.25, 3.0]])
    path.write_text("0,1\n0.5,2\n0.25,3\n")
    rule = (
        "must be names or numbers, and may be either; got 0,1. Give the columns names in the first"
        " line."
    )
    assert refusal(path) == f"line 1 of {path} {rule}"


def test_latents_and_factors_side_by_side_are_told_apart(tmp_path: Path):
    table = pd.DataFrame(
        {"image": [3, 1, 2], "scale": [0, 1, 0], "latent_0": [0.5, 1.5, 2.5], "latent_1: x": 1.0}
    )
    table.to_csv(tmp_path / "codes.csv", index=False)
    codes = read_codes(tmp_path / "codes.csv", None, "codes")
    factors = read_codes(tmp_path / "codes.csv", None, "factors", factors=True)
    assert codes is not None
    assert factors is not None
    assert codes.names == ("latent_0", "latent_1: x")
    assert "scale" in codes.left_out
    assert factors.names == ("scale",)
