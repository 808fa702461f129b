# SPDX-License-Identifier: Apache-2.0
"""Small files in the formats of the published datasets, for tests: fewer values, same layout.

`small_source(name, folder)` writes them and returns the dataset's `Source` shrunk to match, with
their checksums. Put it on the class as `source` and everything (`add`, `load`, `data info`) works
on the small files:

    monkeypatch.setattr(published(name), "source", small_source(name, folder))
    monkeypatch.setenv("UNBRAID_DATA", str(home))
    add(name, folder)
"""

from __future__ import annotations

import gzip
import hashlib
import io
import struct
import tarfile
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unbraid.data.official import published
from unbraid.data.official.source import Source

SIZES: dict[str, tuple[int, ...]] = {
    # The first places of the real grid, since the reader compares images with the drawing.
    "dsprites": (1, 1, 2, 32, 32),
    "shapes3d": (2, 3, 1, 2, 2, 2),
    "cars3d": (2, 3, 2),
    "smallnorb": (2, 2, 2, 3, 2),
    "mpi3d_toy": (2, 1, 2, 1, 2, 3, 2),
    "mpi3d_realistic": (2, 2, 1, 1, 2, 3, 2),
    "mpi3d_real": (1, 2, 2, 1, 2, 3, 2),
}
SAMPLES = {"fashion_mnist": 14, "celeba": 6}


def small_source(name: str, folder: Path) -> Source:
    """Write the small files of *name* into *folder*; returns the source shrunk to them."""
    source = shrunk(published(name).source)
    folder.mkdir(parents=True, exist_ok=True)
    _WRITERS.get(name, write_mpi3d)(source, folder, np.random.default_rng(list(name.encode())))
    return with_checksums(source, folder)


def shrunk(source: Source) -> Source:
    """*source* with the small sizes and without checksums."""
    files = tuple(replace(file, size=None, sha256=None, md5=None) for file in source.files)
    if source.name in SAMPLES:
        return replace(source, files=files, samples=SAMPLES[source.name], places=())
    factors = tuple(
        replace(factor, size=size)
        for factor, size in zip(source.factors, SIZES[source.name], strict=True)
    )
    return replace(source, files=files, factors=factors)


def with_checksums(source: Source, folder: Path) -> Source:
    """*source* with the sizes and sha256 of its files in *folder*."""
    files = []
    for file in source.files:
        path = next(
            (place for place in (folder / file.name, folder / f"{file.name}.gz") if place.exists()),
            None,
        )
        content = b"" if path is None else path.read_bytes()
        if path is not None and file.unpacked and path.suffix == ".gz":
            content = gzip.decompress(content)
        known = path is not None
        digest = hashlib.sha256(content).hexdigest() if known else None
        files.append(replace(file, size=len(content) if known else None, sha256=digest))
    return replace(source, files=tuple(files))


def random_images(rng: np.random.Generator, count: int, *shape: int) -> NDArray[np.uint8]:
    """Random bytes `(count, *shape)`."""
    return rng.integers(0, 256, (count, *shape), dtype=np.uint8)


def write_dsprites(source: Source, folder: Path, rng: np.random.Generator) -> None:
    """The npz with `imgs`, `latents_classes` and a pickled `metadata`, never to be opened."""
    from unbraid.data.drawn.dsprites_drawing import draw_some, unpack

    indices = np.arange(source.grid.size)
    classes = np.concatenate(
        [np.zeros((len(indices), 1), np.int64), source.grid.to_factors(indices)], axis=1
    )
    metadata = np.array({"title": "dSprites"}, dtype=object)
    np.savez_compressed(
        folder / source.files[0].name,
        imgs=unpack(draw_some(indices)),
        latents_classes=classes,
        metadata=metadata,
    )


def write_shapes3d(source: Source, folder: Path, rng: np.random.Generator) -> None:
    """3dshapes.h5 with `images` and `labels`, in chunks that cut across images."""
    import h5py

    factors = source.grid.to_factors(np.arange(source.grid.size))
    labels = factors * np.array([0.1, 0.1, 0.1, 0.5 / 7, 1.0, 60 / 14]) + np.array(
        [0, 0, 0, 0.75, 0, -30.0]
    )
    with h5py.File(folder / source.files[0].name, "w") as file:
        images = random_images(rng, source.grid.size, 64, 64, 3)
        file.create_dataset(
            "images", data=images, chunks=(7, 16, 16, 3), compression="gzip", compression_opts=1
        )
        file.create_dataset("labels", data=labels)


def write_mpi3d(source: Source, folder: Path, rng: np.random.Generator) -> None:
    """The npz with `images`."""
    np.savez_compressed(
        folder / source.files[0].name, images=random_images(rng, source.grid.size, 64, 64, 3)
    )


