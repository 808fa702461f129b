# SPDX-License-Identifier: Apache-2.0
"""SmallNORB: the published facts, small matrices in its format, and every way in which files can be
wrong.
"""

from __future__ import annotations

import gzip
import struct

import numpy as np
import pytest
from PIL import Image

from unbraid.core.errors import InputError
from unbraid.data import load
from unbraid.data.official.smallnorb import SOURCE
from unbraid.testing.data_contract import check_dataset
from unbraid.testing.official_files import matrix

HOW = (
    "Get its six files smallnorb-*.mat.gz from https://cs.nyu.edu/~ylclab/data/norb-v1.0-small and"
    " type: unbraid data add smallnorb FOLDER."
)


@pytest.fixture
def toys(small):
    return small("smallnorb")


def test_published_facts():
    assert SOURCE.grid.names == ("category", "instance", "elevation", "azimuth", "lighting")
    assert SOURCE.grid.sizes == (5, 10, 9, 18, 6)
    assert SOURCE.grid.size == 48_600
    assert [file.name.split("-")[-1] for file in SOURCE.files] == [
        "dat.mat.gz",
        "cat.mat.gz",
        "info.mat.gz",
    ] * 2
    assert sum(file.size or 0 for file in SOURCE.files) == 262_778_180
    assert all(file.sha256 for file in SOURCE.files)


def test_the_instance_can_be_hidden(toys):
    toys.add()
    whole, hidden = toys.load(), load("smallnorb", instance="hidden")
    every = np.arange(len(whole))
    assert hidden.factor_names == ("category", "elevation", "azimuth", "lighting")
    assert hidden.factor_sizes == tuple(np.delete(whole.factor_sizes, 1))
    assert np.array_equal(hidden.factors(every), np.delete(whole.factors(every), 1, axis=1))
    assert np.array_equal(hidden.images(every), whole.images(every))
    assert hidden.fingerprint() != whole.fingerprint()
    assert load(hidden.name, **hidden.options).factor_names == hidden.factor_names
    check_dataset(hidden)
    with pytest.raises(InputError, match="instance 'none' is unknown"):
        load("smallnorb", instance="none")


def raw(toys, nth):
    return gzip.decompress(toys.file(nth).read_bytes())


