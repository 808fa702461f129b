# SPDX-License-Identifier: Apache-2.0
"""Own images from a folder: order, modes, labels, and every kind of file that spoils it."""

from __future__ import annotations

import struct
import zlib
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile

from unbraid.commands.options import remark_on
from unbraid.core.errors import InputError
from unbraid.data import load
from unbraid.data.info import describe
from unbraid.data.own.image_folder import natural_order
from unbraid.testing.data_contract import check_dataset

GREY = np.random.default_rng(0).integers(0, 256, (12, 16, 16), dtype=np.uint8)
DEEP = np.random.default_rng(2).integers(112, 40212, (5, 16, 16), dtype=np.uint16)
DEEP[2, 3, 4], DEEP[4, 0, 0] = 112, 40211


def message(source, /, **options):
    with pytest.raises(InputError) as caught:
        load(source, **options)
    return str(caught.value)


@pytest.fixture
def folder(tmp_path):
    """Twelve grey images, img0.png to img11.png."""
    for nth, image in enumerate(GREY):
        Image.fromarray(image).save(tmp_path / f"img{nth}.png")
    return tmp_path


def test_images_come_in_natural_order(folder):
    dataset = load(folder)
    assert np.array_equal(dataset.pixels[..., 0], GREY)
    assert (dataset.name, dataset.options) == ("own", {"source": str(folder)})
    check_dataset(dataset)
    names = ["b1", "a10b2", "a10b10", "a2", "B"]
    assert sorted(names, key=natural_order) == ["B", "a2", "a10b2", "a10b10", "b1"]


def test_a_folder_equals_the_array_of_its_images(folder):
    assert load(folder).fingerprint() == load(GREY).fingerprint()


