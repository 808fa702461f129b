# SPDX-License-Identifier: Apache-2.0
"""`make fuzz`: every target for a share of the minutes, guided by coverage; the corpus is kept.

    python -m tests.fuzz.long --minutes 10 [TARGET ...]

What reaches new places of our code is added to `corpus/` and what is no longer needed leaves it, as
libFuzzer's merge decides. A finding goes to `found/`, where the ordinary tests try it for ever, and
the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.fuzz import cases

LONGEST_KEPT, MOST_KEPT = 1_000, 4_000
"""Bytes of an input in the corpus, and of all of a target."""
_LONGEST = 4_096


def _guided(command: Path, *words: str) -> None:
    """Run libFuzzer on a target; of what it prints, its last line of numbers is shown."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    if Path("/dev/shm").is_dir():  # every case has a folder of its own
        env["TMPDIR"] = "/dev/shm"
    done = subprocess.run(
        [command, *words], env=env, capture_output=True, text=True, errors="replace"
    )
    print(done.stdout, end="")
    last = [line for line in done.stderr.splitlines() if "cov:" in line]
    print(" ".join(last[-1].split()) if last else done.stderr[-300:], flush=True)


def _command(place: Path, name: str, findings: Path) -> Path:
    """A program that fuzzes the target *name*."""
    path = place / "guided"
    words = [sys.executable, "-m", "tests.fuzz.guided", str(path), name, str(findings)]
    path.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    path.chmod(0o700)
    return path


def _fuzz(name: str, seconds: int) -> int:
    """Fuzz one target and keep what is worth it; the number of findings."""
    with tempfile.TemporaryDirectory() as place:
        old, new, findings = (Path(place) / part for part in ("old", "new", "findings"))
        for folder in (old, new, findings):
            folder.mkdir()
        for number, content in enumerate(cases.kept(name)):
            (old / str(number)).write_bytes(content)
        print(f"{name}:", end=" ", flush=True)
        command = _command(Path(place), name, findings)
        limits = (f"-max_len={_LONGEST}", "-timeout=120", "-rss_limit_mb=0")
        _guided(command, str(old), f"-max_total_time={seconds}", *limits)
        _guided(command, "-merge=1", str(new), str(old), *limits)
        found = [path.read_bytes() for path in findings.iterdir()]
        if found:
            cases.write("found", name, [*cases.read("found", name), *found])
        inputs = sorted((path.read_bytes() for path in new.iterdir()), key=len)
        small, size = [], 0
        for content in inputs:
            size += len(content)
            if len(content) <= LONGEST_KEPT and size <= MOST_KEPT:
                small.append(content)
        if small:
            cases.write("corpus", name, small)
    return len(found)


def main() -> None:
    """Fuzz the targets that are named, or all."""
    parser = argparse.ArgumentParser(description="Fuzz for some minutes.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(cases.ALL))
    parser.add_argument("--minutes", type=float, default=10)
    given = parser.parse_args()
    names = given.targets or list(cases.ALL)
    if unknown := set(names) - set(cases.ALL):
        parser.error(f"unknown: {', '.join(sorted(unknown))}")
    seconds = max(2, round(given.minutes * 60 / len(names)))
    found = sum(_fuzz(name, seconds) for name in names)
    print(f"{found} findings" + (", kept in tests/fuzz/found" if found else ""))
    sys.exit(found > 0)


if __name__ == "__main__":
    main()
