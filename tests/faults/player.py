# SPDX-License-Identifier: Apache-2.0
"""Plays a scenario with a fault, goes on as a person would, and says what is not right then."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .disk import CHECKS as DISK_CHECKS
from .disk import POWER, cut_power, damage_newest, newest_alone
from .scenarios import SCENARIOS, Scenario

CHECKS = DISK_CHECKS | {
    "ends": "the fault is met, or the command ends as without it",
    "message": "an error is one message and exit code 1 or 2",
    "half": "an error leaves no half behind",
    "goes on": "what a person types next ends well",
    "bits": "it ends with the very files of a run that nothing disturbed",
    "free": "no lock is held any more",
}
KILLS = ("kill", "damage", *POWER)
ERRORS = ("ENOSPC", "EIO", "EACCES")
_NEW_STATES = ("chunk.saved", "chunk.done", "state.saved", "generation.replaced", "plan.extended")
_TESTS = Path(__file__).resolve().parents[1]
_CODE = f"import sys; sys.path.insert(0, {str(_TESTS)!r}); from faults.server import serve; serve()"

Fault = tuple[str, int, str]
"""The failpoint, at which of its hits, and what happens there."""


@dataclass(frozen=True)
class Finding:
    """Something that is not as it should be."""

    check: str
    told: str


@dataclass(frozen=True)
class Played:
    """How one command ended."""

    status: int
    code: int | None
    hits: list[str]
    settled: list[bool]
    """At each hit, whether a power cut would be no more than a kill."""
    findings: list[Finding]
    said: str


class Player:
    """A server, a folder in which everything plays, and what undisturbed runs ended with."""

    def __init__(self, home: Path) -> None:
        self.home, self.stage = home, home / "stage"
        self.last: Played
        """How the last command ended."""
        self._whole: dict[str, tuple[Played, dict[str, str]]] = {}
        command = [sys.executable, "-c", _CODE]
        own = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "TERM": "dumb"}
        self._server = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | own,
        )

    def close(self) -> None:
        """End the server."""
        self._server.communicate()

    def undisturbed(self, name: str) -> tuple[Played, dict[str, str]]:
        """The scenario as it should end: what was found on the way, and the files."""
        if name not in self._whole:
            self._set_up(name)
            played = self._play(name, "begin")
            self._whole[name] = played, contents(self.stage, SCENARIOS[name])
        return self._whole[name]

    def disturbed(self, name: str, fault: Fault | None, mutation: str = "") -> list[Finding]:
        """What is not as it should be with a fault, or after something is taken out."""
        _, whole = self.undisturbed(name)
        self._set_up(name)
        first = self._play(name, "begin", fault, mutation)
        found = list(first.findings)
        if fault is None:
            return found
        kind, damaged = fault[2], ""
        if kind in KILLS:
            if first.status == 0:
                return [*found, Finding("ends", f"{fault[0]} was not met a {fault[1]}th time")]
            if first.status != -9:
                return [*found, Finding("ends", first.said)]
            if kind in POWER:
                cut_power(self._found, kind)
            if kind == "damage" and (newest := damage_newest(self.stage)):
                damaged = str(newest)
        else:
            found += _judged(first)
            halves = [*self.stage.rglob("*.part"), *self.stage.rglob(".tmp??????")]
            found += [Finding("half", str(half)) for half in halves]
        found += [Finding("free", str(path)) for path in _held(self.stage)]
        self.last = then = self._play(name, "go on", None, mutation, damaged)
        found += then.findings
        if then.status != 0 or then.code != 0:
            return [*found, Finding("goes on", f"exit code {then.code}: {then.said}")]
        now = contents(self.stage, SCENARIOS[name])
        if damaged:
            whole, now = newest_alone(whole), newest_alone(now)
        wrong = sorted(
            path for path in whole.keys() | now.keys() if whole.get(path) != now.get(path)
        )
        return [*found, *(Finding("bits", path) for path in wrong)]

    def faults(self, name: str) -> list[Fault]:
        """Every fault at every hit of a failpoint of the scenario that can tell anything: power
        cuts where a kill would leave another disk, damage where there is a new state. Of dear
        scenarios one kind of power cut and of error at each.
        """
        played, scenario = self.undisturbed(name)[0], SCENARIOS[name]
        seen: Counter[str] = Counter()
        found: list[Fault] = []
        for place, (point, settled) in enumerate(zip(played.hits, played.settled, strict=True)):
            seen[point] += 1
            power = () if settled else POWER[place % 3 :][:1] if scenario.dear else POWER
            errors = ERRORS[place % 3 :][:1] if scenario.dear else ERRORS
            damage = ("damage",) if point in _NEW_STATES else ()
            kinds = ("kill", *power, *errors, *damage)
            if not scenario.since or seen[scenario.since]:
                found += [(point, seen[point], kind) for kind in kinds]
        return found

    @property
    def _found(self) -> Path:
        return self.home / "found.json"

    def _set_up(self, name: str) -> None:
        """The folder as the command finds it."""
        template = self.home / f"{name}.before"
        shutil.rmtree(self.stage, ignore_errors=True)
        if not template.exists():
            self.stage.mkdir()
            made = self._play(name, "prepare")
            assert (made.status, made.code) == (0, 0), made.said
            self.stage.rename(template)
        shutil.copytree(template, self.stage)

    def _play(
        self,
        name: str,
        what: str,
        fault: Fault | None = None,
        mutation: str = "",
        damaged: str = "",
    ) -> Played:
        said = self.home / "said.txt"
        self._found.unlink(missing_ok=True)
        request: dict[str, Any] = {"scenario": name, "what": what, "fault": fault}
        request |= {"mutation": mutation, "damaged": damaged, "stage": str(self.stage)}
        request |= {"said": str(said), "found": str(self._found)}
        request["learn"] = what == "begin" and name not in self._whole
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        status = json.loads(self._server.stdout.readline())["status"]
        told = said.read_text() if said.exists() else ""
        if status != 0:
            return Played(status, None, [], [], [], told)
        found = json.loads(self._found.read_text())
        breaches = [
            Finding(one["check"], f"{one['path']} {one['told']}") for one in found["breaches"]
        ]
        hits, settled = found["hits"], found["settled"]
        return Played(status, found["code"], hits, settled, breaches, told)


def _judged(played: Played) -> list[Finding]:
    """What is wrong with how an error was told."""
    if played.status != 0:
        return [Finding("ends", played.said)]
    last = played.said.strip().splitlines()[-1:] or [""]
    one = played.code in (1, 2) and any(
        line.startswith("unbraid: ") for line in played.said.splitlines()
    )
    if (played.code != 0 and not one) or "Traceback" in played.said or "Exception" in last[0]:
        return [Finding("message", f"exit code {played.code}: {played.said}")]
    return []


def _held(root: Path) -> list[Path]:
    """Locks that somebody still holds."""
    held = []
    for path in root.rglob(".*lock"):
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                held.append(path)
    return held


_TIMES = (
    re.compile(rb"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?([+]00:00| UTC)?"),
    re.compile(rb"\d[\d.]* (second|minute)s?"),
    re.compile(rb"sha256 of the page above: [0-9a-f]+"),  # which says when it was made
)
_VARYING = ("minutes", "added", "seconds", "date", "training_seconds", "scoring_seconds")


def contents(root: Path, scenario: Scenario) -> dict[str, str]:
    """A digest of every file below *root* but locks, without what a clock says; that of a killed
    process may stay where nothing is left to write.
    """
    found = {}
    for path in sorted(root.rglob("*")):
        place = path.relative_to(root)
        note = scenario.notes and path.name == ".begun.json"
        lock = path.name.endswith("lock") or any("lock.lease" in part for part in place.parts)
        if note or place.parts[0] in scenario.inputs or lock:
            continue
        if path.is_file():
            found[str(place)] = hashlib.sha256(_timeless(path)).hexdigest()
    return found


def _timeless(path: Path) -> bytes:
    content = path.read_bytes()
    if path.suffix == ".html":
        for pattern in _TIMES:
            content = pattern.sub(b"THEN", content)
    if path.suffix == ".json":
        record = json.loads(content)
        if record.keys() & set(_VARYING):
            record = {key: value for key, value in record.items() if key not in _VARYING}
            record.pop("sha256", None)
        return json.dumps(record).encode()
    if path.suffix == ".parquet" and (b"seconds" in content):
        import pandas as pd

        table = pd.read_parquet(path).drop(columns=["seconds"], errors="ignore")
        return table.to_json(double_precision=15).encode()
    return content
