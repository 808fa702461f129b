# SPDX-License-Identifier: Apache-2.0
"""Workers of several hosts on one run, killed, stopped and continued, with clocks that disagree:
every chunk is trained once to the end, with the bits of a plain run.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
import torch

import unbraid as ub
from unbraid.core.store import read_tensors, write_tensors
from unbraid.population.plan import make_plan
from unbraid.population.run_folder import RunFolder
from unbraid.population.train import train_run

from .hosts import Hosts
from .runs import DATA, OBJECTIVE, PLAN, digests, end_all, holders, make_run, names, until


@pytest.mark.slow
def test_workers_share_a_run(hosts: Hosts, tmp_path: Path, plain):
    """Two of them have the same process number, and all clocks disagree."""
    run = make_run(tmp_path / "run", seeds=12, steps=60)
    words = ("work", str(run.path), "--device", "cpu", "--lease-seconds", "5")
    told = [
        {"machine": f"host-{place}", "process": 4711 + place // 2, "hours": 5.0 * place - 9}
        for place in range(4)
    ]
    processes = [
        hosts.start(*words, said=tmp_path / f"{place}.txt", slow=0.005, **one)
        for place, one in enumerate(told)
    ]
    seen: dict[str, list[str]] = {}
    while len(names(run)) < 12 or holders(run):
        for lease, one in holders(run).items():
            if one:
                seen.setdefault(lease, []).append(f"{one['host']} {one['process']}")
        time.sleep(0.02)
    end_all(hosts, processes, tmp_path)
    assert digests(run.path) == plain(12, 60)
    # Whoever looks at a chunk that has just been trained holds it for a moment.
    turns = [[who for who, _ in groupby(told)] for told in seen.values()]
    assert all(len({*who}) == len(who) for who in turns), "none is given from hand to hand"
    assert len({who for some in turns for who in some}) > 1, "or nothing was shared"
    assert not [*run.path.rglob("*lease*"), *run.path.rglob("*.part")]


@pytest.mark.slow
def test_a_killed_worker_s_chunk_is_gone_on_with(hosts: Hosts, tmp_path: Path, plain):
    """One on this machine at once, one elsewhere after its lease."""
    run = make_run(tmp_path / "run", seeds=4, steps=100)
    words = ("work", str(run.path), "--device", "cpu", "--lease-seconds", "1")
    here = hosts.start(*words, said=tmp_path / "here.txt", slow=0.02)
    there = hosts.start(*words, said=tmp_path / "there.txt", slow=0.02, machine="far")
    until(lambda: {one.get("host") for one in holders(run).values()} > {"far"}, "both work")
    reached = {name: one for name, one in holders(run).items()}
    until(lambda: len(names(run)) >= len(reached), "checkpoints of all of them")
    for process in (here, there):
        os.kill(process, signal.SIGKILL)
        assert hosts.end(process) == -signal.SIGKILL
    assert len(holders(run)) >= 2, "leases of the dead stay"
    before = names(run)
    end_all(hosts, [hosts.start(*words, said=tmp_path / "0.txt")], tmp_path)
    assert digests(run.path) == plain(4, 100)
    assert before, "there was something to go on from"


def test_a_worker_that_was_asleep_writes_nothing_more(hosts: Hosts, tmp_path: Path, plain):
    """The zombie: stopped for longer than its lease, then continued."""
    run = make_run(tmp_path / "run", seeds=1, steps=300)
    words = ("work", str(run.path), "--device", "cpu", "--lease-seconds", "0.6")
    asleep = hosts.start(*words, said=tmp_path / "asleep.txt", slow=0.01)
    until(lambda: names(run), "a checkpoint")
    os.kill(asleep, signal.SIGSTOP)
    (lease, before), *_ = holders(run).items()
    other = hosts.start(*words, said=tmp_path / "0.txt", slow=0.005)
    until(lambda: holders(run).get(lease, before)["process"] != before["process"], "taken over")
    os.kill(asleep, signal.SIGCONT)
    end_all(hosts, [other], tmp_path)
    assert hosts.end(asleep) == 0
    assert "was taken over by another process" in (tmp_path / "asleep.txt").read_text()
    assert digests(run.path) == plain(1, 300)
    assert not [*run.path.rglob("*lease*"), *run.path.rglob("*.part")]


@pytest.mark.slow
def test_resume_joins_those_that_work(hosts: Hosts, tmp_path: Path, plain):
    run = make_run(tmp_path / "run", seeds=4, steps=80)
    words = (str(run.path), "--device", "cpu")
    processes = [
        hosts.start(verb, *words, said=tmp_path / f"{place}.txt", slow=0.01)
        for place, verb in enumerate(("work", "resume", "resume"))
    ]
    end_all(hosts, processes, tmp_path)
    assert digests(run.path) == plain(4, 80)
    assert len([*run.path.glob("codes/*.safetensors")]) == 4


def test_a_plan_that_is_trained_elsewhere_does_not_change(hosts: Hosts, tmp_path: Path, refused):
    run = make_run(tmp_path / "run", seeds=2, steps=400)
    process = hosts.start(
        *("work", str(run.path), "--device", "cpu", "--lease-seconds", "1"),
        said=tmp_path / "0.txt",
        slow=0.005,
        machine="far",
    )
    until(lambda: holders(run), "a chunk is held")
    with pytest.raises(ub.InputError, match=r"is being written by another process on far"):
        ub.resume(run.path, seeds=3, device="cpu", quiet=True)
    os.kill(process, signal.SIGUSR1)
    assert hosts.end(process) == 130
    assert f"Go on with: unbraid resume {run.path}" in (tmp_path / "0.txt").read_text()
    assert not holders(run)
    assert names(run), "a checkpoint says how far it was"


def test_who_trains_first_decides_what_was_left_open(hosts: Hosts, tmp_path: Path, plain):
    """As on a login node without a GPU: the plan says neither chunks nor precision."""
    options = {**PLAN, "seeds": 4, "steps": 60, "processes": 3, "device": "cuda"}
    made = ub.train(DATA, OBJECTIVE, out=tmp_path / "run", begin=False, quiet=True, **options)
    assert not made.folder.is_decided
    assert made.members["status"].tolist() == ["unfinished"] * 4
    assert made.members["steps"].tolist() == [0] * 4
    assert made.history.empty
    words = ("work", str(made.path), "--device", "cpu")
    processes = [hosts.start(*words, said=tmp_path / f"{place}.txt") for place in range(2)]
    end_all(hosts, processes, tmp_path)
    decided = RunFolder.open(made.path)
    assert (decided.chunk_size, decided.device, decided.processes) == (1, "cpu", 3)
    assert digests(made.path) == plain(4, 60)


@pytest.mark.parametrize("decided", ["float32", "bfloat16"])
def test_one_decision_counts(tmp_path: Path, decided: str):
    plan, dataset = make_plan(DATA, OBJECTIVE, seeds=6, steps=10, **PLAN)
    made = RunFolder.create(tmp_path / "run", plan, 0, dataset, precision_is_open=True, processes=3)
    late = RunFolder.open(made.path, dataset)
    seen: list[tuple[str, int]] = []

    def size_of(plan: Any, processes: int) -> int:
        seen.append((plan.precision, processes))
        return 2

    made.decide(decided, size_of, "NVIDIA H200")
    late.decide("float32", lambda plan, processes: 5, "cpu")
    assert seen == [(decided, 3)]
    for run in (made, late, RunFolder.open(made.path)):
        assert (run.chunk_size, run.plan.precision, run.device) == (2, decided, "NVIDIA H200")
        assert [len(chunk) for chunk in run.chunks()] == [2, 2, 2]
        assert run.plan.digest() == made.plan.digest()


def test_a_worker_of_another_kind_of_device_is_refused(tmp_path: Path, refused):
    plan, dataset = make_plan(DATA, OBJECTIVE, seeds=2, steps=10, **PLAN)
    run = RunFolder.create(tmp_path / "run", plan, 2, dataset, device="NVIDIA H200")
    rule = f"must be of the kind that {run.path} is planned for, NVIDIA H200"
    assert refused(ub.work, run.path, device="cpu", quiet=True) == [("device", rule, "cpu")]
    ub.resume(run.path, device="cpu", quiet=True)
    assert set(run.members()["status"]) == {"trained"}


def test_members_that_go_on_elsewhere_are_told(tmp_path: Path):
    stop = threading.Event()
    run = make_run(tmp_path / "run", seeds=1, steps=40)
    train_run(run, torch.device("cpu"), lambda steps, found: stop.set(), stop=stop)
    ((step, path),) = run.checkpoints(run.chunks()[0]).files()
    tensors, about = read_tensors(path)
    assert about["device"] == "cpu"
    write_tensors(path, tensors, about | {"device": "NVIDIA A100"})
    said: list[str] = []
    assert train_run(run, torch.device("cpu"), warn=said.append).finished
    assert said == [
        f"member 0, trained to step {step} on NVIDIA A100, from here on cpu: the same models within"
        " the tolerances of docs/limits.md, not to the last bit."
    ]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_eight_workers_through_everything(hosts: Hosts, tmp_path: Path, plain):
    """Killed, stopped for longer than their leases and continued, with clocks that disagree, two of
    them with the same process number: every chunk ends with the bits of a plain run.
    """
    run = make_run(tmp_path / "run", seeds=40, steps=150)
    words = ("work", str(run.path), "--device", "cpu", "--lease-seconds", "3")
    machines = [f"host-{place}" for place in range(8)]
    processes = {
        machine: hosts.start(
            *words,
            said=tmp_path / f"{machine}.txt",
            slow=0.01,
            machine=machine,
            process=4711 if place < 2 else 5000 + place,
            hours=1000.0 * (place - 4),
        )
        for place, machine in enumerate(machines)
    }

    def hosts_at_work() -> set[str]:
        return {str(one.get("host")) for one in holders(run).values()}

    until(lambda: hosts_at_work() >= set(machines), "all of them work")
    killed, asleep, stopped = machines[2:4], machines[4:6], machines[6]
    for machine in killed:
        os.kill(processes[machine], signal.SIGKILL)
    for machine in asleep:
        os.kill(processes[machine], signal.SIGSTOP)
    os.kill(processes[stopped], signal.SIGTERM)
    time.sleep(4.5)
    until(lambda: not hosts_at_work() & {*killed, *asleep}, "their chunks are taken over")
    for machine in asleep:
        os.kill(processes[machine], signal.SIGCONT)
    codes = {machine: hosts.end(process) for machine, process in processes.items()}
    said = {machine: (tmp_path / f"{machine}.txt").read_text() for machine in machines}
    assert codes == dict.fromkeys(machines, 0) | dict.fromkeys(killed, -9) | {stopped: 130}, said
    assert all("was taken over by another process" in said[machine] for machine in asleep)
    assert digests(run.path) == plain(40, 150)
    assert not [*run.path.rglob("*lease*"), *run.path.rglob("*.part")]
