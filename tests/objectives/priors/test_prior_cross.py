# SPDX-License-Identifier: Apache-2.0
"""The cross against torch's own mixture and quadrature, and with arms as wide as they are long."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unbraid.core.errors import InputError
from unbraid.objectives.decomposition import Decomposition
from unbraid.objectives.priors.cross import Cross
from unbraid.objectives.priors.isotropic import STANDARD
from unbraid.population.plan import make_plan


@given(st.floats(0.1, 3.0), st.floats(0.02, 3.0), st.integers(2, 5))
def test_density_is_torchs(length, width, latents):
    distributions = torch.distributions
    z = torch.linspace(-3, 3, 12 * latents, dtype=torch.float64).view(1, 12, latents)
    scales = torch.full((latents, latents), width, dtype=torch.float64).fill_diagonal_(length)
    arms = distributions.Independent(distributions.Normal(torch.zeros_like(scales), scales), 1)
    even = distributions.Categorical(torch.ones(latents, dtype=torch.float64))
    expected = distributions.MixtureSameFamily(even, arms).log_prob(z)
    assert torch.allclose(Cross(length=length, width=width).log_density(z), expected, rtol=1e-9)


def test_density_integrates_to_one(integral):
    assert abs(integral(Cross(length=1.0, width=0.3), 8, 2, 801) - 1) < 1e-9


def test_a_cross_as_wide_as_it_is_long_is_normal():
    z = torch.randn(1, 20, 3, dtype=torch.float64)
    found = Cross(length=1.0, width=1.0).log_density(z)
    assert torch.allclose(found, STANDARD.log_density(z), atol=1e-12)


def test_one_latent_at_a_time_is_long():
    uniform = torch.rand(1, 20_000, 4, 3, generator=torch.Generator().manual_seed(0)) + 1e-9
    z = Cross(length=2.0, width=0.01).sample(uniform)[0]
    long = z.abs() > 0.06
    assert (long.sum(dim=1) <= 1).all()
    assert long.sum(dim=1).double().mean() > 0.95
    assert long.double().mean(dim=0).numpy() == pytest.approx([0.244] * 4, abs=0.01)
    assert z.square().sum(dim=1).mean() == pytest.approx(4.0, rel=0.05)


def test_it_needs_a_plane_and_dependent_latents():
    settings = {"network": "mlp:hidden=4", "steps": 1}
    with pytest.raises(InputError, match="cross needs at least 2 latents"):
        make_plan("pinwheel", "vae", prior="cross", latents=1, **settings)
    with pytest.raises(InputError, match="must have independent latents where divergence=mmd"):
        make_plan("pinwheel", Decomposition(divergence="mmd"), prior="cross", **settings)
