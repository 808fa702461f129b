# SPDX-License-Identifier: Apache-2.0
"""conv_batchnorm and conv_dcgan against plain torch models, weight for weight, in training and
after it.
"""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from unbraid.core.random import Stream
from unbraid.networks.conv_batchnorm import ConvBatchNorm
from unbraid.networks.conv_dcgan import ConvDcgan
from unbraid.networks.network import TrainedWeights
from unbraid.objectives.likelihoods import likelihood

LATENTS, BATCH = 6, 5


class BatchNormPeer(nn.Module):
    """The published network of torch's own layers, for 64x64."""

    shape = (1, 64, 64)
    network = ConvBatchNorm()

    def __init__(self, latents=LATENTS):
        super().__init__()
        e, d = self.encoder, self.decoder = nn.ModuleDict(), nn.ModuleDict()
        inputs = 1
        for number, outputs in enumerate((32, 32, 64, 64), start=1):
            e[f"conv{number}"], e[f"norm{number}"] = (
                nn.Conv2d(inputs, outputs, 4, 2, 1),
                nn.BatchNorm2d(outputs),
            )
            inputs = outputs
        e["wide"], e["wide_norm"] = nn.Conv2d(64, 512, 4), nn.BatchNorm2d(512)
        e["mean"], e["log_std"] = nn.Conv2d(512, latents, 1), nn.Conv2d(512, latents, 1)
        d["wide"], d["wide_norm"] = nn.ConvTranspose2d(latents, 512, 1), nn.BatchNorm2d(512)
        d["corner"], d["corner_norm"] = nn.ConvTranspose2d(512, 64, 4), nn.BatchNorm2d(64)
        for number, outputs in enumerate((64, 32, 32), start=1):
            d[f"conv{number}"], d[f"norm{number}"] = (
                nn.ConvTranspose2d(inputs, outputs, 4, 2, 1),
                nn.BatchNorm2d(outputs),
            )
            inputs = outputs
        d["conv4"] = nn.ConvTranspose2d(32, 1, 4, 2, 1)

    def encode(self, x):
        e = self.encoder
        for number in (1, 2, 3, 4):
            x = e[f"norm{number}"](e[f"conv{number}"](x)).relu()
        x = e["wide_norm"](e["wide"](x)).relu()
        return e["mean"](x).flatten(1), 2 * e["log_std"](x).flatten(1)

    def decode(self, z):
        d = self.decoder
        x = d["wide_norm"](d["wide"](z[..., None, None])).relu()
        x = d["corner_norm"](d["corner"](x)).relu()
        for number in (1, 2, 3):
            x = d[f"norm{number}"](d[f"conv{number}"](x)).relu()
        return d["conv4"](x)


class DcganPeer(nn.Module):
    """The same for Fashion-MNIST at 32x32."""

    shape = (1, 32, 32)
    network = ConvDcgan()

    def __init__(self, latents=LATENTS):
        super().__init__()
        e, d = self.encoder, self.decoder = nn.ModuleDict(), nn.ModuleDict()
        e["conv1"] = nn.Conv2d(1, 32, 4, 2, 1, bias=False)
        e["conv2"], e["norm2"] = nn.Conv2d(32, 64, 4, 2, 1, bias=False), nn.BatchNorm2d(64)
        e["conv3"], e["norm3"] = nn.Conv2d(64, 128, 4, 2, 1, bias=False), nn.BatchNorm2d(128)
        e["mean"], e["std"] = nn.Conv2d(128, latents, 4), nn.Conv2d(128, latents, 4)
        d["corner"], d["corner_norm"] = (
            nn.ConvTranspose2d(latents, 128, 4, bias=False),
            nn.BatchNorm2d(128),
        )
        d["conv1"], d["norm1"] = (
            nn.ConvTranspose2d(128, 64, 4, 2, 1, bias=False),
            nn.BatchNorm2d(64),
        )
        d["conv2"], d["norm2"] = nn.ConvTranspose2d(64, 32, 4, 2, 1, bias=False), nn.BatchNorm2d(32)
        d["conv3"] = nn.ConvTranspose2d(32, 1, 4, 2, 1, bias=False)

    def encode(self, x):
        e = self.encoder
        x = F.leaky_relu(e["conv1"](x), 0.2)
        x = F.leaky_relu(e["norm2"](e["conv2"](x)), 0.2)
        x = F.leaky_relu(e["norm3"](e["conv3"](x)), 0.2)
        return e["mean"](x).flatten(1), 2 * torch.log(F.softplus(e["std"](x).flatten(1)) + 1e-6)

    def decode(self, z):
        d = self.decoder
        x = d["corner_norm"](d["corner"](z[..., None, None])).relu()
        for number in (1, 2):
            x = d[f"norm{number}"](d[f"conv{number}"](x)).relu()
        return d["conv3"](x)


PEERS = [BatchNormPeer, DcganPeer]


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


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("members", [1, 2])
@pytest.mark.parametrize("kind", PEERS)
def test_against_a_plain_torch_model(kind, members, training):
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


