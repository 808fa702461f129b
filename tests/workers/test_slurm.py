# SPDX-License-Identifier: Apache-2.0
"""The array script of the docs, with jobs that are preempted, signalled and killed."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from .runs import digests, holders, make_run, until
from .stand_in_slurm import StandIn

SCRIPT = Path(__file__).resolve().parents[2] / "examples" / "slurm.sh"


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_an_array_of_jobs_trains_a_run(tmp_path: Path, plain):
    if sys.platform == "win32":
        pytest.skip("needs bash")
    run = make_run(tmp_path / "run", seeds=8, steps=600, checkpoint_seconds=1e6)
    script = tmp_path / "slurm.sh"
    script.write_text(SCRIPT.read_text().replace("--array=0-7", "--array=0-2"))
    slurm = StandIn(script, tmp_path, str(run.path))
    assert slurm.options["signal"] == "B:USR1@120"
    assert "requeue" in slurm.options
    for number in slurm.numbers:
        slurm.begin(number)
    until(lambda: len({one.get("process") for one in holders(run).values()}) == 3, "all work")
    slurm.preempt(0, signal.SIGUSR1)
    slurm.preempt(1, signal.SIGTERM)
    slurm.kill(2)
    slurm.run(240)
    assert sorted(slurm.codes) == [(0, 0), (0, 130), (1, 0), (1, 130), (2, -9), (2, 0)]
    for number in (0, 1):
        said = (tmp_path / f"slurm-{number}.out").read_text()
        assert f"stopped; everything so far is in {run.path}" in said or "Go on with" in said
    assert digests(run.path) == plain(8, 600, checkpoint_seconds=1e6)


def test_an_array_says_for_how_many_it_is(monkeypatch: pytest.MonkeyPatch):
    from unbraid.population.train import array_tasks

    monkeypatch.delenv("SLURM_ARRAY_TASK_COUNT", raising=False)
    assert array_tasks() == 1
    for told, count in (("8", 8), ("0", 1), ("many", 1), ("", 1)):
        monkeypatch.setenv("SLURM_ARRAY_TASK_COUNT", told)
        assert array_tasks() == count


@pytest.mark.parametrize(
    ("worker", "code", "requeued"),
    [
        ("trap 'exit 130' USR1; sleep 20 & wait", 130, True),  # gone before the script looks
        ("trap 'exit 0' USR1; sleep 20 & wait", 0, False),
        ("exec sleep 20", 138, True),  # signalled before it could see to that
        ("exit 2", 2, False),
    ],
)
def test_a_job_ends_as_its_worker_did(tmp_path: Path, worker: str, code: int, requeued: bool):
    if sys.platform == "win32":
        pytest.skip("needs bash")
    script = tmp_path / "slurm.sh"
    # A worker that ends at once has ended when the wait that its signal broke off is over.
    late = SCRIPT.read_text().replace('wait "$worker"  #', 'wait "$worker"; sleep 0.3 #', 1)
    script.write_text(late)
    slurm = StandIn(script, tmp_path, "run")
    begun = tmp_path / "begun"
    (tmp_path / "bin" / "unbraid").write_text(f"#!/bin/bash\ntouch {begun}\n{worker}\n")
    slurm.begin(0)
    until(begun.exists, "the worker")
    time.sleep(0.2)
    slurm.preempt(0, signal.SIGTERM)
    assert slurm.jobs[0].wait(10) == code
    assert (tmp_path / "requeued.txt").exists() == requeued
