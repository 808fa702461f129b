# SPDX-License-Identifier: Apache-2.0
"""`unbraid data`: info, add and export as a person uses them, with the exit codes and messages of
the whole command line.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import unbraid as ub
from unbraid.core.registry import summary
from unbraid.data import DATA
from unbraid.data.official import published
from unbraid.testing.official_files import small_source

ADD = "unbraid data add shapes3d"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("UNBRAID_DATA", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def unbraid(home: Path, unbraid):
    """Calls `unbraid data ...` in this process, with a data home of its own."""
    return lambda *words: unbraid("data", *words)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Small files of a published dataset, which the class then takes for the published ones."""

    def make(name: str) -> Path:
        monkeypatch.setattr(published(name), "source", small_source(name, tmp_path / name))
        return tmp_path / name

    return make


def test_info_lists_every_dataset_with_its_status(unbraid, small):
    small("shapes3d")
    answer = unbraid("info")
    assert answer.code == 0
    lines = answer.out.splitlines()
    listed = [line.split()[0] for line in lines if line and not line.startswith("One of them")]
    assert listed == list(DATA)
    assert f"{'sprites':<18}{'drawn':<19}Sprites: one bright" in answer.out
    assert f"{'shapes3d':<18}{'not added':<19}3D Shapes: a solid" in answer.out


def test_info_on_a_drawn_dataset_with_options(unbraid):
    answer = unbraid("info", "sprites:x=4,y=3,scale=2,image_size=16")
    assert (answer.code, answer.err) == (0, "")
    first = f"sprites      {summary(DATA.load('sprites'))}\n"
    assert answer.out.startswith(f"{first}images       24 of 16x16x1\nfactors      ")
    assert "licence      Apache-2.0\n" in answer.out
    assert "on a device  0.0 MB, uint8\n" in answer.out
    assert "\noptions      image_size=16, channels=1, x=4, y=3, scale=2, shape=1," in answer.out
    named = answer.out[answer.out.index("\nfactors") + 1 :].splitlines()[:3]
    assert [line[13:].split()[:2] for line in named] == [["scale", "2"], ["x", "4"], ["y", "3"]]


def test_info_on_a_folder(unbraid, tmp_path):
    np.savez(tmp_path / "mine.npz", images=np.zeros((3, 8, 9), np.uint8), factors=np.arange(3))
    answer = unbraid("info", str(tmp_path / "mine.npz"))
    assert (answer.code, answer.err) == (0, "")
    assert "images       3 of 8x9x1\n" in answer.out
    assert "factors      factor_0     3\n" in answer.out
    assert "licence      yours\n" in answer.out
    assert f"lies in      {tmp_path / 'mine.npz'}\n" in answer.out


def test_info_on_a_published_dataset_that_is_not_here(unbraid, home):
    answer = unbraid("info", "shapes3d")
    assert answer == (
        0,
        f"""\
shapes3d     3D Shapes: a solid in a coloured room with 6 factors, from the published file.
images       480,000 of 64x64x3
factors      floor_hue      10  10 hues around the colour circle, 0 to 0.9
             wall_hue       10  10 hues around the colour circle, 0 to 0.9
             object_hue     10  10 hues around the colour circle, 0 to 0.9
             scale           8  size of the object, 0.75 to 1.25
             shape           4  cube, cylinder, sphere, capsule
             orientation    15  turn of the room, -30 to 30 degrees
shown        all images of the file, as they are
licence      Apache-2.0
citation     C. Burgess, H. Kim (2018). 3D Shapes Dataset. https://github.com/google-deepmind/3d-shapes.
on a device  5.9 GB, uint8
files        3dshapes.h5, 267,573,662 bytes
             sha256 0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785
from         https://github.com/google-deepmind/3d-shapes
status       not added
lies in      {home / "shapes3d"}, once it is added
to add it    Get 3dshapes.h5 from https://github.com/google-deepmind/3d-shapes and type: {ADD}
             3dshapes.h5. `shapes3d_drawn` needs no file.
""",
        "",
    )


def test_forty_equal_factors_are_told_in_one_paragraph(unbraid):
    answer = unbraid("info", "celeba")
    assert (
        "factors      40 of 2 values (0 no, 1 yes): 5_o_Clock_Shadow, Arched_Eyebrows, "
        in answer.out
    )
    assert answer.out.count("0 no, 1 yes") == 1


def test_unknown_checksums_are_not_hidden(unbraid, monkeypatch):
    source = published("cars3d").source
    files = tuple(replace(file, md5=None) for file in source.files)
    monkeypatch.setattr(published("cars3d"), "source", replace(source, files=files))
    assert (
        "files        nips2015-analogy-data.tar.gz, size not known\n             no published"
        " checksum known\n" in (unbraid("info", "cars3d").out)
    )


