# SPDX-License-Identifier: Apache-2.0
"""Files are changed by `core/files.py` alone: no other file of the package does it by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import unbraid

SOURCE = Path(unbraid.__file__).parent
_OS = {
    *("replace", "rename", "renames", "unlink", "remove", "rmdir", "removedirs", "mkdir", "open"),
    *("makedirs", "link", "symlink", "truncate", "ftruncate", "fsync", "chmod", "utime", "write"),
}
_SHUTIL = {"rmtree", "copy", "copy2", "copyfile", "copytree", "copymode", "move", "make_archive"}
_METHODS = {
    *("write_text", "write_bytes", "unlink", "rmdir", "mkdir", "touch", "symlink_to", "chmod"),
    *("hardlink_to", "tofile", "flock", "lockf", "FileLock", "SoftFileLock"),
}
_TABLES = {"to_csv", "to_parquet", "to_json", "to_pickle", "to_feather", "to_excel", "to_hdf"}
_ARRAYS = {"save", "savez", "savez_compressed", "savetxt", "memmap"}
_OWN = {"files", "store"}
"""Modules of the package whose functions are called by these names."""

MAY = {
    "core/files.py": {"*"},
    "core/lease.py": {"*"},  # nothing that is lost with a lease is missed
    "core/lease_holder.py": {"own.mkdir", "own.rmdir"},  # to ask the disk for its time
    "core/store.py": {"np.save"},  # into memory
    "commands/command_line.py": {"os.open"},  # of /dev/null, in the place of a closed pipe
    "data/export.py": {"zipfile.ZipFile", "open"},  # a library writes into the half
    "testing/official_files.py": {"*"},  # makes files for tests to read
}
"""What other files may do all the same, and why."""


def operations(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and name of every call that changes files."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("os", "shutil", "tempfile"):
            yield from ((node.lineno, f"{node.module}.{one.name}") for one in node.names)
        if isinstance(node, ast.Call) and (name := _changes(node)):
            yield node.lineno, name


def _changes(call: ast.Call) -> str:
    """What *call* is called by, where it changes files."""
    if isinstance(call.func, ast.Name):
        return "open" if call.func.id == "open" and _writes(call) else ""
    if not isinstance(call.func, ast.Attribute):
        return ""
    name, owner = call.func.attr, call.func.value
    of = owner.id if isinstance(owner, ast.Name) else ""
    changes = (
        (of == "os" and name in _OS)
        or (of == "shutil" and name in _SHUTIL)
        or (of in ("np", "numpy", "torch") and name in _ARRAYS and not _reads(call))
        or of == "tempfile"
        or (name in _METHODS and of not in _OWN)
        or (name in ("rename", "replace") and len(call.args) == 1 and not call.keywords)
        or (name in _TABLES and call.args)
    )
    if changes:
        return f"{of}.{name}" if of else name
    if name in ("open", "ZipFile") and _writes(call):
        return f"{of}.{name}" if name == "ZipFile" else "open"
    return ""


def _texts(call: ast.Call) -> list[str]:
    given = [*call.args, *(one.value for one in call.keywords)]
    return [
        one.value for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)
    ]


def _writes(call: ast.Call) -> bool:
    modes = [text for text in _texts(call) if text and set(text) <= set("rwaxbt+:|gz")]
    return any(set(mode) & set("wax+") for mode in modes)


def _reads(call: ast.Call) -> bool:
    return "r" in _texts(call)


def test_no_other_file_changes_files():
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        may = MAY.get(path.relative_to(SOURCE).as_posix(), set())
        found += [
            f"{path.relative_to(SOURCE)}:{line}: {name}"
            for line, name in operations(ast.parse(path.read_text()))
            if not {"*", name} & may
        ]
    assert not found, "these belong through unbraid.core.files"


@pytest.mark.parametrize(
    "line",
    [
        *("os.replace(a, b)", "a.rename(b)", "a.replace(b)", "path.unlink(missing_ok=True)"),
        *("shutil.rmtree(a)", "path.open('w')", "open(a, mode='ab')", "path.write_text('x')"),
        *("table.to_csv(path, index=False)", "np.save(path, array)", "tempfile.mkdtemp()"),
        *("from os import replace", "zipfile.ZipFile(a, 'w')", "filelock.FileLock(a)"),
    ],
)
def test_such_lines_are_found(line: str):
    assert list(operations(ast.parse(line)))


@pytest.mark.parametrize(
    "line",
    [
        *("text.replace('a', 'b')", "path.open('rb')", "table.rename(columns=names)"),
        *("table.to_csv(index=False)", "files.write_bytes(a, b)", "np.memmap(path, mode='r')"),
    ],
)
def test_other_lines_are_not(line: str):
    assert not list(operations(ast.parse(line)))
