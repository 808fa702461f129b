# SPDX-License-Identifier: Apache-2.0
"""CelebA: the published facts, a few faces in its layout, and every way in which files can be
wrong.
"""

from __future__ import annotations

import zipfile

import numpy as np
import pytest
from PIL import Image

from unbraid.data.official.celeba import SOURCE

HOW = (
    "Get img_align_celeba.zip and list_attr_celeba.txt from"
    " https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html and type: unbraid data add celeba FOLDER."
)


@pytest.fixture
def faces(small):
    return small("celeba")


@pytest.fixture
def loose(faces):
    """The images as a folder rather than the zip."""
    faces.file(0).unlink()
    return faces


def test_published_facts():
    assert SOURCE.grid.names == ("sample",)
    assert SOURCE.grid.size == 202_599
    assert len(SOURCE.factors) == 40
    assert {factor.size for factor in SOURCE.factors} == {2}
    assert (SOURCE.factor_names[0], SOURCE.factor_names[20], SOURCE.factor_names[39]) == (
        "5_o_Clock_Shadow",
        "Male",
        "Young",
    )
    assert [file.size for file in SOURCE.files] == [1_443_490_838, 26_721_026]


def test_the_middle_of_each_image_is_scaled(faces):
    assert faces.add()["verified"] == "yes"
    dataset = faces.load()
    images = dataset.images(np.arange(6))
    for nth in range(6):
        whole = Image.open(faces.folder / "img_align_celeba" / f"{nth + 1:06d}.jpg")
        middle = whole.crop((15, 35, 163, 183)).resize((64, 64), Image.Resampling.BILINEAR)
        assert np.array_equal(images[nth], np.asarray(middle))
        # The bright frame around the middle leaves at most a trace of JPEG's blocks.
        assert np.abs(images[nth, 8:-8, 8:-8].astype(int) - (30 * nth + 20)).max() <= 3
    lines = faces.file(1).read_text().splitlines()[2:]
    expected = [[int(word == "1") for word in line.split()[1:]] for line in lines]
    assert dataset.factors(np.arange(6)).tolist() == expected


def test_the_zip_and_the_folder_give_the_same(faces):
    zipped = faces.add()
    faces.file(0).unlink()
    loose = faces.add()
    assert [receipt["as_published"] for receipt in loose["files"]] == ["unknown", "yes"]
    assert (zipped["verified"], loose["verified"]) == ("yes", "unknown")
    assert loose["arrays"] == zipped["arrays"]


def test_the_published_folders_are_known(loose):
    before = loose.add()["arrays"]
    for part, name in (("Img", "img_align_celeba"), ("Anno", "list_attr_celeba.txt")):
        (loose.folder / part).mkdir()
        (loose.folder / name).rename(loose.folder / part / name)
    assert loose.add()["arrays"] == before


def test_missing_images_are_counted(loose):
    for nth in (3, 5):
        (loose.folder / "img_align_celeba" / f"{nth:06d}.jpg").unlink()
    folder = loose.folder / "img_align_celeba"
    rule = "must hold each of the 6 images that list_attr_celeba.txt names"
    assert (
        loose.refusal()
        == f"celeba file {folder} {rule}; got 2 missing, the first 000003.jpg. {HOW}"
    )


