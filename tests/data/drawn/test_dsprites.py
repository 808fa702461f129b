# SPDX-License-Identifier: Apache-2.0
"""dSprites: the drawn set against real images and published counts; packing; reading of the
published file.
"""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unbraid.core.errors import InputError
from unbraid.core.grid import FactorGrid
from unbraid.data import load
from unbraid.data.drawn import dsprites
from unbraid.data.drawn.dsprites_drawing import draw_all, draw_some, pack, unpack
from unbraid.data.official import dsprites_file

REMEDY = "Leave `file` out: the same images are drawn without it."


@pytest.fixture(scope="module")
def packed():
    return load("dsprites").packed_rows()


@pytest.fixture(scope="module")
def areas(packed):
    """White pixels of every image `(shape, scale, orientation, position)`."""
    octets = packed.view(np.uint8).reshape(3, 6, 40, 1024, 512)
    white_in_octet = (
        np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).sum(axis=1).astype(np.uint8)
    )
    counts = np.empty((3, 6, 40, 1024), dtype=np.int64)
    for place in np.ndindex(3, 6):
        counts[place] = white_in_octet[octets[place]].sum(axis=-1, dtype=np.int64)
    return counts


def test_no_pixel_of_the_320_real_images_is_wrong(shared):
    with np.load(
        shared / "data" / "dsprites" / "dsprites_real_samples.npz", allow_pickle=False
    ) as real:
        images, classes = real["imgs"], real["latents_classes"]
    dataset = load("dsprites")
    drawn = dataset.images(dataset.grid.to_index(classes[:, 1:]))
    assert drawn.shape == (320, 64, 64, 1)
    assert np.count_nonzero(drawn[..., 0] != images * np.uint8(255)) == 0


def test_white_pixels_and_mean_areas_of_the_whole_set(areas):
    # The published set has 128,328,862 white pixels (mean 0.042494423521889584); the drawing has
    # two more.
    assert areas.sum() == 128_328_864
    assert areas.sum() / (737_280 * 4096) == pytest.approx(0.042494423521889584, abs=1e-9)
    expected = [
        [92.20, 132.74, 180.63, 235.96, 298.65, 368.73],
        [72.34, 104.14, 141.79, 185.19, 234.34, 289.32],
        [56.13, 80.83, 110.01, 143.70, 181.84, 224.50],
    ]
    assert areas.mean(axis=(2, 3)) == pytest.approx(np.array(expected), abs=0.00501)
    assert areas[0, :, 0, 0].tolist() == [100, 144, 196, 256, 324, 400]


def test_orientation_0_and_39_are_the_same_images(packed):
    rows = packed.reshape(3, 6, 40, 1024, 64)
    assert np.array_equal(rows[:, :, 0], rows[:, :, 39])
    assert not np.array_equal(rows[:, :, 0], rows[:, :, 38])


def test_the_whole_set_is_drawn_in_seconds_and_held_once(packed, pace):
    drawn = {}
    # 8 on an idle machine; a busy one is slow to give the 377 MB, which are its time as well.
    assert pace(lambda: drawn.update(again=draw_all()), 60) < 60
    again = drawn["again"]
    assert again.nbytes == 737_280 * 64 * 8 <= 400e6
    assert np.array_equal(again, packed)
    assert load("dsprites").packed_rows() is packed
    # The sampler reads the very rows: a pixel changed there is a pixel drawn.
    draw = load("dsprites").sampler("cpu")
    packed[5, 3] ^= np.uint64(1)
    try:
        assert draw(torch.tensor([5]))[0, 0, 3, 0] == 1
    finally:
        packed[5, 3] ^= np.uint64(1)
    assert draw(torch.tensor([5]))[0, 0, 3, 0] == 0


def test_a_few_images_do_not_draw_the_whole_set(monkeypatch):
    monkeypatch.setattr(dsprites, "_drawn", lambda: pytest.fail("drew the whole set"))
    assert load("dsprites").images([0, 737_279]).shape == (2, 64, 64, 1)


def test_drawing_some_agrees_with_drawing_all(packed):
    indices = np.random.default_rng(0).integers(0, 737_280, 200)
    assert np.array_equal(draw_some(indices), packed[indices])


@given(arrays(np.uint8, (2, 64, 64), elements=st.integers(0, 1)))
@settings(max_examples=20, deadline=None)
def test_packing_round_trips(images):
    assert np.array_equal(unpack(pack(images)), images)


def test_packed_words_hold_row_r_in_word_r_and_column_j_in_bit_j():
    image = np.zeros((1, 64, 64), np.uint8)
    image[0, 5, 63] = image[0, 7, 0] = 1
    words = pack(image)[0]
    assert (int(words[5]), int(words[7]), np.count_nonzero(words)) == (2**63, 1, 2)


def test_the_sampler_takes_any_shape_of_indices():
    dataset = load("dsprites")
    indices = np.random.default_rng(1).integers(0, len(dataset), (3, 4))
    draw = dataset.sampler("cpu")
    samples = draw(torch.from_numpy(indices))
    assert (samples.shape, samples.dtype) == ((3, 4, 1, 64, 64), torch.float32)
    assert np.array_equal(samples.numpy(), np.moveaxis(dataset.images(indices), -1, 2) / 255.0)
    assert torch.equal(draw(torch.tensor(int(indices[0, 0]))), samples[0, 0])


SMALL = FactorGrid(("shape", "scale", "orientation", "x", "y"), (1, 1, 2, 32, 32))
"""The first 2048 places of the real grid, so that files in a test stay small."""


