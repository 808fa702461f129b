# SPDX-License-Identifier: Apache-2.0
"""Small files in the published formats, and a data home of their own for every test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from unbraid.core.errors import InputError
from unbraid.data import load
from unbraid.data.official import published
from unbraid.data.official.add import add
from unbraid.data.official.source import Source
from unbraid.testing.official_files import small_source


@dataclass
class Small:
    """The small files of one dataset, and what a test does with them."""

    name: str
    folder: Path
    home: Path
    monkeypatch: pytest.MonkeyPatch

    @property
    def source(self) -> Source:
        return published(self.name).source

    @source.setter
    def source(self, source: Source) -> None:
        self.monkeypatch.setattr(published(self.name), "source", source)

    def file(self, nth: int = 0) -> Path:
        """The nth published file, which may be gzipped."""
        plain = self.folder / self.source.files[nth].name
        return plain if plain.exists() else plain.with_name(f"{plain.name}.gz")

    def add(self, path: Path | None = None, **options: Any) -> dict[str, Any]:
        return add(self.name, path or self.folder, quiet=True, **options)

    def refusal(self, path: Path | None = None, *, unverified: bool = True) -> str:
        """What adding says; nothing may be left behind by it."""
        before = self.contents()
        with pytest.raises(InputError) as caught:
            self.add(path, unverified=unverified)
        assert self.contents() == before
        return str(caught.value)

    def contents(self) -> dict[str, bytes]:
        """Every file in the data home."""
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in sorted(self.home.rglob("*"))
            if path.is_file()
        }

    def load(self) -> Any:
        return load(self.name)


@pytest.fixture
def small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Small]:
    """`small("shapes3d")`: the dataset's class reads a shrunk grid, small files lie in a folder,
    the data home is empty.
    """
    home = tmp_path / "home"
    monkeypatch.setenv("UNBRAID_DATA", str(home))

    def make(name: str) -> Small:
        folder = tmp_path / name
        monkeypatch.setattr(published(name), "source", small_source(name, folder))
        return Small(name, folder, home, monkeypatch)

    return make
