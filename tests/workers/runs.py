# SPDX-License-Identifier: Apache-2.0
"""Small runs for several workers, and what is read off their folders."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from unbraid.population.plan import make_plan
from unbraid.population.run_folder import RunFolder

from .hosts import Hosts

DATA, OBJECTIVE = "sprites", "beta_vae"
PLAN: dict[str, Any] = {
    "data_options": {"x": 6, "y": 4, "scale": 1, "image_size": 28},
    "network": "mlp",
    "network_options": {"hidden": 8},
    "latents": 2,
    "batch_size": 8,
    "learning_rate": 1e-3,
    "checkpoint_seconds": 0.1,
    "precision": "float32",
}
SECONDS = 60.0


def make_run(folder: Path, seeds: int, steps: int, **more: Any) -> RunFolder:
    plan, dataset = make_plan(DATA, OBJECTIVE, seeds=seeds, steps=steps, **PLAN | more)
    return RunFolder.create(folder, plan, 1, dataset)


def digests(folder: Path) -> dict[str, str]:
    """Of final checkpoints and tables."""
    files = [*folder.glob("checkpoint/*"), *folder.glob("*.parquet")]
    return {one.name: hashlib.sha256(one.read_bytes()).hexdigest() for one in files}


def until(met: Callable[[], object], what: str) -> None:
    """Wait for something that comes soon."""
    deadline = time.monotonic() + SECONDS
    while not met():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


def holders(run: RunFolder) -> dict[str, dict[str, Any]]:
    """What holders of chunks tell of themselves, by the name of the lease."""
    found = {}
    for lease in run.path.glob("checkpoint/.members-*.lease"):
        for path in lease.glob("*"):
            try:
                found[lease.name] = json.loads(path.read_text() or "{}")
            except (OSError, ValueError):
                continue  # halves, or just given back
    return found


def names(run: RunFolder) -> set[str]:
    """Of checkpoints."""
    return {path.name for path in run.path.glob("checkpoint/members-*.safetensors")}


def end_all(hosts: Hosts, processes: list[int], tmp_path: Path) -> None:
    """All end well."""
    for number, process in enumerate(processes):
        assert hosts.end(process) == 0, (tmp_path / f"{number}.txt").read_text()
