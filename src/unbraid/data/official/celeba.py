# SPDX-License-Identifier: Apache-2.0
"""CelebA (Liu, Luo, Wang, Tang 2015): 202,599 aligned faces with 40 attributes.

The aligned images are 178x218. As is usual with VAEs (PyTorch-VAE among others), the central
148x148 is cut out, which leaves the face, and scaled to 64x64 with the bilinear filter; other
papers cut 128, 140 or 160 or scale the whole image. Attributes are factors of two values, 1 for
yes; they describe the images, they did not make them. Departs: no flipping.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import InputError, Shown
from unbraid.core.registry import Citation
from unbraid.data.dataset import as_planes
from unbraid.data.official.dataset import OfficialDataset
from unbraid.data.official.reading import all_in_folder, readable, refused
from unbraid.data.official.source import Content, Factor, Found, PublishedFile, Source

_WIDTH, _HEIGHT, _CROP = 178, 218, 148
_IMAGES_PER_BLOCK = 1024
_FOLDER = "img_align_celeba"
_MOST_BYTES = 16 * 2**20
"""Of one image; the published ones have some 10 KB."""
_NOT_ABOVE = f"must have at most {_MOST_BYTES:,} bytes"

ATTRIBUTES = """
5_o_Clock_Shadow Arched_Eyebrows Attractive Bags_Under_Eyes Bald Bangs Big_Lips Big_Nose
Black_Hair Blond_Hair Blurry Brown_Hair Bushy_Eyebrows Chubby Double_Chin Eyeglasses Goatee
Gray_Hair Heavy_Makeup High_Cheekbones Male Mouth_Slightly_Open Mustache Narrow_Eyes No_Beard
Oval_Face Pale_Skin Pointy_Nose Receding_Hairline Rosy_Cheeks Sideburns Smiling Straight_Hair
Wavy_Hair Wearing_Earrings Wearing_Hat Wearing_Lipstick Wearing_Necklace Wearing_Necktie Young
""".split()

SOURCE = Source(
    name="celeba",
    # Sizes and sha256: tensorflow/datasets, url_checksums/celeb_a.txt; md5: torchvision's list, as
    # many projects quote it.
    files=(
        PublishedFile(
            "img_align_celeba.zip",
            "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
            size=1_443_490_838,
            sha256="46fb89443c578308acf364d7d379fe1b9efb793042c0af734b6112e4fd3a8c74",
            md5="00d2c5bc6d35e252742224ab0c1e8fcb",
        ),
        PublishedFile(
            "list_attr_celeba.txt",
            "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
            size=26_721_026,
            sha256="f0e5da289d5ccf75ffe8811132694922b60f2af59256ed362afa03fefba324d0",
            md5="75e246fa4810816ffd6ee81facbd244c",
        ),
    ),
    page="https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html",
    get="img_align_celeba.zip and list_attr_celeba.txt",
    typed="FOLDER",
    factors=tuple(Factor(name, 2, "0 no, 1 yes") for name in ATTRIBUTES),
    samples=202_599,
    image_shape=(64, 64, 3),
    shown="the aligned images, central 148x148 scaled to 64x64 (bilinear)",
    licence="for non-commercial research only; see the agreement on its page",
    citation=Citation(
        "Z. Liu, P. Luo, X. Wang, X. Tang",
        2015,
        "Deep learning face attributes in the wild",
        "ICCV",
    ),
)

BORDERS = (0, 162_770, 182_637, 202_599)
"""Where training, validation and test images begin, and the end."""


class CelebA(OfficialDataset):
    """CelebA: 202,599 aligned faces with 40 yes-or-no attributes, from the published files."""

    source: ClassVar[Source] = SOURCE
    splits: ClassVar[tuple[str, ...]] = ("train", "valid", "test")

    def indices_of(self, split: str) -> NDArray[np.int64]:
        """The parts of its list_eval_partition.txt, which lie one behind the other."""
        at = self.splits.index(split)
        begin, end = BORDERS[at : at + 2]
        return np.arange(min(begin, len(self)), min(end, len(self)))

    @classmethod
    def locate(cls, path: Path) -> list[Found]:
        """The attributes, and the images as the published zip or the folder in it."""
        archive, attributes = cls.source.files
        wanted = {
            archive.name: (archive.name, f"Img/{archive.name}", _FOLDER, f"Img/{_FOLDER}"),
            attributes.name: (attributes.name, f"Anno/{attributes.name}"),
        }
        places = all_in_folder(cls.source, path, wanted)
        images = places[archive.name]
        as_given = (
            Found(images, archive) if images.is_file() else Found(images, label=f"{_FOLDER}/*.jpg")
        )
        return [as_given, Found(places[attributes.name], attributes)]

    @classmethod
    def read(cls, found: Sequence[Found]) -> Content:
        """Check attributes and file names now; the images are decoded block by block."""
        source, images = cls.source, found[0].path
        names, values = _read_attributes(source, found[1].path)
        with readable(source, images):
            present = _names_in(images)
        missing = [name for name in names if name not in present]
        if missing:
            rule = f"must hold each of the {len(names):,} images that {found[1].path.name} names"
            value = Shown(f"{len(missing):,} missing, the first {missing[0]}")
            raise refused(source, images, rule, value)
        return Content(
            _blocks(source, images, names), source.plane_shape, np.dtype("|u1"), factors=values
        )


def _read_attributes(source: Source, path: Path) -> tuple[list[str], NDArray[np.uint8]]:
    """File names, and 0 or 1 for each attribute.

    The file has a count, a line of names, then a line for each image.
    """
    try:
        lines = path.read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise refused(
            source, path, "must be a text file", Shown(f"one that cannot be read ({error})")
        ) from error
    begin = lines[0].strip()[:40] if lines else ""
    if begin != str(source.samples):
        raise refused(
            source, path, f"must begin with the number of images, {source.samples}", begin
        )
    if lines[1:2] == [] or tuple(lines[1].split()) != source.factor_names:
        named = lines[1].split() if lines[1:2] else []
        wrong = next(
            (name for name, want in zip(named, source.factor_names, strict=False) if name != want),
            f"{len(named)} names",
        )
        raise refused(
            source,
            path,
            f"must name {len(source.factors)} attributes in the published order",
            Shown(wrong),
        )
    rows = [line.split() for line in lines[2:] if line.strip()]
    if len(rows) != source.samples:
        raise refused(
            source,
            path,
            f"must have {source.samples:,} lines of attributes",
            Shown(f"{len(rows):,}"),
        )
    for nth, row in enumerate(rows):
        if len(row) != len(source.factors) + 1 or not set(row[1:]) <= {"1", "-1"}:
            rule = (
                f"must have a file name and {len(source.factors)} values of 1 or -1 in line"
                f" {nth + 3}"
            )
            raise refused(source, path, rule, " ".join(row)[:40])
        if row[0] != f"{nth + 1:06d}.jpg":
            raise refused(
                source, path, f"must name {nth + 1:06d}.jpg in line {nth + 3}", row[0][:40]
            )
    values = np.array([[value == "1" for value in row[1:]] for row in rows], dtype=np.uint8)
    return [row[0] for row in rows], values


def _members(archive: zipfile.ZipFile) -> dict[str, zipfile.ZipInfo]:
    """The images of a zip by their plain names.

    They lie in the published folder, which counts first, or at the root.
    """
    at_root = {info.filename: info for info in archive.infolist()}
    in_folder = {
        name.removeprefix(f"{_FOLDER}/"): info
        for name, info in at_root.items()
        if name.startswith(f"{_FOLDER}/")
    }
    return at_root | in_folder


def _names_in(images: Path) -> set[str]:
    if images.is_dir():
        return {entry.name for entry in images.iterdir()}
    with zipfile.ZipFile(images) as archive:
        return set(_members(archive))


def _blocks(source: Source, images: Path, names: Sequence[str]) -> Iterator[NDArray[np.uint8]]:
    if images.is_dir():
        yield from _decoded(source, images, names, lambda name: _read_file(source, images / name))
        return
    with readable(source, images), zipfile.ZipFile(images) as archive:
        members = _members(archive)
        yield from _decoded(
            source,
            images,
            names,
            lambda name: _read_member(source, images / name, archive, members[name]),
        )


def _read_file(source: Source, path: Path) -> bytes:
    with path.open("rb") as stream:
        content = stream.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise refused(source, path, _NOT_ABOVE, Shown("more"))
    return content


def _read_member(
    source: Source, path: Path, archive: zipfile.ZipFile, member: zipfile.ZipInfo
) -> bytes:
    """The bytes of *member*; `zipfile` unpacks no more than the size checked here."""
    if member.file_size > _MOST_BYTES:
        raise refused(source, path, _NOT_ABOVE, Shown(f"{member.file_size:,}"))
    return archive.read(member)


def _decoded(
    source: Source, images: Path, names: Sequence[str], content: Callable[[str], bytes]
) -> Iterator[NDArray[np.uint8]]:
    for start in range(0, len(names), _IMAGES_PER_BLOCK):
        faces = []
        for name in names[start : start + _IMAGES_PER_BLOCK]:
            with readable(source, images / name):
                found = content(name)
            faces.append(_face(source, images / name, found))
        yield as_planes(np.stack(faces))


def _face(source: Source, path: Path, content: bytes) -> NDArray[np.uint8]:
    """One image, cut and scaled: uint8 (64, 64, 3)."""
    from PIL import Image

    try:
        with Image.open(io.BytesIO(content), formats=["JPEG"]) as opened:
            size = opened.size
            if size == (_WIDTH, _HEIGHT):
                left, top = (_WIDTH - _CROP) // 2, (_HEIGHT - _CROP) // 2
                cut = opened.convert("RGB").crop((left, top, left + _CROP, top + _CROP))
                return np.asarray(cut.resize(source.image_shape[:2], Image.Resampling.BILINEAR))
    except InputError:
        raise
    except (
        Exception
    ) as error:  # decoders of foreign bytes raise many kinds, struct and zlib errors among them
        reason = " ".join(str(error).split()) or type(error).__name__
        raise refused(
            source,
            path,
            "must be a whole JPEG image",
            Shown(f"one that cannot be decoded ({reason})"),
        ) from error
    raise refused(
        source,
        path,
        f"must be {_WIDTH}x{_HEIGHT}, the size of aligned images",
        Shown(f"{size[0]}x{size[1]}"),
    )
