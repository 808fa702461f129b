# SPDX-License-Identifier: Apache-2.0
"""Export: every kind of dataset to an .npz and to a folder, and back through `load`."""

from __future__ import annotations

import csv
import errno
import os

import numpy as np
import pytest
from PIL import Image

from unbraid.core.errors import InputError, UnbraidError
from unbraid.data import export as export_module
from unbraid.data import load
from unbraid.data.export import export, parse_indices
from unbraid.data.perturbed.folder import write_perturbed


@pytest.fixture
def sprites():
    return load("sprites", x=4, y=3, scale=2, image_size=16)


def refusal(*arguments, **options):
    with pytest.raises(InputError) as caught:
        export(*arguments, quiet=True, **options)
    return str(caught.value)


def test_an_npz_holds_images_factors_and_names(sprites, tmp_path):
    path = export(sprites, tmp_path / "new" / "all.npz", quiet=True)
    assert path == tmp_path / "new" / "all.npz"
    with np.load(path, allow_pickle=False) as file:
        assert sorted(file) == ["factor_names", "factors", "images"]
        assert np.array_equal(file["images"], sprites.images(np.arange(24)))
        assert np.array_equal(file["factors"], sprites.factors(np.arange(24)))
        assert file["factor_names"].tolist() == ["scale", "x", "y"]
    assert os.listdir(path.parent) == ["all.npz"]


