# SPDX-License-Identifier: Apache-2.0
"""Hosts for all tests of several workers."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import unbraid as ub

from .hosts import Hosts
from .runs import DATA, OBJECTIVE, PLAN, digests


@pytest.fixture(scope="session")
def hosts() -> Iterator[Hosts]:
    """A process that starts others."""
    if sys.platform != "linux":
        pytest.skip("reads /proc")
    one = Hosts()
    yield one
    one.close()


@pytest.fixture
def plain(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """What a run ends with that one undisturbed process trains."""

    def train(seeds: int, steps: int, **more: Any) -> dict[str, str]:
        options = {**PLAN, **more, "seeds": seeds, "steps": steps, "device": "cpu"}
        made = ub.train(DATA, OBJECTIVE, out=tmp_path / "plain", quiet=True, **options)
        return digests(made.path)

    return train
