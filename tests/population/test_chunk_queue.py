# SPDX-License-Identifier: Apache-2.0
"""The run folder as a queue: what a killed process held is had at once, however much it was."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

from unbraid.population.chunk_queue import ChunkQueue
from unbraid.population.plan import make_plan
from unbraid.population.run_folder import RunFolder

PLAN = {
    "data_options": {"x": 6, "y": 4, "scale": 1, "image_size": 28},
    "network": "mlp",
    "network_options": {"hidden": 8},
}
HOLD_ALL_AND_DIE = """
import os, signal, sys, threading
from unbraid.population.chunk_queue import ChunkQueue
from unbraid.population.run_folder import RunFolder
queue = ChunkQueue(RunFolder.open(sys.argv[1]), threading.Event())
assert all(queue.next({}) for _ in range(3))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_all_chunks_of_a_killed_process_are_taken_over_at_once(tmp_path: Path):
    """Other holders are asked for a sign of life every ten seconds; a dead one need not be."""
    plan, dataset = make_plan("sprites", "vae", seeds=3, steps=4, **PLAN)
    run = RunFolder.create(tmp_path / "run", plan, 1, dataset)
    subprocess.run([sys.executable, "-c", HOLD_ALL_AND_DIE, str(run.path)], check=False)
    held = [*run.path.glob("checkpoint/.members-*.lease")]
    assert len(held) == 3
    queue = ChunkQueue(run, threading.Event(), clock=lambda: 5.0)
    taken = [queue.next_now({}) for _ in range(3)]
    assert {one.chunk[0].id for one in taken if one} == {0, 1, 2}
    for one in taken:
        assert one is not None
        queue.back(one)
