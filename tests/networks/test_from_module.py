# SPDX-License-Identifier: Apache-2.0
"""Networks of one's own modules: the module itself beside them, where they start, batch norm,
threads, refusals.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from unbraid.core.errors import InputError
from unbraid.core.random import Stream
from unbraid.core.registry import Citation
from unbraid.networks import NETWORKS
from unbraid.networks.from_module import ModuleNetwork
from unbraid.networks.layout import Weight
from unbraid.networks.network import TrainedWeights
from unbraid.testing.network_contract import check_network

SHAPE, LATENTS, MEMBERS = (1, 8, 8), 3, 3


class Encoder(nn.Module):
    def __init__(self, channels, latents, width):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, width, 4, 2, 1), nn.BatchNorm2d(width), nn.ReLU(), nn.Flatten()
        )
        self.heads = nn.Linear(width * 16, 2 * latents)
        self.register_buffer(
            "halves", torch.tensor([latents, latents])
        )  # of whole numbers: it stays with the module

    def forward(self, x):
        return self.heads(self.body(x)).chunk(2, dim=1)


@dataclass(frozen=True)
class Own(ModuleNetwork):
    """A small network of torch's layers."""

    width: int = 4
    citation = Citation("Me", 2026, "My network")

    def encoder(self, sample_shape, latents):
        return Encoder(sample_shape[0], latents, self.width)

    def decoder(self, sample_shape, latents):
        layers = [
            nn.Linear(latents, self.width * 16),
            nn.ReLU(),
            nn.Unflatten(1, (self.width, 4, 4)),
        ]
        return nn.Sequential(
            *layers,
            nn.BatchNorm2d(self.width),
            nn.ConvTranspose2d(self.width, sample_shape[0], 4, 2, 1),
        )


@pytest.fixture
def registered():
    """`own` in the table of networks for one test."""
    NETWORKS.register("own", Own)
    yield NETWORKS
    NETWORKS._registered.clear()
    NETWORKS.__dict__.pop("_all", None)


def moved(network, members=MEMBERS, shape=SHAPE):
    generator = torch.Generator().manual_seed(0)
    layout = network.layout(shape, LATENTS)
    rows = layout.initial(torch.arange(members), Stream.INITIAL_WEIGHTS).double()
    rows += 0.01 * torch.rand(rows.shape, generator=generator, dtype=torch.float64)
    x = torch.rand(members, 5, *shape, generator=generator, dtype=torch.float64)
    return (
        layout,
        rows,
        x,
        torch.randn(members, 5, LATENTS, generator=generator, dtype=torch.float64),
    )


def test_it_keeps_the_contract(registered):
    check_network("own", SHAPE)
    check_network("own", (3, 8, 8), width=2)


def test_weights_are_the_module_s():
    layout = Own().layout(SHAPE, LATENTS)
    shapes = {weight.name: weight.shape for weight in layout.weights}
    assert shapes["encoder.body.0.weight"] == (4, 1, 4, 4)
    assert shapes["encoder.body.1.running_var"] == (4,)
    assert shapes["decoder.4.bias"] == (1,)
    assert not any("num_batches_tracked" in name or "halves" in name for name in shapes)
    modules = [Own().encoder(SHAPE, LATENTS), Own().decoder(SHAPE, LATENTS)]
    parameters = sum(parameter.numel() for module in modules for parameter in module.parameters())
    assert layout.count == parameters + 2 * 4 + 2 * 4


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("members", [1, MEMBERS])
def test_every_member_is_the_module_itself(members, training):
    network = Own()
    layout, rows, x, z = moved(network, members)
    leaves = {name: view.detach().requires_grad_() for name, view in layout.views(rows).items()}
    weights = TrainedWeights(leaves) if training else leaves
    outputs = [*network.encode(weights, x), network.decode(weights, z, SHAPE)]
    total = sum(output.square().sum() for output in outputs)
    gradients = dict(
        zip(
            leaves,
            torch.autograd.grad(total, list(leaves.values()), materialize_grads=True),
            strict=True,
        )
    )
    for member in range(members):
        halves = {
            "encoder": network.encoder(SHAPE, LATENTS),
            "decoder": network.decoder(SHAPE, LATENTS),
        }
        tensors = {}
        for half, module in halves.items():
            module.double().train(training)
            tensors |= {
                f"{half}.{name}": tensor
                for name, tensor in module.state_dict(keep_vars=True).items()
            }
        for name, value in leaves.items():
            if name != "latents":
                tensors[name].data.copy_(value[member].detach())
        expected = [*halves["encoder"](x[member]), halves["decoder"](z[member])]
        for ours, theirs in zip(outputs, expected, strict=True):
            assert torch.allclose(ours[member], theirs, rtol=1e-10, atol=1e-12)
        sum(output.square().sum() for output in expected).backward()
        for name, gradient in gradients.items():
            if name == "latents":
                continue
            theirs = tensors[name]
            if isinstance(theirs, nn.Parameter):
                assert torch.allclose(gradient[member], theirs.grad, rtol=1e-9, atol=1e-10), name
            else:
                assert not gradient.any()
                if training:
                    assert torch.allclose(
                        weights.notes[name][member], theirs, rtol=1e-10, atol=1e-12
                    ), name
        if training:
            assert sorted(weights.notes) == sorted(name for name in leaves if ".running_" in name)


