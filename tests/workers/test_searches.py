# SPDX-License-Identifier: Apache-2.0
"""Searches and recursions that several workers share."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
from pathlib import Path

import pytest

import unbraid as ub
from unbraid.search.rpu.plan import make_recursion
from unbraid.search.rpu.recursion import Recursion

from .hosts import Hosts
from .runs import end_all, until


def contents(folder: Path) -> dict[str, str]:
    """Of everything but pages, locks, and scores, which say how long they took."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.suffix in (".parquet", ".json", ".safetensors") and path.name != "scores.parquet"
    }


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_workers_share_a_recursion_and_one_of_them_is_killed(hosts: Hosts, tmp_path: Path):
    plan, dataset = make_recursion(
        *("sprites", "beta_vae"),
        **{"leaf_runs": 0, "data_options": {"image_size": 16, "x": 10, "y": 8, "scale": 1}},
        **{"network": "mlp", "network_options": {"hidden": 32}, "latents": 3, "population": 5},
        **{"models": 2, "batch_size": 16, "hyper": {"beta": "0.2..0.5"}, "epochs": 4},
        **{"learning_rate": "5e-3..1e-2", "seed": 1, "epoch_images": 160},
    )
    made = Recursion.create(tmp_path / "shared", plan, dataset)
    alone = tmp_path / "alone"
    shutil.copytree(made.path, alone)
    words = ("work", str(made.path), "--device", "cpu")
    first = hosts.start(*words, said=tmp_path / "first.txt", slow=0.005)
    until(lambda: [*made.path.rglob("lineage.parquet")], "an epoch of the first")
    others = [hosts.start(*words, said=tmp_path / f"{place}.txt", slow=0.005) for place in range(2)]
    os.kill(first, signal.SIGKILL)
    hosts.end(first)
    end_all(hosts, others, tmp_path)
    ub.resume(alone, device="cpu", quiet=True)
    assert contents(made.path) == contents(alone)
    assert ub.status(made.path).finished
