# SPDX-License-Identifier: Apache-2.0
"""Fashion-MNIST: the real files, a small set in their format, and every way in which files can be
wrong.
"""

from __future__ import annotations

import gzip
import hashlib
import struct
from dataclasses import replace

import numpy as np
import pytest

from unbraid.core.errors import InputError
from unbraid.data import load
from unbraid.data.official.add import add
from unbraid.data.official.fashion_mnist import SOURCE, FashionMNIST
from unbraid.testing.official_files import idx

HOW = (
    "Get its four files from https://github.com/zalandoresearch/fashion-mnist and type: unbraid"
    " data add fashion_mnist FOLDER. The Debian package dataset-fashion-mnist is found by itself."
)
NAMES = (
    "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte,"
    " t10k-labels-idx1-ubyte"
)


@pytest.fixture
def clothes(small):
    return small("fashion_mnist")


def test_the_real_files(shared, tmp_path, monkeypatch):
    monkeypatch.setenv("UNBRAID_DATA", str(tmp_path))
    record = add("fashion_mnist", shared / "data" / "fashion_mnist", quiet=True)
    assert record["verified"] == "yes"
    dataset = load("fashion_mnist")
    assert (len(dataset), dataset.image_shape) == (70_000, (28, 28, 1))
    assert (dataset.factor_names, dataset.factor_sizes) == (("category",), (10,))
    categories = dataset.factors(np.arange(70_000))[:, 0]
    assert np.bincount(categories[:60_000]).tolist() == [6000] * 10
    assert np.bincount(categories[60_000:]).tolist() == [1000] * 10
    # The first training label is an ankle boot; the test set begins ankle boot, pullover, trouser,
    # trouser.
    assert categories[:10].tolist() == [9, 0, 0, 3, 0, 2, 7, 2, 5, 5]
    assert categories[60_000:60_004].tolist() == [9, 2, 1, 1]
    first = dataset.images([0, 1, 60_000])
    assert (
        hashlib.sha256(first.tobytes()).hexdigest()
        == "1322bd23c1f94ba4a258ff2e2acdfa9f8b22fbd20fa1458fcca77eb461695591"
    )
    assert float(dataset.planes[:60_000].mean() / 255) == pytest.approx(0.2860, abs=5e-5)


def test_the_debian_package_is_found_by_itself(shared, tmp_path, monkeypatch):
    monkeypatch.setenv("UNBRAID_DATA", str(tmp_path / "home"))
    assert SOURCE.places == ("/usr/share/datasets/fashion-mnist",)
    monkeypatch.setattr(
        FashionMNIST, "source", replace(SOURCE, places=(str(shared / "data" / "fashion_mnist"),))
    )
    dataset = load("fashion_mnist")
    assert dataset.factors([0, 60_001]).tolist() == [[9], [2]]
    assert not (tmp_path / "home").exists()
    add("fashion_mnist", quiet=True)
    assert load("fashion_mnist").fingerprint() == dataset.fingerprint()


def test_gzipped_and_plain_files_are_the_same(clothes):
    clothes.add()
    packed = clothes.load().fingerprint()
    for path in clothes.folder.glob("*.gz"):
        path.with_suffix("").write_bytes(gzip.decompress(path.read_bytes()))
        path.unlink()
    assert clothes.add()["verified"] == "yes"
    assert clothes.load().fingerprint() == packed
    with clothes.file(2).open("rb") as stream:
        stream.seek(16)
        last = np.frombuffer(stream.read(), np.uint8).reshape(-1, 28, 28)[-1]
    assert np.array_equal(clothes.load().images([13])[0, ..., 0], last)


def test_gzipped_content_under_a_plain_name_is_known_by_its_bytes(clothes):
    clothes.add()
    packed = clothes.load().fingerprint()
    for path in clothes.folder.glob("*.gz"):
        path.rename(path.with_suffix(""))
    assert clothes.add()["verified"] == "yes"
    assert clothes.load().fingerprint() == packed


def test_without_a_file_or_package_one_is_asked_for(clothes):
    with pytest.raises(InputError) as caught:
        add("fashion_mnist")
    assert str(caught.value) == f"fashion_mnist file must be given; got none. {HOW}"


