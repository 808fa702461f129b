# SPDX-License-Identifier: Apache-2.0
"""Members of several kinds in one chunk train as they do in chunks of their own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch

import unbraid as ub
from unbraid.objectives import OBJECTIVES, factor_vae
from unbraid.population.cuda_graph import Stepper, rehearse
from unbraid.population.kind import chunks_of, equal_share, kinds_of, shared_passes
from unbraid.population.member import Member
from unbraid.population.plan import Plan, make_plan
from unbraid.population.run_folder import RunFolder
from unbraid.population.side_streams import SideStreams
from unbraid.population.state import State
from unbraid.population.train import train_run
from unbraid.population.training_step import TrainingStep

CPU = torch.device("cpu")
SMALL: dict[str, Any] = {
    "data": "sprites",
    "data_options": {"x": 6, "y": 4, "scale": 2, "image_size": 28},
    "network": "mlp",
    "network_options": {"hidden": 8},
    "latents": 6,
    "batch_size": 8,
    "learning_rate": 1e-3,
    "log_every": 5,
    "seeds": 2,
}
ROUNDING = 1e-4
"""Of a few kinds the last bits differ: rows that begin elsewhere in memory round otherwise."""
KINDS = list(OBJECTIVES.built_in)
PAIRS = [
    pair
    for pair in itertools.combinations(KINDS, 2)
    if len({shared_passes(Member(0, name, {}, 1e-3, 0)) for name in pair}) == 1
]


@pytest.fixture(autouse=True)
def small_discriminator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(factor_vae, "_HIDDEN", 16)


def advanced(
    plan: Plan, dataset: Any, members: Sequence[Member], steps: int, device: torch.device = CPU
) -> State:
    program = TrainingStep(plan, members, dataset, device)
    stepper = Stepper(program, program.start())
    while stepper.state.step < steps:
        stepper.advance(steps - stepper.state.step)
    return stepper.state


def assert_alike(
    plan: Plan, dataset: Any, steps: int, device: torch.device = CPU, relative: float = 0.0
) -> None:
    """Weights and curves of all members in one chunk are those of each kind's own chunk."""
    (mixed,) = chunks_of(plan.members, len(plan.members))
    together = advanced(plan, dataset, mixed, steps, device)
    begin = 0
    for kind in kinds_of(mixed):
        place = slice(begin, begin + len(kind))
        begin = place.stop
        alone = advanced(plan, dataset, kind, steps, device)
        width, names = alone.model.weights.shape[1], alone.history.shape[2]
        for ours, theirs in (
            (together.model.weights[place, :width], alone.model.weights),
            (together.model.gradient_square[place, :width], alone.model.gradient_square),
            (together.history[place, :, :names], alone.history),
            (together.memory[place, : alone.memory.shape[1]], alone.memory),
            (together.diverged_at[place, None], alone.diverged_at[:, None]),
        ):
            if relative:
                # By member: a weight whose gradient is all but nothing may turn either way.
                apart = (ours.double() - theirs.double()).flatten(1).norm(dim=1)
                assert (apart <= relative * theirs.double().flatten(1).norm(dim=1)).all(), kind[
                    0
                ].objective
            else:
                assert torch.equal(bits(ours), bits(theirs)), kind[0].objective
    assert not together.model.weights[:, : plan.latents].eq(0).all()


