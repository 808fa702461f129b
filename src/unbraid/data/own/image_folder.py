# SPDX-License-Identifier: Apache-2.0
"""A folder of image files as one uint8 array; whatever cannot be used is named.

Files are taken in natural order of their names: runs of digits compare as numbers, so img2.png
comes before img10.png. Grey images of 16 bits are read twice: first for the range of their values,
then scaled to 8 bits by it (`image_depth`), and then to size.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unbraid.core.checks import raise_shortened
from unbraid.core.errors import InputError, Problem, Problems, Shown, invalid
from unbraid.data.own.image_arrays import FEWEST_IMAGES, SMALLEST_SIDE, check_sides
from unbraid.data.own.image_depth import UPPER_BITS, WHOLE_RANGE, Depth, ValueRange, depth_of

if TYPE_CHECKING:
    from PIL import Image

SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".tif", ".tiff", ".webp")
LABELS = "factors.csv"
MOST_BYTES = 4 * 2**30
SYSTEM_FILES = ("thumbs.db", "ehthumbs.db", "ehthumbs_vista.db", "desktop.ini", "icon\r")
SYSTEM_FOLDERS = ("__macosx", "@eadir", "$recycle.bin", "system volume information")
"""What operating systems leave among images, in small letters; dot files such as .DS_Store are
passed over too.
"""


def natural_order(name: str) -> tuple[list[tuple[int, int, str]], str]:
    """Sort key under which runs of digits compare as numbers; the name itself breaks ties.

    >>> sorted(["img10.png", "img2.png"], key=natural_order)
    ['img2.png', 'img10.png']
    """
    parts = [part for part in re.split(r"([0-9]+)", name) if part]
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts], name


def image_files(folder: Path) -> list[Path]:
    """Image files in *folder*, in natural order; other files are refused.

    `factors.csv` and files of the system may lie there too.
    """
    problems = Problems()
    files = []
    for entry in sorted(folder.iterdir(), key=lambda path: natural_order(path.name)):
        if entry.name == LABELS and not entry.is_file():
            remedy = "Write the factors into a file, or give it another name."
            problems.add(str(entry), "must be a file", Shown("something else"), remedy)
        if entry.name == LABELS or _is_of_the_system(entry):
            continue
        if entry.is_dir():
            problems.add(
                f"folder {folder}",
                "must hold images only, without folders inside",
                entry.name,
                "Move the images up.",
            )
        elif entry.suffix.lower() in SUFFIXES:
            files.append(entry)
        else:
            rule = f"must hold only images ({', '.join(SUFFIXES)}) and {LABELS}"
            problems.add(f"folder {folder}", rule, entry.name, "Move the file elsewhere.")
    if len(files) < FEWEST_IMAGES:
        rule, remedy = f"must hold at least {FEWEST_IMAGES} images", "Put more images there."
        problems.add(f"folder {folder}", rule, len(files), remedy)
    raise_shortened(problems)
    return files


def _is_of_the_system(entry: Path) -> bool:
    """Whether it is hidden, or something that an operating system wrote for itself."""
    return entry.name.startswith(".") or entry.name.lower() in (
        SYSTEM_FOLDERS if entry.is_dir() else SYSTEM_FILES
    )


def read_folder(folder: Path, side: int | None) -> tuple[NDArray[np.uint8], list[str], str]:
    """Pixels `(n, height, width, channels)`, file names, and how 16 bits were brought to 8.

    The last is a sentence, empty for other images.

    Each image is scaled to *side* x *side* if that is given.
    """
    files = image_files(folder)
    problems = Problems()
    images: list[NDArray[np.uint8]] = []
    first: tuple[str, tuple[int, ...], Depth] | None = None
    held, sizes_differ, depths_differ = 0, False, False
    with strict_decoding():
        values = _values_of_all(files) if _first_depth(files) is Depth.GREY_16 else None
        for path in files:
            try:
                image, depth = _decode(path, side, values)
            except InputError as error:
                problems.say(str(error))
                continue
            first = first or (path.name, image.shape[:2], depth)
            if image.shape[:2] != first[1] and not sizes_differ:
                problems.say(_mixed_sizes(first[0], first[1], path.name, image.shape[:2]))
                sizes_differ = True
            if depth is not first[2] and not depths_differ:
                value = Shown(f"'{first[0]}' with {first[2]} and '{path.name}' with {depth}")
                problems.add(
                    "images", "must all have the same depth", value, "Save all of them in one way."
                )
                depths_differ = True
            if problems.found:
                continue
            held += image.nbytes
            if held > MOST_BYTES:
                value = Shown(f"more than that in {len(images)} of {len(files)} files")
                problems.add(
                    f"folder {folder}",
                    f"may take at most {MOST_BYTES // 2**30} GiB",
                    value,
                    "Set resize=64.",
                )
                break
            images.append(image)
    raise_shortened(problems)
    # Grey images among coloured ones lose nothing as three equal channels.
    channels = max(image.shape[-1] for image in images)
    pixels = np.empty((len(images), *images[0].shape[:2], channels), dtype=np.uint8)
    for nth, image in enumerate(images):
        pixels[nth] = image
    assert first is not None
    scaled = values.sentence() if values else UPPER_BITS if first[2] is Depth.CHANNELS_16 else ""
    return pixels, [path.name for path in files], scaled


def unusable_files(files: Sequence[Path]) -> list[Problem]:
    """A problem for each of *files* that cannot be used at any size; all are decoded."""
    found: list[Problem] = []
    with strict_decoding():
        for path in files:
            try:
                _decode(path, SMALLEST_SIDE, None)
            except InputError as error:
                found += error.problems
    return found


def _first_depth(files: Sequence[Path]) -> Depth:
    """The depth of the first file that can be opened."""
    for path in files:
        try:
            return _open(path, SMALLEST_SIDE)[1]
        except InputError:
            continue
    return Depth.BYTES


def _values_of_all(files: Sequence[Path]) -> ValueRange | None:
    """The range of the values of all 16-bit images among *files*.

    Those that cannot be used are left to who reads them next.
    """
    found: ValueRange | None = None
    for path in files:
        try:
            image, depth = _open(path, SMALLEST_SIDE)
            if depth is Depth.GREY_16:
                found = ValueRange.of(_values(image, path.name)).joined(found)
        except InputError:
            continue
    return found


def _mixed_sizes(
    first: str, first_size: tuple[int, ...], other: str, size: tuple[int, ...]
) -> Problem:
    value = Shown(
        f"'{first}' of {first_size[1]}x{first_size[0]} and '{other}' of {size[1]}x{size[0]} pixels"
    )
    return Problem(
        "images", "must all have one size", value, "Set {resize=64} to scale every image to 64x64."
    )


@contextmanager
def strict_decoding() -> Iterator[None]:
    """Let Pillow refuse torn files and gigantic images inside, whatever is set around us."""
    from PIL import Image, ImageFile

    before = ImageFile.LOAD_TRUNCATED_IMAGES
    ImageFile.LOAD_TRUNCATED_IMAGES = False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield
    finally:
        ImageFile.LOAD_TRUNCATED_IMAGES = before


@contextmanager
def _decoding(path: Path) -> Iterator[None]:
    """Turn what decoders of foreign bytes raise inside, which is of many kinds, into one message:
    struct and zlib errors are among them.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        reason = " ".join(str(error).replace(str(path), path.name).split()) or type(error).__name__
        value = Shown(f"a file that cannot be decoded ({reason})")
        raise invalid(
            path.name, "must be a whole, readable image", value, "Write it again or remove it."
        ) from error


