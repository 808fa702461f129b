# SPDX-License-Identifier: Apache-2.0
"""MPI3D: the published facts, a small file in its format, and every way in which a file can be
wrong.
"""

from __future__ import annotations

import zipfile
from dataclasses import replace

import numpy as np
import pytest

from unbraid.data.info import describe
from unbraid.data.official import mpi3d

HOW = (
    "Get mpi3d_toy.npz from https://github.com/rr-learning/disentanglement_dataset and type:"
    " unbraid data add mpi3d_toy mpi3d_toy.npz."
)


@pytest.fixture
def toy(small):
    return small("mpi3d_toy")


def test_published_facts():
    source = mpi3d.SOURCE_TOY
    assert source.grid.sizes == (6, 6, 2, 3, 3, 40, 40)
    assert source.grid.size == 1_036_800
    assert source.files[0].checksum == ("md5", "55889cb7c7dfc655d6e0277beee88868")


@pytest.mark.parametrize("compressed", [True, False])
def test_images_are_those_of_the_file(toy, compressed, monkeypatch):
    monkeypatch.setattr(mpi3d, "_IMAGES_PER_BLOCK", 7)
    with np.load(toy.file()) as file:
        images = file["images"]
    (np.savez_compressed if compressed else np.savez)(toy.file(), images=images)
    toy.add(unverified=True)
    dataset = toy.load()
    assert np.array_equal(dataset.images(np.arange(48)), images)
    assert np.array_equal(dataset.planes, np.moveaxis(images, -1, 1))
    assert dataset.factors([47]).tolist() == [[1, 0, 1, 0, 1, 2, 1]]


def test_another_structure_is_refused_even_unverified(toy):
    with np.load(toy.file()) as file:
        images = file["images"]
    start = f"mpi3d_toy file {toy.file()} must hold"
    np.savez(toy.file(), photos=images)
    assert toy.refusal() == f"{start} 'images'; got the keys photos. {HOW}"
    np.savez(toy.file(), images=images[1:])
    assert toy.refusal() == f"{start} 'images' of shape (48, 64, 64, 3); got (47, 64, 64, 3). {HOW}"
    np.savez(toy.file(), images=np.asfortranarray(images))
    assert (
        toy.refusal()
        == f"{start} 'images' of shape (48, 64, 64, 3); got (48, 64, 64, 3) in Fortran order. {HOW}"
    )
    np.savez(toy.file(), images=images.astype(np.float32))
    assert toy.refusal() == f"{start} 'images' as uint8; got float32. {HOW}"
    np.savez(toy.file(), images=np.array({"run": "me"}, dtype=object))
    assert toy.refusal() == f"{start} 'images' of shape (48, 64, 64, 3); got (). {HOW}"


@pytest.mark.parametrize("kept", [0, 10, 1000, 100_000])
def test_a_truncated_archive_is_refused(toy, kept):
    toy.file().write_bytes(toy.file().read_bytes()[:kept])
    value = f"a file of {kept:,} bytes that is none or was cut off"
    assert (
        toy.refusal()
        == f"mpi3d_toy file {toy.file()} must be a complete .npz (zip) file; got {value}. {HOW}"
    )


def test_a_member_shorter_or_longer_than_its_header_says_is_refused(toy):
    with zipfile.ZipFile(toy.file()) as archive:
        member = archive.read("images.npy")
    start = f"mpi3d_toy file {toy.file()} must"
    for content, told in (
        (
            member[:-10],
            f"{start} hold 'images' completely; got a file that ends 10 bytes early. {HOW}",
        ),
        (member + b"more", f"{start} end after the last image; got further bytes. {HOW}"),
        (
            b"nonsense",
            (
                f"{start} hold 'images' as an .npy array; got none that can be read (the magic"
                " string is not correct;"
            ),
        ),
        # A header of this version may be 4 GiB long, and would be unpacked before it is looked at.
        (
            b"\x93NUMPY\x02\x00",
            (
                f"{start} hold 'images' as an .npy array; got none that can be read (version 2.0)."
                f" {HOW}"
            ),
        ),
    ):
        with zipfile.ZipFile(toy.file(), "w") as archive:
            archive.writestr("images.npy", content)
        assert toy.refusal().startswith(told)


def test_a_flipped_bit_is_refused_by_the_archives_own_checksum(toy):
    with np.load(toy.file()) as file:
        images = file["images"]
    np.savez(toy.file(), images=images)
    whole = bytearray(toy.file().read_bytes())
    whole[len(whole) // 2] ^= 1
    toy.file().write_bytes(bytes(whole))
    value = "one that cannot be read (Bad CRC-32 for file 'images.npy')"
    assert (
        toy.refusal()
        == f"mpi3d_toy file {toy.file()} must be readable to its end; got {value}. {HOW}"
    )


def test_the_earlier_edition_had_four_colours_and_shapes():
    earlier = mpi3d.MPI3DToy.earlier()
    assert earlier.grid.sizes == (4, 4, 2, 3, 3, 40, 40)
    assert earlier.grid.size == 460_800
    assert earlier.factors[0].meaning == "green, red, blue, brown"


def test_the_earlier_edition_is_read_as_what_it_is(toy, monkeypatch):
    two = (replace(mpi3d.EARLIER[0], size=1), replace(mpi3d.EARLIER[1], size=1))
    monkeypatch.setattr(mpi3d, "EARLIER", two)
    images = np.random.default_rng(3).integers(0, 256, (24, 64, 64, 3), dtype=np.uint8)
    np.savez(toy.file(), images=images)
    toy.add(unverified=True)
    dataset = toy.load()
    assert dataset.factor_sizes == (1, 1, 2, 1, 2, 3, 2)
    assert np.array_equal(dataset.images(np.arange(24)), images)
    assert "green, red, blue, brown" in describe("mpi3d_toy")
