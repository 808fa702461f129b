# SPDX-License-Identifier: Apache-2.0
"""A run on a Ray cluster of two cores: whatever dies, it ends with the bits of a plain run.

Ray is in processes of its own: what it leaves behind does not meet the tests' strictness.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import unbraid as ub
from unbraid.core.errors import InputError
from unbraid.population.run_folder import RunFolder

from .runs import digests, holders, make_run, names, until

STEPS = 2000
needs_ray = pytest.mark.skipif(
    importlib.util.find_spec("ray") is None,
    reason="Ray is not installed here: pip install 'unbraid[ray]'",
)
SLICE = "sprites-factor-vae-seeds-0-2"
ON_RAY = ("--on", "ray", "--device", "cpu")


def start(*words: str) -> subprocess.Popen[str]:
    own = {"PYTHONWARNINGS": "ignore", "RAY_AUTH_MODE": "disabled", "OMP_NUM_THREADS": "1"}
    paths = [str(Path(ub.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    own |= {"PYTHONPATH": os.pathsep.join(paths)}
    command = [sys.executable, *words]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=os.environ | own, stdout=pipe, stderr=pipe, text=True)


def resume(run: RunFolder) -> subprocess.Popen[str]:
    return start("-m", "unbraid", "resume", str(run.path), *ON_RAY)


def ended(process: subprocess.Popen[str], seconds: float = 300) -> tuple[int, str]:
    out, err = process.communicate(timeout=seconds)
    return process.returncode, out + err


def training(run: RunFolder) -> int:
    """A process that trains a chunk and has saved a checkpoint."""
    until(lambda: names(run) and holders(run), "a checkpoint of a chunk that trains")
    return next(iter(holders(run).values()))["process"]


@pytest.mark.parametrize("kill", [False, True])
@pytest.mark.slow
@pytest.mark.timeout(600)
@needs_ray
def test_a_task_that_is_killed_is_run_again(tmp_path: Path, plain, kill: bool):
    run = make_run(tmp_path / "run", seeds=3, steps=STEPS)
    driver = resume(run)
    if kill:
        os.kill(training(run), signal.SIGKILL)
    code, said = ended(driver)
    assert code == 0, said
    assert digests(run.path) == plain(3, STEPS)
    assert len([*run.path.glob("codes/*.safetensors")]) == 3


@pytest.mark.slow
@pytest.mark.timeout(600)
@needs_ray
def test_a_node_that_dies_loses_no_chunk(tmp_path: Path, plain):
    run = make_run(tmp_path / "run", seeds=3, steps=STEPS)
    code, said = ended(start(str(Path(__file__).with_name("ray_node_dies.py")), str(run.path)))
    assert code == 0, said
    assert "Trained 3 of 3 models" in said
    assert digests(run.path) == plain(3, STEPS)


@pytest.mark.slow
@pytest.mark.timeout(600)
@needs_ray
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_driver_that_ends_leaves_checkpoints(tmp_path: Path, plain, how: signal.Signals):
    run = make_run(tmp_path / "run", seeds=3, steps=STEPS, checkpoint_seconds=1e6)
    driver = resume(run)
    until(lambda: any(one.get("step") for one in holders(run).values()) or names(run), "training")
    driver.send_signal(how)
    code, said = ended(driver)
    if how != signal.SIGKILL:
        assert code == 130, said
        assert f"Go on with: unbraid resume {run.path}" in said
        assert names(run), "interrupted tasks have saved"
        assert not holders(run)
    ub.resume(run.path, device="cpu", quiet=True)
    assert digests(run.path) == plain(3, STEPS, checkpoint_seconds=1e6)


@pytest.mark.slow
@pytest.mark.timeout(600)
@needs_ray
def test_what_goes_wrong_in_a_task_is_told(tmp_path: Path):
    run = make_run(tmp_path / "run", seeds=2, steps=STEPS)
    code, said = ended(start("-m", "unbraid", "resume", str(run.path), "--on", "ray"))
    assert code == 2
    assert (
        said == "unbraid: --device needs a Ray cluster with GPUs; got 'cuda'. Use --device cpu.\n"
    )
    folder = run.path / "checkpoint" / f"members-00001-00001.step-{STEPS:09d}.safetensors"
    folder.mkdir(parents=True)  # in the place of a file: it is set aside, as ever
    code, said = ended(resume(run))
    assert code == 0, said
    assert len(names(run)) == 2
    blocked = make_run(tmp_path / "blocked", seeds=2, steps=20)
    (blocked.path / "codes").write_text("a file where a folder belongs")
    code, said = ended(resume(blocked))
    assert code == 1, said
    assert "member 0: " in said
    assert "member 1: " in said


@pytest.mark.slow
@pytest.mark.timeout(3200)
@needs_ray
def test_a_study_on_ray_makes_the_tables_of_one_without(tmp_path: Path):
    import pandas as pd

    words = ("-m", "unbraid", "study", "run", "locatello2019", "--scale", "small")
    words += ("--device", "cpu")
    tables = []
    for name, more in (("ray", ("--on", "ray")), ("here", ())):
        first = ("--slices", SLICE, "--results", str(tmp_path / name))
        code, said = ended(start(*words, *first, *more), 1500)
        assert code == 0, said
        (table,) = (tmp_path / name / "small").glob("*/*.parquet")
        tables.append(pd.read_parquet(table))
    pd.testing.assert_frame_equal(*tables)


def test_without_ray_the_command_to_install_it_is_told(tmp_path: Path, monkeypatch, unbraid):
    """And nothing is written."""
    monkeypatch.setitem(sys.modules, "ray", None)
    out = tmp_path / "run"
    code, _, err = unbraid("train", "sprites", "vae", "--out", str(out), "--on", "ray")
    assert (code, err) == (
        2,
        "unbraid: --on needs Ray, which is not installed; got 'ray'. Install it on every node: pip"
        " install 'unbraid[ray]'\n",
    )
    assert not out.exists()


def test_options_of_a_cluster_are_checked(tmp_path: Path, refused):
    train = {"data": "sprites", "out": tmp_path / "run"}
    rule = "must be one of here, ray"
    assert refused(ub.train, **train, on="moon") == [("on", rule, "moon")]
    found = refused(ub.train, **train, address="auto")
    assert found == [("address", "goes with a cluster", "auto")]


def test_a_task_that_sees_other_than_one_gpu_refuses(monkeypatch: pytest.MonkeyPatch):
    import torch

    from unbraid.commands.on_ray import _device

    for seen in (0, 2, 8):
        monkeypatch.setattr(torch.cuda, "device_count", lambda seen=seen: seen)
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
        with pytest.raises(InputError) as told:
            _device("cuda")
        (problem,) = told.value.problems
        assert problem.rule == "must be the one GPU that Ray gave to the task"
        assert str(problem.value) == f"{seen} GPUs, with CUDA_VISIBLE_DEVICES 0,1"
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert _device("cuda").type == "cuda"
