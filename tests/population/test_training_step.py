# SPDX-License-Identifier: Apache-2.0
"""One step against plain torch operations, Adam against torch's own, and members that neither see
nor disturb each other.
"""

from __future__ import annotations

import copy
import dataclasses
from typing import Any

import pytest
import torch
import torch.nn.functional as F

import unbraid as ub
from unbraid.core import random
from unbraid.core.random import Stream
from unbraid.data.where_rule import SamplingRule
from unbraid.networks.layout import Layout, Weight
from unbraid.objectives import OBJECTIVES, factor_vae
from unbraid.population.adam import BETAS as ADAM_BETAS
from unbraid.population.adam import EPSILON as ADAM_EPSILON
from unbraid.population.adam import Adam, Gradient
from unbraid.population.kind import quantities
from unbraid.population.state import State
from unbraid.population.training_step import TrainingStep

CPU = torch.device("cpu")
BATCHED_RELATIVE = 1e-3
"""How far the loss of a member in a batched chunk may be from the loss alone, after 20 steps: other
kernels round otherwise.
"""


@pytest.fixture
def small_discriminator(monkeypatch: pytest.MonkeyPatch) -> None:
    """FactorVAE's five million weights would cost most of the time and show no more."""
    monkeypatch.setattr(factor_vae, "_HIDDEN", 16)


def program_of(plan: Any, dataset: Any, members: Any = None) -> TrainingStep:
    return TrainingStep(plan, plan.members if members is None else members, dataset, CPU)


def advanced(program: TrainingStep, steps: int) -> State:
    state = program.start()
    for _ in range(steps):
        program.step(state)
    return state


