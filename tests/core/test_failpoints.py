# SPDX-License-Identifier: Apache-2.0
"""Failpoints are off until a program asks for them, and every one of them is registered."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import unbraid
from unbraid.core.failpoints import POINTS, armed, failpoint

SOURCE = Path(unbraid.__file__).parent


def test_only_an_armed_program_hears_of_them():
    met: list[str] = []
    failpoint("file.kept")
    with armed(met.append):
        failpoint("file.kept")
        with armed(lambda name: met.append(name.upper())):
            failpoint("lock.held")
    failpoint("file.kept")
    assert met == ["file.kept", "LOCK.HELD"]


def test_what_a_handler_raises_comes_out_and_disarms():
    def full(name: str) -> None:
        raise OSError(name)

    with pytest.raises(OSError, match=r"half\.written"), armed(full):
        failpoint("half.written")
    failpoint("half.written")


def test_an_unknown_one_is_an_error_where_somebody_listens():
    failpoint("nowhere")
    with pytest.raises(KeyError, match="nowhere"), armed(lambda name: None):
        failpoint("nowhere")


def test_the_source_uses_those_that_are_registered_and_no_others():
    used: set[object] = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "failpoint":
                (name,) = node.args
                assert isinstance(name, ast.Constant), f"{path}:{node.lineno}"
                used.add(name.value)
    assert used == set(POINTS)
