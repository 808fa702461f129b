# SPDX-License-Identifier: Apache-2.0
"""Shared posteriors against disentanglement_lib's numbers, numpy, torch.distributions and their own
algebra.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.distributions import Normal, kl_divergence

from unbraid.objectives.latent_terms import gaussian_kl
from unbraid.objectives.supervision import pair_averaging as pa

GOLDEN = Path(__file__).resolve().parents[2] / "golden"


@pytest.fixture(scope="module")
def reference():
    """Their record, and the inputs as halves with a member axis of one."""
    record = json.loads((GOLDEN / "pair_averaging.json").read_text())
    with np.load(GOLDEN / "pair_averaging_inputs.npz") as inputs:
        arrays = {name: torch.from_numpy(inputs[name]).unsqueeze(0) for name in inputs.files}
    halves = tuple(arrays[name] for name in ("mu", "logvar", "mu2", "logvar2"))
    return record["values"], record["tolerance"], halves, arrays["changed_index"].squeeze(-1)


def posteriors(seed=0, members=2, pairs=7, latents=5, spread=1.0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(
        spread * torch.randn(members, pairs, latents, generator=generator, dtype=torch.float64)
        for _ in range(4)
    )


def numpy_average(kind, mean, logvar, other_mean, other_logvar):
    """The averages as the papers' sums are written, for one pair and latent at a time."""
    v1, v2 = np.exp(logvar), np.exp(other_logvar)
    if kind == "gvae":
        return (mean + other_mean) / 2, np.log((v1 + v2) / 2)
    variance = 2 * v1 * v2 / (v1 + v2)
    return 0.5 * variance * (mean / v1 + other_mean / v2), np.log(variance)


AVERAGES = {"gvae": pa.arithmetic_average, "mlvae": pa.harmonic_average}


def test_golden_divergence_and_mask(reference):
    values, tolerance, halves, _ = reference
    ours = 2 * pa.kl(*halves)[0]
    assert ours.numpy() == pytest.approx(
        np.array(values["kl_per_point"]), rel=tolerance["relative"], abs=tolerance["absolute"]
    )
    mask = pa.latents_that_differ(pa.kl(*halves), 0.5)[0]
    assert mask.int().tolist() == values["argmax_mask_not_shared"]


@pytest.mark.parametrize("precision", [torch.float32, torch.float64])
@pytest.mark.parametrize("average", AVERAGES)
@pytest.mark.parametrize("told", ["argmax", "labels"])
def test_golden_posteriors_and_kl(reference, average, told, precision):
    values, tolerance, halves, changed = reference
    expected = values[f"{average}_{told}"]
    halves = tuple(part.to(precision) for part in halves)
    own = (
        pa.latents_that_differ(pa.kl(*halves), 0.5)
        if told == "argmax"
        else pa.latent_of_factor(changed, 6)
    )
    mean, logvar = pa.share(
        torch.cat(halves[::2], dim=1), torch.cat(halves[1::2], dim=1), own, AVERAGES[average]
    )
    found = pa.first_and_second(mean, logvar)
    for part, name in zip(found, ("mean1", "logvar1", "mean2", "logvar2"), strict=True):
        wanted = pytest.approx(
            np.array(expected[name]), rel=tolerance["relative"], abs=tolerance["absolute"]
        )
        assert part[0].numpy() == wanted, name
    kls = [gaussian_kl(*found[at : at + 2]).mean().item() for at in (0, 2)]
    assert kls == pytest.approx([expected["kl1"], expected["kl2"]], rel=tolerance["relative"])
    assert gaussian_kl(mean, logvar).mean().item() == pytest.approx(
        expected["kl_loss"], rel=tolerance["relative"]
    )


@pytest.mark.parametrize("kind", AVERAGES)
def test_averages_against_numpy(kind):
    halves = posteriors(seed=1)
    for ours, theirs in zip(
        AVERAGES[kind](*halves),
        numpy_average(kind, *(part.numpy() for part in halves)),
        strict=True,
    ):
        assert ours.numpy() == pytest.approx(theirs, rel=1e-12, abs=1e-12)


