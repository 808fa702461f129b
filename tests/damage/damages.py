# SPDX-License-Identifier: Apache-2.0
"""What befalls a file: a bit, its length, its place, its rights, and files that are another's."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_FLIPPED = {"header": 0.02, "early": 0.3, "middle": 0.5, "late": 0.8, "end": 1.0}
"""Where a bit is flipped, as a share of the file; any other share stands for itself."""
_CUT = ("half", "first kB", "all but a byte", "empty")
_REPLACED = ("absent", "folder", "loop", "dangling", "locked")


@dataclass(frozen=True)
class Damage:
    """One damage of one file of a folder; both are named in the folder."""

    file: str
    what: str
    source: str = ""
    """Of a copy or a swap: the other file, beginning with "other/" where it is another folder's."""

    def __str__(self) -> str:
        """For the name of a test."""
        return f"{self.file} {self.what} {self.source}".strip()

    def happen(self, folder: Path, other: Path | None) -> None:
        """Do it to *folder*; *other* is one like it."""
        path = folder / self.file
        word, _, where = self.what.partition(" at ")
        if word == "flip":
            content = bytearray(path.read_bytes())
            share = _FLIPPED[where] if where in _FLIPPED else float(where)
            content[min(int(share * len(content)), len(content) - 1)] ^= 4
            path.write_bytes(content)
        elif self.what in _CUT:
            content = path.read_bytes()
            lengths = (len(content) // 2, min(1024, len(content) - 1), len(content) - 1, 0)
            path.write_bytes(content[: lengths[_CUT.index(self.what)]])
        elif self.what == "locked":
            path.chmod(0)
        elif self.what in ("copy", "swap"):
            inside = not self.source.startswith("other/")
            source = folder / self.source if inside else Path(f"{other}") / self.source[6:]
            kept = path.read_bytes()
            path.write_bytes(source.read_bytes())
            if self.what == "swap":
                source.write_bytes(kept)
        else:
            path.unlink()
            if self.what == "folder":
                path.mkdir()
            elif self.what == "loop":
                path.symlink_to(path.name)
            elif self.what == "dangling":
                path.symlink_to("nowhere")

    @property
    def files(self) -> set[str]:
        """Those that are not as they were."""
        return {self.file} | ({self.source} if self.what == "swap" else set())


def damages(folder: Path, other: Path | None, files: list[str]) -> Iterator[Damage]:
    """Every damage of every one of *files* in *folder*."""
    for file in files:
        path = folder / file
        for what in (*(f"flip at {place}" for place in _FLIPPED), *_CUT, *_REPLACED):
            if path.stat().st_size or "flip" not in what:
                yield Damage(file, what)
        for source in _like(folder, file):
            yield Damage(file, "copy", source)
            yield Damage(file, "swap", source)
        if other is not None and (other / file).is_file():
            if (other / file).read_bytes() != path.read_bytes():
                yield Damage(file, "copy", f"other/{file}")


def _like(folder: Path, file: str) -> list[str]:
    """Files of the same ending with another content: a neighbour, and one from elsewhere."""
    path = folder / file
    found = [
        one
        for one in sorted(folder.rglob(f"*{path.suffix}"))
        if one != path and one.is_file() and one.read_bytes() != path.read_bytes()
    ]
    beside = [one for one in found if one.parent == path.parent][:2]
    far = [one for one in found if one.parent != path.parent]
    same_name = [one for one in far if one.name == path.name][:1]
    return [str(one.relative_to(folder)) for one in dict.fromkeys([*beside, *same_name, *far[:1]])]


def fresh_copy(master: Path, folder: Path) -> None:
    """Put a copy of *master* at *folder*, whatever was there."""
    if folder.is_dir():
        shutil.rmtree(folder)
    else:
        folder.unlink(missing_ok=True)
    if master.is_dir():
        shutil.copytree(master, folder)
    else:
        shutil.copy(master, folder)
