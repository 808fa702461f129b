# SPDX-License-Identifier: Apache-2.0
"""FactorVAE with a few labels, with a discriminator simple enough to check by hand."""

from __future__ import annotations

import math

import pytest
import torch

from unbraid.objectives.factor_vae import FactorVAE
from unbraid.objectives.objective import total_loss
from unbraid.objectives.s2_factor_vae import S2FactorVAE

Z = torch.tensor([[[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]]], dtype=torch.float64)


def parts(seen: list[tuple[int, ...]]):
    """Logits (z1 + z2, z1 − 2) and one labelled image whose mean is 0 and 3."""

    def linear(z):
        seen.append(tuple(z.shape))
        return torch.stack([z[..., 0] + z[..., 1], z[..., 0] - 2.0], dim=-1)

    return {
        "z": Z,
        "auxiliary": linear,
        "permutation": torch.tensor([[[1, 2, 0], [2, 0, 1]]]),
        "labelled_mean": torch.tensor([[[0.0, 3.0]]], dtype=torch.float64, requires_grad=True),
        "labels": torch.tensor([[[1.0]]], dtype=torch.float64),
        "label_sizes": torch.tensor([[4.0]], dtype=torch.float64),
    }


def test_loss_by_hand(make_forward):
    objective = S2FactorVAE(gamma=10, gamma_sup=3)
    terms = objective.terms(
        make_forward(members=1, batch=3, latents=2, reconstruction=torch.zeros(1, 3), **parts([]))
    )
    assert terms["total_correlation"].value.tolist() == [[12.0, 22.0, 32.0]]
    # A logit of 0 costs log 2 whatever the target.
    assert terms["supervised"].value.tolist() == pytest.approx([math.log(2)], rel=1e-14)
    expected = terms["kl"].mean().item() + 10 * 22.0 + 3 * math.log(2)
    assert total_loss(terms).item() == pytest.approx(expected, rel=1e-12)


def test_the_discriminator_sees_no_labelled_image_and_learns_as_without_them(make_forward):
    seen: list[tuple[int, ...]] = []
    given = parts(seen)
    forward = make_forward(members=1, batch=3, latents=2, **given)
    objective = S2FactorVAE(gamma=10, gamma_sup=3)
    terms = objective.terms(forward)
    loss = objective.auxiliary_loss(forward)
    assert seen == [(1, 6, 2)]
    assert torch.equal(
        loss,
        FactorVAE(gamma=10).auxiliary_loss(
            make_forward(members=1, batch=3, latents=2, **parts([]))
        ),
    )
    assert not loss.requires_grad
    (slope,) = torch.autograd.grad(total_loss(terms).sum(), given["labelled_mean"])
    # γ_sup (sigmoid 0 − 1/4) to the first latent; the second has no factor.
    assert slope.flatten().tolist() == pytest.approx([3 * 0.25, 0.0], rel=1e-14)
