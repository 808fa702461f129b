# SPDX-License-Identifier: Apache-2.0
"""Numbers with their nouns, for messages and pages."""

from __future__ import annotations


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun.

    >>> count(1, "model"), count(1500, "step"), count(2, "leaf", "leaves"), count(0, "image")
    ('1 model', '1,500 steps', '2 leaves', '0 images')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