def bits(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.contiguous().view(torch.uint8)


@pytest.mark.parametrize("supervision", [None, "labels:count=20"])
def test_all_kinds_that_share_their_passes_train_as_in_chunks_of_their_own(supervision):
    groups: dict[Any, list[str]] = {}
    for name in KINDS:
        groups.setdefault(shared_passes(Member(0, name, {}, 1e-3, 0)), []).append(name)
    assert max(map(len, groups.values())) > 8
    for names in groups.values():
        plan, dataset = make_plan(objective=names, steps=20, supervision=supervision, **SMALL)
        assert_alike(plan, dataset, 20, relative=ROUNDING)


@pytest.mark.slow
@pytest.mark.parametrize("pair", PAIRS, ids="-".join)
def test_all_pairs_of_kinds_train_as_in_chunks_of_their_own(pair):
    plan, dataset = make_plan(objective=list(pair), steps=100, **SMALL)
    assert_alike(plan, dataset, 100, relative=ROUNDING)


def test_priors_and_a_learned_likelihood_are_mixed_too():
    plan, dataset = make_plan(
        objective="beta_vae",
        prior=["isotropic", "sparse", "mixture:components=3"],
        likelihood="gaussian:scale=learned",
        steps=20,
        **SMALL,
    )
    assert len(kinds_of(plan.members)) == 3
    assert_alike(plan, dataset, 20)


def test_a_mixed_run_encodes_and_scores_every_member_as_one_of_single_chunks(tmp_path: Path):
    """Chunks of one member differ from larger ones by rounding; tables come in the same order."""
    objectives = ["ada_gvae", "factor_vae", "qlae", "beta_vae", "control_vae"]
    options = SMALL | {"network": "mlp", "steps": 12, "checkpoint_seconds": 1e6}
    scores, folders = [], []
    for name, size in (("single", 1), ("mixed", 10)):
        plan, dataset = make_plan(objective=objectives, **options)
        run = RunFolder.create(tmp_path / name, plan, size, dataset)
        train_run(run, CPU)
        folders.append(run)
        scores.append(ub.open_run(run.path, device="cpu").score("mig", quiet=True))
    single, mixed = folders
    assert [len(chunk) for chunk in mixed.chunks()] == [2, 8]
    pd.testing.assert_frame_equal(mixed.members(), single.members())
    pd.testing.assert_frame_equal(mixed.history(), single.history(), rtol=1e-3)
    pd.testing.assert_frame_equal(scores[0], scores[1], atol=0.05)


def test_a_diverging_member_leaves_its_neighbours_of_other_kinds_every_bit():
    objectives = [ub.BetaVAE(beta=[4, 1e38]), "factor_vae"]
    plan, dataset = make_plan(objective=objectives, steps=20, **SMALL)
    healthy, _ = make_plan(objective=["beta_vae", "factor_vae"], steps=20, **SMALL)
    ours = advanced(plan, dataset, plan.members, 20)
    theirs = advanced(healthy, dataset, healthy.members, 20)
    assert (ours.diverged_at >= 0).tolist() == [False, False, True, True, False, False]
    for mine, other in zip((0, 1, 4, 5), range(4), strict=True):
        assert torch.equal(bits(ours.model.weights[mine]), bits(theirs.model.weights[other]))
    assert torch.equal(bits(ours.auxiliary[0].weights), bits(theirs.auxiliary[0].weights))


def test_two_kinds_with_networks_of_their_own_keep_them_apart():
    """FactorVAE with two label losses is two kinds, each with its discriminators."""
    plan, dataset = make_plan(
        objective=["factor_vae", "beta_vae"],
        supervision=["labels:count=8,loss=l2", "labels:count=8,loss=xent"],
        steps=6,
        **SMALL,
    )
    (chunk,) = chunks_of(plan.members, 8)
    state = advanced(plan, dataset, chunk, 6)
    assert [len(adam.weights) for adam in state.auxiliary] == [2, 2]
    again = State.from_tensors(state.tensors(), 6, CPU)
    assert [len(adam.weights) for adam in again.auxiliary] == [2, 2]
    assert_alike(plan, dataset, 6)


@pytest.mark.parametrize(("count", "most", "share"), [(9, 4, 3), (8, 4, 4), (1, 4, 1), (5, 9, 5)])
def test_shares_are_equal(count: int, most: int, share: int):
    assert equal_share(count, most) == share


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("replayed", [False, True])
def test_streams_side_by_side_change_no_bit(precision, replayed):
    """What one stream after the other computes, also while another stream keeps the GPU busy."""
    plan, dataset = gpu_plan(precision)
    device, found = torch.device("cuda"), []
    for streams, busy in ((False, False), (True, False), (True, True)):
        program = TrainingStep(plan, plan.members, dataset, device)
        if not streams:
            program.beside = SideStreams(device, 0)
        state = program.start()
        stepper = Stepper(program, state)
        square = torch.randn(2048, 2048, device=device)
        with torch.cuda.stream(torch.cuda.Stream(device)):
            for _ in range(200 if busy else 0):
                square = (square @ square).clamp(-1, 1)
        while state.step < 34:
            if replayed:
                stepper.advance(34 - state.step)
            else:
                program.step(state)
        found.append({name: tensor.cpu() for name, tensor in state.tensors().items()})
    for other in found[1:]:
        for name, tensor in found[0].items():
            assert torch.equal(bits(tensor), bits(other[name])), name


@pytest.mark.gpu
def test_a_rehearsal_leaves_no_trace():
    plan, dataset = gpu_plan("bfloat16")
    device, found = torch.device("cuda"), []
    for rehearsed in (False, True):
        program = TrainingStep(plan, plan.members, dataset, device)
        sampler = program.sampler
        if rehearsed:
            rehearse(program)
        assert program.sampler is sampler
        assert program._drawn is None
        state = program.start()
        for _ in range(3):
            program.step(state)
        found.append(state.tensors())
    for name, tensor in found[0].items():
        assert torch.equal(bits(tensor), bits(found[1][name])), name


@cache
def gpu_plan(precision: str) -> tuple[Plan, Any]:
    """In small batches and large steps rounding alone grows to a tenth of a weight within these
    steps, where Adam's first step goes by the sign of a gradient that is all but nothing.
    """
    options = SMALL | {"network": "conv_burgess", "network_options": {}, "seeds": 3}
    options |= {"batch_size": 32, "learning_rate": 1e-4}
    names = ["beta_vae", "factor_vae", "dip_vae_i", "dip_vae_ii", "beta_tcvae", "annealed_vae"]
    return make_plan(objective=names, steps=100, precision=precision, **options)


@pytest.mark.gpu
@pytest.mark.parametrize(("precision", "relative"), [("float32", 1e-2), ("bfloat16", 5e-2)])
def test_on_a_gpu_a_mixture_changes_no_more_than_the_size_of_a_chunk(precision, relative):
    plan, dataset = gpu_plan(precision)
    assert_alike(plan, dataset, 100, torch.device("cuda"), relative)
