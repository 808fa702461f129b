# SPDX-License-Identifier: Apache-2.0
"""Worker processes end with the one that started them, and leave Ctrl-C to it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
import warnings

import pytest
from joblib import Parallel, delayed

from unbraid.scoring.worker_processes import worker_processes

PARENT = """
    import os, signal, sys, time
    from joblib import Parallel, delayed
    from unbraid.scoring.worker_processes import worker_processes

    def work(which):
        print(os.getpid(), int(signal.getsignal(signal.SIGINT) == signal.SIG_IGN), flush=True)
        time.sleep(60)

    if __name__ == "__main__":
        with worker_processes():
            Parallel(n_jobs=2)(delayed(work)(which) for which in range(2))
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no other parent to be given to")
def test_workers_end_when_their_parent_is_killed(tmp_path):
    script = tmp_path / "parent.py"
    script.write_text(textwrap.dedent(PARENT))
    with subprocess.Popen(
        [sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as parent:
        assert parent.stdout is not None
        told = [parent.stdout.readline().split() for _ in range(2)]
        assert [ignores for _, ignores in told] == ["1", "1"], "Ctrl-C is the parent's"
        parent.kill()
        parent.wait()
        # Standard output ends when nobody holds it any more.
        began = time.monotonic()
        assert parent.stdout.read() == ""
        assert time.monotonic() - began < 20, "they would have slept a minute"


def test_who_cannot_go_on_is_not_told_of_cancelled_tasks():
    def work() -> None:
        sleeping = (delayed(time.sleep)(0.1) for _ in range(6))
        with worker_processes():
            for _ in Parallel(n_jobs=2, return_as="generator_unordered")(sleeping):
                raise OSError("the disk is full")

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with pytest.raises(OSError, match="the disk is full"):
            work()
    assert told == []
