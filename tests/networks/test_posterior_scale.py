# SPDX-License-Identifier: Apache-2.0
"""Log-variances from heads that mean something else: by hand, and finite wherever a head may go."""

from __future__ import annotations

import math

import pytest
import torch

from unbraid.networks.posterior_scale import logvar_of_floored, logvar_of_softplus

HEADS = torch.linspace(-200.0, 200.0, 81, dtype=torch.float64)


@pytest.mark.parametrize(
    ("head", "std"),
    [
        (0.0, math.log(2.0) + 1e-6),
        (1.0, math.log1p(math.e) + 1e-6),
        (-60.0, 1e-6),
        (50.0, 50.0 + 1e-6),
    ],
)
def test_softplus_by_hand(head, std):
    found = logvar_of_softplus(torch.tensor(head, dtype=torch.float64)).item()
    assert found == pytest.approx(2.0 * math.log(std), rel=1e-12)


@pytest.mark.parametrize(
    ("head", "std"),
    [(0.0, 1.0 + 1e-6), (-2 * math.log(1e6), 2e-6), (-100.0, 1e-6), (4.0, math.exp(2) + 1e-6)],
)
def test_floored_by_hand(head, std):
    found = logvar_of_floored(torch.tensor(head, dtype=torch.float64)).item()
    assert found == pytest.approx(2.0 * math.log(std), rel=1e-9)


@pytest.mark.parametrize("kind", [logvar_of_softplus, logvar_of_floored])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_finite_with_finite_slope_and_never_falling(kind, dtype):
    heads = HEADS.to(dtype).requires_grad_()
    values = kind(heads)
    (slopes,) = torch.autograd.grad(values.sum(), heads)
    assert values.dtype == dtype
    assert torch.isfinite(values).all()
    assert torch.isfinite(slopes).all()
    assert (values.diff() >= 0).all()
    assert (slopes >= 0).all()
