# SPDX-License-Identifier: Apache-2.0
"""Which code is running, told by its text: a version number does not, in a checkout."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


@cache
def source_digest() -> str:
    """SHA-256 of the package's Python files and their places, the same on every machine."""
    root = Path(__file__).parents[1]
    whole = hashlib.sha256()
    for path in sorted(root.rglob("*.py"), key=lambda one: one.relative_to(root).as_posix()):
        text = path.read_bytes().replace(b"\r\n", b"\n")
        whole.update(f"{path.relative_to(root).as_posix()} {len(text)}\n".encode())
        whole.update(text)
    return whole.hexdigest()
