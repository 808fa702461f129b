# SPDX-License-Identifier: Apache-2.0
"""A section for each command, from the declarations that the command line is made of."""

from __future__ import annotations

from tools.docs.tables import cell, table
from tools.docs.templates import render
from unbraid.commands.command_line import describe
from unbraid.commands.verb import Parameter, Verb


def overview() -> str:
    """One row per command."""
    return table(
        "command | what it does",
        (
            (f"[`unbraid {one.name}`](#unbraid-{one.name.replace(' ', '-')})", cell(one.summary))
            for one in describe()
        ),
    )


def sections() -> str:
    """A section for each command: what it does, its arguments and options."""
    return "\n\n".join(
        render(
            "command",
            verb=verb,
            usage=" ".join(one.flag for one in verb.options if one.argument),
            tables=[_table(verb, argument=True), _table(verb, argument=False)],
            python=[f"`{one.name}`" for one in verb.parameters if not one.cli],
        ).strip()
        for verb in describe()
    )


def _table(verb: Verb, *, argument: bool) -> str:
    rows = [
        (f"`{cell(one.flag)}`", _default(one), cell(one.option.help))
        for one in verb.options
        if one.argument is argument
    ]
    kind = "argument" if argument else "option"
    return table(f"{kind} | default | meaning", rows) if rows else ""


def _default(one: Parameter) -> str:
    return f"`{one.usual}`" if one.usual else ""
