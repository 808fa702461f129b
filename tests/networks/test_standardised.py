# SPDX-License-Identifier: Apache-2.0
"""Networks on standardised samples: by hand, the same as the network inside on samples standardised
before, refusals.
"""

from __future__ import annotations

import pytest
import torch

from unbraid.core.errors import InputError
from unbraid.core.random import Stream
from unbraid.networks.conv import ConvBurgess
from unbraid.networks.conv_batchnorm import ConvBatchNorm
from unbraid.networks.mlp import Mlp
from unbraid.networks.network import TrainedWeights
from unbraid.networks.standardised import Standardised
from unbraid.objectives.likelihoods import likelihood

SHAPES3D = ((0.5026, 0.5788, 0.6034), (0.2941, 0.3444, 0.3662))
"""Mean and std of 3D Shapes as Michlo et al. print them."""
XYSQUARES = (0.015625, 0.124035)
SQUARED = likelihood("gaussian", bounded=False)


def weights_and_inputs(network, shape, members=2, latents=4):
    generator = torch.Generator().manual_seed(1)
    layout = network.layout(shape, latents)
    views = layout.views(layout.initial(torch.arange(members), Stream.INITIAL_WEIGHTS).double())
    x = torch.rand(members, 3, *shape, generator=generator, dtype=torch.float64)
    return views, x, torch.randn(members, 3, latents, generator=generator, dtype=torch.float64)


def by_channel(values, x):
    return (
        torch.tensor(values, dtype=x.dtype).view(-1, 1, 1) if isinstance(values, tuple) else values
    )


@pytest.mark.parametrize(
    ("inner", "shape", "mean", "std"),
    [
        (ConvBurgess(), (3, 32, 32), *SHAPES3D),
        (ConvBurgess(), (1, 64, 64), *XYSQUARES),
        (Mlp(hidden=8), (2,), -1.5, 3.0),
        (Mlp(hidden=8), (3, 4, 5), *SHAPES3D),
    ],
)
def test_it_is_the_network_inside_on_standardised_samples(inner, shape, mean, std):
    network = Standardised(inner, mean, std)
    assert network.problems(shape) == []
    assert network.layout(shape, 4) == inner.layout(shape, 4)
    views, x, z = weights_and_inputs(inner, shape)
    m, s = by_channel(mean, x), by_channel(std, x)
    expected = (x - m) / s
    for found, value in zip(network.encode(views, x), inner.encode(views, expected), strict=True):
        assert torch.allclose(found, value, rtol=1e-12, atol=1e-14)
    raw = inner.decode(views, z, shape)
    assert torch.allclose(network.decode(views, z, shape), raw * s + m, rtol=1e-12, atol=1e-14)
    found = network.compare(views, z, x, SQUARED)
    assert torch.allclose(found, (raw - expected).square().flatten(2).sum(dim=2), rtol=1e-12)
    # The same error in the samples' own units, where every channel counts by its deviation.
    back = ((network.decode(views, z, shape) - x) / s).square().flatten(2).sum(dim=2)
    assert torch.allclose(found, back, rtol=1e-10)


def test_by_hand():
    network = Standardised(Mlp(hidden=2), 3.0, 2.0)
    assert network.standardise(torch.tensor([[[1.0, 3.0, 7.0]]])).tolist() == [[[-1.0, 0.0, 2.0]]]
    assert network.mean == (3.0,)
    assert network.std == (2.0,)


def test_samples_are_standardised_once_and_again_when_they_change():
    network = Standardised(Mlp(hidden=2), 1.0, 2.0)
    x = torch.ones(1, 2, 3)
    once = network.standardise(x)
    assert network.standardise(x) is once
    assert Standardised(Mlp(hidden=2), 0.0, 2.0).standardise(x)[0, 0, 0] == 0.5
    x += 2.0
    assert (network.standardise(x) == 1.0).all()
    with torch.inference_mode():
        network.standardise(torch.ones(1, 2, 3, dtype=torch.float16))
        network.standardise(x)
    leaf = x.clone().requires_grad_()
    for _ in range(2):
        (gradient,) = torch.autograd.grad(network.standardise(leaf).sum(), leaf)
        assert (gradient == 0.5).all()
    # A constant first made in inference mode serves derivatives too.
    half = torch.ones(1, 2, 3, dtype=torch.float16, requires_grad=True)
    assert (torch.autograd.grad(network.standardise(half).sum(), half)[0] == 0.5).all()


def test_training_notes_pass_through():
    network = Standardised(ConvBatchNorm(), *XYSQUARES)
    views, x, _ = weights_and_inputs(network, (1, 32, 32))
    weights = TrainedWeights(views)
    network.encode(weights, x)
    assert "encoder.norm1.running_mean" in weights.notes
    assert network.uses_columns
    assert not Standardised(ConvBurgess(), 0.0, 1.0).uses_columns
    assert network.lowers_precision


def message(make):
    with pytest.raises(InputError) as told:
        make()
    return str(told.value)


@pytest.mark.parametrize(
    ("mean", "std", "told"),
    [
        (0.0, 0.0, "std must be above 0; got 0.0. Leave out channels that never change."),
        ((0.5, 0.5), (1.0, -1.0), "std must be above 0; got (1.0, -1.0). Leave out channels that "
            "never change."),
        (float("nan"), 1.0, "mean must be a finite number, or one for each channel; got nan."),
        ("half", 1.0, "mean must be a finite number, or one for each channel; got 'half'."),
        ((), 1.0, "mean must be a finite number, or one for each channel; got ()."),
        (True, None, "mean must be a finite number, or one for each channel; got True.\n"
                     "std must be a finite number, or one for each channel; got None."),
        ((0.5, 0.5, 0.5), 1.0, "std must have as many values as mean, 3; got (1.0,)."),
    ],
)  # fmt: skip
def test_constants_are_refused_by_name(mean, std, told):
    assert message(lambda: Standardised(Mlp(), mean, std)) == told


def test_constants_must_fit_the_samples():
    network = Standardised(ConvBurgess(), *SHAPES3D)
    (problem,) = network.problems((1, 64, 64))
    assert (problem.name, problem.value) == ("mean", SHAPES3D[0])
    assert problem.rule.endswith("of samples of shape (1, 64, 64)")
    first, second = network.problems((2,))
    assert [first] == ConvBurgess().problems((2,))
    assert (second.name, second.value) == ("mean", SHAPES3D[0])


@pytest.mark.gpu
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16])
def test_kernels_still_serve_and_a_pass_is_captured(precision):
    network = Standardised(ConvBurgess(), *SHAPES3D)
    views, x, z = weights_and_inputs(network, (3, 64, 64))
    expected = network.compare(views, z, x, SQUARED)
    views = {name: view.float().cuda() for name, view in views.items()}
    x, z = x.float().cuda(), z.float().cuda()

    def step():
        fresh = x.clone()
        mean, _ = network.encode(views, fresh, precision)
        return network.compare(views, z, fresh, SQUARED, precision), mean

    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found, _ = step()
    graph.replay()
    torch.cuda.synchronize()
    assert ((found.cpu().double() - expected).norm() / expected.norm()).item() <= 2e-2
