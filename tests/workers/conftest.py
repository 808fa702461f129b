# SPDX-License-Identifier: Apache-2.0
"""Hosts for all tests of several workers."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from .hosts import Hosts


@pytest.fixture(scope="session")
def hosts() -> Iterator[Hosts]:
    """A process that starts others."""
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    one = Hosts()
    yield one
    one.close()