def test_two_calls_in_a_pass_are_noted_in_order():
    network = Own()
    layout, rows, x, _ = moved(network)
    weights = TrainedWeights(layout.views(rows))
    network.encode(weights, x)
    network.encode(weights, 2.0 * x)
    for member in range(MEMBERS):
        norm = nn.BatchNorm2d(4).double()
        norm.running_mean.copy_(weights["encoder.body.1.running_mean"][member])
        norm.running_var.copy_(weights["encoder.body.1.running_var"][member])
        kernel, bias = (
            weights["encoder.body.0.weight"][member],
            weights["encoder.body.0.bias"][member],
        )
        for given in (x[member], 2.0 * x[member]):
            norm(F.conv2d(given, kernel, bias, stride=2, padding=1))
        assert torch.allclose(
            weights.notes["encoder.body.1.running_mean"][member], norm.running_mean, rtol=1e-12
        )
        assert torch.allclose(
            weights.notes["encoder.body.1.running_var"][member], norm.running_var, rtol=1e-12
        )


def test_members_start_from_their_seed_alone_and_the_generator_is_left():
    layout = Own().layout(SHAPE, LATENTS)
    torch.manual_seed(5)
    before = torch.get_rng_state()
    rows = layout.initial(torch.tensor([7, 1, -(2**63)]), Stream.INITIAL_WEIGHTS)
    assert Own().problems(SHAPE) == []
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    assert torch.equal(layout.initial(torch.tensor([1]), Stream.INITIAL_WEIGHTS)[0], rows[1])
    views = layout.views(rows)
    assert not torch.equal(views["encoder.body.0.weight"][0], views["encoder.body.0.weight"][1])
    assert (
        views["encoder.body.0.weight"].abs().max() <= 0.25
    )  # torch's range of a layer with 16 inputs
    assert (views["encoder.body.1.running_var"] == 1.0).all()


def test_more_weights_beside_the_module_s_start_as_any():
    layout = Own().layout(SHAPE, LATENTS)
    wider = layout.with_more(
        [Weight("prior.logvar", (3,), start=2.0), Weight("prior.map", (3, 4), 3, 4)]
    )
    rows, alone = (
        one.initial(torch.tensor([4, 2]), Stream.INITIAL_WEIGHTS) for one in (wider, layout)
    )
    assert torch.equal(rows[:, : layout.size], alone)
    assert (wider.views(rows)["prior.logvar"] == 2.0).all()
    assert wider.views(rows)["prior.map"].any()