def test_modes_are_brought_to_grey_or_rgb(tmp_path):
    colour = np.random.default_rng(1).integers(0, 256, (8, 8, 3), dtype=np.uint8)
    image = Image.fromarray(colour)
    image.save(tmp_path / "a.png")
    Image.fromarray(GREY[0, :8, :8]).save(tmp_path / "b.bmp")
    image.convert("RGBA").save(tmp_path / "c.png")
    few = Image.fromarray(colour // 128 * 128)
    few.convert("P", palette=Image.Palette.ADAPTIVE, colors=8).save(tmp_path / "d.gif")
    Image.fromarray(GREY[0, :8, :8] > 99).save(tmp_path / "e.tif")
    image.save(tmp_path / "F.WEBP", lossless=True)
    pixels = load(tmp_path).pixels
    assert pixels.shape == (6, 8, 8, 3)
    expected = [
        colour,
        colour,
        GREY[0, :8, :8, None],
        colour,
        colour // 128 * 128,
        np.where(GREY[0, :8, :8, None] > 99, 255, 0),
    ]
    for found, image in zip(pixels, expected, strict=True):
        assert np.array_equal(found, np.broadcast_to(image, (8, 8, 3)))


def test_files_of_the_system_are_passed_over_and_others_named(folder):
    for name in (
        ".DS_Store",
        "Thumbs.db",
        "desktop.ini",
        "Desktop.ini",
        "ehthumbs.db",
        "Icon\r",
        "._img0.png",
    ):
        (folder / name).write_text("x")
    for name in ("@eaDir", "__MACOSX", "System Volume Information", ".thumbnails"):
        (folder / name).mkdir()
        (folder / name / "img0.png").write_text("x")
    assert np.array_equal(load(folder).pixels[..., 0], GREY)
    (folder / "notes.txt").write_text("x")
    (folder / "more").mkdir()
    kinds = ".png, .jpg, .jpeg, .bmp, .gif, .tif, .tiff, .webp"
    assert message(folder).splitlines() == [
        (
            f"folder {folder} must hold images only, without folders inside; got 'more'. Move the"
            " images up."
        ),
        (
            f"folder {folder} must hold only images ({kinds}) and factors.csv; got 'notes.txt'."
            " Move the file elsewhere."
        ),
    ]


def test_an_empty_folder_and_a_single_image_are_refused(tmp_path):
    assert message(tmp_path).startswith(f"folder {tmp_path} must hold at least 2 images; got 0.")
    Image.fromarray(GREY[0]).save(tmp_path / "a.png")
    assert message(tmp_path).startswith(f"folder {tmp_path} must hold at least 2 images; got 1.")


def test_mixed_sizes_name_two_files_and_the_remedy_works(folder):
    Image.fromarray(np.zeros((9, 20), np.uint8)).save(folder / "img5.png")
    expected = (
        "images must all have one size; got 'img0.png' of 16x16 and 'img5.png' of 20x9 pixels. "
        "Set resize=64 to scale every image to 64x64."
    )
    assert message(folder) == expected
    dataset = load(folder, resize=64)
    assert dataset.pixels.shape == (12, 64, 64, 1)
    check_dataset(dataset)


@pytest.mark.parametrize("kind", ["png", "jpg", "bmp", "gif", "tif", "webp"])
@pytest.mark.parametrize("lenient", [False, True])
def test_a_truncated_image_is_named_even_where_pillow_was_told_to_be_lenient(
    folder, kind, lenient, monkeypatch
):
    monkeypatch.setattr(ImageFile, "LOAD_TRUNCATED_IMAGES", lenient)
    bad = folder / f"zz.{kind}"
    Image.fromarray(GREY[0]).save(bad)
    assert len(load(folder)) == 13
    bad.write_bytes(bad.read_bytes()[: bad.stat().st_size * 2 // 3])
    told = message(folder)
    assert told.startswith(
        f"zz.{kind} must be a whole, readable image; got a file that cannot be decoded ("
    )
    assert told.endswith("). Write it again or remove it.")
    assert ImageFile.LOAD_TRUNCATED_IMAGES is lenient


def test_a_flipped_bit_in_a_png_is_noticed(folder):
    data = bytearray((folder / "img3.png").read_bytes())
    data[len(data) // 2] ^= 1
    (folder / "img3.png").write_bytes(bytes(data))
    assert message(folder).startswith(
        "img3.png must be a whole, readable image; got a file that cannot be decoded ("
    )


def test_all_problems_are_told_up_to_ten(folder):
    for nth in range(12):
        (folder / f"img{nth}.png").write_text("no image")
    lines = message(folder).splitlines()
    assert len(lines) == 11
    assert (
        lines[1]
        == "img1.png must be a whole, readable image; got a file that cannot be decoded (cannot"
        " identify image file 'img1.png'). Write it again or remove it."
    )
    assert lines[-1] == "And 2 more such problems."


def test_depth_transparency_frames_and_colour_spaces_that_would_lose_something(tmp_path):
    Image.fromarray(GREY[0].astype(np.float32)).save(tmp_path / "a32.tif")
    Image.fromarray(GREY[0].astype(np.int32)).save(tmp_path / "a33.tif")
    alpha = np.full((16, 16, 4), 255, np.uint8)
    alpha[:4, :, 3] = 7
    Image.fromarray(alpha).save(tmp_path / "b.png")
    frames = [Image.fromarray(image) for image in GREY[:3]]
    frames[0].save(tmp_path / "c.gif", save_all=True, append_images=frames[1:])
    Image.new("CMYK", (16, 16)).save(tmp_path / "d.jpg")
    Image.fromarray(GREY[0]).save(tmp_path / "e.png", transparency=int(GREY[0, 0, 0]))
    Image.new("L", (600, 16)).save(tmp_path / "f.png")
    share = (GREY[0] == GREY[0, 0, 0]).mean()
    assert message(tmp_path).splitlines() == [
        *(
            f"{name} must have 8 or unsigned 16 bits a channel; got mode {mode}. Scale the values"
            " of all images to 0..65535 and save them with 16 bits, or give them as a float array"
            " in [0, 1]."
            for name, mode in (("a32.tif", "F"), ("a33.tif", "I"))
        ),
        (
            "b.png must not be transparent; got 25.0% of its pixels transparent. Paint it on a"
            " background and save it as RGB."
        ),
        "c.gif must hold one image; got 3 frames. Save the frames as single files.",
        "d.jpg must be grey or RGB; got mode CMYK. Convert it to RGB and save it again.",
        (
            f"e.png must not be transparent; got {share:.1%} of its pixels transparent. Paint it on"
            " a background and save it as RGB."
        ),
        (
            "f.png must have sides of 8 to 512 pixels; got height 16, width 600. Set resize=64 to"
            " scale every image to 64x64."
        ),
    ]


def deep_folder(folder: Path, suffixes: tuple[str, ...] = ("png", "tif")) -> Path:
    """The images of DEEP in a folder, in turn as PNG, as TIFF and so on."""
    folder.mkdir(exist_ok=True)
    for nth, image in enumerate(DEEP):
        Image.fromarray(image).save(folder / f"{nth}.{suffixes[nth % len(suffixes)]}")
    return folder


def by_hand(values: np.ndarray, low: int, high: int) -> list[int]:
    """The stated rule in exact fractions, halves rounded up."""
    return [
        (Fraction(255 * (int(value) - low), high - low) + Fraction(1, 2)).__floor__()
        for value in values.flat
    ]


def test_sixteen_bits_are_scaled_by_one_rule_for_all(tmp_path):
    dataset = load(deep_folder(tmp_path / "deep"))
    assert dataset.pixels.shape == (5, 16, 16, 1)
    assert dataset.pixels.ravel().tolist() == by_hand(DEEP, 112, 40211)
    assert dataset.about == [
        ("Depth", "16-bit images were scaled to 8 bits: 112 to 0, 40,211 to 255.")
    ]
    check_dataset(dataset)  # loads it again and compares
    assert dataset.fingerprint() == load(DEEP).fingerprint()
    shown = describe(str(tmp_path / "deep")).splitlines()
    assert "depth        16-bit images were scaled to 8 bits: 112 to 0, 40,211 to 255." in shown


def test_images_of_one_value_each_keep_their_order_of_brightness(tmp_path):
    for nth, value in enumerate((1000, 2000, 1500)):
        Image.fromarray(np.full((8, 8), value, np.uint16)).save(tmp_path / f"{nth}.png")
    assert load(tmp_path).pixels[:, 0, 0, 0].tolist() == [0, 255, 128]
    for nth in range(3):
        Image.fromarray(np.full((8, 8), 1000, np.uint16)).save(tmp_path / f"{nth}.png")
    dataset = load(tmp_path)
    assert not dataset.pixels.any()
    assert dataset.about == [("Depth", "16-bit images were scaled to 8 bits: 1,000 to 0.")]


def test_sixteen_bits_of_either_byte_order_and_compressed(tmp_path):
    deep_folder(tmp_path, ("tif",))
    Image.fromarray(DEEP[1].astype(">u2")).save(tmp_path / "1.tif")
    assert (tmp_path / "1.tif").read_bytes()[:2] == b"MM"
    Image.fromarray(DEEP[3]).save(tmp_path / "3.tif", compression="tiff_lzw")
    assert load(tmp_path).fingerprint() == load(DEEP).fingerprint()


def test_sixteen_bits_are_scaled_before_the_size(tmp_path):
    deep_folder(tmp_path)
    small = load(tmp_path, resize=8)
    assert small.fingerprint() == load(load(DEEP).pixels, resize=8).fingerprint()
    assert small.fingerprint() == load(DEEP, resize=8).fingerprint()
    assert small.about[:1] == load(tmp_path).about
    Image.fromarray(np.full((30, 600), 112, np.uint16)).save(tmp_path / "large.png")
    assert load(tmp_path, resize=8).about[:1] == small.about[:1]


def test_files_of_8_and_of_16_bits_are_refused_by_one_message(tmp_path):
    deep_folder(tmp_path)
    for nth in range(3):
        Image.fromarray(GREY[nth]).save(tmp_path / f"b{nth}.png")
    mixed = (
        "images must all have the same depth; got '{}' with {} bits and '{}' with {} bits. Save all"
        " of them in one way."
    )
    assert message(tmp_path) == mixed.format("0.png", 16, "b0.png", 8)
    (tmp_path / "0.png").unlink()
    Image.fromarray(GREY[0]).save(tmp_path / "0.png")
    assert message(tmp_path) == mixed.format("0.png", 8, "1.tif", 16)


def test_what_else_is_wrong_with_16_bit_files_is_told_too(tmp_path):
    deep_folder(tmp_path)
    (tmp_path / "0.png").write_text("no image")
    torn = tmp_path / "3.tif"
    torn.write_bytes(torn.read_bytes()[:300])
    Image.fromarray(DEEP[4]).save(tmp_path / "4.png", transparency=int(DEEP[4, 0, 0]))
    lines = message(tmp_path).splitlines()
    assert [line.split()[0] for line in lines] == ["0.png", "3.tif", "4.png"]
    assert all(
        "must be a whole, readable image; got a file that cannot be decoded (" in line
        for line in lines[:2]
    )
    share = (DEEP[4] == DEEP[4, 0, 0]).mean()
    assert (
        lines[2]
        == f"4.png must not be transparent; got {share:.1%} of its pixels transparent. Paint it on"
        " a background and save it as RGB."
    )


def save_colour_png(values: np.ndarray, path: Path) -> None:
    """A PNG with 16 bits in each of three channels, which Pillow does not write."""
    height, width, _ = values.shape
    lines = b"".join(b"\0" + line.astype(">u2").tobytes() for line in values)
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines)),
        (b"IEND", b""),
    )
    packed = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    ]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(packed))


