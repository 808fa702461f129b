# SPDX-License-Identifier: Apache-2.0
"""`kill -9` at random moments, then resume: the same bits as a run that was never disturbed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

import unbraid as ub
from unbraid.core.store import read_tensors
from unbraid.population.run_folder import RunFolder

DATA, OBJECTIVE = "sprites:x=6,y=4,image_size=28", "beta_tcvae:beta=2,4,6"
TRAIN: dict[str, Any] = {
    "network": "mlp:hidden=24",
    "latents": 3,
    "batch_size": 16,
    "checkpoint_seconds": 0.05,
    "device": "cpu",
}
"""Three members: one waits where there are two cores."""


def words(folder: Path, steps: int) -> list[str]:
    """The same on a command line."""
    options = {**TRAIN, "steps": steps, "out": folder}
    pairs = [(f"--{name.replace('_', '-')}", str(value)) for name, value in options.items()]
    return ["train", DATA, OBJECTIVE, *(word for pair in pairs for word in pair)]


def start(*words: str) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-c",
        "from unbraid.commands.command_line import main; main()",
        *words,
    ]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def newest_steps(folder: Path) -> list[int]:
    names = [
        path.name.split("step-")[1].split(".")[0]
        for path in (folder / "checkpoint").glob("*.safetensors")
    ]
    return [int(name) for name in names]


def results(folder: Path) -> dict[str, object]:
    run = RunFolder.open(folder)
    found: dict[str, object] = {"history": run.history(), "members": run.members()}
    for chunk in run.chunks():
        step, path = run.checkpoints(chunk).files()[0]
        found[str(chunk[0].id)] = (step, read_tensors(path)[0])
    return found


def assert_same_bits(left: dict[str, object], right: dict[str, object], steps: int) -> None:
    assert left.keys() == right.keys()
    for name, value in left.items():
        if name in ("history", "members"):
            assert value.equals(right[name])  # type: ignore[attr-defined]
            continue
        (left_step, ours), (right_step, theirs) = value, right[name]  # type: ignore[misc]
        assert left_step == right_step == steps
        assert ours.keys() == theirs.keys()
        for key in ours:
            assert torch.equal(ours[key].view(torch.uint8), theirs[key].view(torch.uint8)), (
                name,
                key,
            )


def kill_at_random_moments(
    folder: Path, steps: int, kills: int, seed: int
) -> tuple[int, list[int]]:
    """Start or resume the run and kill it, *kills* times; how many kills met a living process, and
    the steps reached.
    """
    moments = random.Random(seed)
    hits, reached = 0, []
    for _ in range(kills):
        begun = (folder / "plan.json").exists()
        before = max(newest_steps(folder), default=-1)
        with start(*(["resume", str(folder)] if begun else words(folder, steps))) as process:
            deadline = time.monotonic() + 60
            while (
                process.poll() is None
                and max(newest_steps(folder), default=-1) <= before
                and time.monotonic() < deadline
            ):
                # Until this process itself has moved on: a kill during start-up would test nothing.
                time.sleep(0.01)
            time.sleep(moments.uniform(0.0, 0.05))
            process.send_signal(signal.SIGKILL)
        hits += process.returncode == -signal.SIGKILL
        reached.append(max(newest_steps(folder), default=-1))
    return hits, reached


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], dict[str, object]]:
    """What a run of so many steps ends with that no one disturbs, in this process."""

    @cache
    def trained(steps: int) -> dict[str, object]:
        folder = tmp_path_factory.mktemp("undisturbed") / "run"
        ub.train(DATA, OBJECTIVE, steps=steps, out=folder, quiet=True, **TRAIN)
        return results(folder)

    return trained


@pytest.mark.parametrize(
    ("kills", "steps"), [(1, 150), pytest.param(20, 1200, marks=pytest.mark.slow)]
)
def test_kills_change_no_bit(tmp_path: Path, undisturbed, kills: int, steps: int):
    folder = tmp_path / "run"
    hits, reached = kill_at_random_moments(
        folder, steps, kills=kills, seed=int(os.environ.get("UNBRAID_KILL_SEED", "1"))
    )
    assert hits == kills, (
        "every kill must meet a living training process, or this test shows nothing"
    )
    assert reached == sorted(set(reached)), "every process must have gone on from the one before"
    assert reached[0] < steps, "the first kill must come before the end"
    ub.resume(folder, device="cpu", quiet=True)
    assert_same_bits(results(folder), undisturbed(steps), steps)
    assert not [*folder.rglob("*.part"), *folder.rglob(".tmp*")]


def test_the_comparison_notices_a_single_bit(undisturbed):
    trained = undisturbed(20)
    assert_same_bits(trained, trained, 20)
    step, tensors = trained["0"]
    changed = {name: tensor.clone() for name, tensor in tensors.items()}
    changed["model.weights"].view(torch.uint8)[0, 0] ^= 1
    with pytest.raises(AssertionError):
        assert_same_bits({**trained, "0": (step, changed)}, trained, 20)
