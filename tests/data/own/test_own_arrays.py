# SPDX-License-Identifier: Apache-2.0
"""Own images from arrays, .npy and .npz, with labels: what comes in, what comes out, what is
refused and how.
"""

from __future__ import annotations

import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from unbraid.core.errors import InputError
from unbraid.data import load
from unbraid.testing.data_contract import check_dataset

GREY = np.random.default_rng(0).integers(0, 256, (6, 8, 10), dtype=np.uint8)
COLOUR = np.random.default_rng(1).integers(0, 256, (6, 9, 8, 3), dtype=np.uint8)


def message(source, /, **options):
    with pytest.raises(InputError) as caught:
        load(source, **options)
    return str(caught.value)


def test_arrays_of_bytes_are_kept_as_they_are():
    for images in (GREY, GREY[..., None], COLOUR):
        dataset = load(images)
        assert np.array_equal(
            dataset.images(np.arange(6)), images.reshape(6, *images.shape[1:3], -1)
        )
        assert (dataset.name, dataset.options, dataset.repeatable) == (
            "own",
            {"source": "array"},
            False,
        )
        assert (dataset.labelled, dataset.factor_names, dataset.factors([0, 3]).shape) == (
            False,
            (),
            (2, 0),
        )
        check_dataset(dataset)


def test_a_later_change_of_the_array_does_not_reach_the_dataset():
    images = GREY.copy()
    dataset = load(images)
    images[:] = 0
    assert np.array_equal(dataset.images(np.arange(6))[..., 0], GREY)


def test_booleans_and_floats_are_scaled():
    assert np.array_equal(load(GREY > 100).pixels[..., 0], np.where(GREY > 100, 255, 0))
    for kind in (np.float16, np.float32, np.float64):
        assert np.array_equal(load((GREY / 255).astype(kind)).pixels[..., 0], GREY)


@given(arrays(np.float32, (2, 8, 8), elements=st.floats(0, 1, width=32)))
@settings(max_examples=30, deadline=None)
def test_floats_come_back_within_half_a_grey_level(images):
    assert np.abs(load(images).pixels[..., 0] / 255.0 - images).max() <= 0.5 / 255 + 1e-6


@pytest.mark.parametrize(
    ("images", "expected"),
    [
        (
            GREY[0],
            (
                "images must have shape (n, height, width) or (n, height, width, channels); got"
                " shape (8, 10)."
            ),
        ),
        (
            np.moveaxis(COLOUR, -1, 1),
            (
                "images must have 1 or 3 channels on the last axis; got shape (6, 3, 9, 8). "
                "Channels come last: use numpy.moveaxis(images, 1, -1)."
            ),
        ),
        (
            np.zeros((4, 8, 8, 4), np.uint8),
            (
                "images must have 1 or 3 channels on the last axis; got shape (4, 8, 8, 4). Drop"
                " the transparency: images[..., :3]."
            ),
        ),
        (
            np.zeros((4, 8, 8, 2), np.uint8),
            (
                "images must have 1 or 3 channels on the last axis; got shape (4, 8, 8, 2). Keep"
                " one or three of the channels."
            ),
        ),
        (
            np.zeros((4, 7, 8), np.uint8),
            (
                "images must have sides of 8 to 512 pixels; got height 7, width 8. Set resize=64 to"
                " scale every image to 64x64."
            ),
        ),
        (
            np.zeros((2, 8, 513), np.uint8),
            (
                "images must have sides of 8 to 512 pixels; got height 8, width 513. Set resize=64"
                " to scale every image to 64x64."
            ),
        ),
        (GREY[:1], "images must hold at least 2 images; got 1."),
        (GREY[:0], "images must hold at least 2 images; got 0."),
        (
            GREY * 2.0,
            (
                "images as floats must lie in [0, 1]; got values from 0 to 510. Scale them: (images"
                " - low) / (high - low)."
            ),
        ),
        (
            np.where(GREY > 0, GREY / 255, np.nan),
            (
                f"images as floats must lie in [0, 1]; got {(GREY == 0).sum()} not finite. Replace"
                " values that are not numbers."
            ),
        ),
        (
            GREY.astype(np.int16),
            (
                "images must be uint8 (0..255), uint16, bool, or floats in [0, 1]; got dtype int16."
                " Scale them: (images * (255 / images.max())).astype(numpy.uint8)."
            ),
        ),
        (
            GREY.astype(object),
            (
                "images must be uint8 (0..255), uint16, bool, or floats in [0, 1]; got dtype"
                " object. Make them an array of numbers."
            ),
        ),
    ],
)
def test_arrays_that_are_no_images_are_refused(images, expected):
    if images.dtype == np.float64 and images.max() > 1:
        images = np.concatenate([images, np.array([[[0.0, 510.0] * 5] * 8])])
    assert message(images).startswith(expected)


