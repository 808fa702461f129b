# SPDX-License-Identifier: Apache-2.0
"""Whether files are the published ones, by size and checksum, with a receipt for each file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from unbraid.core.errors import Problems, Shown
from unbraid.core.progress import Progress
from unbraid.data.official import OFFICIAL, published
from unbraid.data.official.reading import checking, is_gzipped, open_maybe_gzipped, pieces, readable
from unbraid.data.official.source import Found, PublishedFile, Source

YES, NO, UNKNOWN = "yes", "no", "unknown"
"""As published; not as published, taken because the user said so; no published checksum to compare
with.
"""


def verify(
    source: Source, found: Sequence[Found], *, unverified: bool = False, quiet: bool = False
) -> list[dict[str, Any]]:
    """A receipt for each of *found*; without *unverified* an unpublished file is refused.

    Unless *unverified*.
    """
    problems = Problems()
    if not unverified:
        for one in found:
            with readable(source, one.path):
                size = _size_at_rest(one)
            _check_size(problems, source, one, size)
        problems.raise_if_any()
    size = sum(one.path.stat().st_size for one in found if one.path.is_file())
    with checking(source, size, quiet=quiet) as progress:
        receipts = [_receipt(problems, source, one, progress) for one in found]
    if not unverified:
        problems.raise_if_any()
    return receipts


def overall(receipts: Sequence[dict[str, Any]]) -> str:
    """One word for all files."""
    words = {receipt["as_published"] for receipt in receipts}
    return NO if NO in words else UNKNOWN if UNKNOWN in words else YES


def _size_at_rest(one: Found) -> int | None:
    """The size to compare before anything is read; None where it is not known yet."""
    if one.published is None or not one.path.is_file():
        return None
    if one.published.unpacked and is_gzipped(one.path):
        return None
    return one.path.stat().st_size


def _remedy(file: PublishedFile) -> str:
    return f"Get it again from {file.link}, or take it as it is with {{unverified=True}}."


def _check_size(problems: Problems, source: Source, one: Found, size: int | None) -> bool:
    wanted = one.published.size if one.published else None
    if one.published is None or size is None or wanted is None or size == wanted:
        return True
    difference = f"{wanted - size:,} too few" if size < wanted else f"{size - wanted:,} too many"
    unpacked = " when unpacked" if one.published.unpacked else ""
    rule = f"must have {wanted:,} bytes{unpacked}, as published"
    problems.add(
        f"{source.name} file {one.path}",
        rule,
        Shown(f"{size:,}, {difference}"),
        _remedy(one.published),
    )
    return False


def _receipt(problems: Problems, source: Source, one: Found, progress: Progress) -> dict[str, Any]:
    if not one.path.is_file():
        return {"file": one.name, "size": None, "sha256": None, "as_published": UNKNOWN}
    digests = {"sha256": hashlib.sha256(), "md5": hashlib.md5(usedforsecurity=False)}
    size = 0
    unpack = one.published is not None and one.published.unpacked
    with (
        readable(source, one.path),
        open_maybe_gzipped(one.path) if unpack else one.path.open("rb") as stream,
    ):
        for piece in pieces(stream, progress):
            size += len(piece)
            for digest in digests.values():
                digest.update(piece)
    found = {kind: digest.hexdigest() for kind, digest in digests.items()}
    receipt: dict[str, Any] = {
        "file": one.name,
        "size": size,
        "sha256": found["sha256"],
        "as_published": UNKNOWN,
    }
    if one.published is None or one.published.checksum is None:
        return receipt
    kind, wanted = one.published.checksum
    right_size = _check_size(problems, source, one, size)
    receipt["as_published"] = YES if found[kind] == wanted and right_size else NO
    if right_size and found[kind] != wanted:
        elsewhere = _known_elsewhere(found)
        value, remedy = found[kind], _remedy(one.published)
        if elsewhere is not None:
            value, remedy = (
                f"that of {elsewhere[1]}",
                f"Type: unbraid data add {elsewhere[0]} {one.path}.",
            )
        problems.add(
            f"{source.name} file {one.path}",
            f"must have the published {kind} {wanted}",
            Shown(value),
            remedy,
        )
    return receipt


def _known_elsewhere(found: dict[str, str]) -> tuple[str, str] | None:
    """Dataset and file that these checksums belong to."""
    for name in OFFICIAL:
        for file in published(name).source.files:
            if file.checksum is not None and found[file.checksum[0]] == file.checksum[1]:
                return name, file.name
    return None
