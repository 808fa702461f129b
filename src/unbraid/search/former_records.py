# SPDX-License-Identifier: Apache-2.0
"""Records of searches and recursions that earlier versions wrote, in today's names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_RENAMED = {"epoch_pictures": "epoch_images", "leaf_pictures": "leaf_images", "judge": "scorer"}


def translated(record: Mapping[str, Any]) -> dict[str, Any]:
    """*record* with the names of today.

    >>> translated({"epoch_pictures": 640, "seed": 2})
    {'epoch_images': 640, 'seed': 2}
    """
    return {_RENAMED.get(name, name): value for name, value in record.items()}
