# SPDX-License-Identifier: Apache-2.0
"""Any dataset, or some of it, as files that `load` reads back: one .npz, or a folder of .png.

    data.npz    images uint8 (n, height, width, channels); where known factors int64 (n, factors)
                and factor_names
    folder/     000000.png, 000001.png, ...; where factors are known factors.csv: file, then a
                column for each factor

Written beside its place and renamed; an existing file or folder is never touched.
"""

from __future__ import annotations

import contextlib
import csv
import errno
import io
import os
import re
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.checks import read_whole
from unbraid.core.errors import InputError, Problem, Shown, UnbraidError, invalid
from unbraid.core.failpoints import failpoint
from unbraid.core.files import (
    fill,
    half_of,
    make_folder,
    put_in_place,
    remove,
    remove_folder,
    remove_halves,
)
from unbraid.core.folders import check_writable, given_path
from unbraid.core.progress import Progress
from unbraid.data.dataset import Dataset
from unbraid.data.own.image_arrays import FEWEST_IMAGES
from unbraid.data.own.image_folder import LABELS

_BYTES_PER_BLOCK = 32 * 2**20


def export(
    dataset: Dataset,
    out: str | os.PathLike[str],
    *,
    indices: ArrayLike | None = None,
    count: int | None = None,
    seed: int = 0,
    quiet: bool = False,
) -> Path:
    """Write *dataset* to *out*: an .npz, or without an ending a folder. Returns the path.

    `indices` picks images and their order; `count` picks so many at random (by `seed`), in
    ascending order; by default all. What is lost in images of 8 bits is said on standard error,
    unless `quiet`.
    """
    path = _free_place(out)
    dataset.check_files()
    chosen = _chosen(dataset, indices, count, seed)
    write = _write_npz if path.suffix.lower() == ".npz" else _write_folder
    beside = half_of(path)
    try:
        make_folder(path.parent)
        remove_halves(path)
        with Progress(f"exporting {dataset.name}", "images", len(chosen), quiet=quiet) as progress:
            if lost := _lost(dataset):
                progress.say(lost)
            write(beside, dataset, chosen, progress)
        failpoint("half.written")
        if path.exists():
            raise InputError(_taken(path))
        put_in_place(beside, path)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            remedy = "Free some room, or write to another disk."
            raise UnbraidError(f"{path} cannot be written: the disk is full. {remedy}") from error
        remedy = "Choose another place, or give the command again where it can be."
        raise UnbraidError(
            f"{path} cannot be written: {error.strerror or error}. {remedy}"
        ) from error
    finally:
        # Gone already when all went well.
        remove_folder(beside)
        with contextlib.suppress(UnbraidError):
            remove(beside)
    return path


def parse_indices(text: str, size: int) -> NDArray[np.int64]:
    """Indices below *size* from text: numbers and ranges `first:end` (end left out).

    >>> parse_indices("7,0:3", 24)
    array([7, 0, 1, 2])
    """
    parts: list[NDArray[np.int64]] = []
    for word in (word.strip() for word in text.split(",")):
        found = re.fullmatch(r"([0-9]{1,12})(?::([0-9]{1,12}))?", word)
        if found is None:
            remedy = "For example 7,9 or 0:100 (which ends at 99)."
            raise invalid("indices", "must be whole numbers and ranges with commas", text, remedy)
        first = int(found[1])
        end = first + 1 if found[2] is None else int(found[2])
        if first >= size or end > size:
            raise invalid("indices", f"must lie in 0..{size - 1}", Shown(word))
        if end <= first:
            remedy = "Of 7:10 the images are 7, 8 and 9."
            raise invalid("indices", "must have ranges that end after their start", word, remedy)
        parts.append(np.arange(first, end, dtype=np.int64))
    return np.concatenate(parts)


def _lost(dataset: Dataset) -> str:
    """What the written images do not keep of the samples; empty where they keep all."""
    if dataset.name != "perturbed":
        return ""
    clipped = "" if dataset.bounded else "clipped to [0, 1] and "
    return (
        f"Note: images are {clipped}rounded to 256 grey levels, which moves values by up to 1/510."
    )