def test_of_colour_with_16_bits_the_upper_8_are_used_and_that_is_told(tmp_path):
    colour = np.random.default_rng(3).integers(0, 2**16, (3, 8, 9, 3), dtype=np.uint16)
    for nth, image in enumerate(colour):
        save_colour_png(image, tmp_path / f"{nth}.png")
    dataset = load(tmp_path)
    assert np.array_equal(dataset.pixels, colour >> 8)
    assert dataset.about == [
        ("Depth", "Of 16 bits a channel the upper 8 were used: 0 to 0, 65,535 to 255.")
    ]
    Image.fromarray(colour[0, ..., 0]).save(tmp_path / "grey.png")
    assert (
        message(tmp_path)
        == "images must all have the same depth; got '0.png' with several channels of 16 bits and"
        " 'grey.png' with 16 bits. Save all of them in one way."
    )


def test_images_of_8_bits_have_nothing_to_tell_of_their_depth(folder):
    assert load(folder).about == []
    Image.fromarray(GREY[0]).convert("RGB").save(folder / "img0.png")
    assert load(folder).about == []


def test_factors_csv_labels_the_images(folder):
    rows = [f"img{nth}.png,{nth % 3},{10 * (nth // 6)}" for nth in reversed(range(12))]
    (folder / "factors.csv").write_text(
        "\n".join(["file,shape,size", *rows]) + "\n", encoding="utf-8-sig"
    )
    dataset = load(folder)
    assert (dataset.factor_names, dataset.factor_sizes) == (("shape", "size"), (3, 2))
    assert dataset.factors(np.arange(12)).tolist() == [[nth % 3, nth // 6] for nth in range(12)]
    assert dataset.factor_values[1].tolist() == [0, 10]
    check_dataset(dataset)


def test_labels_elsewhere_are_found_by_their_path(folder, tmp_path_factory):
    table = tmp_path_factory.mktemp("labels") / "mine.csv"
    table.write_text("file,shape\n" + "".join(f"img{nth}.png,{nth}\n" for nth in range(12)))
    dataset = load(folder, factors=str(table))
    assert dataset.options == {"source": str(folder), "factors": str(table)}
    check_dataset(dataset)


def test_what_is_wrong_with_factors_csv_is_told_line_by_line(folder):
    path = folder / "factors.csv"
    path.write_text(
        "file,shape\n"
        + "".join(f"img{nth}.png,{nth}\n" for nth in range(11))
        + "img3.png,1\nimg99.png,0\n"
    )
    assert message(folder).splitlines() == [
        f"line 13 of {path} may name each image once, but line 5 has it too; got 'img3.png'.",
        f"line 14 of {path} must name an image of the folder; got 'img99.png'. Put that image"
        " there, or take the line out.",
        f"{path} must have a row for every image; got none for 'img11.png'. Add a line for it, or"
        " take the image out.",
    ]
    path.write_text(
        "file,shape\n"
        + "".join(f"img{nth}.png,{nth}\n" for nth in range(10))
        + "img11.png,red\nimg10.png,1.5\n"
    )
    assert message(folder).splitlines() == [
        f"line 13 of {path}, 'shape' must be a whole number; got '1.5'.",
        f"line 12 of {path}, 'shape' must be a whole number; got 'red'.",
    ]
    path.write_text("file,shape\nimg0.png,1,2\nimg1.png\n")
    assert [
        line.split(" must have 2 values; got ")[0] for line in message(folder).splitlines()
    ] == [
        f"line 2 of {path}",
        f"line 3 of {path}",
    ]
    path.write_text("name,shape\nimg0.png,1\n")
    expected = (
        f"{path} must have `file` as first column, then factors; got name,shape. Write a header"
        " such as: file,shape,size."
    )
    assert message(folder) == expected
    path.write_text("file,shape\n")
    assert message(folder) == f"{path} must have a row for each image; got none. Add them."
    path.write_bytes(b"file,shape\n\xff\xfe\x00,1\n")
    assert message(folder).startswith(f"{path} must be a comma-separated text file in UTF-8; got ")


def test_labels_that_are_a_folder_are_not_passed_over(tmp_path):
    Image.fromarray(np.zeros((8, 8), np.uint8)).save(tmp_path / "a.png")
    (tmp_path / "factors.csv").mkdir()
    with pytest.raises(InputError, match=r"factors\.csv must be a file"):
        load(tmp_path)


def test_images_that_are_stretched_are_told_once(tmp_path, capsys):
    wide, square = tmp_path / "wide", tmp_path / "square"
    for folder, size in ((wide, (48, 32)), (square, (48, 48))):
        folder.mkdir()
        for number in range(3):
            grey = np.full(size[::-1], 40 * number, np.uint8)
            Image.fromarray(grey).save(folder / f"{number}.png")
    told = (
        "Images of 32 × 48 pixels were stretched to 16 × 16, which changes the shape of what they"
        " show: cut them to squares first to keep it."
    )
    assert load(wide, resize=16).about == [("Shape", told)]
    assert load(np.stack([np.zeros((32, 48), np.uint8)] * 2), resize=16).about == [("Shape", told)]
    assert load(wide).about == load(square, resize=16).about == load(square).about == []
    remark_on(load(wide, resize=16), quiet=False)
    assert capsys.readouterr().err == told + "\n"
    remark_on(load(wide, resize=16), quiet=True)
    remark_on(load(square, resize=16), quiet=False)
    assert capsys.readouterr().err == ""
