# SPDX-License-Identifier: Apache-2.0
"""Cases in a process of their own, with a limit on memory and time: what ends it is a finding too.

`Child` starts a process that imports everything once. For each batch of cases it forks; the fork
may take 3 GiB more than it has, and 700 MB more for a single case.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import mmap
import os
import pkgutil
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from tests.fuzz import cases
from tests.fuzz.targets import Target

MOST_MEMORY, MOST_GROWTH = 3 * 2**30, 700 * 2**20
MOST_SECONDS = 20.0
"""Of the processor, for one case: a refusal takes milliseconds, scores of a run some seconds."""
MOST_FINDINGS = 5


class TooLongError(BaseException):
    """A case takes too long; nothing inside may catch it."""


class Child:
    """The process that runs batches."""

    def __init__(self) -> None:
        env = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.child"],
            cwd=cases.HERE.parents[1],
            env=env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, target: str, seed: str, count: int) -> dict[str, Any]:
        """How many cases there were and were taken, and the findings among them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([target, seed, count]) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def end(self) -> None:
        """Stop it."""
        self._process.communicate()


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raise `TooLongError` inside after so many seconds of the processor."""

    def stop(signum: int, frame: FrameType | None) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def finding(target: Target, content: bytes) -> tuple[bool, str]:
    """Whether *content* was taken, and what was found, empty for nothing."""
    place = Path(tempfile.mkdtemp())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    taken, found = False, ""
    try:
        with limited(MOST_SECONDS):
            taken = target.check(content, place)
    except TooLongError:
        found = f"takes longer than {MOST_SECONDS:g} s"
    except Exception:
        found = traceback.format_exc(limit=-4)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    if not found and grown > MOST_GROWTH:
        found = f"takes {grown / 1e6:.0f} MB of memory"
    return taken, found


def _batch(target: Target, seed: str, count: int, now: mmap.mmap) -> dict[str, Any]:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MOST_MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    total = good = 0
    findings: dict[str, str] = {}
    for content in cases.cases(target, seed, count):
        now[:4], now[4 : 4 + len(content[:60_000])] = len(content).to_bytes(4), content[:60_000]
        total += 1
        taken, found = finding(target, content)
        good += taken
        if found and found not in findings.values():
            findings[ascii(content[:8_000])] = found
        if len(findings) >= MOST_FINDINGS:
            break
    return {"cases": total, "taken": good, "findings": findings}


def _forked(target: Target, seed: str, count: int, now: mmap.mmap) -> dict[str, Any]:
    """A batch in a fork; one that does not come to its end tells by its last case."""
    receiving, sending = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(receiving)
        code = 1
        try:
            with os.fdopen(sending, "w") as answer:
                json.dump(_batch(target, seed, count, now), answer)
            code = 0
        finally:
            os._exit(code)
    os.close(sending)
    with os.fdopen(receiving) as answer:
        text = answer.read()
    _, status = os.waitpid(process, 0)
    if status == 0:
        return json.loads(text)
    length = int.from_bytes(now[:4])
    last = ascii(bytes(now[4 : 4 + min(length, 2_000)]))
    return {"cases": 0, "taken": 0, "findings": {last: f"ended the process (status {status})"}}


def _serve() -> None:
    """Answer batches until there are no more."""
    import torch
    from PIL import Image

    import unbraid

    torch.set_num_threads(1)
    Image.init()
    for one in pkgutil.walk_packages(unbraid.__path__, "unbraid."):
        if "kernel" not in one.name and "__main__" not in one.name:
            importlib.import_module(one.name)
    for name in ("h5py", "lightgbm", "pandas", "pyarrow.parquet", "scipy.io", "sklearn.svm"):
        importlib.import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)  # decoders in C may print
    os.dup2(quiet, 2)
    now = mmap.mmap(-1, 65_536)
    for line in sys.stdin:
        name, seed, count = json.loads(line)
        began = time.monotonic()
        answer = _forked(cases.ALL[name], seed, count, now)
        answer["seconds"] = time.monotonic() - began
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    _serve()
