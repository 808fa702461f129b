# SPDX-License-Identifier: Apache-2.0
"""Arrays that people bring: keys of .npz files, headers, and what is refused by name."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

from unbraid.core.arrays import npy_header, npz_keys, read_npy, read_npz
from unbraid.core.errors import InputError

NUMBERS = np.arange(6, dtype=np.int16).reshape(2, 3)


def test_what_was_saved_is_read(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", NUMBERS)
    np.savez_compressed(tmp_path / "b.npz", one=NUMBERS, two=NUMBERS + 1)
    assert npz_keys(tmp_path / "b.npz") == ["one", "two"]
    for found, expected in (
        (read_npy(tmp_path / "a.npy"), NUMBERS),
        (read_npz(tmp_path / "b.npz", "two"), NUMBERS + 1),
    ):
        assert np.array_equal(found, expected)
        assert found.dtype == np.int16


@pytest.mark.parametrize("version", [(2, 0), (3, 0)])
def test_newer_versions_are_read_and_bounded_alike(tmp_path: Path, version: tuple[int, int]):
    path = tmp_path / "a.npy"
    with path.open("wb") as stream:
        np.lib.format.write_array(stream, NUMBERS, version=version)
    assert np.array_equal(read_npy(path), NUMBERS)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(InputError, match="its header promises 12 bytes"):
        read_npy(path)


def test_a_missing_key_is_answered_with_those_there_are(tmp_path: Path) -> None:
    path = tmp_path / "b.npz"
    np.savez(path, one=NUMBERS, two=NUMBERS)
    with pytest.raises(InputError) as caught:
        read_npz(path, "three", "Name another.")
    (problem,) = caught.value.problems
    assert (problem.name, problem.rule) == (str(path), "must hold 'three'")
    assert (problem.value, problem.remedy) == ("the keys one, two", "Name another.")


def test_damage_and_pickles_are_refused_by_the_name_of_the_file(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", NUMBERS)
    whole = (tmp_path / "a.npy").read_bytes()
    (tmp_path / "torn.npy").write_bytes(whole[:-3])
    np.save(tmp_path / "pickle.npy", np.array([{}], dtype=object), allow_pickle=True)
    (tmp_path / "none.npz").write_bytes(whole)
    for read, file, rule in (
        (read_npy, "torn.npy", "must be a complete numpy file"),
        (read_npy, "pickle.npy", "must hold plain arrays; pickles are not opened"),
        (npz_keys, "none.npz", "must be a complete .npz (zip) file"),
    ):
        with pytest.raises(InputError) as caught:
            read(tmp_path / file)
        (problem,) = caught.value.problems
        assert (problem.name, problem.rule) == (str(tmp_path / file), rule)


def test_headers_are_read_without_the_array() -> None:
    stream = io.BytesIO()
    np.save(stream, np.asfortranarray(NUMBERS))
    stream.seek(0)
    assert npy_header(stream) == ((2, 3), True, np.dtype(np.int16))
    assert len(stream.read()) == NUMBERS.nbytes
    with pytest.raises(ValueError, match="version 2"):
        npy_header(io.BytesIO(b"\x93NUMPY\x02\x00"))
