# SPDX-License-Identifier: Apache-2.0
"""What may become of a command that meets a damaged folder.

It ends as if nothing had happened, to the last bit; or it fails with one message that names what is
damaged and says what to do, and leaves everything else as it was. What a message says to do is
done, and must lead somewhere.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from .damages import Damage, fresh_copy
from .fork_server import Answer, ForkServer
from .kinds import Kind, Verb

REMEDIES = (
    "Add Choose Crop Discover Give Go Make Move Name Open Perturb Put Remove Rename Replace"
    " Get Reshape Restore Run Save Scale Score Search Separate Set Take Train Write"
).split()
_REMEDY = re.compile(rf"(?:[.:;] |, |\n)(?:{'|'.join(REMEDIES)}|{'|'.join(REMEDIES).lower()})\b")
_COMMAND = re.compile(r"unbraid ((?:resume|score|report|study run) [^`\n]*?)(?=[`\n.](?:\s|$)|`|$)")
_NOT_CONTENT = re.compile(r".*(\.lock|\.damaged)|time\.json|slice\.json")
"""Locks, what was set aside, and what counts seconds."""
_TIMES = re.compile(r"\d+ minutes?|about \S+ \w+|took [^,\n]*|\d{4}-\d\d-\d\dT\S+|\d+(\.\d+)? s\b")

Contents = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """How a command ended, and what the folders held then."""

    answer: Answer
    contents: Contents


class Place:
    """Where one kind of folder lies, made once; each case has a copy at the same path."""

    def __init__(self, kind: Kind, home: Path, server: ForkServer) -> None:
        self.kind, self.server, self.home = kind, server, home / kind.name
        self.names = {
            "home": str(self.home / "now"),
            "f": str(self.home / "now" / ("shapes3d" if kind.name == "data-home" else "folder")),
            "other": str(self.home / "other"),
            "out": str(self.home / "now" / "out"),
        }
        self.now, self.master = self.home / "now", self.home / "master"
        self.now.mkdir(parents=True)
        self.home.chmod(0o755)
        for step in (*kind.make, *kind.other):
            self._make(*step)
        self.other = self.home / "other" if kind.other else None
        (self.now / "out").mkdir()
        shutil.copytree(self.now, self.master)
        self._usual: dict[Verb, Outcome] = {}

    def _make(self, function: str, *given: str) -> None:
        words = [one.format(**self.names) for one in given]
        if function == "unbraid":
            answer = self.server.run(*shlex.split(words[0]), environment=self._environment)
            assert answer.code == 0, answer.err
        else:
            self.server.make(function, *words, environment=self._environment)

    @property
    def _environment(self) -> dict[str, str]:
        return {"UNBRAID_DATA": str(self.now), "HOME": str(self.now)}

    @property
    def folder(self) -> Path:
        return Path(self.names["f"])

    def files(self) -> list[str]:
        """The files that are damaged, by their names in the folder."""
        inside = self.master / self.folder.name
        found = {path for pattern in self.kind.damaged for path in inside.glob(pattern)}
        return sorted(
            str(path.relative_to(inside))
            for path in found
            if path.is_file() and not path.name.endswith(".lock")
        )

    def _in_home(self, files: Iterable[str]) -> Iterator[str]:
        """Names that files of the folder have among all that lies there."""
        return (str((self.folder / file).relative_to(self.now)) for file in files)

    def usual(self, verb: Verb) -> Outcome:
        """What the command does to the folder as it was made."""
        if verb not in self._usual:
            fresh_copy(self.master, self.now)
            self._usual[verb] = self.outcome(verb)
        return self._usual[verb]

    def outcome(self, verb: Verb, powerless: bool = False, mutation: str = "") -> Outcome:
        words = shlex.split(verb.words.format(**self.names))
        answer = self._call(verb, words, powerless, mutation)
        return Outcome(answer, contents(self.now))

    def _call(self, verb: Verb, words: list[str], powerless: bool, mutation: str) -> Answer:
        request: dict[str, Any] = {
            "powerless": powerless,
            "mutation": mutation,
            "environment": self._environment,
        }
        if verb.function:
            return self.server.call(verb.function, *words, **request)
        return self.server.run(*words, **request)

    def complaints(self, damage: Damage, verb: Verb, mutation: str = "") -> list[str]:
        """What is wrong with how the command meets the damage; nothing where it is right."""
        usual = self.usual(verb)
        fresh_copy(self.master, self.now)
        locked = damage.what == "locked"
        damage.happen(self.folder, self.other)
        before = contents(self.now)
        found = self.outcome(verb, locked, mutation)
        told = list(self._judge(damage, verb, usual, before, found))
        if found.answer.code in (1, 2) and not told and usual.answer.code == 0:
            told += self._follow(damage, verb, found.answer, usual, mutation)
        return told

    def _judge(
        self, damage: Damage, verb: Verb, usual: Outcome, before: Contents, found: Outcome
    ) -> Iterator[str]:
        code, out, err = found.answer
        own = set(self._in_home(damage.files))
        results = set(self._in_home(verb.results))
        if "Traceback" in err or "Traceback" in out or "Warning:" in err:
            yield f"a traceback or a warning: {err[-1500:]}"
        if code not in (0, 1, 2):
            yield f"exit code {code}: {err[-300:]}"
        if verb.unchecked and code == 0 and ("flip" in damage.what or damage.source):
            return
        if verb.shows_absence and code == 0 and damage.what == "absent":
            return
        if code == 0 and usual.answer.code == 0:
            if not verb.unchecked and _timeless(out) != _timeless(usual.answer.out):
                yield f"another result:\n{out}\ninstead of\n{usual.answer.out}"
            for name in usual.contents.keys() | found.contents.keys():
                now, then = found.contents.get(name), usual.contents.get(name)
                if now == then or _NOT_CONTENT.fullmatch(Path(name).name):
                    continue
                if _is_older(name, usual.contents):
                    continue
                left = name in own - results and now == before.get(name)
                if not left and not any(name.startswith(f"{one}/") for one in own):
                    how = "has another content" if now and then else "is new" if now else "is gone"
                    yield f"{name} {how}"
        elif code == 0:
            yield f"it did not fail where it does usually:\n{out}\n{err}"
        elif (code, err) == (usual.answer.code, usual.answer.err):
            return
        else:
            yield from self._judge_message(damage, err)
            for name, was in before.items():
                now = found.contents.get(name)
                good = now in (was, usual.contents.get(name))
                if not good and name not in own and not _NOT_CONTENT.fullmatch(Path(name).name):
                    yield f"{name} was good and is not as it was"

    def _judge_message(self, damage: Damage, err: str) -> Iterator[str]:
        messages = re.split(r"(?m)^unbraid: ", err)[1:]
        if len(messages) != 1:
            yield f"{len(messages)} messages: {err}"
            return
        (message,) = messages
        places = [self.folder / file for file in damage.files]
        names = {path.name for path in places} | {
            str(above)
            for path in places
            for above in path.parents
            if above != self.now and self.now in above.parents
        }
        if not any(name in message for name in names):
            yield f"it does not name {' or '.join(sorted(damage.files))}: {message}"
        if not _REMEDY.search(message):
            yield f"no remedy: {message}"

    def _follow(
        self, damage: Damage, verb: Verb, answer: Answer, usual: Outcome, mutation: str
    ) -> Iterator[str]:
        """Do what the message says: a command of ours, or to remove a file; and then again.

        Where another file than the damaged one could be removed, the damaged one can be put back.
        """
        remedy = _COMMAND.search(answer.err)
        removed = re.search(
            r"(?:Remove|remove|move) (?:it|it away|that file|(/\S*?)),? (?:and|to)", answer.err
        )
        locked = damage.what == "locked"
        if locked or damage.what == "swap":
            return
        if "remove that file" in answer.err and damage.file not in answer.err.split()[1]:
            return
        if removed:
            path = Path(removed[1].rstrip(",.")) if removed[1] else self.folder / damage.file
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        if remedy and not re.search(r"NEW_PLACE|FILE|FOLDER|\.\.\.", remedy[1]):
            words = shlex.split(remedy[1])
            again = shlex.split(verb.words.format(**self.names))[: len(words)]
            if words == again and not removed:
                yield f"the remedy is what failed: {answer.err}"
                return
            again = self._call(Verb(""), words, False, mutation)
            if again.code != 0:
                yield f"the remedy failed: {answer.err}\nand then {again.err}"
                return
        elif not removed:
            return
        found = self.outcome(verb, mutation=mutation)
        if found.answer.code != 0 and removed and _COMMAND.search(found.answer.err):
            yield from self._follow(damage, verb, found.answer, usual, mutation)
        elif found.answer.code != 0:
            yield f"the remedy did not help: {answer.err}\nand then {found.answer.err}"
        elif _timeless(found.answer.out) != _timeless(usual.answer.out):
            yield f"after the remedy another result:\n{found.answer.out}\n{usual.answer.out}"


def _is_older(name: str, usual: Contents) -> bool:
    """Whether this is a checkpoint before the newest, whose step may be any."""
    prefix, step, _ = name.partition(".step-")
    return bool(step) and name < max((one for one in usual if one.startswith(prefix)), default="")


def _timeless(out: str) -> str:
    return _TIMES.sub("", out)


def contents(folder: Path) -> Contents:
    """What every file of *folder* says: two are equal where powerless could tell them apart."""
    found: Contents = {}
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place) / name
            key = str(path.relative_to(folder))
            if path.is_symlink():
                found[key] = f"link to {os.readlink(path)}"
            elif path.is_file():
                found[key] = content(path)
    return found


def content(path: Path) -> Any:
    whole = path.read_bytes()
    if path.suffix == ".html":
        page, _, told = whole.rpartition(b"<!-- sha256 of the page above: ")
        good = told == f"{hashlib.sha256(page).hexdigest()} -->\n".encode()
        made_from = page.rpartition(b"<!-- sha256 of what it was made from: ")[2][:64]
        return ("a page", made_from) if good else whole
    if path.suffix == ".parquet":
        try:
            table = (
                pq.read_table(io.BytesIO(whole))
                .to_pandas()
                .drop(columns=["seconds"], errors="ignore")
            )
            return sorted(map(repr, table.to_dict("records")))
        except Exception:
            return whole
    return whole