def test_a_folder_holds_images_and_a_table(sprites, tmp_path):
    path = export(sprites, tmp_path / "all", quiet=True)
    assert sorted(os.listdir(path))[:2] == ["000000.png", "000001.png"]
    assert np.array_equal(
        np.asarray(Image.open(path / "000023.png")), sprites.images([23])[0, ..., 0]
    )
    with (path / "factors.csv").open(newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["file", "scale", "x", "y"]
    assert rows[24] == ["000023.png", "1", "3", "2"]


def test_a_place_that_cannot_be_written_is_refused_first(sprites, tmp_path, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError) as caught:
        export(sprites, tmp_path / "locked" / "e", quiet=True)
    (problem,) = caught.value.problems
    assert (problem.name, problem.rule) == ("out", "must be a folder that can be written")
    assert problem.remedy == "Choose another: {out=FOLDER}."
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("out", ["set.npz", "set"])
@pytest.mark.parametrize("name", ["sprites", "xysquares", "pinwheel", "dsprites"])
def test_what_is_written_is_read_back(name, out, tmp_path):
    dataset = load(name)
    again = load(export(dataset, tmp_path / out, count=40, quiet=True))
    chosen = np.sort(np.random.default_rng(0).choice(len(dataset), 40, replace=False))
    assert np.array_equal(again.images(np.arange(40)), dataset.images(chosen))
    assert again.factor_names == dataset.factor_names
    factors, back = dataset.factors(chosen), again.factors(np.arange(40))
    for column, values in enumerate(again.factor_values):
        # Reading numbers the values that occur from 0; what they stood for is kept.
        assert np.array_equal(values[back[:, column]], factors[:, column])


@pytest.mark.parametrize("out", ["set.npz", "set"])
def test_data_without_factors_is_written_without(out, tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (5, 9, 8, 3), dtype=np.uint8)
    again = load(export(load(images), tmp_path / out, quiet=True))
    assert not again.labelled
    assert np.array_equal(again.images(np.arange(5)), images)


def test_chosen_indices_keep_their_order(sprites, tmp_path):
    path = export(sprites, tmp_path / "some.npz", indices=[7, 3, 3], quiet=True)
    with np.load(path) as file:
        assert np.array_equal(file["images"], sprites.images([7, 3, 3]))


def test_another_seed_picks_other_images(sprites, tmp_path):
    one, two = (
        np.load(export(sprites, tmp_path / f"{seed}.npz", count=5, seed=seed, quiet=True))[
            "factors"
        ]
        for seed in (0, 1)
    )
    assert not np.array_equal(one, two)


def test_large_sets_are_written_a_block_at_a_time(sprites, tmp_path, monkeypatch):
    monkeypatch.setattr(export_module, "_BYTES_PER_BLOCK", 16 * 16 * 7)
    asked = []
    images = sprites.images
    sprites.images = lambda indices: asked.append(len(indices)) or images(indices)
    path = export(sprites, tmp_path / "all.npz", quiet=True)
    assert asked == [7, 7, 7, 3]
    with np.load(path) as file:
        assert np.array_equal(file["images"], images(np.arange(24)))


def test_wrong_requests_are_refused_and_write_nothing(sprites, tmp_path):
    out = tmp_path / "x.npz"
    rule = "out must end in .npz, or have no ending for a folder of .png"
    remedy = "Write data.npz, or a name without an ending for a folder."
    assert refusal(sprites, tmp_path / "x.zip") == f"{rule}; got x.zip. {remedy}"
    assert (
        refusal(sprites, out, count=3, indices=[1, 2])
        == "export takes indices or a count; got both. Leave one of them out."
    )
    for count in (1, 25, "many", True):
        expected = f"count must be a whole number in 2..24; got {count!r}."
        assert refusal(sprites, out, count=count) == expected
    assert refusal(sprites, out, indices=[0, 24]) == "indices must lie in 0..23; got 24."
    for seed in (-1, "abc", 1.5, None):
        expected = f"seed must be a whole number in 0..4611686018427387904; got {seed!r}."
        assert refusal(sprites, out, count=5, seed=seed) == expected
    assert refusal(sprites, out, indices=[5]) == "export must write at least 2 images; got 1."
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("out", ["x.npz", "x"])
def test_what_exists_is_never_touched(sprites, tmp_path, out):
    path = tmp_path / out
    path.write_text("mine")
    expected = f"out must not exist yet; got {path}. Choose another name, or remove it first."
    assert refusal(sprites, path) == expected
    assert (path.read_text(), os.listdir(tmp_path)) == ("mine", [out])


@pytest.mark.parametrize("out", ["x.npz", "x"])
@pytest.mark.parametrize(
    "trouble", [KeyboardInterrupt(), OSError(errno.ENOSPC, "No space left on device")]
)
def test_an_interrupted_export_leaves_nothing(sprites, tmp_path, monkeypatch, out, trouble):
    monkeypatch.setattr(export_module, "_BYTES_PER_BLOCK", 16 * 16 * 7)
    images = sprites.images

    def fail_late(indices):
        if indices[0] > 10:
            raise trouble
        return images(indices)

    sprites.images = fail_late
    kind = KeyboardInterrupt if isinstance(trouble, KeyboardInterrupt) else UnbraidError
    with pytest.raises(kind) as caught:
        export(sprites, tmp_path / out, quiet=True)
    if kind is UnbraidError:
        remedy = "Free some room, or write to another disk."
        assert (
            str(caught.value) == f"{tmp_path / out} cannot be written: the disk is full. {remedy}"
        )
    assert os.listdir(tmp_path) == []


def test_indices_from_words():
    assert parse_indices("7, 9,100:103", 103).tolist() == [7, 9, 100, 101, 102]
    for text in ("", "a", "-1", "1:2:3", "1.5", "3,"):
        with pytest.raises(InputError) as caught:
            parse_indices(text, 24)
        assert (
            str(caught.value)
            == f"indices must be whole numbers and ranges with commas; got {text!r}. For example"
            " 7,9 or 0:100 (which ends at 99)."
        )


@pytest.mark.parametrize("word", ["24", "0:25", "0:8589934592", "999999999999:3"])
def test_indices_are_compared_with_the_size_before_they_are_made(monkeypatch, word):
    monkeypatch.setattr(np, "arange", lambda *given, **options: pytest.fail("a range was made"))
    with pytest.raises(InputError) as caught:
        parse_indices(word, 24)
    assert str(caught.value) == f"indices must lie in 0..23; got {word}."


@pytest.mark.parametrize(("clip", "clipped"), [(True, ""), (False, "clipped to [0, 1] and ")])
def test_what_images_do_not_keep_of_perturbed_data_is_said(
    sprites, tmp_path, capsys, clip, clipped
):
    write_perturbed(tmp_path / "p", sprites, epsilon=0.1, clip=clip, seed=0)
    perturbed = load(tmp_path / "p")
    export(perturbed, tmp_path / "said.npz")
    note = (
        f"Note: images are {clipped}rounded to 256 grey levels, which moves values by up to"
        " 1/510.\n"
    )
    assert capsys.readouterr().err.startswith(note)
    export(perturbed, tmp_path / "quiet.npz", quiet=True)
    export(sprites, tmp_path / "exact.npz")
    assert "Note" not in capsys.readouterr().err


@pytest.mark.parametrize("out", ["set.npz", "set"])
def test_what_a_killed_export_left_is_removed(sprites, tmp_path, out):
    half = tmp_path / f".{out}.{2**22 + 1}.part"  # above any process's number
    half.mkdir() if out == "set" else half.write_text("half")
    export(sprites, tmp_path / out, quiet=True)
    assert os.listdir(tmp_path) == [out]


@pytest.mark.parametrize("out", ["set.npz", "set"])
def test_an_export_is_on_the_disk_before_it_has_its_name(sprites, tmp_path, monkeypatch, out):
    synced, place = [], tmp_path / out

    def sync(handle):
        synced.append((os.fstat(handle).st_ino, place.exists()))

    monkeypatch.setattr(os, "fsync", sync)
    export(sprites, place, quiet=True)
    files = [place, *(place.iterdir() if out == "set" else ())]
    assert {(path.stat().st_ino, False) for path in files} <= set(synced)
    assert synced[-1] == (tmp_path.stat().st_ino, True)
