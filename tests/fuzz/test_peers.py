# SPDX-License-Identifier: Apache-2.0
"""Valid inputs against independent readers: what is spelled is what was meant."""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from tests.fuzz.targets import factors_data

from unbraid.core.arrays import read_npy, read_npz
from unbraid.core.errors import InputError
from unbraid.core.spelling import as_named
from unbraid.core.tables import read_csv
from unbraid.data.own.factor_table import table_from_file
from unbraid.data.where_rule import SamplingRule
from unbraid.objectives.likelihood_spelling import LIKELIHOODS, Spelling, read_likelihood
from unbraid.objectives.overlap import usual_kappa
from unbraid.objectives.schedule import KINDS, Schedule
from unbraid.scoring.code_tables import read_codes

MANY = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
NUMBERS = st.floats(-1e30, 1e30, allow_nan=False) | st.integers(-(10**12), 10**12)
NAMES = st.from_regex(r"[a-z_][a-z_0-9]{0,9}", fullmatch=True)


# Spelled, parsed


def _spelled(value: Any) -> str:
    if isinstance(value, list):
        return ",".join(map(_spelled, value))
    return (
        {True: "true", False: "false", None: "null"}.get(value, str(value))
        if (value is None or isinstance(value, bool))
        else str(value)
    )


WORDS = st.sampled_from(["tripod", "learned", "linear(0, 4, 100)", "a/b"])
VALUES = NUMBERS | st.booleans() | st.none() | WORDS


@MANY
@given(
    name=NAMES,
    options=st.dictionaries(NAMES, VALUES | st.lists(VALUES, min_size=2, max_size=4), max_size=4),
)
def test_names_with_options_are_read_as_they_are_spelled(name: str, options: dict) -> None:
    text = name + ":" * bool(options)
    text += ",".join(f"{key}={_spelled(value)}" for key, value in options.items())
    found, read = as_named(text)
    assert (found, read) == (name, options)


@MANY
@given(
    kind=st.sampled_from(KINDS),
    ends=st.tuples(NUMBERS, NUMBERS),
    steps=st.floats(1, 1e12),
    extra=st.floats(0.001, 1),
)
def test_schedules_come_back_to_the_last_bit(
    kind: str, ends: Any, steps: float, extra: float
) -> None:
    start, end = (ends[0], ends[0]) if kind == "constant" else ends
    schedule = Schedule(kind, start, end, steps, extra)
    assert Schedule.parse(str(schedule)) == schedule


@MANY
@given(
    base=st.sampled_from(LIKELIHOODS),
    window=st.sampled_from(["", "box", "gauss"]),
    radius=st.integers(1, 63),
    scale=st.none() | st.just("learned") | st.floats(1e-4, 1e4),
    kappa=st.none() | st.floats(1e-6, 1e9),
    raw=st.booleans(),
)
def test_likelihoods_mean_what_their_canonical_spelling_means(
    base: str, window: str, radius: int, scale: Any, kappa: Any, raw: bool
) -> None:
    plain = base == "bernoulli"
    meant = Spelling(
        base,
        window,
        radius if window else 0,
        None if plain else scale,
        kappa if window else None,
        raw and not plain,
    )
    found = read_likelihood(meant.name)
    assert found.name == meant.name
    assert (found.base, found.blur, found.raw_output) == (meant.base, meant.blur, meant.raw_output)
    assert found.weight == (kappa or usual_kappa(radius) if window else 0.0)


# Rules against an evaluator of their own, one image at a time


def _rule(depth: int) -> st.SearchStrategy[Any]:
    """A rule as a tree."""
    leaf = (
        st.sampled_from(["x", "y"])
        | st.integers(0, 6)
        | st.floats(-3, 3).map(lambda v: round(v, 3))
    )
    if depth == 0:
        return leaf
    part = _rule(depth - 1)
    binary = st.sampled_from(
        ["+", "-", "*", "/", "%", "==", "!=", "<", "<=", ">", ">=", "and", "or"]
    )
    return (
        leaf
        | st.tuples(binary, part, part)
        | st.tuples(st.sampled_from(["not", "neg", "abs"]), part)
        | st.tuples(
            st.sampled_from(["in", "not in"]), part, st.lists(st.integers(0, 4), min_size=1)
        )
        | st.tuples(st.just("<<"), part, part, part)
    )


def _text(tree: Any) -> str:
    if not isinstance(tree, tuple):
        return str(tree) if not isinstance(tree, (int, float)) or tree >= 0 else f"(-{-tree})"
    name, *parts = tree
    if name in ("in", "not in"):
        return f"({_text(parts[0])} {name} ({', '.join(map(str, parts[1]))},))"
    words = [_text(part) for part in parts]
    if name == "<<":
        return f"({words[0]} < {words[1]} <= {words[2]})"
    if name in ("not", "neg", "abs"):
        return {"not": f"(not {words[0]})", "neg": f"(-{words[0]})", "abs": f"abs({words[0]})"}[
            name
        ]
    return f"({words[0]} {name} {words[1]})"


