# SPDX-License-Identifier: Apache-2.0
"""Folders of every kind, each made when a test first asks for it, and the process that forks."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .fork_server import ForkServer
from .kinds import KINDS
from .oracle import Place

Places = Callable[[str], Place]


@pytest.fixture(scope="session")
def home() -> Iterator[Path]:
    """Where the folders lie."""
    folder = Path(tempfile.mkdtemp(prefix="unbraid-damage-"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def server(home: Path) -> Iterator[ForkServer]:
    """The process that has imported everything."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(os.environ, "UNBRAID_DAMAGE_HOME", str(home))
        made = ForkServer()
    yield made
    made.close()


@pytest.fixture(scope="session")
def places(home: Path, server: ForkServer) -> Places:
    """The place of a kind by its name."""
    known = {kind.name: kind for kind in KINDS}
    made: dict[str, Place] = {}

    def place(name: str) -> Place:
        if name not in made:
            made[name] = Place(known[name], home, server)
        return made[name]

    return place