def write_cars3d(source: Source, folder: Path, rng: np.random.Generator) -> None:
    """A folder `cars` of .mat files, and an archive of them and other files in no order."""
    from scipy.io import savemat

    elevations, azimuths, objects = source.grid.sizes
    cars = folder / "cars"
    cars.mkdir(exist_ok=True)
    for nth in range(objects):
        # Smooth images, so that scaling them has something to keep; every car has a colour of its
        # own.
        im = np.empty((128, 128, 3, azimuths, elevations), dtype=np.uint8)
        im[...] = (
            np.arange(128)[:, None, None, None, None]
            + np.arange(azimuths)[:, None] * 20
            + np.arange(elevations) * 3
        ) % 256
        im[:, :, nth % 3] = 40 * nth + 10
        savemat(
            cars / f"car_{3 * nth + 1:03d}_mesh.mat",
            {"im": im, "mask": np.zeros((2, 2))},
            do_compression=True,
        )
    (cars / "list.txt").write_text("".join(f"{path.stem}\n" for path in sorted(cars.glob("*.mat"))))
    with tarfile.open(folder / source.files[0].name, "w:gz") as archive:
        other = tarfile.TarInfo("data/sprites/sprite_1.mat")
        archive.addfile(other, io.BytesIO(b""))
        for path in sorted(cars.iterdir(), reverse=True):
            archive.add(path, arcname=f"data/cars/{path.name}")


def matrix(array: NDArray[np.generic]) -> bytes:
    """*array* as NORB's matrix format has it."""
    magic = {np.dtype(np.uint8): 0x1E3D4C55, np.dtype(np.int32): 0x1E3D4C54}[array.dtype]
    sizes = [*array.shape, *[1] * (3 - array.ndim)]
    return (
        struct.pack(f"<{2 + len(sizes)}i", magic, array.ndim, *sizes)
        + array.astype(array.dtype.newbyteorder("<")).tobytes()
    )


def write_smallnorb(source: Source, folder: Path, rng: np.random.Generator) -> None:
    """Six gzipped matrices in no order; odd instances are in the training files."""
    rows = rng.permutation(source.grid.to_factors(np.arange(source.grid.size)).astype(np.int32))
    rows[:, 3] *= 2
    for split, first in ((1, 0), (0, 3)):
        some = rows[rows[:, 1] % 2 == split]
        parts = (random_images(rng, len(some), 2, 96, 96), some[:, 0].copy(), some[:, 1:].copy())
        for file, part in zip(source.files[first : first + 3], parts, strict=True):
            (folder / file.name).write_bytes(gzip.compress(matrix(part), 1))


def idx(array: NDArray[np.uint8]) -> bytes:
    """*array* as an idx file: images with three axes, labels with one."""
    magic = {3: 2051, 1: 2049}[array.ndim]
    return struct.pack(f">{1 + array.ndim}i", magic, *array.shape) + array.tobytes()


def write_fashion_mnist(source: Source, folder: Path, rng: np.random.Generator) -> None:
    """Four gzipped idx files; two thirds are training images."""
    total = source.samples or 0
    for count, first in ((total - total // 3, 0), (total // 3, 2)):
        parts = (random_images(rng, count, 28, 28), rng.integers(0, 10, count, dtype=np.uint8))
        for file, part in zip(source.files[first : first + 2], parts, strict=True):
            (folder / f"{file.name}.gz").write_bytes(gzip.compress(idx(part), 1))


def write_celeba(source: Source, folder: Path, rng: np.random.Generator) -> None:
    """A folder of .jpg, the zip of it, and the list of attributes."""
    from PIL import Image

    inside = folder / "img_align_celeba"
    inside.mkdir(exist_ok=True)
    lines = [str(source.samples), " ".join(source.factor_names)]
    for nth in range(source.samples or 0):
        image = np.full((218, 178, 3), 30 * nth + 20, dtype=np.uint8)
        # A bright frame outside the part that is cut out.
        image[:35] = image[-35:] = image[:, :15] = image[:, -15:] = 250
        Image.fromarray(image).save(inside / f"{nth + 1:06d}.jpg", quality=95)
        lines.append(
            f"{nth + 1:06d}.jpg "
            + " ".join(f"{2 * value - 1:2d}" for value in rng.integers(0, 2, len(source.factors)))
        )
    (folder / source.files[1].name).write_text("\n".join(lines) + "\n")
    with zipfile.ZipFile(folder / source.files[0].name, "w") as archive:
        for path in sorted(inside.iterdir()):
            archive.write(path, f"img_align_celeba/{path.name}")


_WRITERS: dict[str, Callable[[Source, Path, np.random.Generator], None]] = {
    "dsprites": write_dsprites,
    "shapes3d": write_shapes3d,
    "cars3d": write_cars3d,
    "smallnorb": write_smallnorb,
    "fashion_mnist": write_fashion_mnist,
    "celeba": write_celeba,
}