def test_averages_by_hand():
    halves = [
        torch.tensor([[[value]]], dtype=torch.float64)
        for value in (1.0, np.log(1.0), 4.0, np.log(3.0))
    ]
    mean, logvar = pa.arithmetic_average(*halves)
    assert (mean.item(), logvar.exp().item()) == pytest.approx((2.5, 2.0))
    mean, logvar = pa.harmonic_average(*halves)
    assert (mean.item(), logvar.exp().item()) == pytest.approx(
        ((1 / 1 + 4 / 3) / (1 / 1 + 1 / 3), 2 * 3 / 4)
    )


def test_harmonic_variance_is_twice_that_of_the_product_of_densities():
    m1, l1, m2, l2 = (part[0, 0, 0] for part in posteriors(seed=2))
    mean, logvar = pa.harmonic_average(m1, l1, m2, l2)
    grid = torch.linspace(-40, 40, 400_001, dtype=torch.float64)
    product = (
        Normal(m1, (0.5 * l1).exp()).log_prob(grid) + Normal(m2, (0.5 * l2).exp()).log_prob(grid)
    ).exp()
    product = product / product.sum()
    centre = (product * grid).sum()
    assert mean.item() == pytest.approx(centre.item(), abs=1e-9)
    assert logvar.exp().item() == pytest.approx(
        2 * (product * (grid - centre) ** 2).sum().item(), rel=1e-9
    )


def test_divergences_against_torch_distributions():
    m1, l1, m2, l2 = posteriors(seed=3)
    one, other = Normal(m1, (0.5 * l1).exp()), Normal(m2, (0.5 * l2).exp())
    forth, back = kl_divergence(one, other), kl_divergence(other, one)
    assert pa.kl(m1, l1, m2, l2).numpy() == pytest.approx(forth.numpy(), rel=1e-11)
    assert pa.symmetric_kl(m1, l1, m2, l2).numpy() == pytest.approx(
        (0.5 * (forth + back)).numpy(), rel=1e-11
    )
    assert torch.equal(pa.symmetric_kl(m1, l1, m2, l2), pa.symmetric_kl(m2, l2, m1, l1))


def test_mask_is_the_upper_of_two_equal_bins():
    divergence = torch.tensor(
        [[[0.0, 4.0, 1.9, 2.0, 2.1], [1.0, 2.0, 3.0, 1.5, 2.5]]], dtype=torch.float64
    )
    assert pa.latents_that_differ(divergence, 0.5).tolist() == [
        [[False, True, False, True, True], [False, True, True, False, True]]
    ]
    edges = [np.histogram_bin_edges(row, bins=2) for row in divergence[0].numpy()]
    bins = np.stack(
        [
            np.clip(np.digitize(row, edge) - 1, 0, 1)
            for row, edge in zip(divergence[0].numpy(), edges, strict=True)
        ]
    )
    assert pa.latents_that_differ(divergence, 0.5)[0].int().tolist() == bins.tolist()


def test_equal_divergences_keep_every_latent():
    assert pa.latents_that_differ(torch.full((1, 3, 4), 0.7), 0.5).all()
    assert pa.latents_that_differ(torch.zeros(1, 3, 4), 1.0).all()
    assert pa.latents_that_differ(torch.rand(2, 3, 1), 0.9).all()


@settings(max_examples=200, deadline=None)
@given(
    divergence=st.lists(st.floats(0, 1e6, width=32), min_size=1, max_size=8),
    low=st.floats(0, 1, width=32),
    high=st.floats(0, 1, width=32),
)
def test_largest_always_kept_and_thresholds_nested(divergence, low, high):
    row = torch.tensor([[divergence]], dtype=torch.float32)
    low, high = sorted((low, high))
    loose, strict = pa.latents_that_differ(row, low)[0, 0], pa.latents_that_differ(row, high)[0, 0]
    assert strict[row[0, 0].argmax()]
    assert (loose | ~strict).all(), "a higher threshold keeps fewer"
    assert pa.latents_that_differ(row, 0.0).all()
    assert torch.equal(
        pa.latents_that_differ(row, 1.0)[0, 0], row[0, 0] - row.min() >= row.max() - row.min()
    )


def test_each_member_has_its_own_threshold():
    divergence = posteriors(seed=4, members=3)[0].abs()
    together = pa.latents_that_differ(
        divergence, torch.tensor([0.0, 0.4, 1.0], dtype=torch.float64)
    )
    for member, threshold in enumerate((0.0, 0.4, 1.0)):
        assert torch.equal(together[member], pa.latents_that_differ(divergence, threshold)[member])
    assert together[0].all()
    assert (together[2].sum(dim=-1) == 1).all()


