# SPDX-License-Identifier: Apache-2.0
"""Lines of at most 100 columns for generated prose."""

from __future__ import annotations

import re

WIDTH = 100
_MEANS_SOMETHING = re.compile(r"[-+*#>|=~].*|\d+[.)].*")
"""Words that would begin a list, a heading or the like at the start of a line."""


def wrap(text: str, indent: str = "") -> str:
    """A paragraph, or an item of a list with *indent* for its further lines, in lines.

    >>> print(wrap("word " * 20 + "a - b"))
    word word word word word word word word word word word word word word word word word word word word
    a - b
    """
    lines: list[list[str]] = [[]]
    for word in text.split():
        if lines[-1] and len(" ".join([*lines[-1], word])) > WIDTH - len(indent):
            # A minus sign must not begin a line: it would begin a list.
            carried = [lines[-1].pop()] if _MEANS_SOMETHING.fullmatch(word) else []
            lines.append(carried)
        lines[-1].append(word)
    return f"\n{indent}".join(" ".join(line) for line in lines)
