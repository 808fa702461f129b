# SPDX-License-Identifier: Apache-2.0
"""Plays scenarios, each command in a fork of a process that has imported everything.

A line of JSON on standard input is a `Request`; the answer is a line with how the fork ended. What
it found out stands in the file that the request names.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import time
import traceback
from collections import Counter
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import Any

from unbraid.core.failpoints import armed
from unbraid.report.page import environment

from .disk import Disk
from .mutations import MUTATIONS
from .scenarios import SCENARIOS, Scenario, Words, command, everywhere

ERRORS = ("ENOSPC", "EIO", "EACCES")
_LONGEST = 120.0


def serve() -> None:
    """Answer requests until standard input ends."""
    import_module("unbraid.commands.command_line")
    everywhere()
    for verb in ("train", "pbt", "rpu", "discover"):
        environment().get_template(f"{verb}/page.html.j2")
    gc.freeze()  # or every fork would look through all of this, and copy it by that
    for line in sys.stdin:
        request = json.loads(line)
        child = os.fork()
        if child == 0:
            _play(request)
        status = _ended(child)
        if status == 0 and request["learn"]:  # what this one imported, all others find imported
            for name in json.loads(Path(request["found"]).read_text())["modules"]:
                with contextlib.suppress(ImportError):
                    import_module(name)
        print(json.dumps({"status": status}), flush=True)


def _ended(child: int) -> int:
    """The exit code of a fork, negative for a signal; one that hangs is killed."""
    deadline = time.monotonic() + _LONGEST
    while time.monotonic() < deadline:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return 99


def _play(request: dict[str, Any]) -> None:
    """Everything that one fork does."""
    found: dict[str, Any] = {"hits": [], "settled": [], "breaches": [], "code": None}
    try:
        said = os.open(request["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1)
        os.dup2(said, 2)
        os.chdir(request["stage"])
        scenario = SCENARIOS[request["scenario"]]
        scenario.settings()
        if request["what"] == "prepare":
            found["code"] = max([_prepare(step) for step in scenario.before], default=0)
        else:
            words = scenario.words if request["what"] == "begin" else scenario.go_on()
            found["code"] = 0
            if words is not None:
                _watched(request, words, scenario, found)
        found["modules"] = [name for name in sys.modules if name != "__main__"]
        Path(request["found"]).write_text(json.dumps(found))
    except BaseException:
        traceback.print_exc()
        os._exit(98)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _prepare(step: Any) -> int:
    if callable(step):
        step()
        return 0
    return command(step)


def _watched(
    request: dict[str, Any], words: Words, scenario: Scenario, found: dict[str, Any]
) -> None:
    if request["mutation"]:
        MUTATIONS[request["mutation"]].apply()
    disk = Disk(Path(request["stage"]), held=scenario.locks, damaged=request["damaged"])
    seen: Counter[str] = Counter()

    def met(name: str) -> None:
        seen[name] += 1
        found["hits"].append(name)
        if request["learn"]:
            found["settled"].append(disk.is_settled())
        if request["fault"] and request["fault"][:2] == [name, seen[name]]:
            _fail(request["fault"][2], disk, Path(request["found"]))

    with armed(met):
        found["code"] = command(words)
    if found["code"] == 0 and not request["fault"]:
        disk.at_the_end(notes=scenario.notes)
    found["breaches"] = [asdict(one) for one in disk.breaches]


def _fail(fault: str, disk: Disk, record: Path) -> None:
    if fault in ERRORS:
        import errno

        number = getattr(errno, fault)
        raise OSError(number, os.strerror(number))
    disk.crash(record)
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(10)


if __name__ == "__main__":
    serve()
