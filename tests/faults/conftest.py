# SPDX-License-Identifier: Apache-2.0
"""One player for all tests: it remembers how undisturbed runs end."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .player import Player

_MEMORY = Path("/dev/shm")


@pytest.fixture(scope="session")
def player() -> Iterator[Player]:
    """Plays in memory where that can be done: what is synced is looked at, not waited for."""
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    home = Path(tempfile.mkdtemp(prefix="unbraid-faults-", dir=place)).resolve()
    one = Player(home)
    yield one
    one.close()
    shutil.rmtree(home)
