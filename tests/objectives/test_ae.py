# SPDX-License-Identifier: Apache-2.0
"""The autoencoder's loss is its reconstruction, and its variance is never touched."""

from __future__ import annotations

import torch

from unbraid.objectives.ae import AE
from unbraid.objectives.objective import total_loss


def test_loss_is_the_mean_reconstruction(make_forward):
    reconstruction = torch.tensor([[1.0, 3.0], [10.0, 30.0]])
    forward = make_forward(members=2, batch=2, reconstruction=reconstruction)
    assert total_loss(AE().terms(forward)).tolist() == [2.0, 20.0]


def test_posterior_is_not_used(make_forward):
    torn = make_forward(
        mean=torch.full((3, 8, 4), torch.nan), logvar=torch.full((3, 8, 4), torch.nan)
    )
    assert torch.equal(total_loss(AE().terms(torn)), torn.reconstruction.mean(dim=1))


def test_decodes_the_mean():
    assert AE.samples_latents is False
    assert AE.strength is None
    assert AE().hyper() == {}