def in_a_tuple(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else (value,)


def row_bits(state: State, position: int) -> list[torch.Tensor]:
    return [
        tensor[position].contiguous().view(torch.uint8)
        for tensor in state.tensors().values()
        if tensor.dim() > 1
    ]


def equal_rows(left: State, at: int, right: State, beside: int) -> bool:
    return all(
        torch.equal(a, b) for a, b in zip(row_bits(left, at), row_bits(right, beside), strict=True)
    )


def test_adam_is_torchs_and_an_unhealthy_member_keeps_every_bit():
    drawn = torch.Generator().manual_seed(1)
    layout = Layout((Weight("weights", (48,)),))
    start = torch.randn(3, 48, generator=drawn)
    rates = torch.tensor([1e-4, 1e-2, 5e-3])
    ours = Adam.start(start.clone())
    ours.gradient_mean[1] = 0.5
    ours.gradient_square[1] = 2.0
    frozen = [
        tensor[1].clone() for tensor in (ours.weights, ours.gradient_mean, ours.gradient_square)
    ]
    healthy = torch.tensor([True, False, True])
    peers = {k: start[k].clone().requires_grad_() for k in (0, 2)}
    optimisers = {
        k: torch.optim.Adam([peers[k]], lr=float(rates[k]), betas=ADAM_BETAS, eps=ADAM_EPSILON)
        for k in peers
    }
    for step in range(12):
        gradient = torch.randn(3, 48, generator=drawn) * 10.0 ** (step % 5 - 2)
        for k, peer in peers.items():
            peer.grad = gradient[k].clone()
            optimisers[k].step()
        gradient[1] = torch.nan
        ours.update(Gradient(layout, [gradient]), healthy, rates, ADAM_BETAS, torch.tensor(step))
    for k, peer in peers.items():
        torch.testing.assert_close(ours.weights[k], peer.detach(), rtol=0, atol=1e-6)
        assert (ours.weights[k] - start[k]).abs().max() > 1e-4
    for before, after in zip(
        frozen, (ours.weights[1], ours.gradient_mean[1], ours.gradient_square[1]), strict=True
    ):
        assert torch.equal(before.view(torch.uint8), after.view(torch.uint8))


def test_adam_corrects_each_member_by_its_own_count():
    """Members that come with 0, 7 and 40 updates behind them go on like torch's Adam with a counter
    each.
    """
    drawn = torch.Generator().manual_seed(2)
    layout, behind = Layout((Weight("weights", (32,)),)), (0, 7, 40)
    rates = torch.tensor([1e-2, 1e-2, 1e-2])
    gradients = torch.randn(48, 3, 32, generator=drawn)
    peers = [row.clone().requires_grad_() for row in torch.randn(3, 32, generator=drawn)]
    optimisers = [
        torch.optim.Adam([peer], lr=1e-2, betas=ADAM_BETAS, eps=ADAM_EPSILON) for peer in peers
    ]

    def peer_steps(member: int, steps: range) -> None:
        for step in steps:
            peers[member].grad = gradients[step, member].clone()
            optimisers[member].step()

    for member, count in enumerate(behind):
        peer_steps(member, range(40 - count, 40))
    ours = Adam.start(torch.stack([peer.detach().clone() for peer in peers]))
    for member in (1, 2):
        kept = optimisers[member].state[peers[member]]
        ours.gradient_mean[member], ours.gradient_square[member] = (
            kept["exp_avg"],
            kept["exp_avg_sq"],
        )
    for step in range(40, 48):
        for member in range(3):
            peer_steps(member, range(step, step + 1))
        before = torch.tensor(behind) + (step - 40)
        ours.update(
            Gradient(layout, [gradients[step]]),
            torch.ones(3, dtype=torch.bool),
            rates,
            ADAM_BETAS,
            before,
        )
    torch.testing.assert_close(
        ours.weights, torch.stack([peer.detach() for peer in peers]), rtol=0, atol=1e-6
    )


def test_gradients_of_a_group_are_rows_and_say_who_is_finite():
    layout = Layout((Weight("few", (3,)), Weight("large", (64, 64))))
    few, large = torch.ones(4, 3), torch.ones(4, 64, 64)
    few[1, 2], large[3, 63, 63] = torch.nan, torch.inf
    gradient = Gradient(layout, [few, large])
    assert gradient.rows is not None
    assert torch.equal(
        gradient.rows.nan_to_num(), layout.rows({"few": few, "large": large}).nan_to_num()
    )
    assert gradient.finite().tolist() == [True, False, True, False]


def by_hand(
    program: TrainingStep, weights: torch.Tensor, member: int, step: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, dict]:
    """Reconstruction, KL and loss of one member's β-VAE on the dense network, in plain operations,
    with the leaf weights.
    """
    plan = program.plan
    seed = torch.tensor([plan.members[member].seed])
    indices = random.integers(
        seed, step, Stream.IMAGE_INDICES, (plan.batch_size,), len(program.dataset)
    )[0]
    noise = random.normal(seed, step, Stream.LATENT_NOISE, (plan.batch_size, plan.latents))[0]
    images = ub.load("sprites", **plan.data_options).images(indices.numpy())
    x = torch.from_numpy(images).float().reshape(plan.batch_size, -1) / 255.0
    leaves = {
        name: view[0].clone().requires_grad_()
        for name, view in program.layout.views(weights[None]).items()
    }

    def layer(name: str, hidden: torch.Tensor) -> torch.Tensor:
        return hidden @ leaves[f"{name}.weight"] + leaves[f"{name}.bias"]

    hidden = layer("encoder.dense2", layer("encoder.dense1", x).relu()).relu()
    mean, logvar = layer("encoder.mean", hidden), layer("encoder.logvar", hidden)
    hidden = mean + torch.exp(logvar / 2) * noise
    for number in (1, 2, 3):
        hidden = torch.tanh(layer(f"decoder.dense{number}", hidden))
    p = torch.sigmoid(layer("decoder.out", hidden))
    reconstruction = -(x * p.log() + (1 - x) * (1 - p).log()).sum(1).mean()
    kl = (0.5 * (mean**2 + logvar.exp() - 1 - logvar)).sum(1).mean()
    return reconstruction, kl, reconstruction + plan.members[member].hyper["beta"] * kl, leaves


def test_terms_and_gradient_of_one_step_are_those_of_plain_operations(small_plan):
    plan, dataset = small_plan(ub.BetaVAE(beta=[0.5, 6]), seeds=[3, 11], steps=2, log_every=1)
    program = program_of(plan, dataset)
    state = program.start()
    for step in range(2):
        weights, before = state.model.weights.clone(), state.model.gradient_mean.clone()
        program.step(state)
        for member in range(4):
            reconstruction, kl, loss, leaves = by_hand(program, weights[member], member, step)
            expected = torch.stack([reconstruction, kl, loss]).detach()
            torch.testing.assert_close(state.history[member, step], expected, rtol=1e-5, atol=1e-4)
            gradients = dict(
                zip(leaves, torch.autograd.grad(loss, list(leaves.values())), strict=True)
            )
            # Adam's running mean is 0.9 of the last one and 0.1 of the gradient.
            row = (state.model.gradient_mean[member] - ADAM_BETAS[0] * before[member]) / (
                1 - ADAM_BETAS[0]
            )
            for name, found in program.layout.views(row[None]).items():
                torch.testing.assert_close(found[0], gradients[name], rtol=1e-3, atol=1e-3)
            assert max(gradient.abs().max() for gradient in gradients.values()) > 0.5


def test_the_gaussian_likelihood_reaches_the_loss(small_plan):
    plan, dataset = small_plan("ae", likelihood="gaussian", steps=1, log_every=1)
    program = program_of(plan, dataset)
    start = program.start()
    state = copy.deepcopy(start)
    program.step(state)
    indices = random.integers(
        program.draw.seed, 0, Stream.IMAGE_INDICES, (plan.batch_size,), len(dataset)
    )
    x = program.sampler(indices)
    views = program.layout.views(start.model.weights)
    raw = program.network.decode(views, program.network.encode(views, x)[0], dataset.sample_shape)
    expected = F.mse_loss(torch.sigmoid(raw), x, reduction="sum") / plan.batch_size
    torch.testing.assert_close(state.history[0, 0, 0], expected, rtol=1e-5, atol=1e-5)


def test_quantities_are_the_terms_the_loss_and_an_auxiliary_loss(small_plan):
    plan, _ = small_plan(["vae", "factor_vae"])
    assert quantities(plan.members[0]) == ("reconstruction", "kl", "loss")
    assert quantities(plan.members[1]) == (
        "reconstruction",
        "kl",
        "total_correlation",
        "loss",
        "auxiliary_loss",
    )


def test_starts_depend_on_the_seed_alone(small_plan):
    plan, dataset = small_plan(ub.BetaVAE(beta=[1, 9]), seeds=[5, 6])
    weights = program_of(plan, dataset).start().model.weights
    assert torch.equal(weights[0], weights[2])
    assert torch.equal(weights[1], weights[3])
    assert not torch.equal(weights[0], weights[1])
    assert torch.equal(
        program_of(plan, dataset, plan.members[3:]).start().model.weights[0], weights[1]
    )


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_three_steps_of_every_objective_are_finite(small_plan, small_discriminator, objective: str):
    plan, dataset = small_plan(objective, seeds=2, steps=3, log_every=1)
    program = program_of(plan, dataset)
    start = program.start()
    state = advanced(program, 3)
    assert state.diverged_at.tolist() == [-1, -1]
    assert torch.isfinite(state.history).all()
    assert torch.isfinite(state.model.weights).all()
    assert not torch.equal(state.model.weights, start.model.weights)
    if objective == "factor_vae":
        assert not torch.equal(state.auxiliary[0].weights, start.auxiliary[0].weights)
    assert program.finished(state)


def test_each_network_follows_its_own_loss_alone(
    small_plan, small_discriminator, monkeypatch: pytest.MonkeyPatch
):
    """One pass through the discriminator serves both losses, and neither may reach the other's
    weights.
    """
    plan, dataset = small_plan("factor_vae", seeds=2, steps=4)
    once = advanced(program_of(plan, dataset), 1)
    real = factor_vae.FactorVAE.auxiliary_loss
    monkeypatch.setattr(
        factor_vae.FactorVAE, "auxiliary_loss", lambda self, forward: 4.0 * real(self, forward)
    )
    louder = advanced(program_of(plan, dataset), 1)
    monkeypatch.undo()
    monkeypatch.setattr(factor_vae, "_HIDDEN", 16)
    stronger, _ = small_plan(ub.FactorVAE(gamma=500), seeds=2, steps=4)
    pushed = advanced(program_of(stronger, dataset), 1)
    assert torch.equal(louder.model.gradient_mean, once.model.gradient_mean)
    assert torch.equal(
        louder.auxiliary[0].gradient_mean, 4.0 * once.auxiliary[0].gradient_mean
    )  # four times is exact
    assert torch.equal(pushed.auxiliary[0].gradient_mean, once.auxiliary[0].gradient_mean)
    assert not torch.equal(pushed.model.gradient_mean, once.model.gradient_mean)


def test_the_clock_counts_with_the_steps_and_draws_do_not_depend_on_blocks(small_plan):
    plan, dataset = small_plan("factor_vae", seeds=2, steps=40)
    program = program_of(plan, dataset)
    state = program.start()
    assert (state.step, state.clock.item(), state.clock.dtype) == (0, 0, torch.int64)
    together = program.draw(torch.arange(14, 19))
    for at, step in enumerate(range(14, 19)):
        for some, alone in zip(together, program.draw(torch.tensor([step])), strict=True):
            for left, right in zip(in_a_tuple(some), in_a_tuple(alone), strict=True):
                if left is None:
                    assert right is None
                else:
                    assert torch.equal(left[:, at], right[:, 0])


def test_an_update_takes_the_step_from_the_clock(small_plan, small_discriminator):
    """A captured step sees no host: the same update with the host's count left behind does the
    same.
    """
    plan, dataset = small_plan("factor_vae", seeds=2, steps=20, log_every=3)
    program = program_of(plan, dataset)
    stepped, updated = program.start(), program.start()
    draws = program.draw(torch.arange(7))
    for at in range(7):
        program.step(stepped)
        program.update(updated, draws, at)
    assert (stepped.step, stepped.clock.item()) == (7, 7)
    assert (updated.step, updated.clock.item()) == (0, 7)
    assert all(equal_rows(stepped, k, updated, k) for k in range(2))


@pytest.mark.parametrize("objective", list(OBJECTIVES))
def test_a_member_in_a_batched_chunk_of_eight_stays_close_to_itself_alone(
    small_plan, small_discriminator, objective: str
):
    plan, dataset = small_plan(objective, seeds=8, steps=20, log_every=1)
    together = advanced(program_of(plan, dataset), 20)
    loss = list(quantities(plan.members[0])).index("loss")
    for member in (0, 5):
        alone = advanced(program_of(plan, dataset, plan.members[member : member + 1]), 20)
        torch.testing.assert_close(
            together.history[member, :, loss],
            alone.history[0, :, loss],
            rtol=BATCHED_RELATIVE,
            atol=0,
        )
    others = together.history[:, -1, loss]
    assert len(set(others.tolist())) == 8, "the members must differ, or closeness shows nothing"


def test_convolutions_in_a_chunk_stay_close_to_one_member_alone(small_plan):
    plan, dataset = small_plan(
        "beta_vae", seeds=3, steps=3, log_every=1, network="conv_burgess", network_options={}
    )
    together = advanced(program_of(plan, dataset), 3)
    alone = advanced(program_of(plan, dataset, plan.members[1:2]), 3)
    torch.testing.assert_close(
        together.history[1], alone.history[0], rtol=BATCHED_RELATIVE, atol=1e-3
    )


@pytest.mark.parametrize("objective", ["beta_vae", "beta_tcvae", "factor_vae"])
def test_neighbours_of_a_diverging_member_keep_every_bit(
    small_plan, small_discriminator, objective: str
):
    plan, dataset = small_plan(objective, seeds=8, steps=15, log_every=5)
    broken = [dataclasses.replace(m, learning_rate=1e30) if m.id == 3 else m for m in plan.members]
    healthy = advanced(program_of(plan, dataset), 15)
    mixed = advanced(program_of(plan, dataset, broken), 15)
    assert healthy.diverged_at.tolist() == [-1] * 8
    assert mixed.diverged_at.tolist() == [-1, -1, -1, 1, -1, -1, -1, -1]
    assert [equal_rows(healthy, k, mixed, k) for k in range(8)] == [k != 3 for k in range(8)]


def test_a_nan_in_one_members_weights_reaches_no_other(small_plan):
    plan, dataset = small_plan("beta_vae", seeds=8, steps=10)
    program = program_of(plan, dataset)
    whole, torn = program.start(), program.start()
    torn.model.weights[6] = torch.nan
    before = row_bits(torn, 6)[2].clone()
    for _ in range(10):
        program.step(whole)
        program.step(torn)
    assert torn.diverged_at.tolist() == [-1] * 6 + [0, -1]
    assert [equal_rows(whole, k, torn, k) for k in range(8)] == [k != 6 for k in range(8)]
    assert torch.equal(row_bits(torn, 6)[2], before)


def test_a_diverged_member_is_frozen_at_its_last_finite_weights(small_plan):
    plan, dataset = small_plan("beta_vae", seeds=2, steps=12, log_every=2)
    broken = (plan.members[0], dataclasses.replace(plan.members[1], learning_rate=1e30))
    program = program_of(plan, dataset, broken)
    state = advanced(program, 1)
    assert state.diverged_at.tolist() == [-1, -1]
    last = [
        tensor[1].clone()
        for tensor in (state.model.weights, state.model.gradient_mean, state.model.gradient_square)
    ]
    for _ in range(11):
        program.step(state)
    assert state.diverged_at.tolist() == [-1, 1]
    assert torch.isfinite(last[0]).all()
    for before, after in zip(
        last,
        (state.model.weights, state.model.gradient_mean, state.model.gradient_square),
        strict=True,
    ):
        assert torch.equal(before.view(torch.uint8), after[1].view(torch.uint8))
    assert torch.isfinite(state.history[0]).all()
    assert torch.isnan(state.history[1]).all()


def test_a_chunk_is_finished_when_every_member_has_diverged(small_plan):
    plan, dataset = small_plan("beta_vae", seeds=2, steps=12, learning_rate=1e30)
    program = program_of(plan, dataset)
    state = advanced(program, 1)
    assert not program.finished(state)
    program.step(state)
    assert program.finished(state)
    assert state.diverged_at.tolist() == [1, 1]


def test_recorded_values_are_means_over_windows(small_plan):
    plan, dataset = small_plan("beta_tcvae", seeds=2, steps=23, log_every=1)
    every = advanced(program_of(plan, dataset), 23)
    assert every.history.shape == (2, 23, 4)
    windows = dataclasses.replace(plan, log_every=5)
    state = advanced(program_of(windows, dataset), 23)
    assert state.history.shape == (2, 4, 4)
    torch.testing.assert_close(
        state.history, every.history[:, :20].view(2, 4, 5, 4).mean(dim=2), rtol=1e-5, atol=1e-5
    )
    torch.testing.assert_close(state.window, every.history[:, 20:].sum(dim=1), rtol=1e-5, atol=1e-5)


def test_state_survives_its_tensors(small_plan, small_discriminator):
    plan, dataset = small_plan("factor_vae", seeds=2, steps=9)
    program = program_of(plan, dataset)
    state = advanced(program, 4)
    again = State.from_tensors(
        {name: tensor.clone() for name, tensor in state.tensors().items()}, 4, CPU
    )
    fresh = program_of(plan, dataset)
    for _ in range(5):
        program.step(state)
        fresh.step(again)
    assert again.step == state.step == 9
    assert again.clock.item() == state.clock.item() == 9
    assert all(equal_rows(state, k, again, k) for k in range(2))
    assert torch.equal(state.diverged_at, again.diverged_at)


def test_a_state_without_ages_is_one_whose_members_are_as_old_as_the_clock(
    small_plan, small_discriminator
):
    """As checkpoints were before there was population-based training; and plain training leaves
    ages at 0.
    """
    plan, dataset = small_plan("factor_vae", seeds=2, steps=9)
    program = program_of(plan, dataset)
    state = advanced(program, 4)
    assert state.age.tolist() == [0, 0]
    tensors = {name: tensor.clone() for name, tensor in state.tensors().items()}
    assert torch.equal(tensors.pop("age"), torch.zeros(2, dtype=torch.int64))
    again, fresh = State.from_tensors(tensors, 4, CPU), program_of(plan, dataset)
    assert (again.age.tolist(), again.age.dtype) == ([0, 0], torch.int64)
    for _ in range(5):
        program.step(state)
        fresh.step(again)
    assert all(equal_rows(state, k, again, k) for k in range(2))
    assert state.age.tolist() == [0, 0]


def test_age_moves_the_count_of_both_optimisers_and_nothing_else(small_plan, small_discriminator):
    """From the same running means, a member k updates older goes farther by the ratio of Adam's two
    corrections.
    """
    plan, dataset = small_plan("factor_vae", seeds=2, steps=9)
    program = program_of(plan, dataset)
    start = advanced(program, 4)
    young, old = copy.deepcopy(start), copy.deepcopy(start)
    old.age += torch.tensor([0, 30])
    program.step(young)
    program.step(old)
    assert equal_rows(young, 0, old, 0)
    assert torch.equal(young.window, old.window)
    assert (old.clock.item(), old.age.tolist()) == (5, [0, 30])

    def reach(count: int, betas: tuple[float, float]) -> float:
        return (1 - betas[1] ** count) ** 0.5 / (1 - betas[0] ** count)

    network = program.kinds[0].auxiliary_network
    assert network is not None
    for number, betas in enumerate((ADAM_BETAS, network.adam_betas)):
        before, near, far = (state.optimisers[number] for state in (start, young, old))
        assert torch.equal(near.gradient_mean, far.gradient_mean)
        assert torch.equal(near.gradient_square, far.gradient_square)
        # Where the running square is not tiny beside Adam's epsilon, the step is the product of
        # means and corrections.
        large = near.gradient_square[1] > 1e-8
        assert large.sum() > 20
        ratio = (far.weights - before.weights)[1, large] / (near.weights - before.weights)[1, large]
        torch.testing.assert_close(
            ratio.median(), torch.tensor(reach(35, betas) / reach(5, betas)), rtol=1e-3, atol=0
        )


def test_a_rule_decides_what_training_draws(small_plan):
    plan, dataset = small_plan(where="x < 2 and y != 1", batch_size=512)
    drawn = program_of(plan, dataset).draw(torch.arange(8)).indices
    factors = dataset.factors(drawn.reshape(-1).numpy())
    axis = {name: column for name, column in zip(dataset.factor_names, factors.T, strict=True)}
    assert set(axis["x"].tolist()) == {0, 1}
    assert set(axis["y"].tolist()) == {0, 2, 3}
    counts = torch.bincount(drawn.reshape(-1), minlength=len(dataset))
    assert float(counts[counts > 0].double().std()) < 2 * (drawn.numel() / 12) ** 0.5


def test_drawing_follows_the_weights(small_plan):
    from scipy import stats

    plan, dataset = small_plan(where="1 + 3 * x + correlated(x, y, 0.3)", batch_size=1024)
    drawn = program_of(plan, dataset).draw(torch.arange(16)).indices.reshape(-1)
    counts = torch.bincount(drawn, minlength=len(dataset)).numpy()
    weights = SamplingRule(plan.where, dataset).weights(dataset.factors(range(len(dataset))))
    assert stats.chisquare(counts, weights / weights.sum() * len(drawn)).pvalue > 1e-3


def test_members_draw_fresh_images_of_their_own(small_plan):
    plan, _ = small_plan(seeds=2)
    dataset = ub.load("color_dsprites")
    program = TrainingStep(plan, plan.members, dataset, CPU)
    draws = program.draw(torch.arange(4))
    assert draws.images is not None
    assert draws.images.shape == (2, 4, plan.batch_size)
    assert int(draws.images.min()) >= 0
    assert int(draws.images.max()) < 2**31
    assert len(torch.unique(draws.images)) == draws.images.numel()
    again = program.draw(torch.tensor([2]))
    assert again.images is not None
    assert torch.equal(again.images[:, 0], draws.images[:, 2])


def test_plain_datasets_are_asked_for_indices_alone(small_plan):
    plan, dataset = small_plan()
    assert program_of(plan, dataset).draw(torch.arange(2)).images is None
