# SPDX-License-Identifier: Apache-2.0
"""Gradients of weights made beside a backward pass are those that autograd would have made."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from unbraid.networks import layers, weight_gradients
from unbraid.networks.weight_gradients import WeightGradients, leaves_of
from unbraid.population.cuda_graph import Stepper
from unbraid.population.plan import make_plan
from unbraid.population.training_step import TrainingStep

CPU = torch.device("cpu")
Loss = Callable[[Callable[..., Tensor], dict[str, Tensor]], Tensor]


@pytest.fixture(autouse=True)
def products_of_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "_BMM_HAS_OUT_DTYPE", False)


def mixed(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return layers._MixedDense.apply(x, weight, weight.detach(), bias)  # type: ignore[return-value]


def plain(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.baddbmm(bias.unsqueeze(1), x, weight)


def leaves() -> dict[str, Tensor]:
    draw = torch.Generator().manual_seed(0)
    shapes = {"first": (2, 4, 4), "first_bias": (2, 4), "short": (2, 2), "unused": (2, 3)}
    return {
        name: torch.randn(shape, generator=draw).requires_grad_() for name, shape in shapes.items()
    }


def once(dense: Callable[..., Tensor], own: dict[str, Tensor]) -> Tensor:
    return dense(torch.ones(2, 5, 4), own["first"], own["first_bias"]).square().sum()


def twice(dense: Callable[..., Tensor], own: dict[str, Tensor]) -> Tensor:
    hidden = dense(torch.ones(2, 5, 4), own["first"], own["first_bias"])
    return dense(hidden, own["first"], own["first_bias"]).square().sum()


def repeated_bias(dense: Callable[..., Tensor], own: dict[str, Tensor]) -> Tensor:
    return dense(torch.ones(2, 5, 4), own["first"], own["short"].repeat(1, 2)).square().sum()


def slice_of_a_leaf(dense: Callable[..., Tensor], own: dict[str, Tensor]) -> Tensor:
    """It begins where the leaf begins, and is not the leaf."""
    x = torch.ones(2, 5, 4)
    return dense(x, own["first"][:, :, :2], own["first_bias"][:, :2]).square().sum()


def used_beside_the_layer(dense: Callable[..., Tensor], own: dict[str, Tensor]) -> Tensor:
    return once(dense, own) + own["first"].pow(3).sum() + own["first_bias"].exp().sum()


CASES: list[Loss] = [once, twice, repeated_bias, slice_of_a_leaf, used_beside_the_layer]


def gradients(loss: Loss, dense: Callable[..., Tensor], own: dict[str, Tensor]) -> list[Tensor]:
    """With keeping switched on, as on a GPU."""
    passing = WeightGradients(own, CPU)
    passing._beside = True
    with passing:
        found = torch.autograd.grad(loss(dense, own), list(own.values()), allow_unused=True)
    return passing.added_to(found)


@pytest.mark.parametrize("case", CASES)
def test_whatever_a_leaf_is_used_for_its_gradient_is_autograds(case: Loss):
    own = leaves()
    expected = torch.autograd.grad(
        case(plain, own), list(own.values()), allow_unused=True, materialize_grads=True
    )
    for ours, theirs in zip(gradients(case, mixed, own), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("case", [once, twice, used_beside_the_layer])
def test_autograd_never_sees_what_is_kept(case: Loss):
    own = leaves()
    with WeightGradients(own, CPU) as passing:
        weight_gradients._passes.update((leaf.data_ptr(), passing) for leaf in own.values())
        passing._beside = True
        found = torch.autograd.grad(case(mixed, own), list(own.values()), allow_unused=True)
    assert (found[0] is None) == (case is not used_beside_the_layer)
    assert not weight_gradients._passes


def test_a_gradient_that_is_kept_goes_to_the_pass_that_asked_for_it():
    mine, other = leaves(), leaves()
    first, second = WeightGradients(mine, CPU), WeightGradients(other, CPU)
    first._beside = second._beside = True
    with first, second:
        torch.autograd.grad(once(mixed, mine), list(mine.values()), allow_unused=True)
    assert len(first._kept) == 2
    assert second._kept == {}


def test_an_error_leaves_nothing_switched_on():
    own = leaves()
    passing = WeightGradients(own, CPU)
    passing._beside = True
    with pytest.raises(RuntimeError, match="on purpose"), passing:
        raise RuntimeError("on purpose")
    assert not weight_gradients._passes


def test_a_repeated_bias_is_no_leaf():
    own = leaves()
    assert leaves_of(own["first"], own["first_bias"]) is not None
    assert leaves_of(own["first"], own["short"].repeat(1, 2)) is None
    assert leaves_of(own["first"][:, :, :2], own["first_bias"]) is None


def test_on_a_cpu_autograd_makes_them_all():
    own = leaves()
    with WeightGradients(own, CPU) as passing:
        assert not weight_gradients._passes
        found = torch.autograd.grad(once(mixed, own), list(own.values()), allow_unused=True)
    assert found[0] is not None
    assert passing.added_to(found)[0] is found[0]


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "network", ["conv_burgess", "conv_locatello", "conv_mathieu", "conv_batchnorm", "conv_dcgan"]
)
@pytest.mark.parametrize("replayed", [False, True])
def test_the_stream_changes_no_bit(network: str, precision: str, replayed: bool):
    """Also while another stream keeps the GPU busy."""
    side = 32 if network == "conv_dcgan" else 64
    options: dict[str, Any] = {"x": 6, "y": 4, "scale": 2, "image_size": side}
    plan, dataset = make_plan(
        "sprites",
        ["beta_vae", "factor_vae"],
        data_options=options,
        network=network,
        seeds=3,
        steps=100,
        batch_size=16,
        precision=precision,
    )
    device, found = torch.device("cuda"), []
    for beside, busy in ((False, False), (True, False), (True, True)):
        program = TrainingStep(plan, plan.members, dataset, device)
        program.weights_beside = beside
        state = program.start()
        stepper = Stepper(program, state)
        square = torch.randn(2048, 2048, device=device)
        with torch.cuda.stream(torch.cuda.Stream(device)):
            for _ in range(200 if busy else 0):
                square = (square @ square).clamp(-1, 1)
        while state.step < 34:
            if replayed:
                stepper.advance(34 - state.step)
            else:
                program.step(state)
        found.append({name: tensor.cpu() for name, tensor in state.tensors().items()})
    for other in found[1:]:
        for name, tensor in found[0].items():
            torch.testing.assert_close(tensor, other[name], rtol=0, atol=0, equal_nan=True)