def test_threads_do_not_meet():
    """On a CPU members train side by side in threads, and torch puts weights into a module while it
    is called.
    """
    network = Own()
    layout, rows, x, _ = moved(network)
    alone = [network.encode(layout.views(rows[k : k + 1]), x[k : k + 1])[0] for k in range(MEMBERS)]
    wrong = []

    def work(k):
        views = layout.views(rows[k : k + 1])
        for _ in range(100):
            if not torch.equal(network.encode(views, x[k : k + 1])[0], alone[k]):
                wrong.append(k)
        if not torch.equal(
            layout.initial(torch.tensor([k]), Stream.INITIAL_WEIGHTS), starts[k : k + 1]
        ):
            wrong.append(k)

    starts = layout.initial(torch.arange(MEMBERS), Stream.INITIAL_WEIGHTS)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(MEMBERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


@dataclass(frozen=True)
class Frozen(Own):
    """A network whose first layer is not trained."""

    def encoder(self, sample_shape, latents):
        module = super().encoder(sample_shape, latents)
        module.body[0].weight.requires_grad_(False)
        return module


def test_a_frozen_parameter_gets_no_gradient_and_stays():
    layout, rows, x, _ = moved(Frozen())
    leaves = {name: view.detach().requires_grad_() for name, view in layout.views(rows).items()}
    weights = TrainedWeights(leaves)
    mean, _ = Frozen().encode(weights, x)
    (gradient,) = torch.autograd.grad(
        mean.square().sum(), [leaves["encoder.body.0.weight"]], materialize_grads=True
    )
    assert not gradient.any()
    assert torch.equal(weights.notes["encoder.body.0.weight"], leaves["encoder.body.0.weight"])


def test_lists_of_a_stored_plan_become_tuples():
    @dataclass(frozen=True)
    class Widths(Own):
        widths: tuple[int, ...] = (1, 2)

    assert Widths(widths=[1, 2]) == Widths()
    assert Widths(widths=[3]).options() == {"width": 4, "widths": (3,)}


def own(encoder=None, decoder=None):
    """`Own` with another half."""

    @dataclass(frozen=True)
    class Other(Own):
        def encoder(self, sample_shape, latents):
            return encoder(latents) if encoder else super().encoder(sample_shape, latents)

        def decoder(self, sample_shape, latents):
            return decoder(latents) if decoder else super().decoder(sample_shape, latents)

    return Other()


class Noisy(nn.Module):
    def __init__(self, latents):
        super().__init__()
        self.line = nn.Linear(latents, 64)

    def forward(self, z):
        return F.dropout(self.line(z), training=self.training).view(-1, 1, 8, 8)


def flat(*last):
    return lambda latents: nn.Sequential(nn.Flatten(), nn.Linear(64, latents), *last)


CHANCE = "must not draw random numbers, which would depend on more than the member's seed and step"


@pytest.mark.parametrize(
    ("network", "half", "rule", "value"),
    [
        (
            own(
                decoder=lambda latents: nn.Sequential(
                    nn.Linear(latents, 64), nn.Dropout(0.5), nn.Unflatten(1, SHAPE)
                )
            ),
            *("decoder", CHANCE, "dropout in '1'"),
        ),
        (own(decoder=Noisy), "decoder", CHANCE, "outputs that differ from call to call"),
        (
            own(encoder=flat()),
            "encoder",
            "must return a pair of tensors of shapes (3, 2) and (3, 2)",
            "Tensor of [(3, 2)]",
        ),
        (
            own(decoder=lambda latents: nn.Linear(latents, 64)),
            "decoder",
            "must return one tensor of shape (3, 1, 8, 8)",
            "Tensor of [(3, 64)]",
        ),
        (
            own(decoder=lambda latents: "a decoder"),
            *("decoder", "must be a torch.nn.Module", "a decoder"),
        ),
        (
            own(
                decoder=lambda latents: nn.Sequential(
                    nn.BatchNorm1d(latents, momentum=None), nn.Linear(latents, 64)
                )
            ),
            *("decoder", "must average batch norm with a momentum", "momentum None in '0'"),
        ),
        (
            own(decoder=lambda latents: nn.Linear(latents + 1, 64)),
            "decoder",
            "must run for samples of shape (1, 8, 8)",
            "RuntimeError: mat1 and mat2 shapes cannot be multiplied (3x2 and 3x64)",
        ),
        (
            own(decoder=lambda latents: 1 // 0),
            "decoder",
            "must be built for samples of shape (1, 8, 8)",
            "ZeroDivisionError: integer division or modulo by zero",
        ),
    ],
)
def test_what_cannot_work_is_refused(network, half, rule, value):
    (problem,) = network.problems(SHAPE)
    assert (problem.name, problem.rule) == (f"{half} of network Other", rule)
    assert problem.value == value


def test_both_halves_are_refused_at_once():
    found = own(encoder=flat(), decoder=Noisy).problems(SHAPE)
    assert [problem.name for problem in found] == [
        "encoder of network Other",
        "decoder of network Other",
    ]


def test_options_must_be_plain():
    @dataclass(frozen=True)
    class Odd(Own):
        table: object = None

    (problem,) = Odd(table={"a": 1}).problems(SHAPE)
    assert problem.name == "options of network Odd"
    assert problem.rule == "must be numbers, words or tuples of them"
    assert problem.value == {"width": 4, "table": {"a": 1}}


def test_a_module_that_cannot_be_built_says_so_in_the_layout_too():
    with pytest.raises(
        InputError,
        match=r"^decoder of network Other must be a torch\.nn\.Module; got 'a decoder'\.$",
    ):
        own(decoder=lambda latents: "a decoder").layout(SHAPE, 2)


class Weighted(nn.Module):
    """Holds a plain tensor, as modules often do, which is neither a parameter nor a buffer."""

    def __init__(self, latents):
        super().__init__()
        self.line, self.weights = nn.Linear(latents, 64), torch.linspace(0.0, 1.0, 64)

    def forward(self, z):
        return (self.line(z) * self.weights).view(-1, *SHAPE)


@pytest.mark.parametrize("members", [1, MEMBERS])
def test_modules_first_built_in_inference_mode_serve_derivatives_later(members):
    network = own(decoder=Weighted)
    layout = network.layout(SHAPE, LATENTS)
    views = layout.views(layout.initial(torch.arange(members), Stream.INITIAL_WEIGHTS))
    z = torch.ones(members, 2, LATENTS)
    with torch.inference_mode():
        network.decode(views, z, SHAPE)
    z.requires_grad_()
    (gradient,) = torch.autograd.grad(network.decode(views, z, SHAPE).sum(), z)
    expected = (views["decoder.line.weight"] * torch.linspace(0.0, 1.0, 64)[:, None]).sum(
        dim=1, keepdim=True
    )
    assert torch.allclose(gradient, expected.expand_as(gradient), rtol=1e-4)


class Deciding(nn.Module):
    def __init__(self, latents):
        super().__init__()
        self.line = nn.Linear(latents, 64)

    def forward(self, z):
        return self.line(-z if z.mean() > 0 else z).view(-1, *SHAPE)


def test_a_module_that_decides_by_values_runs_for_one_member_and_says_why_not_for_more():
    network = own(decoder=Deciding)
    layout = network.layout(SHAPE, LATENTS)
    views = layout.views(layout.initial(torch.arange(2), Stream.INITIAL_WEIGHTS))
    z = torch.ones(2, 5, LATENTS)
    assert network.decode({name: view[:1] for name, view in views.items()}, z[:1], SHAPE).shape == (
        1,
        5,
        *SHAPE,
    )
    told = (
        r"^decoder of network Other must run for several members at once, through"
        r" torch\.func\.vmap; got RuntimeError: vmap: "
    )
    with pytest.raises(
        InputError, match=told + r".*\. Let no value of a tensor decide what is done\.$"
    ):
        network.decode(views, z, SHAPE)


@pytest.mark.gpu
def test_a_training_pass_is_captured():
    network = Own()
    layout, rows, x, z = moved(network)
    exact = TrainedWeights(layout.views(rows))
    expected = [*network.encode(exact, x), network.decode(exact, z, SHAPE), *exact.notes.values()]
    leaves = {
        name: view.float().cuda().requires_grad_() for name, view in layout.views(rows).items()
    }
    x, z = x.float().cuda(), z.float().cuda()

    def step():
        weights = TrainedWeights(leaves)
        outputs = [*network.encode(weights, x), network.decode(weights, z, SHAPE)]
        total = sum(output.square().sum() for output in outputs)
        torch.autograd.grad(total, list(leaves.values()), materialize_grads=True)
        return [*(output.detach() for output in outputs), *weights.notes.values()]

    step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step()
    graph.replay()
    torch.cuda.synchronize()
    for ours, value in zip(found, expected, strict=True):
        assert ((ours.cpu().double() - value).norm() / value.norm()).item() <= 2e-3


def test_an_initialisation_is_not_for_modules():
    layout = Own().layout(SHAPE, LATENTS)
    assert layout.starting("") is layout
    with pytest.raises(InputError) as error:
        layout.starting("xavier_normal")
    assert error.value.problems[0].name == "initialisation"