def _open(path: Path, side: int | None) -> tuple[Image.Image, Depth]:
    """One file, decoded to its end and turned upright, and its depth.

    Without *side* it must have one that can be used.
    """
    from PIL import Image, ImageOps

    with _decoding(path):
        with Image.open(path) as probe:
            # Reads every chunk's checksum where the format has them (PNG); decoding alone skips
            # some.
            probe.verify()
        with Image.open(path) as opened:
            if side is None:
                check_sides(path.name, opened.height, opened.width)
            # Phones store a second image behind the first in a JPEG (MPO); the first is the
            # photograph.
            frames = 1 if opened.format == "MPO" else getattr(opened, "n_frames", 1)
            depth = depth_of(opened)
            opened.load()
            image = ImageOps.exif_transpose(opened)
    if frames > 1:
        raise invalid(
            path.name,
            "must hold one image",
            Shown(f"{frames} frames"),
            "Save the frames as single files.",
        )
    return image, depth


def _decode(
    path: Path, side: int | None, values: ValueRange | None
) -> tuple[NDArray[np.uint8], Depth]:
    """One file as uint8 `(height, width, 1 or 3)`, and the depth it had.

    *values* is the range of all images of 16 bits.
    """
    from PIL import Image

    image, depth = _open(path, side)
    if depth is Depth.GREY_16:
        image = Image.fromarray((values or WHOLE_RANGE).to_bytes(_values(image, path.name)))
    else:
        with _decoding(path):  # a palette is looked into here
            image = _grey_or_rgb(image, path.name)
    if side is not None:
        image = image.resize((side, side), Image.Resampling.LANCZOS)
    pixels = np.asarray(image)
    return pixels[..., None] if pixels.ndim == 2 else pixels, depth


def _values(image: Image.Image, name: str) -> NDArray[Any]:
    """The values `(height, width)` of a grey image of 16 bits, none of them transparent."""
    values = np.asarray(image)
    if (clear := image.info.get("transparency")) is not None:
        _refuse_transparency(name, float((values == clear).mean()))
    return values


def _grey_or_rgb(image: Image.Image, name: str) -> Image.Image:
    """*image* in mode L or RGB; what would lose something on the way is refused."""
    if image.mode in ("L", "RGB"):
        return _without_key_colour(image, name)
    if image.mode == "1":
        return image.convert("L")
    if image.mode == "P":
        return _opaque(image.convert("RGBA"), name)
    if image.mode in ("LA", "RGBA"):
        return _opaque(image, name)
    if image.mode.startswith(("I", "F")):
        rule = "must have 8 or unsigned 16 bits a channel"
        remedy = (
            "Scale the values of all images to 0..65535 and save them with 16 bits, or give them as"
            " a float array in [0, 1]."
        )
    else:
        rule = "must be grey or RGB"
        remedy = "Convert it to RGB and save it again."
    raise invalid(name, rule, Shown(f"mode {image.mode}"), remedy)


def _without_key_colour(image: Image.Image, name: str) -> Image.Image:
    """Grey and RGB files may declare one colour transparent."""
    if "transparency" not in image.info:
        return image
    return _opaque(image.convert("LA" if image.mode == "L" else "RGBA"), name)


def _opaque(image: Image.Image, name: str) -> Image.Image:
    """*image* without its transparency, which must not be used."""
    alpha = np.asarray(image.getchannel("A"))
    _refuse_transparency(name, float((alpha < 255).mean()))
    return image.convert("L" if image.mode == "LA" else "RGB")


def _refuse_transparency(name: str, share: float) -> None:
    """Refuse an image of which that *share* is transparent."""
    if share > 0:
        value = Shown(f"{share:.1%} of its pixels transparent")
        raise invalid(
            name, "must not be transparent", value, "Paint it on a background and save it as RGB."
        )
