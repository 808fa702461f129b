# SPDX-License-Identifier: Apache-2.0
"""The folder of perturbed data: `perturbed.json`, and the numbers of a pattern beside it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbraid.core import store
from unbraid.core.errors import DamagedFileError, Shown, invalid
from unbraid.core.folders import PERTURBED
from unbraid.core.records import from_record, in_range, read_object
from unbraid.data.dataset import Dataset
from unbraid.data.perturbed.pattern import PACES, Pattern

RECORD, TENSORS = PERTURBED, "perturbation.safetensors"
NOISES = ("pattern", "uniform")
FORMAT = 1
_KINDS = {
    "signs": (np.dtype("int8"), 2),
    "paces": (np.dtype("int8"), 1),
    "half_rows": (np.dtype("int16"), 1),
    "s": (np.dtype("float32"), 1),
}
"""Type and number of axes of each array."""


def is_perturbed(folder: Path) -> bool:
    """Whether *folder* was written by `unbraid perturb`, to the end or not."""
    return (folder / RECORD).is_file() or (folder / TENSORS).is_file()


def write_perturbed(
    folder: Path,
    base: Dataset,
    *,
    epsilon: float,
    clip: bool,
    seed: int,
    pattern: Pattern | None = None,
    half_rows: NDArray[np.int16] | None = None,
    s: NDArray[np.floating[Any]] | None = None,
    provenance: dict[str, Any] | None = None,
) -> None:
    """Write *base*, perturbed, to *folder*: with *pattern*, *half_rows* and *s*, or with noise."""
    import torch

    record: dict[str, Any] = {
        "format": FORMAT,
        "base": {"name": base.name, "options": base.options, "fingerprint": base.fingerprint()},
        "noise": "uniform" if pattern is None else "pattern",
        "epsilon": float(epsilon),
        "clip": bool(clip),
        "seed": int(seed),
        "provenance": provenance or {},
    }
    if pattern is not None:
        tensors = {
            "signs": pattern.signs,
            "paces": pattern.paces,
            "half_rows": half_rows,
            "s": np.asarray(s, dtype=np.float32),
        }
        about = {"record": store.digest(record), "origin": pattern.origin}
        store.write_tensors(
            folder / TENSORS,
            {name: torch.from_numpy(array) for name, array in tensors.items()},
            about,
        )
    # Last, since its presence says that the folder is whole.
    store.write_json(folder / RECORD, record)


def read_record(folder: Path) -> dict[str, Any]:
    """What `perturbed.json` says, checked."""
    again = "Put a copy of it back, or perturb the data again."
    try:
        return read_object(folder / RECORD, "a record of perturbed data", _checked, again)
    except (FileNotFoundError, NotADirectoryError):
        if (folder / TENSORS).is_file():
            raise DamagedFileError(
                f"{folder} has no {RECORD}: writing it was not finished, or it was lost. Put a copy"
                " of it back, or remove the folder and perturb again."
            ) from None
        rule = f"must be a folder made by `unbraid perturb`, with a {RECORD} in it"
        remedy = "Where it was moved, give its new place; for a run on it: {data=NEW_PLACE}."
        raise invalid("perturbed data", rule, Shown(str(folder)), remedy) from None


@dataclass(frozen=True)
class _Base:
    """What the record says of the original."""

    name: str
    options: dict[str, Any]
    fingerprint: str


@dataclass(frozen=True)
class _Record:
    """What the record says."""

    format: int
    base: _Base
    noise: str
    epsilon: float
    clip: bool
    seed: int
    provenance: dict[str, Any]


def _checked(record: dict[str, Any]) -> dict[str, Any]:
    """*record*, whose fields are those of its class."""
    found, again = from_record(_Record, record), "Perturb again with this version."
    if found.format != FORMAT:
        raise invalid("format", f"must be {FORMAT}", found.format, again)
    if found.noise not in NOISES:
        raise invalid("noise", f"must be one of {', '.join(NOISES)}", found.noise)
    in_range("epsilon", found.epsilon, 0, 1)
    in_range("seed", found.seed, 0, 2**62)
    return record


def read_pattern(
    folder: Path, record: dict[str, Any], count: int, image_shape: tuple[int, int, int]
) -> tuple[Pattern, NDArray[np.int16], NDArray[np.float32]]:
    """The pattern, and half rows and s of all *count* images, checked to fit *record*."""
    path = folder / TENSORS
    try:
        tensors, about = store.read_tensors(path)
    except FileNotFoundError:
        raise DamagedFileError(f"{path} is missing. Perturb the data again.") from None
    except DamagedFileError as error:
        raise DamagedFileError(f"{error} Perturb the data again.") from error
    if about.get("record") != store.digest(record):
        raise DamagedFileError(
            f"{path} does not belong to the {RECORD} beside it. Perturb the data again."
        )
    height, width, _ = image_shape
    arrays = {name: tensor.numpy() for name, tensor in tensors.items()}
    kinds = {name: (array.dtype, array.ndim) for name, array in arrays.items()}
    origin = about.get("origin")
    if not isinstance(origin, int) or abs(origin) >= 2**31:
        origin = None
    if kinds != _KINDS or origin is None or not len(arrays["half_rows"]):
        raise DamagedFileError(f"{path} does not hold a pattern. Perturb the data again.")
    pattern, half_rows = (
        Pattern(arrays["signs"], arrays["paces"], origin, height),
        arrays["half_rows"],
    )
    ends = pattern.first_rows([half_rows.min(), half_rows.max()])
    inside = (
        ends.shape[-1] == width and ends.min() >= 0 and ends.max() + height <= len(pattern.signs)
    )
    whole = (
        half_rows.shape == (count,)
        and np.isin(pattern.paces, PACES).all()
        and (np.abs(pattern.signs) == 1).all()
    )
    if not inside or not whole:
        raise DamagedFileError(
            f"{path} is damaged: its pattern does not fit the data. Perturb the data again."
        )
    return pattern, half_rows, arrays["s"]
