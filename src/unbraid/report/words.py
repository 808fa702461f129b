# SPDX-License-Identifier: Apache-2.0
"""Numbers as people write them, for all pages."""

from __future__ import annotations

import math


def score_shown(value: float) -> str:
    """A score with three digits, a stroke where there is none.

    >>> score_shown(0.12345), score_shown(float("nan"))
    ('0.123', '–')
    """
    return f"{value:.3f}" if math.isfinite(value) else "–"


def bytes_shown(size: int) -> str:
    """A file size for people.

    >>> bytes_shown(950), bytes_shown(14_460), bytes_shown(3_200_000)
    ('950 B', '14 kB', '3.2 MB')
    """
    if size < 1000:
        return f"{size} B"
    return f"{size / 1e3:.0f} kB" if size < 1e6 else f"{size / 1e6:.1f} MB"
