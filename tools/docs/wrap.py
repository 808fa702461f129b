# SPDX-License-Identifier: Apache-2.0
"""Lines of at most 100 columns for generated prose."""

from __future__ import annotations

import re

WIDTH = 100
_MEANS_SOMETHING = re.compile(r"[-+*#>|=~].*|\d+[.)].*")
"""Words that would begin a list, a heading or the like at the start of a line."""


def wrap(text: str, indent: str = "") -> str:
    """A paragraph, or an item of a list with *indent* for its further lines, in lines.

    >>> [len(line) for line in wrap("word " * 20 + "a - b").splitlines()]
    [99, 5]
    """
    lines: list[list[str]] = [[]]
    for word in text.split():
        if lines[-1] and len(" ".join([*lines[-1], word])) > WIDTH - len(indent):
            # A minus sign must not begin a line: it would begin a list.
            carried = [lines[-1].pop()] if _MEANS_SOMETHING.fullmatch(word) else []
            lines.append(carried)
        lines[-1].append(word)
    return f"\n{indent}".join(" ".join(line) for line in lines)


def wrap_lines(text: str) -> str:
    """Every line of *text* wrapped, items of a list with their indent."""
    return "\n".join(
        wrap(line, "  " if line.startswith("- ") else "") for line in str(text).splitlines()
    )