def test_images_that_are_not_aligned_ones_are_refused(loose):
    path = loose.folder / "img_align_celeba" / "000004.jpg"
    whole = path.read_bytes()
    Image.new("RGB", (178, 178)).save(path)
    assert (
        loose.refusal()
        == f"celeba file {path} must be 178x218, the size of aligned images; got 178x178. {HOW}"
    )
    path.write_bytes(whole[: len(whole) // 2])
    assert loose.refusal().startswith(
        f"celeba file {path} must be a whole JPEG image; got one that cannot be decoded ("
    )
    path.write_text("no image")
    assert loose.refusal().startswith(
        f"celeba file {path} must be a whole JPEG image; got one that cannot be decoded ("
    )


def test_a_zip_with_the_images_at_its_root_gives_the_same(faces):
    before = faces.add()["arrays"]
    with zipfile.ZipFile(faces.file(0), "w") as archive:
        for path in sorted((faces.folder / "img_align_celeba").iterdir()):
            archive.write(path, path.name)
    assert faces.add(unverified=True)["arrays"] == before


def test_a_image_that_cannot_be_read_is_named(loose):
    path = loose.folder / "img_align_celeba" / "000003.jpg"
    path.unlink()
    start = f"celeba file {path} must be readable to its end; got one that cannot be read"
    path.mkdir()
    assert loose.refusal() == f"{start} ([Errno 21] Is a directory: '000003.jpg'). {HOW}"
    path.rmdir()
    path.symlink_to("nowhere.jpg")
    assert loose.refusal() == f"{start} ([Errno 2] No such file or directory: '000003.jpg'). {HOW}"


def test_a_image_that_would_fill_the_memory_is_not_unpacked(faces):
    folder = faces.folder / "img_align_celeba"
    large = b"\0" * (16 * 2**20 + 1)
    with zipfile.ZipFile(faces.file(0), "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.iterdir()):
            archive.writestr(
                f"img_align_celeba/{path.name}",
                large if path.stem == "000002" else path.read_bytes(),
            )
    rule = "must have at most 16,777,216 bytes"
    assert (
        faces.refusal()
        == f"celeba file {faces.file(0) / '000002.jpg'} {rule}; got 16,777,217. {HOW}"
    )
    faces.file(0).unlink()
    (folder / "000002.jpg").write_bytes(large)
    assert faces.refusal() == f"celeba file {folder / '000002.jpg'} {rule}; got more. {HOW}"


def test_a_damaged_zip_is_refused(faces):
    whole = bytearray(faces.file(0).read_bytes())
    start = (
        f"celeba file {faces.file(0)} must be readable to its end; got one that cannot be read ("
    )
    faces.file(0).write_bytes(bytes(whole[:-100]))
    assert faces.refusal() == f"{start}File is not a zip file). {HOW}"
    with zipfile.ZipFile(faces.folder / "again.zip", "w") as archive:
        archive.writestr("img_align_celeba/000001.jpg", "x")
    (faces.folder / "again.zip").replace(faces.file(0))
    rule = "must hold each of the 6 images that list_attr_celeba.txt names"
    assert (
        faces.refusal()
        == f"celeba file {faces.file(0)} {rule}; got 5 missing, the first 000002.jpg. {HOW}"
    )
    whole[len(whole) // 3] ^= 0xFF
    faces.file(0).write_bytes(bytes(whole))
    assert "CRC" in faces.refusal()


def test_wrong_attributes_are_refused_even_unverified(loose):
    path = loose.file(1)
    lines = path.read_text().splitlines()
    start = f"celeba file {path} must"

    def told(changed):
        path.write_text("\n".join(changed) + "\n")
        return loose.refusal()

    assert told(["7", *lines[1:]]) == f"{start} begin with the number of images, 6; got '7'. {HOW}"
    assert told([]) == f"{start} begin with the number of images, 6; got ''. {HOW}"
    named = lines[1].replace("Bald Bangs", "Bangs Bald")
    assert (
        told([lines[0], named, *lines[2:]])
        == f"{start} name 40 attributes in the published order; got Bangs. {HOW}"
    )
    assert (
        told(lines[:1]) == f"{start} name 40 attributes in the published order; got 0 names. {HOW}"
    )
    assert told(lines[:-1]) == f"{start} have 6 lines of attributes; got 5. {HOW}"
    assert (
        told([*lines[:4], lines[5], lines[4], *lines[6:]])
        == f"{start} name 000003.jpg in line 5; got '000004.jpg'. {HOW}"
    )
    rule = "have a file name and 40 values of 1 or -1 in line 5"
    assert (
        told([*lines[:4], "000003.jpg 1 1", *lines[5:]])
        == f"{start} {rule}; got '000003.jpg 1 1'. {HOW}"
    )
    assert told([*lines[:4], lines[4].replace(" -1", "  0"), *lines[5:]]).startswith(
        f"{start} {rule}; got '000003.jpg"
    )


def test_a_image_in_place_of_the_folder_is_refused(loose):
    path = loose.file(1)
    assert (
        loose.refusal(path)
        == f"celeba file {path} must be the folder with img_align_celeba.zip, list_attr_celeba.txt;"
        f" got a single file. Give the folder that it lies in, {loose.folder}."
    )
