# SPDX-License-Identifier: Apache-2.0
"""Means into sums: the worked example, the same minimum, and every refusal."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unbraid.core.errors import InputError
from unbraid.objectives.conventions import beta_of_means, beta_of_sums
from unbraid.objectives.likelihoods import likelihood


def test_the_worked_example():
    assert beta_of_sums(0.003, values=12_288, latents=9) == pytest.approx(4.096, rel=1e-14)
    assert beta_of_means(4.096, values=12_288, latents=9) == pytest.approx(0.003, rel=1e-14)


@given(beta=st.floats(0, 1e6), values=st.integers(1, 10**6), latents=st.integers(1, 10**4))
def test_there_and_back(beta, values, latents):
    assert beta_of_means(beta_of_sums(beta, values, latents), values, latents) == pytest.approx(
        beta, rel=1e-12
    )


@pytest.mark.parametrize("name", ["gaussian", "gaussian+box3"])
def test_the_loss_of_means_is_ours_divided_by_the_values(name):
    generator = torch.Generator().manual_seed(0)
    raw, x = (
        torch.randn(1, 4, 3, 8, 8, generator=generator, dtype=torch.float64) for _ in range(2)
    )
    kl = torch.rand(1, 4, 9, generator=generator, dtype=torch.float64)
    ours = likelihood(name, bounded=False).negative_log(raw, x) + beta_of_sums(
        0.01, 192, 9
    ) * kl.sum(dim=2)
    error = (raw - x).square().mean(dim=(2, 3, 4))
    if name != "gaussian":
        padded = torch.nn.functional.pad(raw - x, (3, 3, 3, 3))
        error = error + 49 * torch.nn.functional.avg_pool2d(padded[0], 7, 1).square().mean(
            dim=(1, 2, 3)
        )
    torch.testing.assert_close(ours / 192, error + 0.01 * kl.mean(dim=2), rtol=1e-12, atol=0)


def test_standardised_images_are_compared_by_a_scale():
    raw, x = (
        torch.rand(2, 3, 1, 4, 4, dtype=torch.float64),
        torch.rand(2, 3, 1, 4, 4, dtype=torch.float64),
    )
    deviation = 0.124035
    scale = deviation / math.sqrt(2)
    found = likelihood(f"gaussian:scale={scale!r}", bounded=False)
    expected = likelihood("gaussian", bounded=False).negative_log(raw / deviation, x / deviation)
    constant = 16 * (math.log(scale) + 0.5 * math.log(2 * math.pi))
    torch.testing.assert_close(found.negative_log(raw, x) - constant, expected, rtol=1e-11, atol=0)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda: beta_of_sums(-1.0, 2, 2),
            "beta_of_means must be a finite number, at least 0; got -1.0.",
        ),
        (
            lambda: beta_of_sums(math.nan, 2, 2),
            "beta_of_means must be a finite number, at least 0; got nan.",
        ),
        (
            lambda: beta_of_sums("4", 2, 2),
            "beta_of_means must be a finite number, at least 0; got '4'.",
        ),
        (
            lambda: beta_of_means(math.inf, 2, 2),
            "beta_of_sums must be a finite number, at least 0; got inf.",
        ),
        (lambda: beta_of_sums(1.0, 0, 2), "values must be a whole number, at least 1; got 0."),
        (
            lambda: beta_of_means(1.0, 2, 1.5),
            "latents must be a whole number, at least 1; got 1.5.",
        ),
        (
            lambda: beta_of_sums(1.0, 2, True),
            "latents must be a whole number, at least 1; got True.",
        ),
    ],
)
def test_refusals(call, told):
    with pytest.raises(InputError) as found:
        call()
    assert str(found.value) == told
