# SPDX-License-Identifier: Apache-2.0
"""The digest of the package's code follows its text and its places, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from unbraid.core.source_digest import source_digest

PACKAGE = Path(source_digest.__wrapped__.__code__.co_filename).parents[1]


def digest_of(package: Path) -> str:
    """As a program of its own tells it that imports the code in *package*."""
    told = "from core.source_digest import source_digest; print(source_digest())"
    words = f"import sys; sys.path.insert(0, {str(package)!r}); {told}"
    done = subprocess.run([sys.executable, "-I", "-c", words], capture_output=True, check=True)
    return done.stdout.decode().strip()


def test_it_follows_the_code_and_not_where_it_lies(tmp_path: Path):
    copy = tmp_path / "elsewhere"
    shutil.copytree(PACKAGE / "core", copy / "core", ignore=shutil.ignore_patterns("__pycache__"))
    first = digest_of(copy)
    (copy / "core" / "notes.txt").write_text("no code")
    assert digest_of(copy) == first
    other = copy / "core" / "words.py"
    other.write_bytes(other.read_bytes().replace(b"\n", b"\r\n"))
    assert digest_of(copy) == first
    other.rename(copy / "core" / "word.py")
    moved = digest_of(copy)
    assert moved != first
    with other.open("a") as file:
        file.write("x = 1\n")
    assert digest_of(copy) not in (first, moved)


def test_it_is_that_of_the_code_that_runs():
    assert len(source_digest()) == 64
    assert digest_of(PACKAGE) == source_digest()
