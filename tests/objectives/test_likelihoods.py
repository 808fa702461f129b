# SPDX-License-Identifier: Apache-2.0
"""Likelihoods by hand, against torch.distributions and against disentanglement_lib's losses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.errors import InputError
from unbraid.core.random import Stream
from unbraid.networks.layout import Layout
from unbraid.objectives.blur import blur
from unbraid.objectives.likelihoods import LIKELIHOODS, LOG_SCALE, likelihood


def message(name, *, bounded):
    with pytest.raises(InputError) as told:
        likelihood(name, bounded=bounded)
    return str(told.value)


@pytest.mark.parametrize(
    ("name", "key"),
    [("bernoulli", "bernoulli_logits_per_sample"), ("gaussian", "l2_logits_per_sample")],
)
def test_golden_reconstruction(golden, name, key):
    found = likelihood(name, bounded=True).negative_log(golden.logits, golden.images)
    assert tuple(found.shape) == (1, 16)
    np.testing.assert_allclose(found[0], golden.values[key], rtol=golden.relative)


def test_bernoulli_by_hand_and_by_torch():
    raw = torch.tensor([[[[0.0, math.log(3.0)]]]], dtype=torch.float64).reshape(1, 1, 1, 1, 2)
    x = torch.tensor([1.0, 0.0], dtype=torch.float64).reshape(1, 1, 1, 1, 2)
    found = likelihood("bernoulli", bounded=True).negative_log(raw, x)
    assert found.item() == pytest.approx(math.log(2) + math.log(4), rel=1e-12)
    assert found.item() == pytest.approx(
        -torch.distributions.Bernoulli(logits=raw).log_prob(x).sum().item(), rel=1e-12
    )


def test_grey_targets_cost_the_cross_entropy():
    found = likelihood("bernoulli", bounded=True).negative_log(
        torch.zeros(1, 1, 3), torch.full((1, 1, 3), 0.3)
    )
    assert found.item() == pytest.approx(3 * math.log(2), rel=1e-6)


def test_extreme_logits_stay_finite():
    raw = torch.tensor([[[1e4, -1e4]]])
    assert (
        likelihood("bernoulli", bounded=True).negative_log(raw, torch.tensor([[[0.0, 1.0]]])).item()
        == 2e4
    )


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
    each = {"bernoulli": math.log(2), "gaussian": 0.25, "laplace": 0.5 + math.log(2)}
    assert set(each) == set(LIKELIHOODS)
    for name, nats in each.items():
        found = likelihood(name, bounded=True).negative_log(
            torch.zeros(2, 3, 4, 5, 6), torch.ones(2, 3, 4, 5, 6)
        )
        assert found.flatten().tolist() == pytest.approx([120 * nats] * 6, rel=1e-5)
        assert tuple(found.shape) == (2, 3)


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(
    ("name", "density"),
    [
        ("gaussian:scale=0.5", lambda mean: torch.distributions.Normal(mean, 0.5)),
        ("gaussian:scale=3", lambda mean: torch.distributions.Normal(mean, 3.0)),
        ("laplace", lambda mean: torch.distributions.Laplace(mean, 1.0)),
        ("laplace:scale=0.1", lambda mean: torch.distributions.Laplace(mean, 0.1)),
    ],
)
@pytest.mark.parametrize("bounded", [False, True])
def test_densities_are_torchs(name, density, bounded):
    raw, x = draw(2, 3, 1, 4, 5), torch.sigmoid(draw(2, 3, 1, 4, 5, seed=1))
    found = likelihood(name, bounded=bounded)
    mean = torch.sigmoid(raw) if bounded else raw
    torch.testing.assert_close(
        found.negative_log(raw, x),
        -density(mean).log_prob(x).flatten(2).sum(dim=2),
        rtol=1e-12,
        atol=0,
    )
    assert torch.equal(found.expected(raw), mean)
    unsquashed = likelihood(f"{name}{',' if ':' in name else ':'}output=raw", bounded=bounded)
    torch.testing.assert_close(
        unsquashed.negative_log(raw, x),
        -density(raw).log_prob(x).flatten(2).sum(dim=2),
        rtol=1e-12,
        atol=0,
    )
    assert torch.equal(unsquashed.expected(raw), raw)


def test_laplace_by_hand():
    raw, x = torch.tensor([[[0.25, 1.0]]]), torch.tensor([[[0.5, 0.0]]])
    found = likelihood("laplace:scale=0.5", bounded=False).negative_log(raw, x)
    assert found.item() == pytest.approx(0.5 + 2.0 + 2 * math.log(1.0), rel=1e-6)


def test_a_kernel_is_found_by_the_distance_of_plain_likelihoods_only():
    """A network takes a kernel for what it finds by name, so nothing with a scale or a blur may
    carry such a name.
    """
    plain = {"bernoulli", "sigmoid_squared_error", "squared_error"}
    assert {
        likelihood(name, bounded=True).distance
        for name in ("bernoulli", "gaussian", "gaussian:output=raw")
    } == plain
    assert likelihood("gaussian", bounded=False).distance == "squared_error"
    for name in (
        "laplace",
        "gaussian:scale=1",
        "gaussian:scale=learned",
        "gaussian+box3",
        "bernoulli+box3",
    ):
        assert likelihood(name, bounded=True).distance not in plain


def test_real_valued_samples_need_no_word_for_raw_output():
    assert likelihood("laplace:output=raw", bounded=False).name == "laplace"
    assert likelihood("laplace:output=raw", bounded=True).name == "laplace:output=raw"


@pytest.mark.parametrize(
    "name", ["gaussian:scale=learned", "laplace:scale=learned", "gaussian+box2:scale=learned"]
)
def test_a_learned_scale_is_the_given_one_when_it_has_its_value(name):
    raw, x = draw(3, 4, 1, 5, 5), torch.sigmoid(draw(3, 4, 1, 5, 5, seed=1))
    scales = [0.1, 1.0, 2.0]
    learned = likelihood(name, bounded=True)
    assert learned.name == name
    bound = learned.bound(
        {LOG_SCALE: torch.tensor(scales, dtype=torch.float64).log()[:, None], "encoder.bias": raw}
    )
    assert (bound.name, bound.weights, bound.distance) == (name, learned.weights, learned.distance)
    for member, scale in enumerate(scales):
        fixed = likelihood(name.replace("learned", str(scale)), bounded=True).negative_log(raw, x)[
            member
        ]
        torch.testing.assert_close(bound.negative_log(raw, x)[member], fixed, rtol=1e-12, atol=0)


@pytest.mark.parametrize(("bounded", "scale"), [(True, 0.5), (False, 1.0)])
def test_a_learned_scale_is_one_weight_that_starts_wide(bounded, scale):
    (weight,) = likelihood("gaussian:scale=learned", bounded=bounded).weights
    assert (weight.name, weight.shape, weight.count) == (LOG_SCALE, (1,), 1)
    rows = Layout(()).with_more([weight]).initial(torch.tensor([3, 4]), Stream.INITIAL_WEIGHTS)
    start = Layout(()).with_more([weight]).views(rows)[LOG_SCALE]
    assert tuple(start.shape) == (2, 1)
    assert start.exp().flatten().tolist() == pytest.approx([scale, scale], rel=1e-6)


@pytest.mark.parametrize(
    ("name", "best"),
    [
        ("gaussian:scale=learned", lambda d: d.square().mean(dim=(1, 2, 3, 4)).sqrt()),
        ("laplace:scale=learned", lambda d: d.abs().mean(dim=(1, 2, 3, 4))),
        (
            "gaussian+box1:scale=learned,kappa=4",
            lambda d: (
                (d.square() + 4 * blur(d, "box", 1).square()).mean(dim=(1, 2, 3, 4)) / 5
            ).sqrt(),
        ),
    ],
)
def test_a_learned_scale_reaches_its_optimum(name, best):
    """Each member's own: s^2 ends at the mean squared error of a Gaussian, s at the mean absolute
    error of a Laplace.
    """
    spread = torch.tensor([0.02, 0.3, 5.0], dtype=torch.float64).view(3, 1, 1, 1, 1)
    x = draw(3, 16, 1, 4, 4)
    raw = x + spread * draw(3, 16, 1, 4, 4, seed=1)
    log_scale = torch.zeros(3, 1, dtype=torch.float64, requires_grad=True)
    found = likelihood(name, bounded=False)
    optimiser = torch.optim.LBFGS(
        [log_scale], max_iter=200, tolerance_change=1e-15, line_search_fn="strong_wolfe"
    )

    def loss():
        optimiser.zero_grad()
        value = found.bound({LOG_SCALE: log_scale}).negative_log(raw, x).sum() / x.numel()
        value.backward()
        return value

    optimiser.step(loss)
    torch.testing.assert_close(log_scale.detach().exp().flatten(), best(raw - x), rtol=1e-6, atol=0)


def test_likelihoods_without_weights_are_bound_to_nothing():
    found = likelihood("gaussian:scale=0.5", bounded=True)
    assert found.weights == ()
    assert found.bound({}) is found


def test_a_learned_scale_must_be_bound():
    found = likelihood("mse:scale=learned", bounded=True)
    with pytest.raises(InputError) as told:
        found.negative_log(torch.zeros(1, 1, 2), torch.zeros(1, 1, 2))
    assert (
        str(told.value)
        == "likelihood needs its weight likelihood.log_scale; got 'gaussian:scale=learned'."
        " Call bound() with the weights of the members."
    )
    with pytest.raises(InputError) as told:
        found.bound({"decoder.bias": torch.zeros(1, 1)})
    assert (
        str(told.value) == "weights must hold likelihood.log_scale for this likelihood; got"
        " 'gaussian:scale=learned'."
        " Call bound() with the weights of the members."
    )


@pytest.mark.parametrize(
    "name",
    ["bernoulli", "gaussian", "laplace:scale=0.1", "gaussian:scale=0.3", "gaussian:scale=learned"],
)
def test_gradients(name):
    raw, x = draw(2, 3, 4).requires_grad_(), torch.sigmoid(draw(2, 3, 4, seed=1))
    log_scale = torch.tensor([[0.3], [-1.0]], dtype=torch.float64, requires_grad=True)
    found = likelihood(name, bounded=True)
    inputs = (raw, log_scale) if found.weights else (raw,)
    assert torch.autograd.gradcheck(
        lambda *given: found.bound({LOG_SCALE: given[-1]}).negative_log(given[0], x), inputs
    )


@pytest.mark.parametrize("name", ["bernoulli", "gaussian", "laplace", "gaussian:scale=learned"])
@settings(deadline=None, max_examples=25)
@given(seed=st.integers(0, 2**31), x=st.floats(0.05, 0.95))
def test_the_mean_is_the_best_reconstruction(name, seed, x):
    """No raw output costs less than the one whose mean is the sample."""
    found = likelihood(name, bounded=True).bound(
        {LOG_SCALE: torch.zeros(1, 1, dtype=torch.float64)}
    )
    target = torch.full((1, 1, 7), x, dtype=torch.float64)
    best = torch.logit(target)
    assert torch.allclose(found.expected(best), target)
    other = best + draw(1, 1, 7, seed=seed)
    assert found.negative_log(best, target).item() <= found.negative_log(other, target).item()


# Torch warns that the step before the capture ran on another stream, as it must.
@pytest.mark.filterwarnings("ignore:The AccumulateGrad node:UserWarning")
@pytest.mark.gpu
@pytest.mark.parametrize(
    "name", ["laplace:scale=0.1", "gaussian:scale=learned", "gaussian+box31", "bernoulli+gauss15"]
)
def test_a_captured_step_is_replayed(name):
    raw = draw(2, 3, 1, 64, 64).float().cuda().requires_grad_()
    x = torch.sigmoid(draw(2, 3, 1, 64, 64, seed=1)).float().cuda()
    log_scale = torch.full((2, 1), -1.0, device="cuda", requires_grad=True)
    found = likelihood(name, bounded=True)

    def step():
        nats = found.bound({LOG_SCALE: log_scale}).negative_log(raw, x)
        return nats, *torch.autograd.grad(nats.sum(), [raw, log_scale], allow_unused=True)

    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        step()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    with torch.no_grad():
        raw.copy_(draw(2, 3, 1, 64, 64, seed=2))
        log_scale.fill_(0.5)
    graph.replay()
    torch.cuda.synchronize()
    for replayed, again in zip(captured, step(), strict=True):
        assert (replayed is None) == (again is None)
        if again is not None:
            torch.testing.assert_close(replayed, again)


def test_refusals():
    known = "Known: bernoulli, gaussian, laplace."
    assert (
        message("bernouli", bounded=True)
        == f"likelihood 'bernouli' is unknown; did you mean 'bernoulli'? {known}"
    )
    assert message("x", bounded=False) == f"likelihood 'x' is unknown. {known}"
    rule = "likelihood needs samples between 0 and 1, and these are real-valued or standardised"
    assert (
        message("bernoulli", bounded=False)
        == f"{rule}; got 'bernoulli'. Use the likelihood gaussian."
    )
    assert (
        message("bce+box3", bounded=False)
        == f"{rule}; got 'bernoulli+box3'. Use the likelihood gaussian."
    )
