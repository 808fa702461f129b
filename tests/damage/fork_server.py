# SPDX-License-Identifier: Apache-2.0
"""A process that has imported everything once and does each request in a child that it forks.

A command line starts in seconds, most of them for imports; forked it starts at once, with a state
of its own. The process itself never computes, so that no thread of a library is lost in a fork.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import pkgutil
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any, NamedTuple

_CAPABILITIES = 0x20080522
"""The version of the system's structures."""
_OVERRIDE, _SEARCH = 1, 2
"""The powers to read and write what permissions forbid."""
TOO_LONG = 240
"""Seconds after which a child is ended."""
_IMPORTED_WHEN_USED = (
    *("pandas", "pyarrow.dataset", "pyarrow.parquet", "safetensors.torch", "PIL.PngImagePlugin"),
    *("plotly.graph_objects", "plotly.offline", "plotly.tools", "pydantic"),
)


class Answer(NamedTuple):
    code: int
    out: str
    err: str


class ForkServer:
    """The other end: asks the process."""

    def __init__(self) -> None:
        root = Path(__file__).resolve().parents[2]
        paths = [str(root / "src"), str(root), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.damage.fork_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=root,
            env=environment,
        )

    def run(self, *words: str, **request: Any) -> Answer:
        """Call the command line with *words*: `powerless`, permissions bind root too; `mutation`
        names one of `mutations.py`.
        """
        return self._ask({"words": words, **request})

    def call(self, function: str, *given: str, **request: Any) -> Answer:
        """Call a function of `making.py` as a command."""
        return self._ask({"function": function, "given": given, **request})

    def make(self, function: str, *given: str, **request: Any) -> None:
        """Call a function of `making.py` that must do."""
        answer = self.call(function, *given, **request)
        assert answer.code == 0, answer.err

    def _ask(self, request: dict[str, Any]) -> Answer:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return Answer(*json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        self._process.communicate()


def _serve() -> None:
    import unbraid
    from unbraid.report.page import environment
    from unbraid.scoring import metric_inputs

    from . import making

    metric_inputs.WORTH_PROCESSES = 10**6  # they would outlive their child, and start slowly
    for found in pkgutil.walk_packages(unbraid.__path__, "unbraid."):
        if "kernel" not in found.name and not found.name.endswith("__main__"):
            importlib.import_module(found.name)
    for name in _IMPORTED_WHEN_USED:
        importlib.import_module(name)
    for verb in ("train", "pbt", "rpu", "discover", "study"):
        environment().get_template(f"{verb}/page.html.j2")
    os.fsync = os.fstat  # type: ignore[assignment]  # nobody cuts the power here
    making.prepare()
    gc.freeze()  # or every child would look through all of this, and copy it by that
    for line in sys.stdin:
        print(json.dumps(_answer(json.loads(line))), flush=True)


def _answer(request: dict[str, Any]) -> Answer:
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            os._exit(_work(request))
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode("utf-8", "replace"))
        return Answer(code, *texts)


def _work(request: dict[str, Any]) -> int:
    """What a child does; returns its exit code."""
    from unbraid.commands.command_line import _errors, main

    from . import making
    from .mutations import MUTATIONS

    signal.alarm(TOO_LONG)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    code = 0
    try:
        os.chdir(request.get("folder", "/"))
        os.environ.update(request.get("environment", {}))
        if request.get("powerless") and os.geteuid() == 0:
            _give_up_power()
        if request.get("mutation"):
            MUTATIONS[request["mutation"]].apply()
        if "function" in request:
            with _errors(set()):
                getattr(making, request["function"])(*request["given"])
        else:
            sys.argv = ["unbraid", *request["words"]]
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
        code = 70
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    return code


def _give_up_power() -> None:
    """Let permissions bind this process, though it is root."""
    system = ctypes.CDLL(None, use_errno=True)
    header, words = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    assert system.capget(header, words) == 0
    for at in (0, 1):  # effective and permitted, of the first 32 powers
        words[at] &= ~(1 << _OVERRIDE | 1 << _SEARCH)
    assert system.capset(header, words) == 0


if __name__ == "__main__":
    _serve()