def _value(tree: Any, row: dict[str, int]) -> float:
    """The rule's value at one image, by its definition."""
    if not isinstance(tree, tuple):
        return float(row[tree]) if isinstance(tree, str) else float(tree)
    name, *parts = tree
    if name in ("in", "not in"):
        return float((_value(parts[0], row) in parts[1]) == (name == "in"))
    left, *rest = (_value(part, row) for part in parts)
    right = rest[0] if rest else 0.0
    if name in "/%" and right == 0:
        raise ZeroDivisionError
    return float(
        {
            "+": lambda: left + right,
            "-": lambda: left - right,
            "*": lambda: left * right,
            "/": lambda: left / right,
            "%": lambda: math.fmod(math.fmod(left, right) + right, right),
            "==": lambda: left == right,
            "!=": lambda: left != right,
            "<": lambda: left < right,
            "<=": lambda: left <= right,
            ">": lambda: left > right,
            ">=": lambda: left >= right,
            "and": lambda: bool(left and right),
            "or": lambda: bool(left or right),
            "not": lambda: not left,
            "neg": lambda: -left,
            "abs": lambda: abs(left),
            "<<": lambda: left < rest[0] <= rest[1],
        }[name]()
    )


@settings(MANY, max_examples=150)
@given(tree=_rule(3))
def test_rules_have_the_value_of_their_definition_at_every_image(tree: Any) -> None:
    data = factors_data()
    factors = data.factors(np.arange(len(data)))
    values = dict(zip(data.factor_names, data.factor_values, strict=True))
    rows = [
        {name: int(values[name][row[at]]) for at, name in enumerate(data.factor_names)}
        for row in factors
    ]
    try:
        expected = np.array([_value(tree, row) for row in rows])
    except ZeroDivisionError:
        assume(False)
        raise
    allowed = bool(np.isfinite(expected).all() and (expected >= 0).all() and expected.any())
    if not allowed:
        with pytest.raises(InputError):
            SamplingRule(_text(tree), data).weights(factors)
        return
    found = SamplingRule(_text(tree), data).weights(factors)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


# Files against NumPy, csv and pandas


@MANY
@given(
    array=arrays.arrays(
        dtype=arrays.boolean_dtypes()
        | arrays.integer_dtypes()
        | arrays.floating_dtypes()
        | arrays.unicode_string_dtypes(max_len=4),
        shape=arrays.array_shapes(max_dims=4, min_side=0, max_side=5),
    ),
    fortran=st.booleans(),
)
def test_arrays_are_those_that_numpy_reads(array: Any, fortran: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, np.asfortranarray(array) if fortran else array)
    np.savez_compressed(tmp_path / "a.npz", one=array)
    expected = np.load(path, allow_pickle=False)
    for found in (read_npy(path), read_npz(tmp_path / "a.npz", "one")):
        assert found.dtype == expected.dtype
        assert found.tobytes() == expected.tobytes()


CELLS = st.text(
    st.characters(codec="utf-8", exclude_characters="\r\x00\ufeff"), min_size=1, max_size=8
).filter(str.strip)


@MANY
@given(
    rows=st.integers(1, 4).flatmap(
        lambda n: st.lists(st.lists(CELLS, min_size=n, max_size=n), min_size=2, max_size=5)
    )
)
def test_tables_have_the_cells_that_csv_writes(rows: list[list[str]], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)
    assert read_csv(path, named=False).rows == rows


@MANY
@given(
    labels=st.integers(1, 3).flatmap(
        lambda n: st.lists(
            st.lists(st.integers(-(10**17), 10**17), min_size=n, max_size=n), min_size=2, max_size=6
        )
    )
)
def test_labels_are_those_that_pandas_writes(labels: list[list[int]], tmp_path: Path) -> None:
    path = tmp_path / "factors.csv"
    frame = pd.DataFrame(labels, columns=[f"f{at}" for at in range(len(labels[0]))])
    frame.to_csv(path, index=False)
    table = table_from_file(path, len(labels), None, None)
    found = [one[rows] for one, rows in zip(table.values, table.rows.T, strict=True)]
    assert table.names == tuple(frame.columns)
    assert np.column_stack(found).tolist() == labels


@MANY
@given(
    codes=arrays.arrays(
        np.float64, st.tuples(st.integers(3, 6), st.integers(1, 3)), elements=st.floats(-1e9, 1e9)
    )
)
def test_codes_are_those_that_pandas_writes_in_every_format(codes: Any, tmp_path: Path) -> None:
    names = [f"z{at}" for at in range(codes.shape[1])]
    frame = pd.DataFrame(codes, columns=names)
    frame.to_csv(tmp_path / "c.csv", index=False)
    frame.to_parquet(tmp_path / "c.parquet", index=False)
    for file in ("c.csv", "c.parquet"):
        found = read_codes(tmp_path / file, None, "codes")
        assert found.names == tuple(names)
        assert np.array_equal(found.codes, codes)


def test_every_spelling_of_a_number_in_a_table_is_the_one_python_reads(tmp_path: Path) -> None:
    """Digits of other scripts, underscores and long ones: a number for one part of the program is
    a number for all of it.
    """
    for word in (
        "1_000",
        "１２",
        "٣",
        "1e3",
        "+4",
        " 5 ",
        "\u00a07",
        "1" * 40,
        ".5",
        "1.",
        "1e-400",
    ):
        text = io.StringIO()
        csv.writer(text).writerows([["z"], ["0.5"], [word], ["2"]])
        (tmp_path / "c.csv").write_text(text.getvalue(), encoding="utf-8")
        found = read_codes(tmp_path / "c.csv", None, "codes")
        assert found.codes[:, 0].tolist() == [0.5, float(word), 2.0], word