def test_images_lie_at_the_place_of_their_labels(toys):
    toys.add()
    dataset = toys.load()
    for first in (0, 3):
        pairs = np.frombuffer(raw(toys, first), np.uint8, offset=24).reshape(-1, 2, 96, 96)
        category = np.frombuffer(raw(toys, first + 1), "<i4", offset=20)
        info = np.frombuffer(raw(toys, first + 2), "<i4", offset=20).reshape(-1, 4)
        assert set(info[:, 0] % 2) == {1 if first == 0 else 0}
        for nth in range(0, len(pairs), 5):
            instance, elevation, azimuth, lighting = info[nth]
            place = dataset.grid.to_index(
                [[category[nth], instance, elevation, azimuth // 2, lighting]]
            )
            left = Image.fromarray(pairs[nth, 0]).resize((64, 64), Image.Resampling.LANCZOS)
            assert np.array_equal(dataset.images(place)[0, ..., 0], np.asarray(left))


def test_unpacked_files_have_no_published_checksum(toys):
    packed = toys.add()
    for path in toys.folder.glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    record = toys.add()
    assert (packed["verified"], record["verified"]) == ("yes", "unknown")
    assert record["arrays"] == packed["arrays"]


def rewrite(toys, nth, content):
    toys.file(nth).write_bytes(gzip.compress(content, 1))
    return f"smallnorb file {toys.file(nth)} must"


def test_wrong_labels_are_refused_even_unverified(toys):
    info = np.frombuffer(raw(toys, 2), "<i4", offset=20).reshape(-1, 4).copy()
    for column, value, rule in (
        (0, 2, "instance as in 0..1"),
        (1, -1, "elevation as in 0..1"),
        (2, 3, "azimuth as even numbers in 0..4"),
        (3, 5, "lighting as in 0..1"),
    ):
        wrong = info.copy()
        wrong[7, column] = value
        start = rewrite(toys, 2, matrix(wrong))
        assert toys.refusal() == f"{start} have {rule}; got {value} in row 7. {HOW}"
    start = rewrite(toys, 2, matrix(np.ascontiguousarray(info[:-1])))
    expected = (
        f"{start} have 24 rows, as many as smallnorb-5x46789x9x18x6x2x96x96-training-cat.mat.gz;"
        f" got 23. {HOW}"
    )
    assert toys.refusal() == expected
    twice = info.copy()
    twice[1] = twice[0]
    category = np.zeros(24, np.int32)
    rewrite(toys, 1, matrix(category))
    start = rewrite(toys, 2, matrix(twice))
    assert toys.refusal().startswith(
        f"{start} label each of 48 combinations once, with"
        " smallnorb-5x01235x9x18x6x2x96x96-testing-info"
    )


def test_both_splits_are_needed(toys):
    for nth in range(3):
        toys.file(nth + 3).write_bytes(toys.file(nth).read_bytes())
    assert (
        toys.refusal()
        == f"smallnorb file {toys.file(2)} must label each of 48 combinations once, with"
        f" {toys.file(5).name}; got 24 missing and 24 repeated. {HOW}"
    )
    toys.file(4).unlink()
    assert toys.refusal().endswith(
        f"got one without smallnorb-5x01235x9x18x6x2x96x96-testing-cat.mat.gz. {HOW}"
    )


def test_wrong_matrices_are_refused_even_unverified(toys):
    dat, info = raw(toys, 0), raw(toys, 2)
    start = rewrite(toys, 0, info)
    assert (
        toys.refusal()
        == f"{start} begin with the mark of a matrix of bytes, 0x1e3d4c55; got 0x1e3d4c54. {HOW}"
    )
    rewrite(toys, 0, matrix(np.zeros((24, 2, 96, 95), np.uint8)))
    assert (
        toys.refusal()
        == f"{start} hold a matrix of sizes (24, 2, 96, 96); got (24, 2, 96, 95). {HOW}"
    )
    rewrite(toys, 0, struct.pack("<2i", 0x1E3D4C55, 2))
    assert (
        toys.refusal()
        == f"{start} hold a matrix of sizes (24, 2, 96, 96); got a matrix with 2 axes. {HOW}"
    )
    rewrite(toys, 0, dat[:-100])
    assert (
        toys.refusal()
        == f"{start} hold its images completely; got a file that ends 100 bytes early. {HOW}"
    )
    rewrite(toys, 0, dat + b"1")
    assert toys.refusal() == f"{start} end after the last image; got further bytes. {HOW}"
    rewrite(toys, 0, dat[:6])
    assert (
        toys.refusal()
        == f"{start} hold its header completely; got a file that ends 2 bytes early. {HOW}"
    )
    rewrite(toys, 0, dat)
    start = rewrite(toys, 2, struct.pack("<5i", 0x1E3D4C54, 2, 2**30, 4, 1))
    assert toys.refusal() == f"{start} hold at most 48 rows; got 1,073,741,824. {HOW}"


def test_truncated_downloads_are_all_named(toys):
    sizes = {}
    for nth in (0, 5):
        whole = toys.file(nth).read_bytes()
        sizes[nth] = len(whole)
        toys.file(nth).write_bytes(whole[:-9])
    told = toys.refusal(unverified=False).splitlines()
    assert len(told) == 2
    for line, nth in zip(told, (0, 5), strict=True):
        file = toys.source.files[nth]
        assert (
            line
            == f"smallnorb file {toys.file(nth)} must have {sizes[nth]:,} bytes, as published; got"
            f" {sizes[nth] - 9:,}, 9 too few. Get it again from {file.link}, or take it as it is"
            " with unverified=True."
        )
