# SPDX-License-Identifier: Apache-2.0
"""A stand-in for SLURM: `sbatch` starts a script for each number of its array, signals and kills
are sent to the script as SLURM sends them, and what asks for it is queued again.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

JOB = 4242


class StandIn:
    """The jobs of one array."""

    def __init__(self, script: Path, folder: Path, *words: str) -> None:
        self.script, self.folder, self.words = script, folder, words
        self.options = dict(
            re.findall(r"^#SBATCH --([\w-]+)(?:=(\S+))?$", script.read_text(), re.M)
        )
        first, last = map(int, self.options["array"].split("-"))
        self.numbers = range(first, last + 1)
        self._tool("unbraid", f'exec {sys.executable} -m unbraid "$@" --device cpu')
        self._tool("scontrol", f'echo "$2" >> {folder}/requeued.txt; [ "$1" = requeue ]')
        self.jobs: dict[int, subprocess.Popen[bytes]] = {}
        self.codes: list[tuple[int, int]] = []
        """Of every job that has ended: its number and exit code."""

    def _tool(self, name: str, line: str) -> None:
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/bash\n{line}\n")
        path.chmod(0o755)

    def begin(self, number: int) -> None:
        """Start the job of one number of the array."""
        own = {
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "SLURM_ARRAY_JOB_ID": str(JOB),
            "SLURM_ARRAY_TASK_ID": str(number),
            "SLURM_ARRAY_TASK_COUNT": str(len(self.numbers)),
            "OMP_NUM_THREADS": "1",
            "PYTHONWARNINGS": "ignore",
        }
        with (self.folder / f"slurm-{number}.out").open("ab") as said:  # --open-mode=append
            self.jobs[number] = subprocess.Popen(
                ["bash", str(self.script), *self.words],
                stdout=said,
                stderr=subprocess.STDOUT,
                env=os.environ | own,
                start_new_session=True,
            )

    def preempt(self, number: int, how: signal.Signals) -> None:
        """Tell the batch script of a job that its end is near."""
        self.jobs[number].send_signal(how)

    def kill(self, number: int) -> None:
        """All of a job at once, as when its node fails."""
        os.killpg(self.jobs[number].pid, signal.SIGKILL)

    def run(self, seconds: float) -> None:
        """Until no job is left; those that ask for it, or that were killed, are started again."""
        deadline = time.monotonic() + seconds
        while self.jobs:
            assert time.monotonic() < deadline
            for number, job in list(self.jobs.items()):
                if (code := job.poll()) is not None:
                    del self.jobs[number]
                    self.codes.append((number, code))
                    if code == -signal.SIGKILL or f"{JOB}_{number}" in self._asked():
                        self.begin(number)
            time.sleep(0.05)

    def _asked(self) -> list[str]:
        """Who asked to be queued again, once."""
        path = self.folder / "requeued.txt"
        asked = path.read_text().split() if path.exists() else []
        known = [f"{JOB}_{number}" for number, code in self.codes[:-1] if code == 130]
        for one in known:
            if one in asked:
                asked.remove(one)
        return asked
