# SPDX-License-Identifier: Apache-2.0
"""The covariance of the means and its distance from the identity."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unbraid.objectives.dip_vae_i import DIPVAEI
from unbraid.objectives.hyper import stack
from unbraid.objectives.latent_terms import batch_covariance, dip_penalty
from unbraid.objectives.objective import total_loss


def test_golden_regulariser_and_covariance(golden):
    loss = total_loss(DIPVAEI(lambda_od=5, lambda_d_factor=10).terms(golden.forward))
    assert loss.item() == pytest.approx(
        golden.values["regularizer"]["dip_i_od=5_factor=10"], rel=golden.relative
    )
    covariance = batch_covariance(golden.forward.mean)[0]
    np.testing.assert_allclose(
        covariance, golden.values["cov_z_mean"], rtol=golden.relative, atol=1e-6
    )


def test_covariance_divides_by_the_batch(make_forward):
    forward = make_forward()
    for member in range(3):
        peer = np.cov(forward.mean[member].numpy(), rowvar=False, bias=True)
        np.testing.assert_allclose(batch_covariance(forward.mean)[member], peer, rtol=1e-10)


def test_penalty_by_hand():
    covariance = torch.tensor([[[3.0, 0.5], [0.5, 0.0]]])
    assert dip_penalty(covariance, 2.0, 10.0).tolist() == [2 * (0.25 + 0.25) + 10 * (4.0 + 1.0)]
    assert dip_penalty(torch.eye(5).unsqueeze(0), 7.0, 7.0).tolist() == [0.0]


def test_small_covariances_survive_beside_large_variances():
    covariance = torch.tensor([[[1000.0, 0.01], [0.01, 1000.0]]])
    assert dip_penalty(covariance, 1.0, 0.0).item() == pytest.approx(2e-4, rel=1e-5)


def test_loss_by_hand(make_forward):
    # Means ±1 in two latents that move together: covariance all ones, so only the off-diagonal pair
    # is penalised.
    mean = torch.tensor([[[1.0, 1.0], [-1.0, -1.0]]])
    forward = make_forward(
        members=1,
        batch=2,
        latents=2,
        mean=mean,
        logvar=torch.zeros(1, 2, 2),
        reconstruction=torch.zeros(1, 2),
    )
    terms = DIPVAEI(lambda_od=5, lambda_d_factor=10).terms(forward)
    assert terms["moment_penalty"].value.tolist() == [10.0]
    assert total_loss(terms).tolist() == [1.0 + 10.0]


def test_variance_of_the_posterior_is_not_used(make_forward):
    forward = make_forward()
    other = make_forward(logvar=forward.logvar + 3.0)
    penalties = [DIPVAEI().terms(one)["moment_penalty"].value for one in (forward, other)]
    assert torch.equal(*penalties)


def test_each_member_has_its_own_strengths(make_forward):
    forward = make_forward()
    objectives = [
        DIPVAEI(lambda_od=od, lambda_d_factor=factor) for od, factor in ((1, 10), (5, 0), (50, 2))
    ]
    together = total_loss(stack(objectives, dtype=torch.float64).terms(forward))
    alone = torch.stack([total_loss(one.terms(forward))[k] for k, one in enumerate(objectives)])
    assert torch.allclose(together, alone, rtol=1e-14)
