# SPDX-License-Identifier: Apache-2.0
"""Numbers with their nouns, for messages and pages."""

from __future__ import annotations


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun.

    >>> count(1, "model"), count(1500, "step"), count(2, "leaf", "leaves"), count(0, "image")
    ('1 model', '1,500 steps', '2 leaves', '0 images')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def spoken(seconds: float) -> str:
    """A time as people say it.

    >>> spoken(42), spoken(600), spoken(8000), spoken(400_000)
    ('42 s', '10 min', '2.2 h', '4.6 days')
    """
    for size, unit, most in ((1, "s", 99), (60, "min", 99), (3600, "h", 48)):
        if seconds / size <= most:
            shown = seconds / size
            return f"{shown:.1f} {unit}" if unit == "h" else f"{shown:.0f} {unit}"
    return f"{seconds / 86400:.1f} days"