def test_latent_of_factor():
    own = pa.latent_of_factor(torch.tensor([[2, 0], [1, 2]]), 4)
    assert own.int().tolist() == [[[0, 0, 1, 0], [1, 0, 0, 0]], [[0, 1, 0, 0], [0, 0, 1, 0]]]


@pytest.mark.parametrize("kind", AVERAGES)
def test_sharing_is_symmetric_idempotent_and_keeps_what_is_own(kind):
    m1, l1, m2, l2 = posteriors(seed=5)
    own = torch.rand(m1.shape, generator=torch.Generator().manual_seed(6)) < 0.5
    mean, logvar = pa.share(torch.cat([m1, m2], 1), torch.cat([l1, l2], 1), own, AVERAGES[kind])
    swapped = pa.share(torch.cat([m2, m1], 1), torch.cat([l2, l1], 1), own, AVERAGES[kind])
    for ours, theirs in zip((mean, logvar), swapped, strict=True):
        assert ours.numpy() == pytest.approx(theirs.roll(7, 1).numpy(), rel=1e-12, abs=1e-13)
    again = pa.share(mean, logvar, own, AVERAGES[kind])
    for ours, theirs in zip((mean, logvar), again, strict=True):
        assert ours.numpy() == pytest.approx(theirs.numpy(), rel=1e-12, abs=1e-13)
    first, first_logvar, second, second_logvar = pa.first_and_second(mean, logvar)
    assert torch.equal(first[own], m1[own])
    assert torch.equal(second_logvar[own], l2[own])
    assert torch.equal(first[~own], second[~own])
    assert torch.equal(first_logvar[~own], second_logvar[~own])
    assert not torch.equal(first[~own], m1[~own])


@pytest.mark.parametrize("kind", AVERAGES)
def test_gradients_are_those_of_the_averages(kind):
    halves = tuple(
        part.requires_grad_() for part in posteriors(seed=7, members=1, pairs=2, latents=3)
    )
    own = torch.tensor([[[True, False, False], [False, True, False]]])

    def shared(m1, l1, m2, l2):
        return pa.share(torch.cat([m1, m2], 1), torch.cat([l1, l2], 1), own, AVERAGES[kind])

    assert torch.autograd.gradcheck(shared, halves)
    mean, _ = shared(*halves)
    (gradient,) = torch.autograd.grad(
        mean[:, 2:].sum(), halves[0]
    )  # second images, to the means of the first
    assert (gradient[own] == 0).all()
    assert (gradient[~own] != 0).all()


@pytest.mark.parametrize("kind", AVERAGES)
def test_extreme_variances_stay_finite_in_float32(kind):
    logvar, other = (
        torch.tensor([[[200.0, -200.0, 90.0]]]),
        torch.tensor([[[-200.0, -190.0, 90.0]]]),
    )
    halves = [torch.ones(1, 1, 3), logvar, torch.zeros(1, 1, 3), other]
    halves = [part.requires_grad_() for part in halves]
    mean, shared = AVERAGES[kind](*halves)
    assert torch.isfinite(mean).all()
    expected = [199.30685, -190.69310, 90.0] if kind == "gvae" else [-199.30685, -199.30690, 90.0]
    assert shared[0, 0].tolist() == pytest.approx(expected, abs=1e-3)
    for gradient in torch.autograd.grad((mean + shared).sum(), halves):
        assert torch.isfinite(gradient).all()


def test_the_second_average_is_disents_mistake():
    """Variances as in the arithmetic one; of the means the second image's, without the first's."""
    halves = posteriors(3)
    mean, logvar = pa.second_average(*halves)
    assert mean is halves[2]
    assert torch.equal(logvar, pa.arithmetic_average(*halves)[1])
    first = halves[0].requires_grad_()
    own = torch.zeros(first.shape, dtype=torch.bool)
    stacked = (torch.cat([first, halves[2]], dim=1), torch.cat([halves[1], halves[3]], dim=1))
    shared, _ = pa.share(*stacked, own, pa.AVERAGES["second"])
    shared.sum().backward()
    assert not first.grad.any()
