# SPDX-License-Identifier: Apache-2.0
"""What tests of batch norm share: a plain torch model beside ours, weight by weight."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

from unbraid.core.random import Stream
from unbraid.networks.network import TrainedWeights
from unbraid.objectives.likelihoods import likelihood

LATENTS, BATCH = 6, 5


def pairs(peer):
    """Our name of every tensor of the peer, the tensor, and how ours is turned into its shape."""
    for name, module in peer.named_modules():
        if isinstance(module, nn.BatchNorm2d):
            for ours, theirs in (
                ("scale", "weight"),
                ("shift", "bias"),
                ("running_mean",) * 2,
                ("running_var",) * 2,
            ):
                yield f"{name}.{ours}", getattr(module, theirs), lambda tensor: tensor
        elif isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            yield (
                f"{name}.weight",
                module.weight,
                lambda tensor, module=module: as_torch(tensor, module),
            )
            if module.bias is not None:
                yield f"{name}.bias", module.bias, lambda tensor: tensor


def as_torch(weight, module):
    """Our weight of one layer in torch's order of axes; ours at one place are dense, over height,
    width and channel.
    """
    shape = module.weight.shape
    side = shape[-1]
    if weight.dim() == 4:
        return weight.permute(0, 3, 1, 2)
    if isinstance(module, nn.Conv2d):
        return weight.reshape(side, side, shape[1], shape[0]).permute(3, 2, 0, 1)
    return weight.reshape(shape[0], side, side, shape[1]).permute(0, 3, 1, 2)


def moved(network, shape, members):
    """Weights off their start and inputs, float64."""
    generator = torch.Generator().manual_seed(3)
    layout = network.layout(shape, LATENTS)
    rows = layout.initial(torch.arange(members), Stream.INITIAL_WEIGHTS).double()
    rows += 0.01 * torch.randn(rows.shape, generator=generator, dtype=torch.float64)
    x = torch.rand(members, BATCH, *shape, generator=generator, dtype=torch.float64)
    return (
        layout,
        rows,
        x,
        torch.randn(members, BATCH, LATENTS, generator=generator, dtype=torch.float64),
    )


def close(found, expected, what, size=0.0):
    assert found.shape == expected.shape, what
    assert (found - expected).abs().max() <= 1e-10 * max(expected.abs().max(), size), what


def check_against_torch(kind, members, training):
    layout, rows, x, z = moved(kind.network, kind.shape, members)
    leaves = {name: view.detach().requires_grad_() for name, view in layout.views(rows).items()}
    weights = TrainedWeights(leaves) if training else leaves
    outputs = [*kind.network.encode(weights, x), kind.network.decode(weights, z, kind.shape)]
    names = list(leaves)
    total = sum(output.square().sum() for output in outputs)
    gradients = dict(
        zip(
            names,
            torch.autograd.grad(total, list(leaves.values()), materialize_grads=True),
            strict=True,
        )
    )
    for member in range(members):
        peer = kind().double().train(training)
        for name, tensor, turn in pairs(peer):
            tensor.data.copy_(turn(leaves[name][member].detach()))
        expected = [*peer.encode(x[member]), peer.decode(z[member])]
        for what, ours, theirs in zip(("mean", "logvar", "raw"), outputs, expected, strict=True):
            close(ours[member], theirs, what)
        sum(output.square().sum() for output in expected).backward()
        seen = set()
        for name, tensor, turn in pairs(peer):
            seen.add(name)
            if isinstance(tensor, nn.Parameter):
                # A bias before batch norm moves nothing: its gradient is zero but for rounding, in
                # the size of the weight's.
                size = gradients[name.replace(".bias", ".weight")][member].abs().max()
                close(turn(gradients[name][member]), tensor.grad, f"gradient of {name}", size)
            elif training:
                close(weights.notes[name][member], tensor, name)
        assert seen == set(names)


def check_compare(kind):
    layout, rows, x, z = moved(kind.network, kind.shape, 2)
    views, chosen = layout.views(rows), likelihood("bernoulli", bounded=True)
    found = kind.network.compare(views, z, x, chosen)
    assert torch.equal(found, chosen.negative_log(kind.network.decode(views, z, kind.shape), x))


def check_gpu(kind, precision, tolerance, training):
    layout, rows, x, z = moved(kind.network, kind.shape, 3)
    chosen = likelihood("bernoulli", bounded=True)

    def results(device, dtype, precision):
        views = {name: view.to(device, dtype) for name, view in layout.views(rows).items()}
        weights = TrainedWeights(views) if training else views
        given, latents = x.to(device, dtype), z.to(device, dtype)
        mean, logvar = kind.network.encode(weights, given, precision)
        notes = weights.notes if isinstance(weights, TrainedWeights) else {}
        values = {
            "mean": mean,
            "logvar": logvar,
            "raw": kind.network.decode(weights, latents, kind.shape, precision),
        }
        values["distance"] = kind.network.compare(weights, latents, given, chosen, precision)
        return {name: value.double().cpu() for name, value in (values | notes).items()}

    expected, found = results("cpu", torch.float64, None), results("cuda", torch.float32, precision)
    for name, value in expected.items():
        apart = ((found[name] - value).norm() / value.norm()).item()
        assert apart <= tolerance, f"{name} on the GPU is {apart:.1e} from the CPU"


def check_captured(kind):
    layout, rows, x, z = moved(kind.network, kind.shape, 2)
    chosen = likelihood("bernoulli", bounded=True)
    leaves = {
        name: view.float().cuda().requires_grad_() for name, view in layout.views(rows).items()
    }
    x, z = x.float().cuda(), z.float().cuda()

    def step():
        weights = TrainedWeights(leaves)
        mean, _ = kind.network.encode(weights, x)
        loss = kind.network.compare(weights, z, x, chosen).sum() + mean.square().sum()
        gradients = torch.autograd.grad(loss, list(leaves.values()), materialize_grads=True)
        return [loss.detach(), *gradients, *weights.notes.values()]

    step()
    expected = step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    graph.replay()
    torch.cuda.synchronize()
    for captured, plain in zip(found, expected, strict=True):
        assert (captured - plain).norm() <= 1e-4 * plain.norm() + 1e-6


@pytest.fixture
def peers() -> SimpleNamespace:
    """Checks of a network against its peer, a class of `shape`, `network` and torch modules."""
    return SimpleNamespace(
        assert_as_torch=check_against_torch,
        assert_compare=check_compare,
        assert_same_on_a_gpu=check_gpu,
        assert_captured=check_captured,
    )
