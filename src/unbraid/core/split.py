# SPDX-License-Identifier: Apache-2.0
"""Which rows of a sample are for fitting and which for testing."""

from __future__ import annotations

TRAIN_SHARE = 2 / 3
"""The studies' 10,000 training and 5,000 test points."""


def training_rows(rows: int) -> int:
    """How many leading rows of a sample of *rows* are for fitting; the rest are for testing.

    >>> training_rows(15_000), training_rows(1)
    (10000, 1)
    """
    return max(1, round(rows * TRAIN_SHARE))
