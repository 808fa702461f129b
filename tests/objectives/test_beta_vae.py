# SPDX-License-Identifier: Apache-2.0
"""β weighs the KL and nothing else; β = 1 is the VAE."""

from __future__ import annotations

import pytest
import torch

from unbraid.objectives.beta_vae import BetaVAE
from unbraid.objectives.hyper import stack
from unbraid.objectives.objective import total_loss
from unbraid.objectives.vae import VAE


@pytest.mark.parametrize("beta", [1, 4, 16])
def test_golden_regulariser(golden, beta):
    loss = total_loss(BetaVAE(beta=beta).terms(golden.forward))
    assert loss.item() == pytest.approx(
        golden.values["regularizer"][f"beta_vae_beta={beta}"], rel=golden.relative
    )


def test_loss_by_hand(make_forward):
    mean = torch.tensor([[[2.0], [0.0]]])
    forward = make_forward(
        members=1,
        batch=2,
        latents=1,
        mean=mean,
        logvar=torch.zeros(1, 2, 1),
        reconstruction=torch.tensor([[5.0, 7.0]]),
    )
    assert total_loss(BetaVAE(beta=4).terms(forward)).tolist() == [6.0 + 4 * 1.0]


def test_unit_beta_is_the_vae_and_zero_beta_drops_the_prior(make_forward):
    forward = make_forward()
    assert torch.equal(total_loss(BetaVAE(beta=1).terms(forward)), total_loss(VAE().terms(forward)))
    assert torch.equal(
        total_loss(BetaVAE(beta=0).terms(forward)), forward.reconstruction.mean(dim=1)
    )


def test_each_member_has_its_own_beta(make_forward):
    forward = make_forward()
    betas = (0.5, 4.0, 16.0)
    together = total_loss(
        stack([BetaVAE(beta=beta) for beta in betas], dtype=torch.float64).terms(forward)
    )
    alone = [total_loss(BetaVAE(beta=beta).terms(forward))[k] for k, beta in enumerate(betas)]
    assert torch.equal(together, torch.stack(alone))
