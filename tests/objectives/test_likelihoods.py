# SPDX-License-Identifier: Apache-2.0
"""Likelihoods by hand, against torch.distributions and against disentanglement_lib's losses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from unbraid.errors import InputError
from unbraid.objectives.likelihoods import LIKELIHOODS, likelihood


def message(name, *, bounded):
    with pytest.raises(InputError) as told:
        likelihood(name, bounded=bounded)
    return str(told.value)


@pytest.mark.parametrize(("name", "key"), [("bernoulli", "bernoulli_logits_per_sample"), ("gaussian", "l2_logits_per_sample")])
def test_golden_reconstruction(golden, name, key):
    found = likelihood(name, bounded=True).negative_log(golden.logits, golden.images)
    assert tuple(found.shape) == (1, 16)
    np.testing.assert_allclose(found[0], golden.values[key], rtol=golden.relative)


def test_bernoulli_by_hand_and_by_torch():
    raw = torch.tensor([[[[0.0, math.log(3.0)]]]], dtype=torch.float64).reshape(1, 1, 1, 1, 2)
    x = torch.tensor([1.0, 0.0], dtype=torch.float64).reshape(1, 1, 1, 1, 2)
    found = likelihood("bernoulli", bounded=True).negative_log(raw, x)
    assert found.item() == pytest.approx(math.log(2) + math.log(4), rel=1e-12)
    assert found.item() == pytest.approx(-torch.distributions.Bernoulli(logits=raw).log_prob(x).sum().item(), rel=1e-12)


def test_grey_targets_cost_the_cross_entropy():
    found = likelihood("bernoulli", bounded=True).negative_log(torch.zeros(1, 1, 3), torch.full((1, 1, 3), 0.3))
    assert found.item() == pytest.approx(3 * math.log(2), rel=1e-6)


def test_extreme_logits_stay_finite():
    raw = torch.tensor([[[1e4, -1e4]]])
    assert likelihood("bernoulli", bounded=True).negative_log(raw, torch.tensor([[[0.0, 1.0]]])).item() == 2e4


def test_bounded_gaussian_squares_the_distance_of_the_sigmoid():
    raw, x = torch.tensor([[[0.0, math.log(3.0)]]]), torch.tensor([[[1.0, 0.25]]])
    found = likelihood("gaussian", bounded=True)
    assert found.negative_log(raw, x).item() == pytest.approx(0.25 + 0.25, rel=1e-6)
    assert found.expected(raw).flatten().tolist() == pytest.approx([0.5, 0.75], rel=1e-6)


def test_unbounded_gaussian_squares_the_distance_of_the_output():
    raw, x = torch.tensor([[[3.0, -1.0], [0.0, 0.0]]]), torch.tensor([[[1.0, 1.0], [0.0, 2.0]]])
    found = likelihood("gaussian", bounded=False)
    assert found.negative_log(raw, x).tolist() == [[8.0, 4.0]]
    assert torch.equal(found.expected(raw), raw)
    # A normal of variance 1/2, but for its constant.
    density = torch.distributions.Normal(raw, math.sqrt(0.5)).log_prob(x) + 0.5 * math.log(math.pi)
    assert torch.allclose(found.negative_log(raw, x), -density.sum(dim=2))


def test_bernoulli_shows_the_probability():
    assert likelihood("bernoulli", bounded=True).expected(torch.tensor(0.0)).item() == 0.5


def test_values_are_summed_over_all_but_members_and_batch():
    for name in LIKELIHOODS:
        found = likelihood(name, bounded=True).negative_log(torch.zeros(2, 3, 4, 5, 6), torch.ones(2, 3, 4, 5, 6))
        each = math.log(2) if name == "bernoulli" else 0.25
        assert found.flatten().tolist() == pytest.approx([120 * each] * 6, rel=1e-5)
        assert tuple(found.shape) == (2, 3)


def test_refusals():
    assert message("bernouli", bounded=True) == (
        "likelihood 'bernouli' is unknown; did you mean 'bernoulli'? Known: bernoulli, gaussian."
    )
    assert message("x", bounded=False) == "likelihood 'x' is unknown. Known: bernoulli, gaussian."
    assert message("bernoulli", bounded=False) == (
        "likelihood needs samples between 0 and 1, and this dataset has real-valued ones; got 'bernoulli'. "
        "Use the likelihood gaussian."
    )