def test_missing_files_and_a_single_file_are_refused(clothes):
    clothes.file(1).unlink()
    clothes.file(2).unlink()
    missing = "train-labels-idx1-ubyte, t10k-images-idx3-ubyte"
    expected = (
        f"fashion_mnist file {clothes.folder} must be a folder that holds {NAMES}; got one without"
        f" {missing}. {HOW}"
    )
    assert clothes.refusal() == expected
    path = clothes.file(0)
    assert (
        clothes.refusal(path)
        == f"fashion_mnist file {path} must be the folder with {NAMES}; got a single file."
        f" Give the folder that it lies in, {clothes.folder}."
    )


def rewrite(clothes, nth, content):
    clothes.file(nth).write_bytes(gzip.compress(content, 1))


def test_wrong_content_is_refused_even_unverified(clothes):
    images, labels = (gzip.decompress(clothes.file(nth).read_bytes()) for nth in (0, 1))
    start = f"fashion_mnist file {clothes.file(0)} must"
    rewrite(clothes, 0, labels)
    assert (
        clothes.refusal()
        == f"{start} begin with 2051, the mark of idx images; got 2049, that of labels. {HOW}"
    )
    rewrite(clothes, 0, b"\x00\x00")
    assert (
        clothes.refusal()
        == f"{start} hold its header (magic number, count, height and width) completely; got a file"
        f" that ends 14 bytes early. {HOW}"
    )
    rewrite(clothes, 0, idx(np.zeros((10, 32, 28), np.uint8)))
    assert clothes.refusal() == f"{start} hold images of 28x28; got 32x28. {HOW}"
    rewrite(clothes, 0, idx(np.zeros((9, 28, 28), np.uint8)))
    assert (
        clothes.refusal()
        == f"{start} hold 10 images, as many as train-labels-idx1-ubyte.gz has labels; got 9. {HOW}"
    )
    rewrite(clothes, 0, images[:-5])
    assert (
        clothes.refusal()
        == f"{start} hold its images completely; got a file that ends 5 bytes early. {HOW}"
    )
    rewrite(clothes, 0, images + b"12")
    assert clothes.refusal() == f"{start} end after the last image; got further bytes. {HOW}"
    rewrite(clothes, 0, images)
    start = f"fashion_mnist file {clothes.file(1)} must"
    rewrite(clothes, 1, labels[:-1] + b"\x0a")
    assert clothes.refusal() == f"{start} have labels in 0..9; got 10 for image 9. {HOW}"
    rewrite(clothes, 1, struct.pack(">2i", 2049, 2**30) + b"1")
    assert clothes.refusal() == f"{start} hold at most 14 labels; got 1,073,741,824. {HOW}"


def test_a_corrupt_gzip_is_refused(clothes):
    whole = bytearray(clothes.file(0).read_bytes())
    start = (
        f"fashion_mnist file {clothes.file(0)} must be readable to its end; got one that cannot be"
        " read"
    )
    clothes.file(0).write_bytes(bytes(whole[: len(whole) // 2]))
    told = f"{start} (Compressed file ended before the end-of-stream marker was reached). {HOW}"
    assert clothes.refusal() == told
    assert clothes.refusal(unverified=False) == told
    whole[len(whole) // 2] ^= 0xFF
    clothes.file(0).write_bytes(bytes(whole))
    assert clothes.refusal().startswith(f"{start} (")


def test_other_content_needs_unverified(clothes):
    rewrite(clothes, 3, idx(np.array([1, 2, 3, 4], np.uint8)))
    wanted = clothes.source.files[3]
    found = hashlib.sha256(idx(np.array([1, 2, 3, 4], np.uint8))).hexdigest()
    assert (
        clothes.refusal(unverified=False)
        == f"fashion_mnist file {clothes.file(3)} must have the published sha256 {wanted.sha256};"
        f" got {found}. Get it again from {wanted.link}, or take it as it is with unverified=True."
    )
    record = clothes.add(unverified=True)
    assert record["verified"] == "no"
    assert [receipt["as_published"] for receipt in record["files"]] == ["yes", "yes", "yes", "no"]
    assert clothes.load().factors([10, 11, 12, 13])[:, 0].tolist() == [1, 2, 3, 4]
