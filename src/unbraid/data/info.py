# SPDX-License-Identifier: Apache-2.0
"""What a person wants to know of a dataset before using it: `unbraid data info`."""

from __future__ import annotations

import inspect
import math
import textwrap
from pathlib import Path
from typing import Any

from unbraid.core.errors import DamagedFileError, InputError
from unbraid.core.registry import summary
from unbraid.data import DATA, DRAWN, load
from unbraid.data.dataset import Dataset, PixelDataset
from unbraid.data.official import OFFICIAL, published
from unbraid.data.official.source import Source
from unbraid.data.official.stored import check, folder_of, read_record
from unbraid.data.official.verify import NO, UNKNOWN, YES

_VERIFIED = {
    YES: "yes: every file has its published checksum",
    NO: "no: added with --unverified; it is not the published file",
    UNKNOWN: (
        "not possible: no published checksum is known for files in this form; their structure was"
        " checked"
    ),
}
_LABEL = 13
_WIDTH = 118
_MOST_FACTOR_LINES = 12


def status(name: str) -> str:
    """One or two words on whether the dataset *name* can be loaded now."""
    if name in DRAWN:
        return "drawn"
    if name not in OFFICIAL:
        return "plug-in"
    try:
        record = read_record(name)
    except DamagedFileError:
        return "damaged"
    if record is not None:
        return "added, unverified" if record["verified"] == NO else "added"
    return "found" if _package_place(published(name).source) else "not added"


def overview() -> str:
    """All datasets, one line each: name, status, summary."""
    lines = []
    for name in DATA:
        words = summary(DATA.load(name)) or "no description"
        lines.append(f"{name:<18}{status(name):<19}{words}")
    lines.append("\nOne of them:  unbraid data info NAME")
    return "\n".join(lines)


def describe(name: str, options: dict[str, Any] | None = None, *, full_check: bool = False) -> str:
    """Everything about one dataset: a registered name, or the path of a folder, .npy or .npz.

    A published dataset that is not here yet is described from what is known about it. *full_check*
    reads every stored byte.
    """
    lines: list[str] = []
    if status(name) not in ("not added", "damaged"):
        try:
            dataset = load(name, **(options or {}))
        except InputError as error:
            if name not in DATA or options:
                raise
            # One that needs something of the user's, as a painting.
            _say(lines, name, summary(DATA.load(name)))
            _say(lines, "not ready", str(error))
            return "\n".join(lines)
        _about(lines, dataset)
    else:
        _about_absent(lines, published(name).source)
    if name in OFFICIAL:
        _origin(lines, name, full_check)
    elif full_check:
        read, none = (
            "every file was read and found whole",
            "nothing is stored that could be damaged",
        )
        _say(lines, "check", read if "source" in dataset.options else none)
    return "\n".join(lines)


def _about(lines: list[str], dataset: Dataset) -> None:
    """What a loaded dataset says of itself."""
    words = (inspect.getdoc(type(dataset)) or "no description").split("\n\n")
    _say(lines, dataset.name, " ".join(words[0].split()))
    height, width, channels = dataset.image_shape
    _say(lines, "images", f"{len(dataset):,} of {height}x{width}x{channels}")
    source = getattr(dataset, "published_as", None) or (
        published(dataset.name).source if dataset.name in OFFICIAL else None
    )
    meanings = {factor.name: factor.meaning for factor in source.factors} if source else {}
    meanings |= dataset.factor_meanings
    _factors(lines, [(name, size, meanings.get(name, "")) for name, size in _named_sizes(dataset)])
    if source is not None and dataset.name not in DRAWN:
        _say(lines, "shown", source.shown)
    elif words[1:]:
        _say(lines, "shown", " ".join(" ".join(words[1:]).split()))
    for label, text in dataset.about:
        _say(lines, label.lower(), text)
    _say(lines, "licence", dataset.licence)
    _say(lines, "citation", str(dataset.citation) if dataset.citation else "none")
    _say(lines, "on a device", _device_bytes(dataset))
    if dataset.name in DATA and (taken := _options(dataset)):
        _say(lines, "options", taken)
    if "source" in dataset.options:
        _say(lines, "lies in", str(dataset.options["source"]))


