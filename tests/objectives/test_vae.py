# SPDX-License-Identifier: Apache-2.0
"""The negative evidence lower bound, by hand and against disentanglement_lib's."""

from __future__ import annotations

import math

import pytest
import torch

from unbraid.objectives.objective import total_loss
from unbraid.objectives.vae import VAE


def test_one_shifted_latent_costs_half_its_square(make_forward):
    mean = torch.tensor([[[2.0, 0.0]]])
    forward = make_forward(
        members=1,
        batch=1,
        latents=2,
        mean=mean,
        logvar=torch.zeros(1, 1, 2),
        reconstruction=torch.tensor([[7.0]]),
    )
    terms = VAE().terms(forward)
    assert terms["kl"].value.tolist() == [[2.0]]
    assert total_loss(terms).tolist() == [9.0]


def test_one_narrow_latent_costs_its_lost_entropy(make_forward):
    logvar = torch.full((1, 1, 1), math.log(0.01), dtype=torch.float64)
    forward = make_forward(members=1, batch=1, latents=1, mean=torch.zeros(1, 1, 1), logvar=logvar)
    assert VAE().terms(forward)["kl"].value.item() == pytest.approx(
        0.5 * (0.01 - math.log(0.01) - 1.0), rel=1e-12
    )


def test_golden_kl(golden):
    terms = VAE().terms(golden.forward)
    assert terms["kl"].mean().item() == pytest.approx(
        golden.values["gaussian_kl"], rel=golden.relative
    )
    assert total_loss(terms).item() == pytest.approx(
        golden.values["regularizer"]["beta_vae_beta=1"], rel=golden.relative
    )