@pytest.fixture
def small_file(tmp_path, monkeypatch):
    """Write a file in the official layout; keyword arguments replace its members, None leaves one
    out.
    """
    monkeypatch.setattr(dsprites, "GRID", SMALL)
    indices = np.arange(SMALL.size)
    members = {
        "imgs": unpack(draw_some(indices)),
        "latents_classes": np.concatenate(
            [np.zeros((SMALL.size, 1), np.int64), SMALL.to_factors(indices)], axis=1
        ),
        # The official file pickles this one; it must never be opened.
        "metadata": np.array({"title": "dSprites"}, dtype=object),
    }

    def write(**changes):
        path = tmp_path / "dsprites.npz"
        np.savez_compressed(
            path, **{key: value for key, value in (members | changes).items() if value is not None}
        )
        return path

    write.members = members
    return write


def refusal(path):
    with pytest.raises(InputError) as caught:
        load("dsprites", file=path)
    return str(caught.value)


def test_a_file_in_the_official_layout_is_used(small_file):
    images = small_file.members["imgs"].copy()
    images[1500, 0, 0] = 1
    path = small_file(imgs=images)
    dataset = load("dsprites", file=str(path))
    assert dataset.options == {"file": str(path)}
    assert np.array_equal(dataset.images(np.arange(2048))[..., 0], images * np.uint8(255))
    assert np.array_equal(
        dataset.sampler("cpu")(torch.arange(1490, 1510)).numpy()[:, 0], images[1490:1510]
    )
    assert load("dsprites", file=path).packed_rows() is dataset.packed_rows()


def test_a_file_of_another_kind_is_refused(small_file, tmp_path):
    path = tmp_path / "notes.npz"
    path.write_text("hello")
    assert (
        refusal(path)
        == f"dSprites file {path} must be an .npz (zip) file; got a file of 5 bytes that is not"
        f" one. {REMEDY}"
    )
    missing = tmp_path / "none.npz"
    assert refusal(missing) == f"dsprites file must be an existing file; got {missing}. {REMEDY}"
    assert refusal(7) == f"dsprites file must be the path of the published npz; got 7. {REMEDY}"


def test_missing_members_are_named(small_file):
    path = small_file(latents_classes=None)
    assert (
        refusal(path)
        == f"dSprites file {path} must hold latents_classes; got the keys imgs, metadata. {REMEDY}"
    )


def test_wrong_shapes_types_and_values_are_named(small_file):
    images, classes = small_file.members["imgs"], small_file.members["latents_classes"]
    path = small_file(imgs=images[:-1])
    start = f"dSprites file {path} needs"
    assert refusal(path) == f"{start} 'imgs' of shape (2048, 64, 64); got (2047, 64, 64). {REMEDY}"
    assert (
        refusal(small_file(imgs=images.astype(np.uint16)))
        == f"{start} 'imgs' as uint8; got dtype uint16. {REMEDY}"
    )
    grey = images.copy()
    grey[77, 3, 4] = 255
    assert (
        refusal(small_file(imgs=grey))
        == f"{start} pixels 0 or 1; got 255 in image 77, row 3, column 4. {REMEDY}"
    )
    swapped = np.ascontiguousarray(classes[:, [0, 1, 2, 3, 5, 4]])
    expected = (
        f"{start} latents_classes in grid order, row 1 = [0, 0, 0, 0, 0, 1]; got [0, 0, 0, 0, 1,"
        f" 0]. {REMEDY}"
    )
    assert refusal(small_file(latents_classes=swapped)) == expected


def test_other_images_are_refused(small_file):
    upside_down = small_file.members["imgs"][:, ::-1]
    told = refusal(small_file(imgs=np.ascontiguousarray(upside_down)))
    assert (
        "needs the published images (at most 4 pixels from the drawn ones); got 200 different"
        " pixels in image" in told
    )


def test_a_truncated_and_a_flipped_file_are_refused(small_file):
    path = small_file()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    assert "must be an .npz (zip) file" in refusal(path)
    with zipfile.ZipFile(small_file()) as archive:
        member = archive.getinfo("imgs.npy")
    flipped = bytearray(whole)
    flipped[member.header_offset + member.compress_size // 2] ^= 0xFF
    path.write_bytes(bytes(flipped))
    assert f"dSprites file {path} must be readable to its end; got a damaged file (" in refusal(
        path
    )


def test_a_member_shorter_than_its_header_says_is_refused(small_file, tmp_path):
    source, path = small_file(), tmp_path / "short.npz"
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new:
        new.writestr("latents_classes.npy", old.read("latents_classes.npy"))
        new.writestr("imgs.npy", old.read("imgs.npy")[:-10])
    assert (
        refusal(path)
        == f"dSprites file {path} needs 'imgs' complete; got a member that ends 10 bytes early."
        f" {REMEDY}"
    )


@pytest.mark.slow
def test_a_full_size_file_is_read_in_slices(packed, tmp_path):
    """3 GB of images, written and read a slice at a time."""
    path = tmp_path / "full.npz"
    grid = load("dsprites").grid
    classes = np.concatenate(
        [np.zeros((grid.size, 1), np.int64), grid.to_factors(np.arange(grid.size))], axis=1
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        with archive.open("latents_classes.npy", "w") as member:
            np.lib.format.write_array(member, classes)
        with archive.open("imgs.npy", "w", force_zip64=True) as member:
            header = {"descr": "|u1", "fortran_order": False, "shape": (grid.size, 64, 64)}
            np.lib.format.write_array_header_1_0(member, header)
            for start in range(0, grid.size, 4096):
                member.write(unpack(packed[start : start + 4096]).data)
    assert np.array_equal(load("dsprites", file=path).packed_rows(), packed)
    dsprites_file.read_file.cache_clear()