def _options(dataset: Dataset) -> str:
    """What may stand behind the name, with the values that this dataset has."""
    known = inspect.signature(DATA.load(dataset.name)).parameters.values()
    usual = {one.name: one.default for one in known if one.default is not one.empty}
    return ", ".join(f"{name}={dataset.options.get(name, usual[name])}" for name in usual)


def _named_sizes(dataset: Dataset) -> list[tuple[str, int]]:
    return list(zip(dataset.factor_names, dataset.factor_sizes, strict=True))


def _about_absent(lines: list[str], source: Source) -> None:
    """The same of a published dataset whose files are not here."""
    words = summary(published(source.name))
    height, width, channels = source.image_shape
    _say(lines, source.name, words)
    _say(lines, "images", f"{source.grid.size:,} of {height}x{width}x{channels}")
    _factors(lines, [(factor.name, factor.size, factor.meaning) for factor in source.factors])
    _say(lines, "shown", source.shown)
    _say(lines, "licence", source.licence)
    _say(lines, "citation", str(source.citation))
    _say(lines, "on a device", f"{_megabytes(math.prod(source.plane_shape))}, uint8")


def _factors(lines: list[str], rows: list[tuple[str, int, str]]) -> None:
    if not rows:
        _say(lines, "factors", "none known")
    if len(rows) > _MOST_FACTOR_LINES and len({row[1:] for row in rows}) == 1:
        _, size, meaning = rows[0]
        _say(
            lines,
            "factors",
            f"{len(rows)} of {size} values ({meaning}): {', '.join(name for name, _, _ in rows)}",
        )
        return
    widest = max((len(name) for name, _, _ in rows), default=0)
    for nth, (name, size, meaning) in enumerate(rows):
        _say(lines, "" if nth else "factors", f"{name:<{widest}}  {size:>4}  {meaning}".rstrip())


def _device_bytes(dataset: Dataset) -> str:
    """What training keeps on its device."""
    kept = _megabytes(dataset.device_bytes)
    return (
        f"{kept}, uint8"
        if isinstance(dataset, PixelDataset)
        else f"{kept}; the rest is drawn there"
    )


def _origin(lines: list[str], name: str, full_check: bool) -> None:
    """The published files, where the dataset lies, and whether it was verified."""
    source = published(name).source
    for nth, file in enumerate(source.files):
        size = f"{file.size:,} bytes" if file.size is not None else "size not known"
        _say(
            lines,
            "" if nth else "files",
            f"{file.name}, {size}{' unpacked' if file.unpacked else ''}",
        )
        _say(lines, "", " ".join(file.checksum) if file.checksum else "no published checksum known")
    _say(lines, "from", source.page)
    _say(lines, "status", status(name))
    try:
        record = read_record(name)
    except DamagedFileError as error:
        if full_check:
            raise
        _say(lines, "damage", str(error))
        return
    if record is None:
        place = _package_place(source)
        _say(lines, "lies in", place or f"{folder_of(name)}, once it is added")
        _say(lines, "to add it", source.how_to_add())
        return
    _say(
        lines,
        "lies in",
        f"{folder_of(name)}, {_megabytes(sum(one['bytes'] for one in record['arrays'].values()))}",
    )
    _say(lines, "added", f"{record['added']} from {record['from']}")
    _say(lines, "verified", _VERIFIED[record["verified"]])
    if full_check:
        check(source, record)
        _say(lines, "check", "every stored byte is as it was written")


def _package_place(source: Source) -> str:
    return next((place for place in source.places if Path(place).is_dir()), "")


def _megabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"


def _say(lines: list[str], label: str, text: str) -> None:
    """Add a labelled line, folded for a terminal; a path or checksum is never broken."""
    indent = max(_LABEL, len(label) + 2)
    folded = textwrap.wrap(
        text, _WIDTH - indent, break_long_words=False, break_on_hyphens=False, drop_whitespace=True
    )
    for nth, line in enumerate(folded if "  " not in text else [text]):
        lines.append(f"{label if nth == 0 else '':<{indent}}{line}")