def test_number_of_weights_of_conv_batchnorm():
    """What is trained, as in the authors' code for 64x64x1 and 10 latents: about 1.29 M. The
    running means come on top.
    """
    weights = ConvBatchNorm().layout((1, 64, 64), 10).weights
    trained = sum(weight.count for weight in weights if ".running_" not in weight.name)
    assert (
        trained
        == sum(parameter.numel() for parameter in BatchNormPeer(10).parameters())
        == 1_298_581
    )
    assert (
        sum(weight.count for weight in weights if weight.name.endswith((".weight", ".bias")))
        == 1_295_765
    )
    assert sum(weight.count for weight in weights if ".running_" in weight.name) == 2 * 2 * (
        32 + 32 + 64 + 64 + 512
    )


def test_number_of_weights_of_conv_dcgan():
    weights = ConvDcgan().layout((1, 32, 32), 50).weights
    trained = sum(weight.count for weight in weights if ".running_" not in weight.name)
    assert trained == sum(parameter.numel() for parameter in DcganPeer(50).parameters()) == 636_836


def test_conv_batchnorm_starts_in_the_range_of_torch_s_layers():
    limits = {
        weight.name: weight.limit for weight in ConvBatchNorm().layout((1, 64, 64), LATENTS).weights
    }
    for name, module in BatchNormPeer().named_modules():
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            fan_in, _ = nn.init._calculate_fan_in_and_fan_out(module.weight)
            assert (
                limits[f"{name}.weight"]
                == limits[f"{name}.bias"]
                == pytest.approx(1 / math.sqrt(fan_in), rel=1e-12)
            )
    assert not any(limit for name, limit in limits.items() if "norm" in name)


def test_conv_dcgan_starts_normal():
    layout = ConvDcgan().layout((1, 32, 32), 50)
    views = layout.views(layout.initial(torch.arange(2), Stream.INITIAL_WEIGHTS))
    for name, values in views.items():
        if name.endswith(".weight"):
            assert values.std().item() == pytest.approx(0.02, rel=0.1)
            assert abs(values.mean().item()) <= 5 * 0.02 / math.sqrt(values.numel())
        elif name.endswith((".scale", ".running_var")):
            assert (values == 1.0).all()
        else:
            assert not values.any()


@pytest.mark.parametrize(("side", "depth"), [(32, 3), (64, 4), (128, 5)])
def test_conv_batchnorm_halves_to_four(side, depth):
    shapes = {
        weight.name: weight.shape for weight in ConvBatchNorm().layout((3, side, side), 10).weights
    }
    assert shapes["encoder.wide.weight"] == (1024, 512)
    assert shapes[f"encoder.conv{depth}.weight"] == (64, 4, 4, 32 if depth == 3 else 64)
    assert shapes[f"decoder.conv{depth}.weight"] == (32, 4, 4, 3)
    assert f"encoder.conv{depth + 1}.weight" not in shapes


RULE = "must be square with a side of {} and 1 or 3 channels for a convolutional network"


@pytest.mark.parametrize(
    ("network", "sides", "shape", "name", "value", "remedy"),
    [
        (ConvDcgan(), "32", (1, 28, 28), "images", "28x28 with 1 channel", "32x32 (resize=32"),
        (ConvDcgan(), "32", (1, 64, 64), "images", "64x64 with 1 channel", "32x32 (resize=32"),
        (ConvDcgan(), "32", (2,), "samples", "vectors of shape (2,)", "the network mlp"),
        (ConvDcgan(), "32", (2, 32, 32), "images", "32x32 with 2 channels", "the network mlp"),
        (ConvBatchNorm(), "32, 64, 128", (1, 28, 28), "images", "28x28 with 1 channel", "resize=32"),
        (ConvBatchNorm(), "32, 64, 128", (4, 64, 64), "images", "64x64 with 4 channels", "mlp"),
    ],
)
def test_unsuitable_samples_are_refused_with_a_remedy(network, sides, shape, name, value, remedy):
    (problem,) = network.problems(shape)
    assert (problem.name, problem.rule, problem.value) == (name, RULE.format(sides), value)
    assert remedy in problem.remedy


@pytest.mark.parametrize("kind", PEERS)
def test_compare_is_the_likelihood_of_the_decoded(kind):
    layout, rows, x, z = moved(kind.network, kind.shape, 2)
    views, chosen = layout.views(rows), likelihood("bernoulli", bounded=True)
    found = kind.network.compare(views, z, x, chosen)
    assert torch.equal(found, chosen.negative_log(kind.network.decode(views, z, kind.shape), x))


@pytest.mark.gpu
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    ("precision", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 8e-2)]
)
@pytest.mark.parametrize("kind", PEERS)
def test_on_a_gpu_it_is_the_same_network(kind, precision, tolerance, training):
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


@pytest.mark.gpu
@pytest.mark.parametrize("kind", PEERS)
def test_a_training_pass_is_captured(kind):
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
