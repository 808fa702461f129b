# SPDX-License-Identifier: Apache-2.0
"""The dense network: layers by hand, any sample shape, its width."""

from __future__ import annotations

import pytest
import torch

from unbraid.errors import InputError
from unbraid.networks.mlp import Mlp
from unbraid.random import Stream


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

        hidden = apply("encoder.dense2", apply("encoder.dense1", x[member].flatten(1)).relu()).relu()
        assert torch.allclose(mean[member], apply("encoder.mean", hidden), rtol=1e-12, atol=1e-14)
        assert torch.allclose(logvar[member], apply("encoder.logvar", hidden), rtol=1e-12, atol=1e-14)
        hidden = z[member]
        for number in (1, 2, 3):
            hidden = apply(f"decoder.dense{number}", hidden).tanh()
        assert torch.allclose(raw[member].flatten(1), apply("decoder.out", hidden), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("hidden", [0, -3, 2.5, "many", True, None])
def test_width_must_be_a_whole_number(hidden):
    with pytest.raises(InputError) as told:
        Mlp(hidden=hidden)
    assert str(told.value) == f"hidden must be a whole number of at least 1; got {hidden!r}."
    assert Mlp(hidden=7).options() == {"hidden": 7}
