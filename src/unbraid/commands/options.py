# SPDX-License-Identifier: Apache-2.0
"""What several commands share: the device, options that belong to an objective, and the command as
it was typed.
"""

from __future__ import annotations

import shlex
import sys
from typing import Annotated, Any

import typer
import typer.core

DeviceOption = Annotated[str, typer.Option(help="auto, cpu, cuda or cuda:NUMBER.")]


class ExtraOptions(typer.core.TyperCommand):
    """Sets the options of the objective aside, so that their values are not taken for arguments."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Typer's own parsing of what it knows; the rest is left in `ctx.args`."""
        known = {name for parameter in self.get_params(ctx) for name in parameter.opts}
        kept, extra, waiting = [], [], list(args)
        while waiting:
            word = waiting.pop(0)
            name, equals, _ = word.partition("=")
            if name.startswith("--") and name.replace("_", "-") in known:
                word = name.replace("_", "-") + word[len(name) :]
            elif name.startswith("--") and name != "--":
                extra += [word] if equals or not waiting else [word, waiting.pop(0)]
                continue
            kept.append(word)
        rest = super().parse_args(ctx, kept)
        ctx.args = [*extra, *ctx.args]
        return rest


def command_line() -> str:
    """The command as it was typed."""
    return shlex.join(["unbraid", *sys.argv[1:]])
