# SPDX-License-Identifier: Apache-2.0
"""A section for each command, from the declarations that the command line is made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from tools.docs.tables import cell, table
from tools.docs.templates import render

from unbraid.commands.command_line import app


def commands(group: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Every command with its words: `data add`."""
    for name, command in (group or typer.main.get_command(app)).commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def overview() -> str:
    """One row per command."""
    return table(
        "command | what it does",
        (
            (f"[`unbraid {name}`](#unbraid-{name.replace(' ', '-')})", cell(_first(command)))
            for name, command in commands()
        ),
    )


def _first(command: Any) -> str:
    return " ".join((command.help or "").split("\n\n")[0].split())


def sections() -> str:
    """A section for each command: what it does, its arguments and options."""
    return "\n\n".join(
        render(
            "command",
            name=name,
            words=[" ".join(part.split()) for part in (command.help or "").split("\n\n")],
            usage=" ".join(f"{one.name.upper()}" for one in _of(command, "argument")),
            arguments=_table(command, "argument"),
            options=_table(command, "option"),
        ).strip()
        for name, command in commands()
    )


def _of(command: Any, kind: str) -> list[Any]:
    return [one for one in command.params if one.param_type_name == kind and one.name != "help"]


def _table(command: Any, kind: str) -> str:
    rows = []
    for one in _of(command, kind):
        name = one.opts[0] if kind == "option" else one.name.upper()
        default = "" if one.default is None or one.default is False else f"`{one.default}`"
        rows.append((f"`{name}`", default, cell(one.help or "")))
    return table(f"{kind} | default | meaning", rows) if rows else ""
