# SPDX-License-Identifier: Apache-2.0
"""The dense network: layers by hand, any sample shape, its width."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from unbraid.core.errors import InputError
from unbraid.core.random import Stream
from unbraid.networks.mlp import Mlp
from unbraid.testing.network_contract import check_network


def test_layers_are_the_published_ones():
    layout = Mlp().layout((1, 64, 64), 10)
    assert [(weight.name, weight.shape) for weight in layout.weights if weight.fan_in] == [
        ("encoder.dense1.weight", (4096, 1200)),
        ("encoder.dense2.weight", (1200, 1200)),
        ("encoder.mean.weight", (1200, 10)),
        ("encoder.logvar.weight", (1200, 10)),
        ("decoder.dense1.weight", (10, 1200)),
        ("decoder.dense2.weight", (1200, 1200)),
        ("decoder.dense3.weight", (1200, 1200)),
        ("decoder.out.weight", (1200, 4096)),
    ]


@pytest.mark.parametrize("shape", [(2,), (3, 5, 7)])
def test_values_by_hand(shape):
    network = Mlp(hidden=6)
    assert network.problems(shape) == []
    layout = network.layout(shape, 4)
    generator = torch.Generator().manual_seed(0)
    rows = layout.initial(torch.tensor([1, 2, 3]), Stream.INITIAL_WEIGHTS).double()
    rows += 0.1 * torch.randn(rows.shape, generator=generator, dtype=torch.float64)
    x = torch.randn(3, 5, *shape, generator=generator, dtype=torch.float64)
    z = torch.randn(3, 5, 4, generator=generator, dtype=torch.float64)
    views = layout.views(rows)
    mean, logvar = network.encode(views, x)
    raw = network.decode(views, z, shape)
    assert tuple(raw.shape) == (3, 5, *shape)
    for member in range(3):

        def apply(name, hidden, member=member):
            return hidden @ views[f"{name}.weight"][member] + views[f"{name}.bias"][member]

        hidden = apply(
            "encoder.dense2", apply("encoder.dense1", x[member].flatten(1)).relu()
        ).relu()
        assert torch.allclose(mean[member], apply("encoder.mean", hidden), rtol=1e-12, atol=1e-14)
        assert torch.allclose(
            logvar[member], apply("encoder.logvar", hidden), rtol=1e-12, atol=1e-14
        )
        hidden = z[member]
        for number in (1, 2, 3):
            hidden = apply(f"decoder.dense{number}", hidden).tanh()
        assert torch.allclose(
            raw[member].flatten(1), apply("decoder.out", hidden), rtol=1e-12, atol=1e-14
        )


@pytest.mark.parametrize("hidden", [0, -3, 2.5, "many", True, None])
def test_width_must_be_a_whole_number(hidden):
    with pytest.raises(InputError) as told:
        Mlp(hidden=hidden)
    assert str(told.value) == f"hidden must be a whole number of at least 1; got {hidden!r}."
    assert Mlp(hidden=7).options() == {
        **{"hidden": 7, "encoder_layers": 2, "decoder_layers": 3},
        **{"activation": "tanh", "scale": "logvar", "decoder_scale": "none", "start": "glorot"},
    }


def shapes(network, sample_shape, latents):
    return [
        weight.shape for weight in network.layout(sample_shape, latents).weights if weight.fan_in
    ]


def test_networks_of_mathieu_are_options():
    pinwheel = Mlp(
        hidden=100, encoder_layers=1, decoder_layers=1, activation="relu", scale="softplus"
    )
    assert shapes(pinwheel, (2,), 2) == [(2, 100), (100, 2), (100, 2), (2, 100), (100, 2)]
    digits = Mlp(hidden=128, decoder_layers=2, activation="relu")
    assert shapes(digits, (1, 8, 8), 20) == [
        *[(64, 128), (128, 128), (128, 20), (128, 20)],
        *[(20, 128), (128, 128), (128, 64)],
    ]
    assert shapes(Mlp(encoder_layers=0, decoder_layers=0), (5,), 2) == [(5, 2), (5, 2), (2, 5)]


@pytest.mark.parametrize("members", [1, 3])
def test_pinwheel_network_by_hand(members):
    network = Mlp(
        hidden=100, encoder_layers=1, decoder_layers=1, activation="relu", scale="softplus"
    )
    layout = network.layout((2,), 2)
    generator = torch.Generator().manual_seed(0)
    rows = layout.initial(torch.arange(members), Stream.INITIAL_WEIGHTS).double()
    rows += 0.1 * torch.randn(rows.shape, generator=generator, dtype=torch.float64)
    x, z = (torch.randn(members, 5, 2, generator=generator, dtype=torch.float64) for _ in range(2))
    leaves = {name: view.detach().requires_grad_() for name, view in layout.views(rows).items()}
    outputs = [*network.encode(leaves, x), network.decode(leaves, z, (2,))]
    total = sum(output.square().sum() for output in outputs)
    gradients = dict(zip(leaves, torch.autograd.grad(total, list(leaves.values())), strict=True))
    order = ["encoder.dense1", "encoder.mean", "encoder.logvar", "decoder.dense1", "decoder.out"]
    for member in range(members):
        layers = [
            nn.Linear(2, 100),
            nn.Linear(100, 2),
            nn.Linear(100, 2),
            nn.Linear(2, 100),
            nn.Linear(100, 2),
        ]
        for one, name in zip(layers, order, strict=True):
            one.double()
            one.weight.data.copy_(leaves[f"{name}.weight"][member].detach().T)
            one.bias.data.copy_(leaves[f"{name}.bias"][member].detach())
        hidden = layers[0](x[member]).relu()
        std = nn.functional.softplus(layers[2](hidden)) + 1e-6
        expected = [layers[1](hidden), std.square().log(), layers[4](layers[3](z[member]).relu())]
        for ours, theirs in zip(outputs, expected, strict=True):
            assert torch.allclose(ours[member], theirs, rtol=1e-11, atol=1e-12)
        sum(output.square().sum() for output in expected).backward()
        for one, name in zip(layers, order, strict=True):
            assert torch.allclose(
                gradients[f"{name}.weight"][member], one.weight.grad.T, rtol=1e-10, atol=1e-10
            )
            assert torch.allclose(
                gradients[f"{name}.bias"][member], one.bias.grad, rtol=1e-10, atol=1e-10
            )


def test_without_layers_both_halves_are_linear():
    network = Mlp(encoder_layers=0, decoder_layers=0)
    views = network.layout((3,), 2).views(
        network.layout((3,), 2).initial(torch.arange(2), Stream.INITIAL_WEIGHTS)
    )
    x, z = torch.rand(2, 4, 3), torch.rand(2, 4, 2)
    assert torch.allclose(network.encode(views, x)[0], x @ views["encoder.mean.weight"])
    assert torch.allclose(network.decode(views, z, (3,)), z @ views["decoder.out.weight"])


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"encoder_layers": -1}, "encoder_layers must be a whole number of at least 0; got -1."),
        ({"decoder_layers": 1.5}, "decoder_layers must be a whole number of at least 0; got 1.5."),
        (
            {"decoder_layers": True},
            "decoder_layers must be a whole number of at least 0; got True.",
        ),
        ({"activation": "gelu"}, "activation must be tanh or relu; got 'gelu'."),
        ({"scale": "std"}, "scale must be logvar or softplus; got 'std'."),
        (
            {"hidden": 0, "scale": None},
            (
                "hidden must be a whole number of at least 1; got 0.\nscale must be logvar or"
                " softplus; got None."
            ),
        ),
    ],
)
def test_options_are_refused_by_name(options, told):
    with pytest.raises(InputError) as caught:
        Mlp(**options)
    assert str(caught.value) == told


@pytest.mark.parametrize(
    ("shape", "options"),
    [
        *[((2,), {"hidden": 64}), ((1, 28, 28), {"hidden": 64}), ((3, 5, 7), {"hidden": 64})],
        (
            (2,),
            {
                "hidden": 100,
                "encoder_layers": 1,
                "decoder_layers": 1,
                "activation": "relu",
                "scale": "softplus",
            },
        ),
        ((1, 8, 8), {"hidden": 128, "decoder_layers": 2, "activation": "relu"}),
    ],
)
def test_every_option_keeps_the_contract(shape, options):
    check_network("mlp", shape, **options)


def test_the_width_that_help_advises_has_a_tenth_of_the_weights():
    """By which a step on a CPU takes an eighth of the time, as `--help` and its page say."""
    usual, advised = (one.layout((28, 28, 1), 10).size for one in (Mlp(), Mlp(hidden=256)))
    assert usual > 10 * advised
