# SPDX-License-Identifier: Apache-2.0
"""Worker processes as if on several hosts: with machines, process numbers and clocks of their own.

One process imports everything and forks a child for each command; a child believes what it is told
about its machine. Lines of JSON come in, a line goes out for each: the number of the child, or how
it ended.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

_TESTS = Path(__file__).resolve().parents[1]
_CODE = f"import sys; sys.path.insert(0, {str(_TESTS)!r}); from workers.hosts import serve; serve()"


class Hosts:
    """Starts commands as processes of several hosts."""

    def __init__(self) -> None:
        own = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "TERM": "dumb"}
        self._server = subprocess.Popen(
            [sys.executable, "-c", _CODE],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | own,
        )

    def start(
        self,
        *words: str,
        said: Path,
        machine: str = "",
        process: int = 0,
        hours: float = 0.0,
        slow: float = 0.0,
    ) -> int:
        """The number of a process that runs a command, by the number that the system knows it by.

        It believes to run on *machine*, as *process*, by a clock that is *hours* ahead, and takes
        *slow* seconds more for each training step.
        """
        told = {"machine": machine, "process": process, "hours": hours, "slow": slow}
        return self._ask({"words": words, "said": str(said), **told})

    def end(self, process: int) -> int:
        """The exit code of a process, negative for a signal; waits for it."""
        return self._ask({"wait": process})

    def close(self) -> None:
        """End the server."""
        self._server.communicate()

    def _ask(self, request: dict[str, Any]) -> int:
        assert self._server.stdin
        assert self._server.stdout
        self._server.stdin.write(json.dumps(request) + "\n")
        self._server.stdin.flush()
        return int(self._server.stdout.readline())


def serve() -> None:
    """Answer requests until standard input ends."""
    from importlib import import_module

    names = ("unbraid.commands.command_line", "pandas", "pyarrow.parquet", "rich.progress")
    for name in (*names, "unbraid.population.train", "unbraid.codes.codes"):
        import_module(name)
    import torch

    torch.set_num_threads(1)
    for line in sys.stdin:
        request = json.loads(line)
        if "wait" in request:
            print(os.waitstatus_to_exitcode(os.waitpid(request["wait"], 0)[1]), flush=True)
            continue
        child = os.fork()
        if child == 0:
            _run(request)
        print(child, flush=True)


def _run(request: dict[str, Any]) -> None:
    from unbraid.commands.command_line import main

    said = os.open(request["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(said, 1)
    os.dup2(said, 2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    code = 0
    try:
        _believe(request)
        sys.argv = ["unbraid", *request["words"]]
        main()
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:
        import traceback

        traceback.print_exc()
        code = 98
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _believe(request: dict[str, Any]) -> None:
    """Take what is told about machine, process number and clock for true."""
    from unbraid.core import files, lease_holder
    from unbraid.population.training_step import TrainingStep

    if request["machine"]:
        word = request["machine"].encode().hex()[:16].ljust(16, "0")
        lease_holder.machine = files.machine = lambda: word  # pyright: ignore
        lease_holder.platform.node = lambda: request["machine"]  # pyright: ignore
    if request["process"]:
        os.getpid = lambda: request["process"]
    real, ahead = time.time, 3600 * request["hours"]
    time.time = lambda: real() + ahead
    if request["slow"]:
        step = TrainingStep.step

        def slowly(self: TrainingStep, state: Any) -> None:
            time.sleep(request["slow"])
            step(self, state)

        TrainingStep.step = slowly  # pyright: ignore
