# SPDX-License-Identifier: Apache-2.0
"""Cars3D: the published facts, small .mat files and the archive of them, and every way in which
files can be wrong.
"""

from __future__ import annotations

import gzip

import numpy as np
import pytest
import scipy.io
from PIL import Image
from scipy.io import loadmat, savemat

from unbraid.data.official.cars3d import SOURCE

HOW = (
    "Get nips2015-analogy-data.tar.gz from"
    " http://www.scottreed.info/files/nips2015-analogy-data.tar.gz and type: unbraid data add"
    " cars3d nips2015-analogy-data.tar.gz."
)


@pytest.fixture
def cars(small):
    return small("cars3d")


def test_published_facts():
    assert SOURCE.grid.names == ("elevation", "azimuth", "object")
    assert SOURCE.grid.sizes == (4, 24, 183)
    assert SOURCE.grid.size == 17_568
    assert SOURCE.files[0].checksum == ("md5", "4e866a7919c1beedf53964e6f7a23686")


def test_objects_are_numbered_in_the_order_of_their_names(cars):
    record = cars.add(cars.folder / "cars")
    assert record["verified"] == "unknown"
    assert record["files"] == [
        {"file": "cars/*.mat", "size": None, "sha256": None, "as_published": "unknown"}
    ]
    dataset = cars.load()
    for nth, name in enumerate(["car_001_mesh.mat", "car_004_mesh.mat"]):
        im = loadmat(cars.folder / "cars" / name)["im"]
        for elevation, azimuth in np.ndindex(2, 3):
            scaled = Image.fromarray(np.ascontiguousarray(im[..., azimuth, elevation])).resize(
                (64, 64), Image.Resampling.LANCZOS
            )
            place = dataset.grid.to_index([[elevation, azimuth, nth]])
            assert np.array_equal(dataset.images(place)[0], np.asarray(scaled))


def test_the_archive_and_the_folder_give_the_same(cars):
    from_folder = cars.add(cars.folder / "cars")
    from_archive = cars.add(cars.file())
    assert from_archive["verified"] == "yes"
    assert from_archive["arrays"] == from_folder["arrays"]
    cars.file().unlink()
    assert cars.add(cars.folder)["arrays"] == from_folder["arrays"]


def test_a_missing_car_is_noticed(cars):
    (cars.folder / "cars" / "car_004_mesh.mat").unlink()
    path = cars.folder / "cars"
    expected = f"cars3d file {path} must hold 2 .mat files, one for each car; got 1. {HOW}"
    assert cars.refusal(path) == expected
    (path / "car_001_mesh.mat").unlink()
    rule = "must be nips2015-analogy-data.tar.gz or the folder of its car_*_mesh.mat files"
    assert cars.refusal(path) == f"cars3d file {path} {rule}; got a folder without any. {HOW}"


def test_wrong_arrays_are_refused(cars):
    path = cars.folder / "cars" / "car_001_mesh.mat"
    im = loadmat(path)["im"]
    start = f"cars3d file {path} must"
    savemat(path, {"image": im})
    assert cars.refusal(path.parent) == f"{start} hold 'im'; got no such array. {HOW}"
    savemat(path, {"im": im[:, :, :, :2]})
    shape = "(128, 128, 3, 3, 2)"
    assert (
        cars.refusal(path.parent)
        == f"{start} hold 'im' as uint8 {shape}; got uint8 (128, 128, 3, 2, 2). {HOW}"
    )
    savemat(path, {"im": im.astype(np.float64)})
    assert (
        cars.refusal(path.parent)
        == f"{start} hold 'im' as uint8 {shape}; got float64 (128, 128, 3, 3, 2). {HOW}"
    )


def test_the_size_is_known_before_anything_is_unpacked(cars, monkeypatch):
    path = cars.folder / "cars" / "car_001_mesh.mat"
    im = loadmat(path)["im"]
    loaded = []
    monkeypatch.setattr(scipy.io, "loadmat", lambda *given, **options: loaded.append(1))
    start = f"cars3d file {path} must"
    # 200 MB that compress to 200 KB; as `im` it is known by its header, as anything else it is
    # never made.
    savemat(path, {"im": np.zeros((128, 128, 3, 3, 1400), np.uint8)}, do_compression=True)
    told = cars.refusal(path.parent)
    assert told == f"{start} unpack to at most 67,108,864 bytes; got more. {HOW}"
    savemat(path, {"im": np.zeros((128, 128, 3, 3, 2, 2), np.uint8)}, do_compression=True)
    told = cars.refusal(path.parent)
    assert (
        told == f"{start} hold 'im' as uint8 (128, 128, 3, 3, 2); got uint8 (128, 128, 3, 3, 2, 2)."
        f" {HOW}"
    )
    savemat(path, {"im": im, "other": np.zeros(10**8, np.uint8)}, do_compression=True)
    assert (
        cars.refusal(path.parent) == f"{start} unpack to at most 67,108,864 bytes; got more. {HOW}"
    )
    assert loaded == []


@pytest.mark.parametrize("share", [0.0, 0.02, 0.1, 0.5, 0.99])
def test_a_truncated_car_is_refused(cars, share):
    path = cars.folder / "cars" / "car_004_mesh.mat"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    told = cars.refusal(path.parent)
    assert told.startswith(
        f"cars3d file {path} must be a whole MATLAB 5 file; got one that cannot be read ("
    )
    assert told.endswith(HOW)


def test_a_damaged_archive_is_refused(cars):
    whole = cars.file().read_bytes()
    start = f"cars3d file {cars.file()} must be readable to its end; got one that cannot be read ("
    for content in (whole[: len(whole) // 2], whole[:100], b"", b"not an archive" * 100):
        cars.file().write_bytes(content)
        assert cars.refusal(cars.file()).startswith(start)
    cars.file().write_bytes(gzip.compress(b"\0" * 10240))
    assert (
        cars.refusal(cars.file())
        == f"cars3d file {cars.file()} must hold 2 .mat files, one for each car; got 0. {HOW}"
    )