def test_add_then_info_with_a_full_check(unbraid, small, home):
    folder = small("mpi3d_real")
    answer = unbraid("add", "mpi3d_real", str(folder / "mpi3d_real.npz"))
    assert answer.code == 0
    assert "verified     yes: every file has its published checksum\n" in answer.out
    assert answer.out.endswith("Next:  unbraid train mpi3d_real\n")
    assert "converting mpi3d_real: 48 images" in answer.err
    answer = unbraid("info", "mpi3d_real", "--check")
    assert (answer.code, answer.err) == (0, "")
    assert "status       added\n" in answer.out
    assert f"lies in      {home / 'mpi3d_real'}, 0.6 MB\n" in answer.out
    assert answer.out.endswith("check        every stored byte is as it was written\n")
    (stored,) = (home / "mpi3d_real").glob("*.npy")
    content = bytearray(stored.read_bytes())
    content[-1] ^= 1
    stored.write_bytes(bytes(content))
    assert unbraid("info", "mpi3d_real").code == 0
    again = "Add it again: unbraid data add mpi3d_real mpi3d_real.npz."
    told = f"unbraid: {stored} is damaged: its content does not match its checksum. {again}\n"
    assert unbraid("info", "mpi3d_real", "--check") == (1, "", told)


def test_a_damaged_record_is_shown_by_info(unbraid, small, home):
    folder = small("mpi3d_real")
    unbraid("add", "mpi3d_real", str(folder))
    (home / "mpi3d_real" / "record.json").write_text("{}")
    answer = unbraid("info", "mpi3d_real")
    assert answer.code == 0
    assert "status       damaged\n" in answer.out
    assert f"{'mpi3d_real':<18}{'damaged':<19}" in unbraid("info").out


def test_unverified_is_needed_once_and_shown_ever_after(unbraid, small, home):
    folder = small("shapes3d")
    source = published("shapes3d").source
    published("shapes3d").source = replace(
        source, files=(replace(source.files[0], sha256="f" * 64),)
    )
    path = folder / "3dshapes.h5"
    answer = unbraid("add", "shapes3d", str(path))
    link = "https://storage.googleapis.com/3d-shapes/3dshapes.h5"
    assert answer == (
        2,
        "",
        f"unbraid: shapes3d file {path} must have the published sha256 {'f' * 64}; got"
        f" {source.files[0].sha256}. Get it again from {link}, or take it as it is with"
        " --unverified.\n",
    )
    assert not home.exists()
    assert unbraid("add", "shapes3d", str(path), "--unverified").code == 0
    answer = unbraid("info", "shapes3d")
    assert "status       added, unverified\n" in answer.out
    assert "verified     no: added with --unverified; it is not the published file\n" in answer.out
    assert f"{'shapes3d':<18}{'added, unverified':<19}" in unbraid("info").out


def test_a_truncated_and_a_mislabelled_file_are_one_message(unbraid, small, home):
    shapes, toy = small("shapes3d") / "3dshapes.h5", small("mpi3d_toy") / "mpi3d_toy.npz"
    whole = shapes.read_bytes()
    shapes.write_bytes(whole[:-1])
    answer = unbraid("add", "shapes3d", str(shapes))
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert (
        f"must have {len(whole):,} bytes, as published; got {len(whole) - 1:,}, 1 too few."
        in answer.err
    )
    small("mpi3d_real")
    source = published("mpi3d_real").source
    published("mpi3d_real").source = replace(source, files=(replace(source.files[0], size=None),))
    answer = unbraid("add", "mpi3d_real", str(toy))
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.endswith(
        f"; got that of mpi3d_toy.npz. Type: unbraid data add mpi3d_toy {toy}.\n"
    )
    assert not home.exists()


def test_bad_words_exit_with_2(unbraid, tmp_path, home):
    assert unbraid("add", "nothing", "x").code == 2
    assert unbraid("add", "shapes3d", str(tmp_path / "no.h5")).err.startswith(
        f"unbraid: shapes3d file must exist; got {tmp_path / 'no.h5'}. Get 3dshapes.h5 from "
    )
    assert unbraid("info", "nothing").err.startswith("unbraid: dataset 'nothing' is unknown")
    assert unbraid("export", "sprites", "--out", str(tmp_path / "x.tar")).code == 2
    assert unbraid("export", "sprites", "--out", str(tmp_path / "x"), "--count", "many").code == 2
    assert unbraid("export", "sprites", "--out", str(tmp_path / "x"), "--indices", "a").code == 2
    assert os.listdir(tmp_path) == []