@given(arrays(np.uint16, (2, 8, 8)))
@settings(max_examples=50, deadline=None)
def test_sixteen_bits_come_back_within_half_a_level(images):
    low, high = int(images.min()), int(images.max())
    found = load(images).pixels[..., 0]
    assert found.min() == 0
    assert found.max() == (255 if high > low else 0)
    assert np.abs(found / 255.0 - (images - low) / max(1.0, high - low)).max() <= 0.5 / 255 + 1e-12
    order = np.argsort(images, axis=None)
    assert (np.diff(found.flat[order].astype(int)) >= 0).all()


def test_arrays_of_16_bits_in_files(tmp_path):
    images = np.random.default_rng(4).integers(0, 5000, (3, 8, 10, 3), dtype=np.uint16)
    images[1, 2, 3] = (7, 7000, 9)
    np.save(tmp_path / "a.npy", images)
    np.save(tmp_path / "b.npy", images.astype(">u2"))
    np.savez(tmp_path / "c.npz", images=images)
    digest = load(images).fingerprint()
    for name in ("a.npy", "b.npy", "c.npz"):
        dataset = load(tmp_path / name)
        assert dataset.fingerprint() == digest
        low = int(images.min())
        assert dataset.about == [
            ("Depth", f"16-bit images were scaled to 8 bits: {low} to 0, 7,000 to 255.")
        ]
        check_dataset(dataset)
    assert load(GREY).about == []


def test_npy_and_npz_files(tmp_path):
    np.save(tmp_path / "a.npy", COLOUR)
    np.savez(tmp_path / "b.npz", images=GREY, factors=np.array([3, 1, 3, 1, 9, 9]))
    np.savez_compressed(tmp_path / "c.npz", imgs=GREY, labels=np.arange(12).reshape(6, 2))
    plain, labelled = load(tmp_path / "a.npy"), load(str(tmp_path / "b.npz"))
    assert np.array_equal(plain.pixels, COLOUR)
    assert plain.options == {"source": str(tmp_path / "a.npy")}
    assert labelled.factors(np.arange(6)).tolist() == [[1], [0], [1], [0], [2], [2]]
    assert (labelled.factor_names, labelled.factor_sizes) == (("factor_0",), (3,))
    assert [values.tolist() for values in labelled.factor_values] == [[1, 3, 9]]
    keyed = load(tmp_path / "c.npz", images="imgs", factors="labels", factor_names=["a", "b"])
    assert keyed.options == {
        "source": str(tmp_path / "c.npz"), "images": "imgs", "factors": "labels",
        "factor_names": ["a", "b"],
    }  # fmt: skip
    for dataset in (plain, labelled, keyed):
        assert dataset.repeatable
        check_dataset(dataset)