def _free_place(out: str | os.PathLike[str]) -> Path:
    path = given_path("out", out).absolute()
    if path.suffix.lower() not in ("", ".npz"):
        remedy = "Write data.npz, or a name without an ending for a folder."
        raise invalid(
            "out",
            "must end in .npz, or have no ending for a folder of .png",
            Shown(path.name),
            remedy,
        )
    if os.path.lexists(path):
        raise InputError(_taken(path))
    check_writable("out", path.parent)
    return path


def _taken(path: Path) -> Problem:
    return Problem(
        "out", "must not exist yet", Shown(str(path)), "Choose another name, or remove it first."
    )


def _chosen(
    dataset: Dataset, indices: ArrayLike | None, count: int | None, seed: int
) -> NDArray[np.int64]:
    """The indices to write."""
    seed = read_whole("seed", seed, 0, 2**62)
    if indices is not None and count is not None:
        raise invalid("export", "takes indices or a count", Shown("both"), "Leave one of them out.")
    if indices is not None:
        chosen = dataset.grid.check_index(indices).reshape(-1)
    elif count is not None:
        count = read_whole("count", count, FEWEST_IMAGES, len(dataset))
        # A sample at random, since every n-th image would leave values of the fast factors out.
        chosen = np.sort(np.random.default_rng(seed).choice(len(dataset), count, replace=False))
    else:
        chosen = np.arange(len(dataset))
    if len(chosen) < FEWEST_IMAGES:
        raise invalid(
            "export", f"must write at least {FEWEST_IMAGES} images", Shown(str(len(chosen)))
        )
    return chosen


def _blocks(dataset: Dataset, chosen: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """The chosen indices, so many at a time that their images take little memory."""
    step = max(1, _BYTES_PER_BLOCK // int(np.prod(dataset.image_shape)))
    for start in range(0, len(chosen), step):
        yield chosen[start : start + step]


def _write_npz(
    beside: Path, dataset: Dataset, chosen: NDArray[np.int64], progress: Progress
) -> None:
    with zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        if dataset.labelled:
            _member(archive, "factor_names", np.array(dataset.factor_names))
            _member(archive, "factors", dataset.factors(chosen))
        header = {
            "descr": "|u1",
            "fortran_order": False,
            "shape": (len(chosen), *dataset.image_shape),
        }
        with archive.open("images.npy", "w", force_zip64=True) as stream:
            np.lib.format.write_array_header_1_0(stream, header)
            for block in _blocks(dataset, chosen):
                stream.write(np.ascontiguousarray(dataset.images(block)).data)
                progress.advance(len(block))


def _member(archive: zipfile.ZipFile, key: str, array: NDArray[Any]) -> None:
    with archive.open(f"{key}.npy", "w") as stream:
        np.lib.format.write_array(stream, array, allow_pickle=False)


def _write_folder(
    beside: Path, dataset: Dataset, chosen: NDArray[np.int64], progress: Progress
) -> None:
    from PIL import Image

    make_folder(beside)
    digits = max(6, len(str(len(chosen) - 1)))
    names = [f"{nth:0{digits}d}.png" for nth in range(len(chosen))]
    nth = 0
    for block in _blocks(dataset, chosen):
        for image in dataset.images(block):
            Image.fromarray(image[..., 0] if image.shape[-1] == 1 else image).save(
                beside / names[nth]
            )
            nth += 1
        progress.advance(len(block))
    if dataset.labelled:
        _write_csv(beside / LABELS, ["file", *dataset.factor_names], names, dataset.factors(chosen))


def _write_csv(
    path: Path, header: Sequence[str], names: Sequence[str], rows: NDArray[np.int64]
) -> None:
    text = io.StringIO(newline="")
    writer = csv.writer(text)
    writer.writerow(header)
    writer.writerows([name, *row] for name, row in zip(names, rows.tolist(), strict=True))
    fill(path, text.getvalue().encode())
