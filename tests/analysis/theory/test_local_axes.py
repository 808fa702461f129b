# SPDX-License-Identifier: Apache-2.0
"""The rippled toy: its Jacobian and the closed form by hand, a short training, the whole one on
fresh seeds, and refusals.
"""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch

from unbraid.analysis.theory.local_axes import (
    _factors,
    _pixels,
    _principal_axes,
    data_jacobian,
    local_axes,
)
from unbraid.core.errors import InputError


def test_the_datas_jacobian_is_its_derivative() -> None:
    factors = _factors(20, torch.Generator().manual_seed(0)).requires_grad_()
    pixels = _pixels(factors, torch.tensor([[0.45]], dtype=torch.float64), 4.0)[0]
    rows = [
        torch.autograd.grad(pixels[:, at].sum(), factors, retain_graph=True)[0] for at in range(4)
    ]
    np.testing.assert_allclose(
        data_jacobian(factors.detach(), 0.45, 4.0), torch.stack(rows, dim=1).numpy(), atol=1e-12
    )


def test_pca_hardly_sees_the_ripple() -> None:
    factors = _factors(200_000, torch.Generator().manual_seed(0))
    axes = np.abs(_principal_axes(factors, 0.45, 4.0))
    assert axes[0, 0] > 0.999
    assert axes[1, 1] > 0.99


def test_a_short_training_has_everything_and_the_predicted_angle_is_known() -> None:
    found = local_axes(steps=30, restarts=2, seed=1)
    # The metric in factors of unit variance is [[1 + a, 0.6 a], [0.6 a, 0.36 (1 + a)]] with a = (ε
    # K)² / 2.
    a = 1.8**2 / 2.0
    half = 0.5 * math.atan2(2 * 0.6 * a, (1 + a) - 0.36 * (1 + a))
    assert found.predicted_degrees == pytest.approx(
        math.degrees(math.atan2(math.sin(half) / 0.6, math.cos(half))), abs=1e-9
    )
    assert found.predicted_degrees == pytest.approx(37.3589, abs=1e-4)
    assert abs(found.pca_degrees) < 10.0
    assert found.factors.shape == (1000, 2)
    for group, kind, ripple in (
        (found.rippled, "vae", 0.45),
        (found.flat, "vae", 0.0),
        (found.autoencoders, "autoencoder", 0.45),
    ):
        assert [(one.kind, one.ripple) for one in group] == [(kind, ripple)] * 2
        for one in group:
            assert one.codes.shape == (1000,)
            assert -90.0 < one.degrees <= 90.0
            assert 0.0 <= one.column_cosine <= 1.0
            assert 0.0 <= one.local_cosine <= 1.0
            assert one.variances[0] <= one.variances[1]
    assert found.rippled[0].degrees != found.rippled[1].degrees
    assert found.median("flat", "degrees") == pytest.approx(
        np.mean([one.degrees for one in found.flat])
    )
    again = local_axes(steps=30, restarts=2, seed=1)
    assert np.array_equal(again.rippled[1].codes, found.rippled[1].codes)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [20, 21])
def test_latents_turn_to_the_local_axes(seed: int) -> None:
    found = local_axes(seed=seed)
    assert found.median("rippled", "degrees") == pytest.approx(found.predicted_degrees, abs=8.0)
    assert abs(found.median("flat", "degrees")) < 5.0
    assert found.median("rippled", "column_cosine") < 0.15
    assert found.median("flat", "column_cosine") < 0.15
    assert found.median("autoencoders", "column_cosine") > 2 * found.median(
        "rippled", "column_cosine"
    )
    assert found.median("rippled", "local_cosine") > 0.9
    assert found.median("rippled", "global_cosine") < 0.8
    assert found.median("flat", "global_cosine") > 0.95


@pytest.mark.slow
def test_the_finer_ripple_turns_them_too_though_less() -> None:
    """ε = 0.3 and K = 6, of the same slope and hence the same closed form."""
    found = local_axes(ripple=0.3, frequency=6.0, seed=20)
    assert found.predicted_degrees == pytest.approx(37.3589, abs=1e-4)
    assert 15.0 < found.median("rippled", "degrees") < 40.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: local_axes(ripple=0.0),
            (
                "ripple must be a number above 0 and at most 1; got 0.0. The same without a ripple"
                " is trained beside it."
            ),
        ),
        (
            lambda: local_axes(ripple="big"),  # pyright: ignore[reportArgumentType]
            (
                "ripple must be a number above 0 and at most 1; got 'big'. The same without a"
                " ripple is trained beside it."
            ),
        ),
        (
            lambda: local_axes(frequency=-1.0),
            "frequency must be a finite number above 0; got -1.0.",
        ),
        (lambda: local_axes(steps=0), "steps must be a whole number of at least 1; got 0."),
        (lambda: local_axes(restarts=0), "restarts must be a whole number of at least 1; got 0."),
        (lambda: local_axes(seed=-3), "seed must be a whole number of at least 0; got -3."),
    ],
)
def test_nonsense_is_refused(call, message: str) -> None:
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        call()
