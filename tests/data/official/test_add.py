# SPDX-License-Identifier: Apache-2.0
"""Adding published datasets: whole or not at all, whatever goes wrong; what lies in the data home
is checked when it is used.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections import namedtuple
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from unbraid.core import files, store
from unbraid.core.errors import DamagedFileError, InputError, UnbraidError
from unbraid.data import DATA, load
from unbraid.data.official import OFFICIAL, published, stored
from unbraid.data.official import add as adding
from unbraid.data.official.add import add
from unbraid.data.official.mpi3d import MPI3DToy
from unbraid.data.official.stored import check, read_record
from unbraid.data.subset import Subset
from unbraid.testing.checks import check_test_file
from unbraid.testing.data_contract import check_dataset

HOW = (
    "Get mpi3d_toy.npz from https://github.com/rr-learning/disentanglement_dataset and type:"
    " unbraid data add mpi3d_toy mpi3d_toy.npz."
)
DATASETS = sorted(set(OFFICIAL) - {"dsprites"})


@pytest.fixture
def toy(small):
    return small("mpi3d_toy")


@pytest.mark.parametrize("name", DATASETS)
def test_added_datasets_keep_the_contract(small, name):
    one = small(name)
    one.add()
    dataset = load(name)
    assert dataset.name == name
    check_test_file(Path(__file__).parent / f"test_{name}.py")
    assert isinstance(dataset.planes, np.memmap)
    check_dataset(dataset)


@pytest.mark.parametrize("name", sorted(OFFICIAL))
def test_every_published_dataset_states_its_facts(name):
    source = published(name).source
    assert source.name == name
    assert source.files
    assert all(file.link.startswith("http") for file in source.files)
    assert source.page.startswith("http")
    assert source.licence
    assert source.shown
    assert all(factor.meaning for factor in source.factors)
    assert name in DATA
    for file in source.files:
        assert file.sha256 is None or len(file.sha256) == 64
        assert file.md5 is None or len(file.md5) == 32


def test_the_record_says_where_everything_came_from(toy):
    record = toy.add()
    assert record["from"] == str(toy.file())
    (receipt,) = record["files"]
    (file,) = toy.source.files
    assert receipt == {
        "file": "mpi3d_toy.npz",
        "size": file.size,
        "sha256": file.sha256,
        "as_published": "yes",
    }
    planes = record["arrays"]["planes"]
    assert (planes["shape"], planes["dtype"]) == ([48, 3, 64, 64], "|u1")
    assert planes["file"] == f"planes-{planes['sha256'][:12]}.npy"
    assert read_record("mpi3d_toy") == record
    assert sorted(path.name for path in (toy.home / "mpi3d_toy").iterdir()) == [
        ".lock",
        planes["file"],
        "record.json",
    ]


def test_what_was_not_added_is_explained(toy):
    with pytest.raises(InputError) as caught:
        toy.load()
    expected = (
        "dataset 'mpi3d_toy' must be added before it is loaded; got nothing at"
        f" {toy.home / 'mpi3d_toy'}. {HOW}"
    )
    assert str(caught.value) == expected


def test_wrong_names_and_places_are_refused(toy, tmp_path):
    def told(name, path=None):
        with pytest.raises(InputError) as caught:
            add(name, path, quiet=True)
        assert not toy.home.exists()
        return str(caught.value)

    known = ", ".join(sorted(OFFICIAL))
    assert (
        told("shape3d", "x")
        == f"published dataset 'shape3d' is unknown; did you mean 'shapes3d'? Known: {known}."
    )
    assert (
        told("xysquares", "x")
        == "dataset 'xysquares' must be one that is read from files; got one that needs no file."
        " Type: unbraid data info xysquares."
    )
    assert (
        told("mpi3d_toy", tmp_path / "none.npz")
        == f"mpi3d_toy file must exist; got {tmp_path / 'none.npz'}. {HOW}"
    )
    assert told("mpi3d_toy") == f"mpi3d_toy file must be given; got none. {HOW}"
    long = tmp_path / ("a" * 300)
    assert (
        told("mpi3d_toy", long)
        == f"mpi3d_toy file must exist; got {long} (File name too long). {HOW}"
    )
    longer = told("mpi3d_toy", tmp_path / "a/b" / ("c/" * 3000))
    assert longer.startswith(f"mpi3d_toy file must exist; got {tmp_path}/a/b/c/")
    assert longer.endswith(f"/c/c (File name too long). {HOW}")
    assert len(longer) < 800
    nobody = told("mpi3d_toy", "~nobody-of-that-name/x.npz")
    assert nobody.startswith(
        "mpi3d_toy file must exist; got ~nobody-of-that-name/x.npz (Could not determine"
    )
    assert told("celeba", long).startswith(
        f"celeba file must exist; got {long} (File name too long). "
    )
    empty = tmp_path / "empty"
    empty.mkdir()
    assert (
        told("mpi3d_toy", empty)
        == f"mpi3d_toy file {empty} must be the file mpi3d_toy.npz; got a folder without it."
        " Give the file mpi3d_toy.npz, or the folder that it lies in."
    )


def test_a_place_that_cannot_be_looked_into_is_one_message(small, monkeypatch):
    faces = small("celeba")

    is_dir = Path.is_dir

    def deny(path):
        if path == faces.folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return is_dir(path)

    monkeypatch.setattr(Path, "is_dir", deny)
    told = faces.refusal()
    assert told.startswith(
        f"celeba file {faces.folder} must be readable to its end; got one that cannot be read"
        " ([Errno 13]"
    )


def test_a_wrong_checksum_needs_unverified_which_is_kept(toy):
    (file,) = toy.source.files
    toy.source = replace(toy.source, files=(replace(file, sha256="0" * 64),))
    rest = f"Get it again from {file.link}, or take it as it is with unverified=True."
    expected = (
        f"mpi3d_toy file {toy.file()} must have the published sha256 {'0' * 64}; got {file.sha256}."
        f" {rest}"
    )
    assert toy.refusal(unverified=False) == expected
    assert not toy.home.exists()
    record = toy.add(unverified=True)
    assert (record["verified"], record["files"][0]["as_published"]) == ("no", "no")
    # A file that is as published stays verified, whatever was allowed.
    toy.source = replace(toy.source, files=(file,))
    assert toy.add(unverified=True)["verified"] == "yes"


def test_bytes_too_many_are_counted(toy):
    (file,) = toy.source.files
    with toy.file().open("ab") as stream:
        stream.write(b"123")
    assert (
        f"must have {file.size:,} bytes, as published; got {file.size + 3:,}, 3 too many."
        in toy.refusal(unverified=False)
    )


def test_adding_again_replaces_and_a_refusal_keeps_what_was_there(toy):
    toy.add()
    before = toy.load()
    with np.load(toy.file()) as file:
        images = 255 - file["images"]
    np.savez(toy.file(), images=images[:-1])
    toy.refusal()  # asserts that the data home is as before
    np.savez(toy.file(), images=images)
    record = toy.add(unverified=True)
    assert np.array_equal(toy.load().images(np.arange(48)), images)
    # Whoever has the old one open keeps it.
    assert np.array_equal(before.images(np.arange(48)), 255 - images)
    assert [path.name for path in (toy.home / "mpi3d_toy").glob("*.npy")] == [
        record["arrays"]["planes"]["file"]
    ]


@pytest.mark.parametrize("trouble", [KeyboardInterrupt, MemoryError])
def test_an_interrupted_add_leaves_nothing(toy, monkeypatch, trouble):
    whole = MPI3DToy.read.__func__

    def cut_short(cls, found):
        content = whole(cls, found)

        def blocks():
            yield next(content.blocks)[:10]
            raise trouble

        return replace(content, blocks=blocks())

    monkeypatch.setattr(MPI3DToy, "read", classmethod(cut_short))
    with pytest.raises(trouble):
        toy.add()
    assert not toy.home.exists()


KILLED = """
import os, sys, time
from dataclasses import replace
from pathlib import Path
from unbraid.data.official.mpi3d import MPI3DToy
from unbraid.data.official import add as adding
from unbraid.testing.official_files import small_source

