# SPDX-License-Identifier: Apache-2.0
"""Headers and indexes of numbers are refused, and data that looks a little like them is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unbraid.core.errors import InputError
from unbraid.scoring.code_tables import read_codes
from unbraid.scoring.files import read_array

ROWS = 200
DRAWN = np.random.default_rng(0)
CODES = DRAWN.normal(size=(ROWS, 4))
FACTORS = DRAWN.integers([3, 6, 4, 8], size=(ROWS, 4))
SIXTEEN_BITS = DRAWN.integers(0, 2**16, size=(ROWS, 4))
LEVELS = DRAWN.choice([-1.0, -0.5, 0.0, 0.5, 1.0], size=(ROWS, 4))
SUBSETS = {
    "counting": np.arange(ROWS),
    "from one": np.arange(1, ROWS + 1),
    "sorted": np.sort(DRAWN.choice(9 * ROWS, ROWS, replace=False)),
    "shuffled": DRAWN.choice(9 * ROWS, ROWS, replace=False),
}


def frame(values: np.ndarray, names: list, index: np.ndarray | None = None) -> pd.DataFrame:
    return pd.DataFrame(values[:, : len(names)], columns=names, index=index)


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_codes(path, None, "codes")
    return str(caught.value)


@pytest.mark.parametrize(
    "names", [[0], [7], [0, 1], [0, 1, 2, 3], [1, 2, 3, 4], [0.0, 1.0, 2.0], [0, 3, 4, 7]], ids=str
)
def test_a_header_of_numbers_is_no_code(tmp_path: Path, names: list):
    frame(CODES, names).to_csv(tmp_path / "z.csv", index=False)
    told = refusal(tmp_path / "z.csv")
    assert told.startswith(f"line 1 of {tmp_path / 'z.csv'} must be names or numbers")
    assert told.endswith("Give the columns names in the first line.")


@pytest.mark.parametrize("names", [[0, 1, 2, 3], [1, 2, 3, 4], [0, 3, 4, 7], [4, 5, 9]], ids=str)
def test_a_header_of_numbers_is_no_row_of_factors(tmp_path: Path, names: list):
    frame(FACTORS, names).to_csv(tmp_path / "y.csv", index=False)
    assert refusal(tmp_path / "y.csv").startswith(f"line 1 of {tmp_path / 'y.csv'} must be names")


@pytest.mark.parametrize("kind", SUBSETS)
@pytest.mark.parametrize("values", [CODES, FACTORS, LEVELS], ids=["codes", "factors", "levels"])
def test_an_index_is_no_column_of_data(tmp_path: Path, kind: str, values: np.ndarray):
    frame(values, [0, 1, 2], SUBSETS[kind]).to_csv(tmp_path / "t.csv", header=False)
    told = refusal(tmp_path / "t.csv")
    assert told.startswith(f"{tmp_path / 't.csv'} must not have an index as its first column")
    assert "index=False" in told


def test_of_numbers_that_all_differ_an_index_is_the_column_that_rises(tmp_path: Path):
    for kind, index in SUBSETS.items():
        frame(SIXTEEN_BITS, [0, 1], index).to_csv(tmp_path / f"{kind}.csv", header=False)
    for kind in ("counting", "from one", "sorted"):
        assert "must not have an index" in refusal(tmp_path / f"{kind}.csv")


def test_a_header_above_quantised_codes_is_known_by_its_spelling(tmp_path: Path):
    frame(LEVELS, [0, 1]).to_csv(tmp_path / "z.csv", index=False)
    assert refusal(tmp_path / "z.csv").startswith(f"line 1 of {tmp_path / 'z.csv'} must be names")


def test_nats_of_samples_are_read_alike(tmp_path: Path):
    frame(CODES, [0]).to_csv(tmp_path / "nats.csv", index=False)
    with pytest.raises(InputError, match="must be names or numbers"):
        read_array(tmp_path / "nats.csv", "reconstruction")


def plain(path: Path, values: np.ndarray) -> None:
    pd.DataFrame(values).to_csv(path, index=False, header=False)


def exponents(path: Path, values: np.ndarray) -> None:
    np.savetxt(path, values, delimiter=",")


def short(path: Path, values: np.ndarray) -> None:
    np.savetxt(path, values, delimiter=",", fmt="%g")


REAL = {
    "codes": CODES,
    "one latent": CODES[:, :1],
    "factors": FACTORS,
    "factors that begin as a choice of columns does": np.vstack([[0, 3, 3, 7], FACTORS]),
    "one factor": FACTORS[:, :1],
    "one factor of many values": SIXTEEN_BITS[:, :1],
    "a count alone": np.arange(ROWS)[:, None],
    "a whole grid": np.stack(np.unravel_index(np.arange(144), (3, 6, 8)), axis=1),
    "sixteen bits": SIXTEEN_BITS,
    "sixteen bits that begin rising": np.vstack([[1, 20, 300, 4000], SIXTEEN_BITS]),
    "levels": LEVELS,
    "levels that begin rising": np.vstack([[0.0, 0.5, 0.5, 1.0], [0.0, 1.0, 0.5, 1.0], LEVELS]),
    "two levels that count": np.vstack([[0.0, 1.0], LEVELS[:, :2]]),
    "whole numbers below 0": -np.arange(ROWS)[:, None] % -7,
    "whole and fraction": np.column_stack([FACTORS[:, 0], CODES[:, 0]]),
    "an even latent": np.linspace(0, 1, ROWS)[:, None],
    "an even latent and another": np.column_stack([np.linspace(0, 1, ROWS), CODES[:, 0]]),
    "a circle": np.stack([np.cos(np.arange(ROWS)), np.sin(np.arange(ROWS))], axis=1),
    "three rows": np.array([[4, 1], [2, 2], [9, 2]]),
}


@pytest.mark.parametrize("write", [plain, exponents, short])
@pytest.mark.parametrize("kind", REAL)
def test_data_is_read_as_it_is(tmp_path: Path, kind: str, write: Callable):
    write(tmp_path / "t.csv", REAL[kind])
    found = read_codes(tmp_path / "t.csv", None, "codes").codes
    np.testing.assert_allclose(found, REAL[kind], rtol=1e-5)


@pytest.mark.parametrize("sizes", [(4, 4), (3, 6, 10), (8, 8, 8, 8), (40, 32, 32)], ids=str)
def test_factors_drawn_by_chance_are_hardly_ever_refused(tmp_path: Path, sizes: tuple[int, ...]):
    """Of rows drawn evenly, but for those that begin as pandas counts columns."""
    refused = 0
    for seed in range(200):
        rows = np.random.default_rng(seed).integers(sizes, size=(800, len(sizes)))
        if rows[0].tolist() in ([*range(len(sizes))], [*range(1, len(sizes) + 1)]):
            continue
        plain(tmp_path / "y.csv", rows)
        try:
            read_array(tmp_path / "y.csv", "factors")
        except InputError:
            refused += 1
    assert refused == 0


@pytest.mark.parametrize("name", ["index", "id", "ID", "Unnamed: 0"])
def test_a_named_index_describes(tmp_path: Path, name: str):
    table = frame(CODES, ["a", "b"])
    table.insert(0, name, SUBSETS["shuffled"])
    table.to_csv(tmp_path / "t.csv", index=False)
    table.to_parquet(tmp_path / "t.parquet", index=False)
    for source in (table, tmp_path / "t.csv", tmp_path / "t.parquet"):
        for factors in (False, True):
            found = read_codes(source, None, "codes", factors=factors)
            assert (found.names, found.left_out) == (("a", "b"), (name,))
    found = read_codes(frame(CODES, [0, 1]).reset_index(), None, "codes")
    assert (found.names, found.left_out) == (("0", "1"), ("index",))


@pytest.mark.parametrize("values", [CODES[:, 0], FACTORS[:, 0]], ids=["fractions", "repeated"])
def test_a_column_called_index_that_is_none_is_data(values: np.ndarray):
    table = pd.DataFrame({"index": values, "a": CODES[:, 1]})
    assert read_codes(table, None, "codes").names == ("index", "a")


def test_names_settle_what_numbers_are(tmp_path: Path):
    for rows in (np.vstack([[0, 1], CODES[:, :2]]), np.column_stack([np.arange(ROWS), CODES])):
        plain(tmp_path / "t.csv", rows)
        text = (tmp_path / "t.csv").read_text()
        names = ",".join("abcde"[: rows.shape[1]])
        (tmp_path / "t.csv").write_text(re.sub("^", f"{names}\n", text, count=1))
        assert read_codes(tmp_path / "t.csv", None, "codes").codes.shape == rows.shape


def test_numbers_of_any_length_are_read(tmp_path: Path):
    (tmp_path / "t.csv").write_text("\n".join(f"{'9' * 5000},{row}" for row in range(9)))
    assert read_array(tmp_path / "t.csv", "codes").shape == (9, 2)