def test_bad_numbers_of_an_export_are_told_in_the_house_form(unbraid, tmp_path):
    words = ("export", "sprites:x=4,y=3,scale=2,image_size=16", "--out", str(tmp_path / "x.npz"))
    span = "a whole number in 0..4611686018427387904"
    assert unbraid(*words, "--count", "10", "--seed", "-1") == (
        2,
        "",
        f"unbraid: --seed must be {span}; got -1.\n",
    )
    assert unbraid(*words, "--count", "10", "--seed", "abc") == (
        2,
        "",
        f"unbraid: --seed must be {span}; got 'abc'.\n",
    )
    told = unbraid(*words, "--indices", "0:8589934592")
    assert (told.code, told.out) == (2, "")
    assert told.err.startswith("unbraid: --indices must lie in 0..")
    assert told.err.endswith("; got 0:8589934592.\n")
    assert os.listdir(tmp_path) == []


def test_a_data_home_that_cannot_be_used_is_one_line(unbraid, small, home, monkeypatch):
    folder = small("mpi3d_real")
    remedy = "Name another folder in UNBRAID_DATA."
    home.write_text("a file in the way")
    expected = f"unbraid: {home / 'mpi3d_real'} cannot be made: Not a directory. {remedy}\n"
    assert unbraid("add", "mpi3d_real", str(folder)) == (1, "", expected)
    monkeypatch.setenv("UNBRAID_DATA", str(home / "deeper"))
    expected = (
        f"unbraid: {home / 'deeper' / 'mpi3d_real'} cannot be made: Not a directory. {remedy}\n"
    )
    assert unbraid("add", "mpi3d_real", str(folder)) == (1, "", expected)
    assert home.read_text() == "a file in the way"
    monkeypatch.setenv("UNBRAID_DATA", "/proc/self/unbraid")
    expected = (
        "unbraid: /proc/self/unbraid/mpi3d_real cannot be made: No such file or directory."
        f" {remedy}\n"
    )
    assert unbraid("add", "mpi3d_real", str(folder)) == (1, "", expected)


def test_a_data_home_that_may_not_be_written_is_one_line(unbraid, small, home, monkeypatch):
    folder = small("mpi3d_real")
    home.mkdir()
    made = Path.mkdir

    def deny(path, *given, **options):
        if home in path.parents:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        made(path, *given, **options)

    monkeypatch.setattr(Path, "mkdir", deny)
    remedy = "Name another folder in UNBRAID_DATA."
    expected = f"unbraid: {home / 'mpi3d_real'} cannot be made: Permission denied. {remedy}\n"
    assert unbraid("add", "mpi3d_real", str(folder)) == (1, "", expected)
    assert os.listdir(home) == []


@pytest.mark.parametrize(
    ("out", "choice", "count"), [("x.npz", "--count", 5), ("x", "--indices", 4)]
)
def test_export_writes_what_info_reads(unbraid, tmp_path, out, choice, count):
    path = tmp_path / out
    words = (
        "export",
        "sprites:x=4,y=3,image_size=16",
        "--out",
        str(path),
        choice,
        "5" if choice == "--count" else "3,0:3",
    )
    answer = unbraid(*words)
    assert answer.code == 0
    assert answer.out == f"Written: {path}\nNext:  unbraid data info {path}\n"
    assert f"images       {count} of 16x16x1\n" in unbraid("info", str(path)).out


def test_every_command_is_a_function(tmp_path):
    data = ub.load("sprites", x=4, y=3, scale=2, image_size=16)
    path = ub.data.export(data, out=tmp_path / "some.npz", indices=[3, 0, 1])
    assert path == tmp_path / "some.npz"
    assert "images       3 of 16x16x1" in ub.data.info(str(path))
    page = ub.data.show("sprites:x=4,y=3,scale=1", out=tmp_path / "page.html")
    assert page.read_text().startswith("<!doctype html>")


def test_info_on_a_set_that_needs_something_of_the_users(unbraid, home):
    answer = unbraid("info", "scream_dsprites")
    assert (answer.code, answer.err) == (0, "")
    assert answer.out.startswith("scream_dsprites  Scream-dSprites: ")
    assert "not ready    painting must be an existing image file" in answer.out


def test_a_check_of_nothing_is_refused(unbraid):
    answer = unbraid("info", "--check")
    assert answer.code == 2
    assert "--check needs the name of a dataset; got none." in answer.err


def test_show_writes_a_page(unbraid, tmp_path):
    answer = unbraid("show", "sprites:x=4,y=3,scale=1", "--out", str(tmp_path / "page.html"))
    assert answer == (0, f"Open in a browser: {tmp_path / 'page.html'}\n", "")
    assert "drawn" in (tmp_path / "page.html").read_text()


def test_what_was_not_added_cannot_be_removed(unbraid, home):
    answer = unbraid("remove", "shapes3d")
    assert (answer.code, answer.err) == (
        2,
        (
            "unbraid: dataset 'shapes3d' must have been added to be removed; got nothing at"
            f" {home / 'shapes3d'}.\n"
        ),
    )
