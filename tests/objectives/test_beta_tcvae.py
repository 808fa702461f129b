# SPDX-License-Identifier: Apache-2.0
"""The minibatch total correlation, by hand, against the Gaussian formula and against
disentanglement_lib's.
"""

from __future__ import annotations

import math

import pytest
import torch

from unbraid.objectives.beta_tcvae import BetaTCVAE
from unbraid.objectives.latent_terms import gaussian_log_density, minibatch_total_correlation
from unbraid.objectives.objective import total_loss
from unbraid.objectives.vae import VAE


@pytest.mark.parametrize("beta", [1, 6])
def test_golden_regulariser(golden, beta):
    loss = total_loss(BetaTCVAE(beta=beta).terms(golden.forward))
    assert loss.item() == pytest.approx(
        golden.values["regularizer"][f"beta_tc_vae_beta={beta}"], rel=golden.relative
    )


def test_golden_total_correlation(golden):
    found = BetaTCVAE().terms(golden.forward)["total_correlation"].mean()
    assert found.item() == pytest.approx(
        golden.values["total_correlation_btcvae"], rel=golden.relative
    )


def test_two_samples_by_hand(make_forward):
    forward = make_forward(members=1, batch=2, latents=2)
    density = torch.distributions.Normal(forward.mean[0], torch.exp(0.5 * forward.logvar[0]))
    for j in range(2):
        pairs = density.log_prob(forward.z[0, j]).exp()  # (posteriors, latents)
        expected = math.log(pairs.prod(dim=1).sum()) - sum(
            math.log(pairs[:, d].sum()) for d in range(2)
        )
        found = minibatch_total_correlation(forward.z, forward.mean, forward.logvar)[0, j]
        assert found.item() == pytest.approx(expected, rel=1e-12)


def test_one_latent_has_no_total_correlation(make_forward):
    forward = make_forward(latents=1)
    assert torch.equal(
        minibatch_total_correlation(forward.z, forward.mean, forward.logvar),
        torch.zeros(3, 8, dtype=torch.float64),
    )


def test_estimates_the_total_correlation_of_correlated_gaussians():
    """Two latents of correlation 0.9 with narrow posteriors: −½ ln(1 − 0.81) = 0.83 nats, once the
    constant is put back.
    """
    batch, spread = 2000, 0.1
    generator = torch.Generator().manual_seed(0)
    factor = torch.linalg.cholesky(torch.tensor([[1.0, 0.9], [0.9, 1.0]], dtype=torch.float64))
    mean = (
        torch.randn(1, batch, 2, generator=generator, dtype=torch.float64) @ factor.T
    ) * math.sqrt(1 - spread**2)
    logvar = torch.full_like(mean, 2 * math.log(spread))
    z = mean + spread * torch.randn(1, batch, 2, generator=generator, dtype=torch.float64)
    estimate = minibatch_total_correlation(z, mean, logvar).mean().item() + math.log(batch)
    correlation = 0.9 * (1 - spread**2)
    assert estimate == pytest.approx(-0.5 * math.log(1 - correlation**2), abs=0.05)


def test_unit_beta_is_the_vae(make_forward):
    forward = make_forward()
    assert torch.equal(
        total_loss(BetaTCVAE(beta=1).terms(forward)), total_loss(VAE().terms(forward))
    )


def test_log_density_is_the_normal_one(golden, make_forward):
    forward = make_forward()
    peer = torch.distributions.Normal(forward.mean, torch.exp(0.5 * forward.logvar)).log_prob(
        forward.z
    )
    assert torch.allclose(
        gaussian_log_density(forward.z, forward.mean, forward.logvar), peer, rtol=1e-12
    )
    total = gaussian_log_density(golden.forward.z, golden.forward.mean, golden.forward.logvar).sum()
    assert total.item() == pytest.approx(
        golden.values["gaussian_log_density_sum"], rel=golden.relative
    )
