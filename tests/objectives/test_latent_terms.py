# SPDX-License-Identifier: Apache-2.0
"""The Gaussian KL, against the formula's peer in torch and against disentanglement_lib."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.distributions import Normal, kl_divergence

from unbraid.objectives.latent_terms import gaussian_kl, gaussian_kl_per_latent

value = st.floats(-8, 8, allow_nan=False)


@given(st.lists(st.tuples(value, value), min_size=1, max_size=6))
def test_kl_is_that_of_torch_distributions(posterior):
    mean, logvar = torch.tensor(posterior, dtype=torch.float64).T.reshape(2, 1, 1, -1)
    peer = kl_divergence(
        Normal(mean, torch.exp(0.5 * logvar)), Normal(torch.zeros_like(mean), torch.ones_like(mean))
    )
    found = gaussian_kl_per_latent(mean, logvar)
    assert torch.allclose(found, peer, rtol=1e-10, atol=1e-12)
    assert (found >= -1e-15).all()
    assert torch.allclose(gaussian_kl(mean, logvar), peer.sum(dim=-1), rtol=1e-10, atol=1e-12)


def test_kl_of_the_prior_is_zero():
    assert torch.equal(
        gaussian_kl_per_latent(torch.zeros(2, 3, 4), torch.zeros(2, 3, 4)), torch.zeros(2, 3, 4)
    )


def test_golden_kl(golden):
    found = gaussian_kl(golden.forward.mean, golden.forward.logvar)
    assert tuple(found.shape) == (1, 16)
    assert found.mean().item() == pytest.approx(golden.values["gaussian_kl"], rel=golden.relative)
