# SPDX-License-Identifier: Apache-2.0
"""What a step provides beside images: pairs, labelled images, memory, running means, weight decay,
schedules; and old plans.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import unbraid as ub
from unbraid.core.store import write_json
from unbraid.objectives.objective import Forward, total_loss
from unbraid.objectives.schedule import Schedule
from unbraid.objectives.supervision.few_labels import FewLabels
from unbraid.population.adam import BETAS, EPSILON
from unbraid.population.checkpoint import Checkpoints
from unbraid.population.cuda_graph import Stepper
from unbraid.population.draws import Draws
from unbraid.population.plan import Plan
from unbraid.population.run_folder import RunFolder
from unbraid.population.state import State
from unbraid.population.train import Outcome, train_run
from unbraid.population.training_step import LEARNED, TrainingStep

CPU = torch.device("cpu")
BATCH_NORM = {
    "network": "conv_batchnorm",
    "network_options": {},
    "data_options": {"x": 4, "y": 2, "scale": 2, "image_size": 32},
}


CONTROLLED = ub.ControlVAE(capacity=["linear(0, 0.2, 10)", 0.1], integral_gain=0.1)  # type: ignore[attr-defined]
"""So low a capacity that the controller raises β from the first step on, and what it remembers
matters.
"""


class Killed(Exception):
    """Raised by a progress report: nothing after it is saved, as when a process is killed."""


def program_of(plan: Plan, dataset: Any) -> TrainingStep:
    return TrainingStep(plan, plan.members, dataset, CPU)


def advanced(program: TrainingStep, state: State, steps: int) -> State:
    for _ in range(steps):
        program.step(state)
    return state


def forward_of(program: TrainingStep, state: State, draws: Draws, at: int = 0) -> Forward:
    leaves = program._leaves(program.layout, state.model)
    return program._forward(leaves, state, draws, at)[0].forward


def different(left: State, right: State) -> list[str]:
    """Names of the tensors in which two states differ by a bit."""
    ours, theirs = left.tensors(), right.tensors()
    assert ours.keys() == theirs.keys()
    return [
        name
        for name in ours
        if not torch.equal(ours[name].view(torch.uint8), theirs[name].view(torch.uint8))
    ]


def encoded(program: TrainingStep, state: State, draws: Draws, at: int) -> tuple[torch.Tensor, ...]:
    """Means and log-variances that the encoder itself gives the images of a step."""
    views = program.layout.views(state.model.weights)
    return program.network.encode(views, program.sampler(draws.indices[:, at]))


# Pairs


def test_the_first_half_of_the_rows_are_the_images_of_an_objective_without_pairs(small_plan):
    plan, dataset = small_plan("ada_gvae", seeds=[3, 8])
    plain, _ = small_plan("beta_vae", seeds=[3, 8])
    program, steps = program_of(plan, dataset), torch.arange(5)
    draws = program.draw(steps)
    batch = plan.batch_size
    assert program.rows == 2 * batch
    assert draws.indices.shape == (2, 5, 2 * batch)
    assert draws.noise.shape == (2, 5, 2 * batch, plan.latents)
    assert torch.equal(draws.indices[..., :batch], program_of(plain, dataset).draw(steps).indices)
    pairs = program.kinds[0].pairs
    assert pairs is not None
    second, changed = pairs.second(
        program.draw.seed, steps, draws.indices[..., :batch], dataset.factor_sizes
    )
    assert torch.equal(draws.indices[..., batch:], second)
    assert draws.changed is not None
    assert torch.equal(draws.changed, changed)


def test_changed_is_the_factor_in_which_the_halves_differ(small_plan):
    plan, dataset = small_plan(ub.GVAE(changed_factors=1), batch_size=64, seeds=2)  # type: ignore[attr-defined]
    draws = program_of(plan, dataset).draw(torch.arange(4))
    assert draws.changed is not None
    first, second = (
        dataset.factors(half.reshape(-1).numpy()) for half in draws.indices.chunk(2, dim=-1)
    )
    differs = first != second
    assert differs.any(axis=1).mean() > 0.3, "most pairs must differ, or this shows nothing"
    assert (differs.sum(axis=1) <= 1).all()
    rows = differs.any(axis=1)
    assert np.array_equal(differs[rows].argmax(axis=1), draws.changed.reshape(-1).numpy()[rows])


def test_the_two_images_of_a_pair_share_all_latents_but_the_changed_one(small_plan):
    plan, dataset = small_plan("gvae", seeds=2, latents=len(dataset_sizes(small_plan)))
    program = program_of(plan, dataset)
    state = program.start()
    draws = program.draw(torch.arange(3))
    for at in range(3):
        forward = forward_of(program, state, draws, at)
        own_mean, own_logvar = encoded(program, state, draws, at)
        assert draws.changed is not None
        own = torch.nn.functional.one_hot(draws.changed[:, at], plan.latents).bool().repeat(1, 2, 1)
        for shared, before in ((forward.mean, own_mean), (forward.logvar, own_logvar)):
            torch.testing.assert_close(shared[own], before[own], rtol=1e-5, atol=1e-6)
            first, second = shared.chunk(2, dim=1)
            others = ~own[:, : plan.batch_size]
            assert torch.equal(first[others], second[others])
        average = 0.5 * (own_mean[:, : plan.batch_size] + own_mean[:, plan.batch_size :])
        torch.testing.assert_close(
            forward.mean[:, : plan.batch_size][others], average[others], rtol=1e-5, atol=1e-6
        )


def dataset_sizes(small_plan: Any) -> tuple[int, ...]:
    return small_plan("vae")[1].factor_sizes


def test_both_images_of_a_pair_are_compared_with_themselves(small_plan):
    plan, dataset = small_plan("ada_gvae", seeds=2)
    program = program_of(plan, dataset)
    state = program.start()
    draws = program.draw(torch.arange(2))
    forward = forward_of(program, state, draws, 1)
    views = program.layout.views(state.model.weights)
    x = program.sampler(draws.indices[:, 1])
    raw = program.network.decode(views, forward.z, dataset.sample_shape)
    expected = program.likelihood.negative_log(raw, x)
    assert forward.reconstruction.shape == (2, 2 * plan.batch_size)
    torch.testing.assert_close(forward.reconstruction, expected, rtol=1e-5, atol=1e-4)
    assert not torch.allclose(
        program.likelihood.negative_log(raw, x.roll(plan.batch_size, dims=1)), expected, atol=1e-2
    )
    noise = (forward.z - forward.mean) / torch.exp(0.5 * forward.logvar)
    torch.testing.assert_close(noise, draws.noise[:, 1], rtol=1e-3, atol=1e-4)


# Labelled images


@pytest.mark.parametrize(("objective", "alone"), [("beta_vae", "no"), ("ae", "yes")])
def test_labelled_images_stay_with_their_labels(small_plan, objective: str, alone: str):
    # 11 labels in batches of 8: the set begins again in the middle of a batch.
    labels = FewLabels(count=11, seed=[4, 9], alone=alone)
    plan, dataset = small_plan(objective, supervision=labels, seeds=2, latents=7)
    program = program_of(plan, dataset)
    state = program.start()
    draws = program.draw(torch.arange(6))
    batch = plan.batch_size
    assert program.rows == batch
    assert draws.indices.shape == (4, 6, 2 * batch)
    assert program.labelled is not None
    for at in range(6):
        forward = forward_of(program, state, draws, at)
        assert forward.labels is not None
        labelled = draws.indices[:, at, batch:]
        truth = np.stack([dataset.factors(row.numpy()) for row in labelled])
        assert np.array_equal(forward.labels.numpy(), truth)
        places = [(at * batch + k) % 11 for k in range(batch)]
        assert torch.equal(labelled, program.labelled.indices[:, places])
        own_mean, _ = encoded(program, state, draws, at)
        torch.testing.assert_close(forward.labelled_mean, own_mean[:, batch:], rtol=1e-5, atol=1e-6)
        torch.testing.assert_close(forward.mean, own_mean[:, :batch], rtol=1e-5, atol=1e-6)
        x = program.sampler(draws.indices[:, at, :batch])
        raw = program.network.decode(
            program.layout.views(state.model.weights), forward.z, dataset.sample_shape
        )
        torch.testing.assert_close(
            forward.reconstruction, program.likelihood.negative_log(raw, x), rtol=1e-5, atol=1e-4
        )
    # Sorted by label seed, then member seed: label seeds decide which images, member seeds do not.
    assert torch.equal(program.labelled.indices[0], program.labelled.indices[1])
    assert not torch.equal(program.labelled.indices[0], program.labelled.indices[2])


def test_unlabelled_images_are_those_of_the_objective_without_labels(small_plan):
    plan, dataset = small_plan("beta_vae", latents=7, supervision="labels")
    plain, _ = small_plan("beta_vae", latents=7)
    ours, theirs = (program_of(one, dataset).draw(torch.arange(3)) for one in (plan, plain))
    assert torch.equal(ours.indices[..., : plan.batch_size], theirs.indices)
    assert torch.equal(ours.noise, theirs.noise)


def test_a_labelled_image_is_one_image_where_others_are_drawn_afresh(small_plan, monkeypatch):
    plan, dataset = small_plan("beta_vae", latents=7, supervision="labels")
    program = program_of(plan, dataset)
    monkeypatch.setattr(type(dataset), "fresh", True)
    images = program.draw(torch.arange(4)).images
    assert images is not None
    assert not images[..., plan.batch_size :].any()
    assert len(images[..., : plan.batch_size].unique()) == 4 * plan.batch_size


# What a step leaves for the next one


def test_the_memory_of_a_controller_is_what_a_plain_controller_remembers(small_plan):
    chosen = ub.ControlVAE(capacity=[0.5, 30], integral_gain=0.01, beta_max=5)  # type: ignore[attr-defined]
    plan, dataset = small_plan(chosen, steps=12, log_every=1, learning_rate=1e-2)
    program = program_of(plan, dataset)
    state = program.start()
    assert state.memory.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    names = list(program.kinds[0].objective.memory)
    integral, above = [0.0, 0.0], [0.0, 0.0]
    for step in range(12):
        program.step(state)
        for member, capacity in enumerate((0.5, 30.0)):
            kl, beta = state.history[member, step, 1:3].double().tolist()
            error = capacity - kl
            still = (above[member] < 0 and error > 0) or (above[member] > 4 and error < 0)
            integral[member] -= 0.0 if still else 0.01 * error
            above[member] = 0.01 / (1 + np.exp(error)) + integral[member]
            assert beta == pytest.approx(1 + min(max(above[member], 0.0), 4.0), rel=1e-4)
            remembered = dict(zip(names, state.memory[member].tolist(), strict=True))
            assert remembered == pytest.approx(
                {"integral": integral[member], "above_least": above[member]}, rel=1e-3, abs=1e-5
            )
    assert state.memory.abs().min() > 0


RESUMED = [
    pytest.param(CONTROLLED, {}, id="memory"),
    pytest.param(
        ub.BetaVAE(beta=["cyclic(0, 4, 6)", 1]),
        {"learning_rate": "cosine(1e-2, 0, 12)"},
        id="schedules",
    ),
    pytest.param("beta_vae", BATCH_NORM, id="batch norm"),
    pytest.param(
        ub.ControlVAE(),
        {"prior": "pca_learned", "likelihood": "gaussian:scale=learned"},
        id="learned",
    ),  # type: ignore[attr-defined]
    pytest.param(ub.QLAE(weight_decay=[0.1, "linear(1, 0, 8)"]), {}, id="weight decay"),  # type: ignore[attr-defined]
    pytest.param(
        "dip_vae_i",
        {"latents": 7, "supervision": "labels:loss=embed,learn_sigma=yes"},
        id="labels",
    ),
    pytest.param("info_vae", {"prior": "sparse:gamma=linear(0, 0.9, 8)"}, id="prior points"),
    pytest.param("ada_mlvae", {"standardise": True}, id="pairs"),
    pytest.param(["factor_vae", CONTROLLED, "qlae"], {"latents": 4}, id="several kinds"),
]


@pytest.mark.parametrize(("objective", "options"), RESUMED)
def test_a_checkpoint_in_the_middle_changes_no_bit(
    small_plan, tmp_path: Path, objective: Any, options: dict[str, Any]
):
    plan, dataset = small_plan(objective, seeds=2, steps=12, log_every=5, **options)
    whole = advanced(program_of(plan, dataset), program_of(plan, dataset).start(), 12)
    files = Checkpoints(tmp_path, tuple(range(len(plan.members))), plan.digest())
    halfway = advanced(program_of(plan, dataset), program_of(plan, dataset).start(), 7)
    files.save(halfway.tensors(), halfway.step)
    warned: list[str] = []
    state = files.load(CPU, warned.append)
    assert isinstance(state, State)
    assert state.step == 7
    assert different(advanced(program_of(plan, dataset), state, 5), whole) == []
    assert warned == []
    assert whole.diverged_at.tolist() == [-1] * len(plan.members)


@pytest.mark.parametrize(
    ("objective", "options"),
    [
        pytest.param(CONTROLLED, {}, id="memory"),
        pytest.param("control_vae", BATCH_NORM, id="batch norm"),
    ],
)
def test_a_killed_run_that_is_resumed_ends_with_the_same_bits(
    tmp_path: Path,
    new_run,
    bits_of,
    same_bits,
    save_when_asked,
    objective: Any,
    options: dict[str, Any],
):
    settings = {"seeds": 2, "steps": 14, **options}
    whole = new_run(tmp_path / "whole", objective, **settings)
    assert train_run(whole, CPU) == Outcome(True, ())
    killed = new_run(tmp_path / "killed", objective, checkpoint_seconds=0, **settings)
    done = 0

    def killing(model_steps: int, found_done: bool) -> None:
        nonlocal done
        done += 0 if found_done else model_steps
        if done >= 10:
            raise Killed

    with pytest.raises(Killed):
        train_run(killed, CPU, killing)
    again = RunFolder.open(killed.path)
    reached = [
        again.checkpoints(chunk).files()[0][0]
        for chunk in again.chunks()
        if again.checkpoints(chunk).files()
    ]
    assert any(0 < step < 14 for step in reached), (
        "the kill came too early or too late to show anything"
    )
    assert train_run(again, CPU) == Outcome(True, ())
    left, right = bits_of(again), bits_of(whole)
    assert left.keys() == right.keys()
    assert all(same_bits(left[member], right[member]) for member in left)
    assert all("memory" in tensors for tensors in left.values())
    assert not same_bits(left[0], left[1])


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(("objective", "options"), RESUMED)
def test_replays_and_a_stop_between_them_change_no_bit(
    small_plan, objective: Any, options: dict[str, Any], precision: str
):
    plan, dataset = small_plan(
        objective, seeds=2, steps=60, log_every=5, precision=precision, **options
    )
    device = torch.device("cuda")
    program = TrainingStep(plan, plan.members, dataset, device)
    plain = program.start()
    program.prepare(plain)
    advanced(program, plain, 60)

    def replayed(state: State, steps: int) -> State:
        stepper = Stepper(TrainingStep(plan, plan.members, dataset, device), state, pytest.fail)
        while state.step < steps:
            stepper.advance(steps - state.step)
        return state

    begun = replayed(program.start(), 21)
    stored = {name: tensor.cpu() for name, tensor in begun.tensors().items()}
    state = replayed(State.from_tensors(stored, 21, device), 60)
    assert different(state, plain) == []
    assert state.model.low_precision_copy is None or same_in_low_precision(program, state)
    assert state.diverged_at.tolist() == [-1] * len(plan.members)


def same_in_low_precision(program: TrainingStep, state: State) -> bool:
    """Whether the copy in low precision is that of the weights, but for running means, which no
    product reads.
    """
    assert state.model.low_precision_copy is not None
    views, lowered = (
        program.layout.views(state.model.weights),
        program.layout.views(state.model.low_precision_copy),
    )
    return all(
        torch.equal(views[name].to(torch.bfloat16), lowered[name])
        for name in views
        if "running" not in name
    )


def test_a_forgotten_memory_would_be_noticed(small_plan):
    """The comparisons above can fail: what is remembered matters to what follows."""
    plan, dataset = small_plan(CONTROLLED, steps=12)
    program = program_of(plan, dataset)
    state = advanced(program, program.start(), 7)
    torn = copy.deepcopy(state)
    torn.memory.zero_()
    assert "model.weights" in different(advanced(program, state, 3), advanced(program, torn, 3))


def test_running_means_follow_the_batches_and_stay_with_their_member(small_plan):
    plan, dataset = small_plan("beta_vae", seeds=2, steps=3, **BATCH_NORM)
    program = program_of(plan, dataset)
    state = program.start()
    names = [weight.name for weight in program.layout.weights if "running" in weight.name]
    assert names
    noted = {}
    for step in range(3):
        leaves = program._leaves(program.layout, state.model)
        draws = program.draw(torch.tensor([step]))
        program._forward(leaves, state, draws, 0)
        noted = {name: leaves.notes[name].clone() for name in names}
        program.step(state)
        views = program.layout.views(state.model.weights)
        for name in names:
            torch.testing.assert_close(views[name], noted[name], rtol=1e-5, atol=1e-6)
    started = program.layout.views(program.start().model.weights)
    for name in names:
        assert not torch.equal(views[name], started[name])
        assert not torch.equal(views[name][0], views[name][1])
    moments = program.layout.views(state.model.gradient_mean)
    assert not any(moments[name].any() for name in names), "running means get no gradient"


@pytest.mark.parametrize(
    ("objective", "options"),
    [("control_vae", {}), ("control_vae", BATCH_NORM), (ub.QLAE(weight_decay=0.5), BATCH_NORM)],  # type: ignore[attr-defined]
)
def test_a_diverged_member_keeps_its_memory_and_running_means(
    small_plan, objective: Any, options: dict[str, Any]
):
    plan, dataset = small_plan(objective, seeds=3, steps=6, **options)
    broken = [
        dataclasses.replace(one, learning_rate=1e30) if one.id == 1 else one for one in plan.members
    ]
    healthy, program = program_of(plan, dataset), TrainingStep(plan, broken, dataset, CPU)
    whole, state = advanced(healthy, healthy.start(), 1), advanced(program, program.start(), 1)
    before = {
        name: tensor[1].clone()
        for name, tensor in state.tensors().items()
        if name not in ("diverged_at", "window", "history", "age")
    }
    whole, state = advanced(healthy, whole, 5), advanced(program, state, 5)
    assert state.diverged_at.tolist() == [-1, 1, -1]
    for name, tensor in before.items():
        assert torch.equal(tensor.view(torch.uint8), state.tensors()[name][1].view(torch.uint8)), (
            name
        )
    for member in (0, 2):
        for name, tensor in whole.tensors().items():
            assert torch.equal(tensor[member], state.tensors()[name][member]), name


# Weight decay


def test_weight_decay_is_adamw_on_the_network_and_adam_on_what_the_objective_learns(small_plan):
    decays = (0.3, 2.0)
    plan, dataset = small_plan(ub.QLAE(weight_decay=list(decays)), steps=12, learning_rate=1e-2)  # type: ignore[attr-defined]
    program = program_of(plan, dataset)
    state = program.start()
    views = program.layout.views(state.model.weights)
    peers = [
        {name: view[k].clone().requires_grad_() for name, view in views.items()} for k in range(2)
    ]
    # QLAE's variance head has no part in the loss: AdamW moves it by the decay alone.
    optimisers = [
        torch.optim.AdamW(
            [
                {
                    "params": [peer for name, peer in own.items() if name != LEARNED],
                    "weight_decay": decay,
                },
                {"params": [own[LEARNED]], "weight_decay": 0.0},
            ],
            lr=1e-2,
            betas=BETAS,
            eps=EPSILON,
        )
        for own, decay in zip(peers, decays, strict=True)
    ]
    for step in range(12):
        rows = program.layout.rows(
            {name: torch.stack([own[name].detach() for own in peers]) for name in views}
        )
        beside = dataclasses.replace(state, model=dataclasses.replace(state.model, weights=rows))
        leaves = program._leaves(program.layout, beside.model)
        (one,) = program._forward(leaves, beside, program.draw(torch.tensor([step])), 0)
        loss = total_loss(one.objective.terms(one.forward)).sum()
        gradients = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
        for k, (own, optimiser) in enumerate(zip(peers, optimisers, strict=True)):
            for peer, gradient in zip(own.values(), gradients, strict=True):
                peer.grad = gradient[k]
            optimiser.step()
        program.step(state)
    ours = program.layout.views(state.model.weights)
    for k, own in enumerate(peers):
        for name, peer in own.items():
            torch.testing.assert_close(ours[name][k], peer.detach(), rtol=0, atol=1e-6)
    shrunk = (
        ours["encoder.logvar.weight"]
        / program.layout.views(program.start().model.weights)["encoder.logvar.weight"]
    )
    for k, decay in enumerate(decays):
        torch.testing.assert_close(
            shrunk[k], torch.full_like(shrunk[k], (1 - 1e-2 * decay) ** 12), rtol=1e-5, atol=0
        )


def test_objectives_without_decay_take_nothing_away(small_plan):
    plan, dataset = small_plan("ae")
    program = program_of(plan, dataset)
    start, state = program.start(), advanced(program, program.start(), 5)
    name = "encoder.logvar.weight"
    assert torch.equal(
        program.layout.views(state.model.weights)[name],
        program.layout.views(start.model.weights)[name],
    )


# Schedules

BETA, RATE = "linear(0, 4, 8)", "linear(0.0078125, 0.001953125, 4, 2)"
"""Exact in float32 at every step, so that bits can be compared."""


def test_scheduled_numbers_are_the_hand_set_ones_at_every_step(small_plan):
    plan, dataset = small_plan(
        ub.BetaVAE(beta=[BETA, 1.5]), learning_rate=[RATE, 0.0009765625], steps=12
    )
    program = program_of(plan, dataset)
    state = program.start()
    seen = set()
    for step in range(12):
        beta, rate = (Schedule.parse(text).value(step) for text in (BETA, RATE))
        seen.add((beta, rate))
        fixed = [
            dataclasses.replace(
                member,
                hyper={
                    "beta": beta if isinstance(member.hyper["beta"], str) else member.hyper["beta"]
                },
                learning_rate=(
                    rate if isinstance(member.learning_rate, str) else member.learning_rate
                ),
            )
            for member in plan.members
        ]
        by_hand = TrainingStep(plan, fixed, dataset, CPU)
        expected = advanced(by_hand, copy.deepcopy(state), 1)
        program.step(state)
        assert different(state, expected) == []
    assert len(seen) > 8
    assert seen >= {(0.0, 0.0078125), (4.0, 0.001953125)}


def test_a_number_of_the_prior_follows_its_schedule_too(small_plan):
    plan, dataset = small_plan("info_vae", prior="sparse:gamma=linear(0, 1, 4),spike=0.25", steps=6)
    program = program_of(plan, dataset)
    state = program.start()
    for step in range(6):
        gamma = min(step / 4, 1.0)
        fixed = [
            dataclasses.replace(one, prior_hyper={"gamma": gamma, "spike": 0.25})
            for one in plan.members
        ]
        expected = advanced(TrainingStep(plan, fixed, dataset, CPU), copy.deepcopy(state), 1)
        program.step(state)
        assert different(state, expected) == []


# Plans of runs made before there were priors, pairs, labels and schedules

OLD_PLAN: dict[str, Any] = {
    "data": "sprites",
    "data_options": {
        "image_size": 28,
        "channels": 1,
        "x": 6,
        "y": 4,
        "scale": 2,
        "shape": 1,
        "orientation": 1,
        "shade": 1,
        "hue": 1,
        "x_range": 1.0,
        "y_range": 0.6,
        "scale_min": 0.1,
        "scale_max": 0.2,
    },
    "data_fingerprint": "d2bf5c962e2d68c868e132e8582faa86bcef67f73dcd90c3e7a1c017f487747e",
    "network": "mlp",
    "network_options": {"hidden": 16},
    "latents": 3,
    "likelihood": "bernoulli",
    "steps": 8,
    "batch_size": 4,
    "precision": "float32",
    "log_every": 2,
    "checkpoint_seconds": 30.0,
    "code_samples": 15000,
    "members": [
        {
            "id": 0,
            "objective": "annealed_vae",
            "hyper": {"max_capacity": 25.0, "gamma": 1000.0, "ramp_steps": 100000.0},
            "learning_rate": 0.001,
            "seed": 0,
        }
    ],
    "command": "",
    "made_with": {"unbraid": "0.1.0", "torch": "2.13.0+cpu", "python": "3.11.7"},
    "format": 2,
}
OLD_DIGEST = "90f65dd0048c34f4d366e02d257a5f9b0292eff25d890ad43862f1f2accbef33"
"""As the version that made the plan had it in its checkpoints."""


def test_an_old_plan_opens_with_the_digest_its_checkpoints_have(tmp_path: Path):
    write_json(tmp_path / "plan.json", {**OLD_PLAN, "chunk_size": 1})
    run = RunFolder.open(tmp_path)
    assert run.plan.digest() == OLD_DIGEST
    assert json.loads(json.dumps(run.plan.record())) == OLD_PLAN
    member = run.plan.members[0]
    assert (member.prior, member.prior_hyper, member.given) == ("isotropic", {}, {})
    assert member.build() == ub.AnnealedVAE()
    assert member.build_prior().standard
    assert run.plan.standardise == {}
    assert member.label() == "annealed_vae max_capacity=25 seed=0"


def test_an_old_run_goes_on_from_its_checkpoint(tmp_path: Path):
    """A checkpoint without the tensors that newer objectives have, and the bits that the same plan
    gives in one go.
    """
    write_json(tmp_path / "plan.json", {**OLD_PLAN, "chunk_size": 1})
    run = RunFolder.open(tmp_path)
    program = program_of(run.plan, run.dataset)
    halfway = advanced(program, program.start(), 4)
    assert {name.partition(".")[0] for name in halfway.tensors()} == {
        "age",
        "diverged_at",
        "window",
        "history",
        "model",
    }
    checkpoints = run.checkpoints(run.chunks()[0])
    checkpoints.save(halfway.tensors(), halfway.step)
    state = checkpoints.load(CPU, pytest.fail)
    assert state is not None
    assert state.memory.shape == (1, 0)
    assert different(advanced(program, state, 4), advanced(program, program.start(), 8)) == []
