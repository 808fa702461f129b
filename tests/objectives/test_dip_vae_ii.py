# SPDX-License-Identifier: Apache-2.0
"""DIP-VAE-II adds the posterior variances to the covariance of the means."""

from __future__ import annotations

import math

import pytest
import torch

from unbraid.objectives.dip_vae_ii import DIPVAEII
from unbraid.objectives.objective import total_loss


def test_golden_regulariser(golden):
    loss = total_loss(DIPVAEII(lambda_od=5, lambda_d_factor=1).terms(golden.forward))
    assert loss.item() == pytest.approx(
        golden.values["regularizer"]["dip_ii_od=5_factor=1"], rel=golden.relative
    )


def test_loss_by_hand(make_forward):
    # Covariance of the means all ones, posterior variance 3 on average: 4 on the diagonal.
    mean = torch.tensor([[[1.0, 1.0], [-1.0, -1.0]]], dtype=torch.float64)
    logvar = torch.tensor([[[1.0, 1.0], [5.0, 5.0]]], dtype=torch.float64).log()
    forward = make_forward(members=1, batch=2, latents=2, mean=mean, logvar=logvar)
    penalty = DIPVAEII(lambda_od=5, lambda_d_factor=2).terms(forward)["moment_penalty"].value
    assert penalty.item() == pytest.approx(5 * 2 * 1.0 + 10 * 2 * 9.0, rel=1e-12)


def test_prior_itself_is_not_penalised(make_forward):
    forward = make_forward(mean=torch.zeros(3, 8, 4), logvar=torch.zeros(3, 8, 4))
    assert DIPVAEII().terms(forward)["moment_penalty"].value.tolist() == [0.0, 0.0, 0.0]


def test_covariance_is_that_of_sampled_latents(make_forward):
    forward = make_forward(members=1, batch=4, latents=3)
    covariance = DIPVAEII().covariance(forward)[0]
    generator = torch.Generator().manual_seed(1)
    noise = torch.randn(50_000, 4, 3, generator=generator, dtype=torch.float64)
    z = (forward.mean[0] + torch.exp(0.5 * forward.logvar[0]) * noise).flatten(0, 1)
    assert torch.allclose(
        covariance,
        torch.cov(z.T),
        atol=4 * math.sqrt(2 / len(z)) * covariance.diagonal().max().item(),
    )
