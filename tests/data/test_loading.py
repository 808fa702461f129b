# SPDX-License-Identifier: Apache-2.0
"""`load`: names, paths, arrays, options, and what is said when they are wrong."""

from __future__ import annotations

import errno
from pathlib import Path

import numpy as np
import pytest

from unbraid.core.errors import InputError
from unbraid.data import DATA, load

KNOWN = f"Known: {', '.join(sorted(DATA))}. A folder, an .npy or an .npz is given by its path."


def message(source, /, **options):
    with pytest.raises(InputError) as caught:
        load(source, **options)
    return str(caught.value)


def test_an_unknown_name_gets_the_nearest_one():
    assert message("dsprite") == f"dataset 'dsprite' is unknown; did you mean 'dsprites'? {KNOWN}"
    assert message("") == f"dataset '' is unknown. {KNOWN}"


def test_a_missing_path_says_so():
    for missing in ("no/such/folder", "none.npz", "none.npy", Path("nowhere")):
        told = (
            f"data must be an existing folder or file; got '{missing}', which does not exist. Put"
        )
        assert message(missing).startswith(told)


def test_other_kinds_of_source_are_refused():
    expected = (
        "data must be a registered name, a path, a numpy array or a torch tensor; got list. Use"
        " numpy.asarray for other kinds of arrays."
    )
    assert message([[1, 2]]) == expected


def test_unknown_options_are_all_named_with_what_there_is():
    assert message("xysquares", spacin=3, size=2).splitlines() == [
        "xysquares option 'spacin' is unknown; did you mean 'spacing'? Known: spacing.",
        "xysquares option 'size' is unknown. Known: spacing.",
    ]
    assert message("dsprites", seed=0) == "dsprites option 'seed' is unknown. Known: file."
    expected = (
        "image data option 'factor' is unknown; did you mean 'factors'? Known: factor_names,"
        " factors, images, resize."
    )
    assert message(np.zeros((2, 8, 8), np.uint8), factor=[0, 1]) == expected


def test_numbers_may_be_written_as_text_but_only_whole_ones():
    assert load("xysquares", spacing="3").options == {"spacing": 3}
    assert load("xysquares", spacing=np.int64(3)).options == {"spacing": 3}
    assert load("sprites", x="4", y=2, scale="1", x_range="0.5").options["x_range"] == 0.5
    remedy = "Use 8 for squares that never overlap, 1 for the most overlap."
    for wrong in ("3.5", "three", "", "1e0", 3.0, True, None, 0, 9, "-1", float("nan")):
        assert (
            message("xysquares", spacing=wrong)
            == f"spacing must be a whole number in 1..8; got {wrong!r}. {remedy}"
        )


def test_a_registered_name_wins_over_a_file_of_that_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("images", np.zeros((3, 8, 8), np.uint8))
    (tmp_path / "xysquares").mkdir()
    assert load("xysquares").name == "xysquares"
    assert load("images.npy").options == {"source": str(tmp_path / "images.npy")}
    assert "must hold at least 2 images; got 0." in message("./xysquares")


def test_a_folder_that_may_not_be_entered_is_told_once_with_what_it_lacks(tmp_path, monkeypatch):
    def forbidden(path):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr("unbraid.data.perturbed.folder.is_perturbed", forbidden)
    with pytest.raises(InputError) as caught:
        load(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} cannot be read: Permission denied. Give yourself the right to read it"
        " (chmod u+rX), or ask its owner to."
    )


def test_own_data_is_loaded_again_by_its_options(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3 * 64, dtype=np.uint8).reshape(3, 8, 8))
    first = load(tmp_path / "a.npy", factors=[5, 7, 5], factor_names="size")
    assert first.options == {
        "source": str(tmp_path / "a.npy"),
        "factors": "array",
        "factor_names": ["size"],
    }
    assert not first.repeatable
    expected = (
        "factors were an array in memory and cannot be loaded again; got 'array'. Pass the array:"
        " load(..., factors=labels)."
    )
    assert message("own", **first.options) == expected
    expected = (
        "own data was an array in memory and cannot be loaded again; got 'array'. Pass the array:"
        " load(array, ...)."
    )
    assert message("own", source="array") == expected
    assert (
        message("own")
        == "own data needs its source; got none. Give the path or the array itself to load."
    )


def test_options_in_the_shells_spelling_are_told_how_python_writes_them():
    with pytest.raises(InputError) as caught:
        load("xysquares:spacing=3")
    assert (
        str(caught.value)
        == "data takes its options apart from its name; got 'xysquares:spacing=3'. "
        "In Python write load('xysquares', spacing=3), or data_options={...}."
    )
