# SPDX-License-Identifier: Apache-2.0
"""Replayed steps have the bits of plain ones, whoever is stopped or diverges on the way; on a CPU
they are plain ones.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from unbraid.objectives import OBJECTIVES
from unbraid.population.cuda_graph import UPDATES_OF_A_GRAPH, Stepper
from unbraid.population.run_folder import RunFolder
from unbraid.population.state import State
from unbraid.population.train import Outcome, train_run
from unbraid.population.training_step import TrainingStep

CONVOLUTIONS: dict[str, Any] = {
    "network": "conv_burgess",
    "network_options": {},
    "seeds": 4,
    "log_every": 7,
}
PRECISIONS = pytest.mark.parametrize("precision", ["float32", "bfloat16"])


class Halt(Exception):
    """Raised by a progress report, as a process that ends would leave things."""


def rows(state: State) -> list[dict[str, torch.Tensor]]:
    """Every tensor of each member as bytes, by name."""
    named = {name: tensor.cpu() for name, tensor in state.tensors().items()}
    return [
        {
            name: tensor[k].reshape(-1).contiguous().view(torch.uint8)
            for name, tensor in named.items()
        }
        for k in range(len(state.diverged_at))
    ]


def different(left: State, right: State) -> list[list[str]]:
    """For each member the names of the tensors in which both states differ."""
    return [
        [name for name in ours if not torch.equal(ours[name], theirs[name])]
        for ours, theirs in zip(rows(left), rows(right), strict=True)
    ]


def by_stepper(program: TrainingStep, steps: int) -> tuple[State, list[int]]:
    state = program.start()
    stepper = Stepper(program, state)
    done = []
    while state.step < steps:
        done.append(stepper.advance(steps - state.step))
    return state, done


def by_steps(program: TrainingStep, steps: int) -> State:
    state = program.start()
    program.prepare(state)
    for _ in range(steps):
        program.step(state)
    return state


def test_on_a_cpu_a_stepper_steps(small_plan):
    plan, dataset = small_plan("beta_tcvae", seeds=2, steps=40)
    stepped, done = by_stepper(TrainingStep(plan, plan.members, dataset, torch.device("cpu")), 40)
    assert done == [1] * 40
    assert stepped.step == stepped.clock.item() == 40
    plain = by_steps(TrainingStep(plan, plan.members, dataset, torch.device("cpu")), 40)
    assert different(stepped, plain) == [[], []]
    assert different(
        stepped, by_steps(TrainingStep(plan, plan.members, dataset, torch.device("cpu")), 39)
    ) != [[], []]


@pytest.mark.gpu
@PRECISIONS
@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_replayed_steps_have_the_bits_of_plain_ones(small_plan, objective: str, precision: str):
    plan, dataset = small_plan(objective, steps=40, precision=precision, **CONVOLUTIONS)
    device = torch.device("cuda")
    replayed, done = by_stepper(TrainingStep(plan, plan.members, dataset, device), 40)
    replays, left = divmod(38, UPDATES_OF_A_GRAPH)
    assert done == [1, 1, *[UPDATES_OF_A_GRAPH] * replays, *[1] * left]
    assert replayed.step == replayed.clock.item() == 40
    plain = by_steps(TrainingStep(plan, plan.members, dataset, device), 40)
    assert replayed.diverged_at.tolist() == [-1] * 4
    assert torch.isfinite(replayed.history).all()
    assert different(replayed, plain) == [[]] * 4
    assert all(
        different(replayed, by_steps(TrainingStep(plan, plan.members, dataset, device), 39))
    ), "the comparison shows nothing"


@pytest.mark.gpu
@PRECISIONS
def test_the_lowered_copy_follows_the_weights_through_replays(small_plan, precision: str):
    plan, dataset = small_plan("factor_vae", steps=40, precision=precision, **CONVOLUTIONS)
    program = TrainingStep(plan, plan.members, dataset, torch.device("cuda"))
    stepper = Stepper(program, program.start())
    while stepper.state.step < 34:
        stepper.advance(34 - stepper.state.step)
    for adam in stepper.state.optimisers:
        assert (adam.low_precision_copy is None) == (precision == "float32")
        assert adam.low_precision_copy is None or torch.equal(
            adam.low_precision_copy, adam.weights.to(torch.bfloat16)
        )


@pytest.mark.gpu
@PRECISIONS
@pytest.mark.parametrize("objective", ["beta_vae", "beta_tcvae", "factor_vae"])
def test_replayed_neighbours_of_a_diverging_member_keep_every_bit(
    small_plan, objective: str, precision: str
):
    plan, dataset = small_plan(objective, steps=40, precision=precision, **CONVOLUTIONS)
    broken = [
        dataclasses.replace(member, learning_rate=1e30) if member.id == 2 else member
        for member in plan.members
    ]
    device = torch.device("cuda")
    healthy, _ = by_stepper(TrainingStep(plan, plan.members, dataset, device), 40)
    mixed, _ = by_stepper(TrainingStep(plan, broken, dataset, device), 40)
    assert healthy.diverged_at.tolist() == [-1] * 4
    diverged = mixed.diverged_at.tolist()
    assert [at >= 0 for at in diverged] == [False, False, True, False]
    assert [bool(names) for names in different(healthy, mixed)] == [False, False, True, False]
    # It stands where it was when it broke, replays or not.
    assert torch.isfinite(mixed.model.weights).all()
    until, _ = by_stepper(TrainingStep(plan, broken, dataset, device), diverged[2])
    for name in ("weights", "gradient_mean", "gradient_square"):
        assert torch.equal(getattr(mixed.model, name)[2], getattr(until.model, name)[2]), name


@pytest.mark.gpu
@PRECISIONS
@pytest.mark.parametrize(
    ("objective", "halt"), [("beta_vae", 45), ("factor_vae", 3), ("annealed_vae", 70)]
)
def test_a_run_stopped_on_a_gpu_ends_with_the_same_bits(
    tmp_path: Path,
    new_run,
    bits_of,
    same_bits,
    save_when_asked,
    objective: str,
    halt: int,
    precision: str,
):
    device = torch.device("cuda")
    settings = {"chunk_size": 4, "steps": 100, "precision": precision, **CONVOLUTIONS}
    whole = new_run(tmp_path / "whole", objective, **settings)
    assert train_run(whole, device) == Outcome(True, ())
    broken = new_run(tmp_path / "broken", objective, checkpoint_seconds=0, **settings)
    done = 0

    def halting(model_steps: int, found_done: bool) -> None:
        nonlocal done
        done += 0 if found_done else model_steps
        if done >= 4 * halt:
            raise Halt

    with pytest.raises(Halt):
        train_run(broken, device, halting)
    again = RunFolder.open(broken.path)
    reached = again.checkpoints(again.chunks()[0]).files()[0][0]
    assert 0 < reached < 100, "the stop came too early or too late to show anything"
    assert train_run(again, device) == Outcome(True, ())
    left, right = bits_of(again), bits_of(whole)
    assert [same_bits(left[k], right[k]) for k in range(4)] == [True] * 4
    assert not same_bits(left[0], left[1])


@pytest.mark.gpu
def test_a_checkpoint_taken_between_replays_goes_on_with_the_same_bits(small_plan):
    """In another program, which captures at another step of the draws."""
    plan, dataset = small_plan("factor_vae", steps=60, precision="bfloat16", **CONVOLUTIONS)
    device = torch.device("cuda")
    whole, _ = by_stepper(TrainingStep(plan, plan.members, dataset, device), 60)
    for stop in (1, 18, 21):
        begun, _ = by_stepper(TrainingStep(plan, plan.members, dataset, device), stop)
        state = State.from_tensors(
            {name: tensor.cpu() for name, tensor in begun.tensors().items()}, stop, device
        )
        stepper = Stepper(TrainingStep(plan, plan.members, dataset, device), state)
        while state.step < 60:
            stepper.advance(60 - state.step)
        assert different(state, whole) == [[]] * 4, stop


class Unwilling:
    """A program on a device that will not capture its steps."""

    device = torch.device("cuda")
    steps = 0

    def prepare(self, state: Any) -> None: ...

    def step(self, state: Any) -> None:
        self.steps += 1


def test_a_step_that_cannot_be_captured_is_told_once_and_goes_on_slower(
    monkeypatch: pytest.MonkeyPatch,
):
    def refuse(stepper: Stepper) -> None:
        tried.append(program.steps)
        raise RuntimeError(
            "CUDA error: operation not permitted when stream is capturing\nmore about it"
        )

    tried, told, program = [], [], Unwilling()
    monkeypatch.setattr(Stepper, "_capture", refuse)
    stepper = Stepper(program, None, told.append)  # type: ignore[arg-type]
    assert [stepper.advance(1000) for _ in range(30)] == [1] * 30
    assert (program.steps, tried) == (30, [2])
    assert told == [
        "a step cannot be captured as a CUDA graph, so training goes on step by step, slower: "
        "CUDA error: operation not permitted when stream is capturing"
    ]


def test_no_memory_for_a_capture_is_no_reason_to_go_on(monkeypatch: pytest.MonkeyPatch):
    def full(stepper: Stepper) -> None:
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(Stepper, "_capture", full)
    stepper = Stepper(Unwilling(), None)  # type: ignore[arg-type]
    assert [stepper.advance(1000) for _ in range(2)] == [1, 1]
    with pytest.raises(torch.cuda.OutOfMemoryError):
        stepper.advance(1000)


@pytest.mark.gpu
@pytest.mark.parametrize(
    "data",
    [
        "color_dsprites",
        "noisy_dsprites",
        "scream_dsprites",
        "dsprites",
        "xysquares",
        "xyobject",
        "shapes3d_drawn",
    ],
)
def test_every_kind_of_data_and_a_rule_can_be_captured(
    small_plan, data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("UNBRAID_DATA", str(tmp_path))
    Image.effect_noise((200, 150), 80).convert("RGB").save(tmp_path / "scream.jpg")
    rule = (
        "correlated(floor_hue, scale, 0.3)"
        if data.startswith("shapes")
        else "x_R < 5"
        if data == "xysquares"
        else "x < 9"
    )
    plan, dataset = small_plan(
        "beta_vae", data, steps=40, precision="bfloat16", where=rule, **CONVOLUTIONS
    )
    device = torch.device("cuda")
    replayed, done = by_stepper(TrainingStep(plan, plan.members, dataset, device), 40)
    assert UPDATES_OF_A_GRAPH in done
    assert (
        different(replayed, by_steps(TrainingStep(plan, plan.members, dataset, device), 40))
        == [[]] * 4
    )
    assert torch.isfinite(replayed.history).all()
