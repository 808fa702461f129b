# SPDX-License-Identifier: Apache-2.0
"""3D Shapes: the published facts, a small file in its format, and every way in which a file can be
wrong.
"""

from __future__ import annotations

import h5py
import numpy as np
import pytest

from unbraid.data.official.shapes3d import SOURCE

HOW = (
    "Get 3dshapes.h5 from https://github.com/google-deepmind/3d-shapes and type: unbraid data add"
    " shapes3d 3dshapes.h5. `shapes3d_drawn` needs no file."
)


@pytest.fixture
def shapes(small):
    return small("shapes3d")


def test_published_facts():
    assert SOURCE.grid.names == (
        "floor_hue",
        "wall_hue",
        "object_hue",
        "scale",
        "shape",
        "orientation",
    )
    assert SOURCE.grid.sizes == (10, 10, 10, 8, 4, 15)
    assert SOURCE.grid.size == 480_000
    (file,) = SOURCE.files
    assert (file.size, file.checksum) == (
        267_573_662,
        ("sha256", "0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785"),
    )


def test_images_and_factors_are_those_of_the_file(shapes):
    assert shapes.add(shapes.file())["verified"] == "yes"
    dataset = shapes.load()
    with h5py.File(shapes.file()) as file:
        assert np.array_equal(dataset.images(np.arange(48)), file["images"][()])
    assert dataset.grid.sizes == (2, 3, 1, 2, 2, 2)
    assert dataset.factors([47]).tolist() == [[1, 2, 0, 1, 1, 1]]


def test_real_images_keep_their_indices(shared):
    with np.load(
        shared / "data" / "shapes3d" / "shapes3d_real_samples.npz", allow_pickle=False
    ) as real:
        assert np.array_equal(SOURCE.grid.to_factors(real["indices"]), real["factors"])


def test_blocks_follow_the_chunks_of_the_file(shapes, monkeypatch):
    from unbraid.data.official import shapes3d

    monkeypatch.setattr(shapes3d, "_IMAGES_PER_BLOCK", 20)
    found = shapes3d.Shapes3D.locate(shapes.file())
    assert [len(block) for block in shapes3d.Shapes3D.read(found).blocks] == [14, 14, 14, 6]


def rewrite(shapes, **changes):
    """Write the file again with other members; None leaves one out."""
    with h5py.File(shapes.file()) as file:
        members = {key: file[key][()] for key in file if key not in changes} | changes
    with h5py.File(shapes.file(), "w") as file:
        for key, value in members.items():
            if value is not None:
                file[key] = value
    return members


def test_another_structure_is_refused_even_unverified(shapes):
    start = f"shapes3d file {shapes.file()} must hold"
    images = rewrite(shapes, labels=None)["images"]
    assert shapes.refusal() == f"{start} 'labels'; got the keys images. {HOW}"
    rewrite(shapes, images=images[:-1], labels=np.zeros((48, 6)))
    assert (
        shapes.refusal() == f"{start} 'images' of shape (48, 64, 64, 3); got (47, 64, 64, 3). {HOW}"
    )
    rewrite(shapes, images=images.astype(np.uint16))
    assert shapes.refusal() == f"{start} 'images' as uint8; got uint16. {HOW}"
    with h5py.File(shapes.folder / "elsewhere.h5", "w") as elsewhere:
        elsewhere["images"] = images
    for link in (
        h5py.ExternalLink("elsewhere.h5", "images"),
        h5py.ExternalLink("nowhere.h5", "images"),
    ):
        rewrite(shapes, images=link)
        assert (
            shapes.refusal()
            == f"{start} 'images' as an array of its own; got something else, or a link to another"
            f" file. {HOW}"
        )


def test_labels_out_of_order_are_refused(shapes):
    with h5py.File(shapes.file()) as file:
        labels = file["labels"][()]
    rewrite(shapes, labels=labels[::-1])
    expected = (
        f"shapes3d file {shapes.file()} must have 'labels' in grid order, row 0 = [0, 0, 0, 0, 0,"
        f" 0]; got [1, 2, 0, 1, 1, 1]. {HOW}"
    )
    assert shapes.refusal() == expected
    labels[:, 1] = 0
    rewrite(shapes, labels=labels)
    assert (
        shapes.refusal()
        == f"shapes3d file {shapes.file()} must have 3 values of wall_hue in 'labels'; got 1. {HOW}"
    )


@pytest.mark.parametrize("share", [0.0, 0.001, 0.5, 0.999])
def test_a_truncated_file_is_refused(shapes, share):
    whole = shapes.file().read_bytes()
    kept = int(share * len(whole))
    shapes.file().write_bytes(whole[:kept])
    told = shapes.refusal(unverified=False)
    link = "https://storage.googleapis.com/3d-shapes/3dshapes.h5"
    assert (
        told == f"shapes3d file {shapes.file()} must have {len(whole):,} bytes, as published; got"
        f" {kept:,}, {len(whole) - kept:,} too few. Get it again from {link}, or take it as it"
        " is with unverified=True."
    )
    assert (
        f"shapes3d file {shapes.file()} must be readable to its end; got one that cannot be read ("
        in shapes.refusal()
    )


def test_a_damaged_chunk_is_refused_while_converting(shapes):
    whole = bytearray(shapes.file().read_bytes())
    whole[len(whole) // 2] ^= 0xFF
    shapes.file().write_bytes(bytes(whole))
    told = shapes.refusal()
    assert told.startswith(
        f"shapes3d file {shapes.file()} must be readable to its end; got one that cannot be read ("
    )
