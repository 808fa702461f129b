# SPDX-License-Identifier: Apache-2.0
"""Benchmarks and examples name only what exists; they are not run by the tests."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

import pytest

import unbraid as ub

ROOT = Path(__file__).resolve().parents[2]
FILES = [*sorted(ROOT.glob("benchmarks/*.py")), *sorted(ROOT.glob("examples/*.py"))]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_what_is_imported_exists(file: Path):
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("unbraid"):
            module = importlib.import_module(node.module or "")
            for one in node.names:
                path = f"{node.module}.{one.name}"
                assert hasattr(module, one.name) or importlib.util.find_spec(path), path
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "ub":
            assert hasattr(ub, node.attr), f"ub.{node.attr}"
