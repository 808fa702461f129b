# SPDX-License-Identifier: Apache-2.0
"""FactorVAE with a discriminator simple enough to check by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch

from unbraid.core import random
from unbraid.core.random import Stream
from unbraid.objectives.factor_vae import Discriminator, FactorVAE, shuffle_latents
from unbraid.objectives.objective import total_loss


def linear(z):
    """Logits (z1 + z2, z1 − 2): the density ratio is z2 + 2."""
    return torch.stack([z[..., 0] + z[..., 1], z[..., 0] - 2.0], dim=-1)


def seen_by(network, forward):
    """*forward* with what *network* says of its latents."""
    return replace(forward, auxiliary=network(FactorVAE().auxiliary_input(forward)))


Z = torch.tensor([[[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]], dtype=torch.float64)
PERMUTATION = torch.tensor([[[1, 2, 0], [2, 0, 1]]])


def test_shuffle_by_hand():
    assert shuffle_latents(Z, PERMUTATION).tolist() == [[[2.0, 30.0], [3.0, 10.0], [1.0, 20.0]]]


def test_shuffle_permutes_every_column_of_every_member_by_itself():
    seed = torch.tensor([3, 4, 5])
    z = random.normal(seed, 0, Stream.LATENT_NOISE, (16, 6))
    permutation = random.permutations(seed, 0, Stream.LATENT_PERMUTATION, 6, 16)
    shuffled = shuffle_latents(z, permutation)
    assert torch.equal(shuffled.sort(dim=1).values, z.sort(dim=1).values)
    for member in range(3):
        alone = shuffle_latents(z[member : member + 1], permutation[member : member + 1])
        assert torch.equal(shuffled[member], alone[0])
        for latent in range(6):
            assert torch.equal(
                shuffled[member, :, latent], z[member, permutation[member, latent], latent]
            )
    assert not torch.equal(shuffled, z)


def test_total_correlation_is_the_difference_of_logits(make_forward):
    parts = {
        "z": Z,
        "permutation": PERMUTATION,
        "reconstruction": torch.zeros(1, 3),
    }
    forward = seen_by(linear, make_forward(members=1, batch=3, latents=2, **parts))
    terms = FactorVAE(gamma=10).terms(forward)
    assert terms["total_correlation"].value.tolist() == [[12.0, 22.0, 32.0]]
    assert total_loss(terms).item() == pytest.approx(
        terms["kl"].mean().item() + 10 * 22.0, rel=1e-12
    )


def test_discriminator_loss_by_hand(make_forward):
    forward = make_forward(members=1, batch=3, latents=2, z=Z, permutation=PERMUTATION)
    forward = seen_by(linear, forward)
    expected = []
    for (_, joint), (_, shuffled) in zip(
        Z[0].tolist(), shuffle_latents(Z, PERMUTATION)[0].tolist(), strict=True
    ):
        # D0 = 1 / (1 + exp(-ratio)) on joint latents, D1 = 1 / (1 + exp(ratio)) on shuffled ones,
        # ratio = z2 + 2
        expected.append(
            0.5 * math.log1p(math.exp(-(joint + 2))) + 0.5 * math.log1p(math.exp(shuffled + 2))
        )
    found = FactorVAE().auxiliary_loss(forward)
    assert found[0].tolist() == pytest.approx(expected, rel=1e-12)


def test_undecided_discriminator_loses_one_bit_and_says_nothing(make_forward):
    forward = make_forward(permutation=torch.arange(8).expand(3, 4, 8))
    forward = seen_by(lambda z: torch.zeros(*z.shape[:2], 2), forward)
    assert FactorVAE().auxiliary_loss(forward).flatten().tolist() == pytest.approx(
        [math.log(2)] * 24, rel=1e-6
    )
    assert torch.equal(FactorVAE().terms(forward)["total_correlation"].value, torch.zeros(3, 8))


def test_gradients_go_where_they_should(make_forward):
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)

    def forward_of(z):
        forward = make_forward(members=1, batch=3, latents=2, z=z, permutation=PERMUTATION)
        return seen_by(lambda given: scale * linear(given), forward)

    z = Z.clone().requires_grad_()
    forward = forward_of(z)
    (to_z,) = torch.autograd.grad(
        FactorVAE().terms(forward)["total_correlation"].value.sum(), z, retain_graph=True
    )
    assert to_z.tolist() == [[[0.0, 1.0]] * 3]
    (to_scale,) = torch.autograd.grad(FactorVAE().auxiliary_loss(forward).sum(), scale)
    # With ratio r = scale (z2 + 2): -1/2 (z2 + 2) sigmoid(-r) on joint latents, +1/2 (z2 + 2)
    # sigmoid(r) on shuffled ones.
    joint, shuffled = Z[..., 1] + 2, shuffle_latents(Z, PERMUTATION)[..., 1] + 2
    expected = 0.5 * (shuffled * torch.sigmoid(shuffled) - joint * torch.sigmoid(-joint)).sum()
    assert to_scale.item() == pytest.approx(expected.item(), rel=1e-12)
    (alone,) = torch.autograd.grad(FactorVAE().auxiliary_loss(forward_of(Z)).sum(), scale)
    assert torch.equal(to_scale, alone)


def test_shuffled_latents_send_nothing_back(make_forward):
    """The encoder learns from the total correlation of the joint latents, never from how well
    shuffled ones are told apart.
    """
    z = Z.clone().requires_grad_()
    forward = make_forward(members=1, batch=3, latents=2, z=z, permutation=PERMUTATION)
    forward = seen_by(linear, forward)
    (to_z,) = torch.autograd.grad(FactorVAE().auxiliary_loss(forward).sum(), z)
    # Of the joint half alone: the slope of -1/2 log sigmoid(z2 + 2).
    expected = -0.5 * torch.sigmoid(-(Z[..., 1] + 2))
    assert torch.allclose(to_z[..., 1], expected, rtol=1e-12)
    assert to_z[..., 0].abs().max() <= 1e-15


def test_the_discriminator_sees_the_latents_and_then_the_shuffled_ones(make_forward):
    forward = make_forward(members=1, batch=3, latents=2, z=Z, permutation=PERMUTATION)
    joint, shuffled = FactorVAE().auxiliary_input(forward).chunk(2, dim=1)
    assert torch.equal(joint, Z)
    assert torch.equal(shuffled, shuffle_latents(Z, PERMUTATION))


def test_discriminator_is_the_published_one():
    network = Discriminator()
    layout = network.layout(10)
    shapes = [weight.shape for weight in layout.weights if weight.fan_in]
    assert shapes == [(10, 1000), *[(1000, 1000)] * 5, (1000, 2)]
    assert (network.learning_rate, network.adam_betas) == (1e-4, (0.5, 0.9))


def test_discriminator_against_torch_layers():
    network = Discriminator()
    layout = network.layout(3)
    rows = layout.initial(torch.tensor([1, 2]), Stream.AUXILIARY_WEIGHTS).double()
    z = random.normal(torch.tensor([1, 2]), 0, Stream.LATENT_NOISE, (5, 3)).double()
    together = network(layout.views(rows), z)
    for member in range(2):
        weights = {name: view[member] for name, view in layout.views(rows).items()}
        hidden = z[member]
        for number in range(1, 7):
            hidden = hidden @ weights[f"dense{number}.weight"] + weights[f"dense{number}.bias"]
            hidden = torch.where(hidden > 0, hidden, 0.2 * hidden)
        expected = hidden @ weights["logits.weight"] + weights["logits.bias"]
        assert torch.allclose(together[member], expected, rtol=1e-10, atol=1e-14)


def test_zero_gamma_is_the_vae(make_forward):
    forward = make_forward(latents=2, permutation=torch.arange(8).expand(3, 2, 8))
    forward = seen_by(linear, forward)
    terms = FactorVAE(gamma=0).terms(forward)
    expected = forward.reconstruction.mean(dim=1) + terms["kl"].mean()
    assert torch.equal(total_loss(terms), expected)