def test_wrong_keys_are_answered_with_those_there_are(tmp_path):
    path = tmp_path / "c.npz"
    np.savez(path, imgs=GREY, labels=np.arange(6))
    assert (
        message(path)
        == f"{path} must hold 'images'; got the keys imgs, labels. Name the key with images=KEY."
    )
    told = message(path, images="imgs", factors="label")
    assert (
        told
        == f"{path} must hold 'label'; got the keys imgs, labels. Name the key with factors=KEY."
    )
    expected = "images names a key of an .npz file; got 'imgs'. Leave it out for other sources."
    assert message(GREY, images="imgs") == expected


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_torn_files_pickles_and_other_files_are_refused(tmp_path, suffix):
    path = tmp_path / f"a{suffix}"
    if suffix == ".npy":
        np.save(path, GREY)
    else:
        np.savez_compressed(path, images=GREY)
    whole = path.read_bytes()
    for torn in (whole[: len(whole) // 2], whole[:5], b"", b"not a numpy file"):
        path.write_bytes(torn)
        told = message(path)
        assert told.startswith(f"{path} must ")
        assert "\n" not in told
    path.write_bytes(whole[:100])
    if suffix == ".npy":
        assert message(path).startswith(
            f"{path} must be a complete numpy file; got one that cannot be read ("
        )
    else:
        expected = (
            f"{path} must be a complete .npz (zip) file; got a file of 100 bytes that is none or"
            " was cut off. Write it again."
        )
        assert message(path) == expected
    if suffix == ".npz":
        flipped = bytearray(whole)
        flipped[len(whole) // 2] ^= 0xFF
        path.write_bytes(bytes(flipped))
        assert message(path).startswith(
            f"{path} must be a complete numpy file; got one that cannot be read ("
        )


class Trap:
    """Raises the alarm if it is ever unpickled."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was opened",))


def test_pickles_are_never_opened(tmp_path):
    trapped = np.array([Trap(), Trap()], dtype=object)
    np.save(tmp_path / "a.npy", trapped, allow_pickle=True)
    np.savez(tmp_path / "a.npz", images=trapped)
    (tmp_path / "b.npy").write_bytes(pickle.dumps(Trap()))
    (tmp_path / "b.npz").write_bytes(pickle.dumps(Trap()))
    end = "got something else. Save plain numbers with numpy.save or numpy.savez."
    for name in ("a.npy", "a.npz"):
        assert (
            message(tmp_path / name)
            == f"{tmp_path / name} must hold plain arrays; pickles are not opened; {end}"
        )
    assert message(tmp_path / "b.npy").startswith(
        f"{tmp_path / 'b.npy'} must be a complete numpy file"
    )
    assert message(tmp_path / "b.npz").startswith(
        f"{tmp_path / 'b.npz'} must be a complete .npz (zip) file"
    )


def test_other_kinds_of_file_are_refused(tmp_path):
    (tmp_path / "a.txt").write_text("hello")
    assert (
        message(tmp_path / "a.txt")
        == f"source must be a folder, an .npy or an .npz file; got {tmp_path / 'a.txt'}."
    )


@pytest.mark.parametrize(
    ("factors", "expected"),
    [
        ([0, 1], "factors must have one row for each of 6 images; got 2 rows."),
        (
            np.zeros((6, 2, 2), int),
            "factors must have shape (n,) or (n, factors); got shape (6, 2, 2).",
        ),
        (np.zeros((6, 0), int), "factors must have shape (n,) or (n, factors); got shape (6, 0)."),
        (
            [0, 1, 2.5, 3, 4, np.nan],
            (
                "factors must be whole numbers; got 2.5 in row 2, column 0 (2 such values). "
                "Number the values of each factor 0, 1, 2, ..."
            ),
        ),
        (
            list("abcabc"),
            (
                "factors must be whole numbers; got dtype <U1. Number the values of each factor 0,"
                " 1, 2, ..."
            ),
        ),
        ("nowhere.csv", "factors must be an existing .npy or .csv file; got {here}/nowhere.csv."),
    ],
)
def test_labels_that_do_not_fit_are_refused(factors, expected, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message(GREY, factors=factors).startswith(expected.format(here=tmp_path))


def test_labels_may_be_whole_floats_booleans_or_one_column():
    assert load(GREY, factors=[5.0, 5.0, -1.0, 2.0, 2.0, 2.0]).factors(
        np.arange(6)
    ).ravel().tolist() == [2, 2, 0, 1, 1, 1]
    assert load(GREY, factors=np.arange(6) > 2).factor_sizes == (2,)


def test_names_must_fit_the_columns():
    labels = np.arange(12).reshape(6, 2)
    assert load(GREY, factors=labels, factor_names="shape, size").factor_names == ("shape", "size")
    assert (
        message(GREY, factors=labels, factor_names=["a"])
        == "factor_names must name each of 2 columns; got ['a']."
    )
    expected = "factor_names must be different words, none empty; got ['a', 'a']."
    assert message(GREY, factors=labels, factor_names=["a", "a"]) == expected
    expected = 'factor_names must be a list of words; got 3. Write ["shape", "size"], for instance.'
    assert message(GREY, factors=labels, factor_names=3) == expected
    assert (
        message(GREY, factor_names=["a"])
        == "factor_names needs factors to name; got ['a']. Give factors=... too."
    )


def test_labels_in_files_follow_the_order_of_the_images(tmp_path):
    np.save(tmp_path / "labels.npy", np.arange(6) // 2)
    (tmp_path / "labels.csv").write_text("shape,size\n0,3\n1,3\n2,4\n0,4\n1,5\n2,5\n")
    assert load(GREY, factors=tmp_path / "labels.npy").factors([5]).tolist() == [[2]]
    dataset = load(GREY, factors=str(tmp_path / "labels.csv"))
    assert (dataset.factor_names, dataset.factor_sizes) == (("shape", "size"), (3, 3))
    assert dataset.factors([3]).tolist() == [[0, 1]]
    (tmp_path / "labels.csv").write_text("file,size\na,3\n")
    expected = (
        f"{tmp_path / 'labels.csv'} may name files only for a folder of images; got a column"
        " 'file'. Take the column out and put the rows in the order of the images."
    )
    assert message(GREY, factors=str(tmp_path / "labels.csv")) == expected


def test_fingerprints_cover_every_pixel_and_label(tmp_path):
    base = load(GREY, factors=[0, 0, 1, 1, 2, 2]).fingerprint()
    one_pixel = GREY.copy()
    one_pixel[3, 4, 5] ^= 1
    assert load(one_pixel, factors=[0, 0, 1, 1, 2, 2]).fingerprint() != base
    assert load(GREY, factors=[0, 0, 1, 1, 2, 1]).fingerprint() != base
    assert load(GREY, factors=[0, 0, 1, 1, 3, 3]).fingerprint() != base
    assert load(GREY).fingerprint() != base
    np.savez(tmp_path / "a.npz", images=GREY, factors=[0, 0, 1, 1, 2, 2])
    assert load(tmp_path / "a.npz").fingerprint() == base


def test_resize_scales_every_image():
    flat = np.full((3, 20, 30, 3), (10, 200, 90), np.uint8)
    dataset = load(flat, resize="16")
    assert dataset.image_shape == (16, 16, 3)
    assert (dataset.pixels == (10, 200, 90)).all()
    assert dataset.options == {"source": "array", "resize": 16}
    assert load(np.zeros((2, 600, 4), np.uint8), resize=8).image_shape == (8, 8, 1)
    assert message(GREY, resize=4) == "resize must be a whole number in 8..512; got 4."


def test_labels_that_do_not_fit_are_refused_rather_than_wrapped():
    pixels = np.zeros((2, 8, 8), dtype=np.uint8)
    labels = np.array([2**63 - 1, 2**63], dtype=np.uint64)
    with pytest.raises(InputError, match="factors must be whole numbers of at most 92233720368547"):
        load(pixels, factors=labels)


def test_a_pandas_table_of_factors_keeps_its_names():
    pixels = np.arange(2 * 64, dtype=np.uint8).reshape(2, 8, 8)
    made = load(pixels, factors=pd.DataFrame({"shape": [0, 1], "size": [1, 0]}))
    assert made.factor_names == ("shape", "size")


@pytest.mark.parametrize("kind", [torch.uint8, torch.float32, torch.bfloat16])
def test_torch_tensors_are_taken_as_arrays_are(kind: torch.dtype):
    images = GREY if kind is torch.uint8 else GREY > 100  # which bfloat16 holds
    tensor = torch.tensor(images).to(kind)
    labels = torch.arange(6) % 3
    dataset = load(tensor, factors=labels)
    assert dataset.fingerprint() == load(images, factors=np.arange(6) % 3).fingerprint()
    tensor.zero_()
    assert dataset.images([0]).any(), "the tensor is not shared"
    assert load(torch.rand(4, 8, 8, requires_grad=True)).image_shape == (8, 8, 1)


def test_masked_values_are_refused_and_not_shown():
    hidden = np.ma.masked_array(GREY, mask=GREY > 250)
    assert message(hidden).startswith("data must not have masked values")
    labels = np.ma.masked_array(np.arange(6), mask=np.arange(6) == 2)
    assert message(GREY, factors=labels).startswith("factors must not have masked values")
    assert load(np.ma.masked_array(GREY, mask=False)).fingerprint() == load(GREY).fingerprint()


def test_a_series_keeps_its_name_and_a_table_its_columns():
    table = pd.DataFrame({"size of it": np.arange(6) % 2, "größe": np.arange(6) % 3})
    assert load(GREY, factors=table).factor_names == ("size of it", "größe")
    assert load(GREY, factors=table["größe"]).factor_names == ("größe",)
    assert load(GREY, factors=pd.Series(np.arange(6))).factor_names == ("factor_0",)
    named = load(GREY, factors=table, factor_names=["a", "b"])
    assert named.factor_names == ("a", "b")