folder, stage = Path(sys.argv[1]), sys.argv[2]
MPI3DToy.source = small_source("mpi3d_toy", folder)

def wait(*_):
    (folder / "reached").touch()
    time.sleep(60)

if stage == "blocks":
    read = MPI3DToy.read.__func__
    def slow(cls, found):
        content = read(cls, found)
        def blocks():
            block = next(content.blocks)
            yield block[:20]
            wait()
        return replace(content, blocks=blocks())
    MPI3DToy.read = classmethod(slow)
else:
    adding.store.write_json = wait
adding.add("mpi3d_toy", folder, quiet=True)
"""


@pytest.mark.parametrize("stage", ["blocks", "record"])
@pytest.mark.parametrize("added_before", [False, True])
def test_a_killed_add_is_as_if_it_never_was(toy, tmp_path, stage, added_before):
    if added_before:
        with np.load(toy.file()) as file:
            np.savez(toy.file(), images=255 - file["images"])
        toy.add(unverified=True)
        digest = toy.load().fingerprint()
    other = tmp_path / "other"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(other), stage])
    try:
        deadline = time.monotonic() + 60
        while (
            not (other / "reached").exists()
            and time.monotonic() < deadline
            and process.poll() is None
        ):
            time.sleep(0.02)
        assert (other / "reached").exists()
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert any(
        path.name.startswith((".planes", "planes")) for path in (toy.home / "mpi3d_toy").iterdir()
    )
    if added_before:
        assert toy.load().fingerprint() == digest
    else:
        with pytest.raises(InputError, match="must be added before it is loaded"):
            toy.load()
    record = toy.add(other)
    left = sorted(path.name for path in (toy.home / "mpi3d_toy").iterdir())
    assert left == [".lock", record["arrays"]["planes"]["file"], "record.json"]
    check(toy.source, record)


def test_a_disk_too_small_is_noticed_first(toy, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage(0, 0, 500_000))
    with pytest.raises(UnbraidError) as caught:
        toy.add()
    assert (
        str(caught.value) == f"mpi3d_toy needs 0.0 GB at {toy.home} and 0.0 GB are free."
        " Free some room, or name a folder on another disk in UNBRAID_DATA."
    )
    assert not toy.home.exists()


def test_a_refusal_leaves_no_folder_above_the_data_home(toy, tmp_path, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage(0, 0, 500_000))
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv("UNBRAID_DATA", str(tmp_path / "mine" / "deep" / "home"))
    with pytest.raises(UnbraidError, match=r"0\.0 GB are free"):
        toy.add()
    assert list((tmp_path / "mine").iterdir()) == []


@pytest.mark.parametrize("leftover", [".planes.1.part", "planes-0123456789ab.npy"])
def test_room_that_leftovers_take_is_freed_before_it_is_counted(toy, monkeypatch, leftover):
    usage = namedtuple("usage", "total used free")
    folder = toy.home / "mpi3d_toy"
    folder.mkdir(parents=True)
    (folder / leftover).write_bytes(bytes(600_000))
    monkeypatch.setattr(
        shutil,
        "disk_usage",
        lambda place: usage(0, 0, 100_000 if (folder / leftover).exists() else 700_000),
    )
    assert toy.add()["verified"] == "yes"
    assert not (folder / leftover).exists()


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            errno.ENOSPC,
            (
                "mpi3d_toy needs 0.0 GB at {home} and the disk is full."
                " Free some room, or name a folder on another disk in UNBRAID_DATA."
            ),
        ),
        (errno.EIO, "{home}/mpi3d_toy cannot be written: Input/output error."),
    ],
)
def test_a_disk_that_fills_up_leaves_nothing(toy, monkeypatch, code, told):
    def fail(handle):
        if stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(code, os.strerror(code))

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fail)
        with pytest.raises(UnbraidError) as caught:
            toy.add()
    assert str(caught.value) == told.format(home=toy.home)
    assert not toy.home.exists()
    assert toy.add()["verified"] == "yes"


def test_only_one_process_adds_a_dataset(toy):
    folder = toy.home / "mpi3d_toy"
    folder.mkdir(parents=True)
    with (
        files.only_one(folder),
        pytest.raises(InputError, match="is being written by another process"),
    ):
        toy.add()


def test_a_folder_that_cannot_be_made_is_one_message(toy, monkeypatch):
    toy.home.write_text("a file in the way")
    with pytest.raises(UnbraidError) as caught:
        toy.add()
    remedy = "Name another folder in UNBRAID_DATA."
    assert (
        str(caught.value) == f"{toy.home / 'mpi3d_toy'} cannot be made: Not a directory. {remedy}"
    )
    monkeypatch.setenv("UNBRAID_DATA", str(toy.home.parent / ("a" * 300)))
    with pytest.raises(UnbraidError, match="a/mpi3d_toy cannot be made: File name too long"):
        toy.add()


@pytest.fixture
def added(toy):
    record = toy.add()
    toy.path = toy.home / "mpi3d_toy" / record["arrays"]["planes"]["file"]
    toy.record = record
    return toy


def damage(toy):
    with pytest.raises(DamagedFileError) as caught:
        toy.load()
    return str(caught.value)


AGAIN = "Add it again: unbraid data add mpi3d_toy mpi3d_toy.npz."


def test_a_damaged_array_is_noticed_when_loading(added):
    whole = added.path.read_bytes()
    added.path.write_bytes(whole[:-1])
    expected = (
        f"{added.path} is damaged: it has {len(whole) - 1:,} bytes instead of {len(whole):,}."
        f" {AGAIN}"
    )
    assert damage(added) == expected
    added.path.write_bytes(b"x" * len(whole))
    assert damage(added).startswith(f"{added.path} is damaged: it cannot be read (")
    other = whole.replace(b"(48, 3, 64, 64)", b"(48, 64, 3, 64)")
    added.path.write_bytes(other)
    assert (
        damage(added)
        == f"{added.path} is damaged: it holds uint8 (48, 64, 3, 64) instead of uint8 (48, 3, 64,"
        f" 64). {AGAIN}"
    )
    added.path.unlink()
    assert (
        damage(added)
        == f"{added.path} is damaged: it cannot be read (No such file or directory). {AGAIN}"
    )
    added.add()
    assert added.load().planes.shape == (48, 3, 64, 64)


def test_a_flipped_bit_is_found_by_the_full_check(added):
    whole = bytearray(added.path.read_bytes())
    whole[-1000] ^= 1
    added.path.write_bytes(bytes(whole))
    added.load()
    with pytest.raises(DamagedFileError) as caught:
        check(added.source, added.record)
    assert (
        str(caught.value)
        == f"{added.path} is damaged: its content does not match its checksum. {AGAIN}"
    )


def test_every_byte_is_read_where_a_run_begins_and_later_where_a_file_is_newer(added, monkeypatch):
    read = []
    monkeypatch.setattr(stored, "check", lambda *given, **options: read.append(given))
    monkeypatch.setattr(stored, "_CHECKED", set())
    data = added.load()
    data.fingerprint()
    assert read == [], "nothing was written since it was added"
    data.check_files()
    data.check_files()
    assert len(read) == 1
    added.path.touch()
    data.fingerprint()
    assert len(read) == 2
    added.path.unlink()
    with pytest.raises(DamagedFileError, match="cannot be read"):
        data.fingerprint()


def test_parts_of_added_data_are_checked_as_the_whole_is(added, monkeypatch):
    read = []
    monkeypatch.setattr(type(added.load()), "check_files", lambda self: read.append(self))
    Subset(added.load(), np.arange(5)).check_files()
    assert len(read) == 1


def test_a_damaged_or_foreign_record_is_noticed(added):
    path = added.home / "mpi3d_toy" / "record.json"
    whole = path.read_text()
    again = "Add it again: unbraid data add mpi3d_toy FILE."
    path.write_text(whole[:50])
    assert (
        damage(added) == f"{path} is damaged: it is not a whole record (JSONDecodeError). {again}"
    )
    path.write_text(whole.replace('"verified": "yes"', '"verified": "no"'))
    assert damage(added) == f"{path} is damaged: its content does not match its checksum. {again}"
    store.write_json(path, {**added.record, "format": 2})
    assert (
        damage(added) == f"{path} is not a record of 'mpi3d_toy' that this version reads. {again}"
    )
    store.write_json(path, {**added.record, "arrays": {}})
    assert damage(added) == f"{path} is damaged: it names no array 'planes'. {AGAIN}"
    added.add()
    assert added.load().name == "mpi3d_toy"


@pytest.mark.parametrize(
    "change",
    [
        {"arrays": 3},
        {"arrays": None},
        {"arrays": {"planes": {}}},
        {"arrays": {"planes": {"file": "../x.npy", "bytes": 1, "sha256": "0" * 64}}},
        {"arrays": {"planes": {"file": "x.npy", "bytes": True, "sha256": "0" * 64}}},
        {"arrays": {"planes": {"file": "x.npy", "bytes": 1, "sha256": 7}}},
        {"verified": "??"},
        {"added": 5},
        {"from": None},
        {"files": {}},
    ],
)
def test_a_record_of_another_structure_is_noticed_at_once(added, change):
    path = added.home / "mpi3d_toy" / "record.json"
    for record in (
        {**added.record, **change},
        {key: value for key, value in added.record.items() if key not in change},
    ):
        store.write_json(path, record)
        with pytest.raises(DamagedFileError) as caught:
            read_record("mpi3d_toy")
        again = "Add it again: unbraid data add mpi3d_toy FILE."
        assert (
            str(caught.value)
            == f"{path} is not a record of 'mpi3d_toy' that this version reads. {again}"
        )
    added.add()
    assert added.load().name == "mpi3d_toy"


def test_images_are_mapped_and_never_written_to(added):
    before = added.path.read_bytes()
    dataset = added.load()
    stored = torch.from_numpy(dataset.planes)
    assert stored.data_ptr() == dataset.planes.ctypes.data
    dataset.planes[0] = 0
    del dataset, stored
    assert added.path.read_bytes() == before


def test_what_was_added_can_be_removed_and_nothing_else(toy):
    toy.add()
    (toy.home / "mpi3d_toy" / "notes.txt").write_text("mine")
    assert adding.remove("mpi3d_toy") == toy.home / "mpi3d_toy"
    assert [path.name for path in (toy.home / "mpi3d_toy").iterdir()] == ["notes.txt"]
    with pytest.raises(InputError) as caught:
        adding.remove("mpi3d_toy")
    assert (
        str(caught.value)
        == "dataset 'mpi3d_toy' must have been added to be removed; got nothing at"
        f" {toy.home / 'mpi3d_toy'}."
    )
    (toy.home / "mpi3d_toy" / "notes.txt").unlink()
    toy.add()
    adding.remove("mpi3d_toy")
    assert not (toy.home / "mpi3d_toy").exists()
