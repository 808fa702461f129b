# SPDX-License-Identifier: Apache-2.0
"""The contract of an objective, for ours and for those of other packages: call `check_objective("my_vae")` in a test."""

from __future__ import annotations

import dataclasses
import inspect
import math
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from unbraid.errors import InputError
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.objective import Forward, Objective, stack, total_loss
from unbraid.registry import Citation

MEMBERS, BATCH, LATENTS = 3, 8, 4
_LEAVES = ("reconstruction", "mean", "logvar", "z")


def check_objective(name: str) -> None:
    """Assert everything that plans, training and reports rely on; names the broken promise otherwise."""
    kind = OBJECTIVES.load(name)
    _check_description(name, kind)
    _check_config(name, kind)
    _check_terms(name, kind())
    _check_members_are_separate(name, kind())
    _check_auxiliary(name, kind())


def _check_description(name: str, kind: type[Objective]) -> None:
    assert dataclasses.is_dataclass(kind), f"{name} must be a dataclass"
    assert kind.__dataclass_params__.frozen, f"{name} must be frozen"  # type: ignore[attr-defined]
    assert isinstance(getattr(kind, "citation", None), Citation), f"{name} needs a Citation"
    assert getattr(kind, "label", ""), f"{name} needs a label"
    first = (inspect.cleandoc(kind.__dict__.get("__doc__") or "")).splitlines()[:1]
    assert first, f"{name} needs a docstring; its first line is the table's description"
    # A dataclass without a docstring gets its own signature for one.
    assert first[0].endswith("."), f"the first docstring line of {name} must be one sentence, is {first[0]!r}"
    assert kind().key == name, f"the file of '{name}' must bear its name, not '{kind().key}'"


def _check_config(name: str, kind: type[Objective]) -> None:
    objective = kind()
    assert kind(**objective.hyper()) == objective, f"{name}(**hyper()) must make the same objective"
    fields = {item.name: item for item in dataclasses.fields(kind)}
    assert objective.strength is None or objective.strength in fields, f"strength of {name} must be one of its fields"
    for field, item in fields.items():
        if "at_least" not in item.metadata:
            continue
        assert item.metadata["help"], f"{name}: {field} needs a help text"
        for wrong, told in ((math.nan, "must be a finite number; got nan."), ("much", "must be a number; got 'much'.")):
            message = ""
            try:
                kind(**{field: wrong})
            except InputError as error:
                message = str(error)
            expected = f"{name}: {field} {told}"
            assert message == expected, f"{name}({field}={wrong!r}) must be an InputError that says '{expected}', not '{message}'"
        default = getattr(objective, field)
        swept = kind(**{field: [default, default]}).sweep()
        assert swept == [objective, objective], f"a list for {field} of {name} must be a sweep"


def _forward(objective: Objective) -> Forward:
    """Float64 posteriors of a few members, with what the objective asks for besides."""
    generator = torch.Generator().manual_seed(5)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    forward = Forward(
        reconstruction=100.0 + normal(MEMBERS, BATCH),
        mean=normal(MEMBERS, BATCH, LATENTS),
        logvar=0.5 * normal(MEMBERS, BATCH, LATENTS) - 1.0,
        z=normal(MEMBERS, BATCH, LATENTS),
        step=torch.tensor(10.0, dtype=torch.float64),
    )
    if objective.permutes:
        order = torch.rand(MEMBERS, LATENTS, BATCH, generator=generator, dtype=torch.float64).argsort(dim=-1)
        forward = replace(forward, permutation=order)
    return _with_auxiliary(objective, forward, torch.arange(MEMBERS))


def _with_auxiliary(objective: Objective, forward: Forward, members: Tensor) -> Forward:
    """*forward* with the auxiliary network of these members, whose weights differ from member to member."""
    network = objective.auxiliary_network()
    if network is None:
        return forward
    layout = network.layout(LATENTS)
    weights = layout.views(_random_rows(layout.size)[members])
    return replace(forward, auxiliary=lambda z: network(weights, z))


def _differentiated(objective: Objective, forward: Forward) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss of each member and the gradients of the losses, zeros where the loss does not depend on the tensor."""
    leaves = {leaf: getattr(forward, leaf).detach().clone().requires_grad_() for leaf in _LEAVES}
    loss = total_loss(objective.terms(replace(forward, **leaves)))
    gradients = torch.autograd.grad(loss.sum(), list(leaves.values()), materialize_grads=True)
    return loss.detach(), dict(zip(_LEAVES, gradients, strict=True))


def _check_terms(name: str, objective: Objective) -> None:
    terms = objective.terms(_forward(objective))
    assert tuple(terms) == objective.term_names, f"terms of {name} are {tuple(terms)}, term_names {objective.term_names}"
    assert "reconstruction" in terms, f"{name} needs a term called reconstruction"
    for term_name, term in terms.items():
        shape = tuple(term.value.shape)
        assert shape in ((MEMBERS, BATCH), (MEMBERS,)), f"{name}: {term_name} must be (members, batch) or (members,), is {shape}"
        assert torch.isfinite(term.value).all(), f"{name}: {term_name} must be finite on ordinary posteriors"
    loss, gradients = _differentiated(objective, _forward(objective))
    assert tuple(loss.shape) == (MEMBERS,), f"the loss of {name} must have one entry a member"
    for leaf, gradient in gradients.items():
        assert torch.isfinite(gradient).all(), f"{name}: the gradient to {leaf} must be finite"
    share = torch.full((MEMBERS, BATCH), 1.0 / BATCH, dtype=torch.float64)
    assert torch.allclose(gradients["reconstruction"], share), (
        f"{name} must count the reconstruction once, as a mean over the batch"
    )
    together = total_loss(stack([objective] * MEMBERS, dtype=torch.float64).terms(_forward(objective)))
    assert torch.allclose(together, loss, rtol=1e-12), f"{name} must give the same loss with its numbers stacked to tensors"


def _check_members_are_separate(name: str, objective: Objective) -> None:
    forward = _forward(objective)
    loss, gradients = _differentiated(objective, forward)
    order = torch.tensor([2, 1, 0])  # no rotation: a term that looks at the next member would rotate with it
    moved: dict[str, Any] = {leaf: getattr(forward, leaf)[order] for leaf in _LEAVES}
    if forward.permutation is not None:
        moved["permutation"] = forward.permutation[order]
    turned = _with_auxiliary(objective, replace(forward, **moved), order)
    turned_loss, turned_gradients = _differentiated(objective, turned)
    assert torch.equal(turned_loss, loss[order]), f"{name} mixes members: losses must move with the members"
    for leaf in _LEAVES:
        same = torch.equal(turned_gradients[leaf], gradients[leaf][order])
        assert same, f"{name} mixes members: gradients to {leaf} must move with the members"
    torn = {leaf: getattr(forward, leaf).clone() for leaf in _LEAVES}
    for tensor in torn.values():
        tensor[1] = torch.nan
    torn_loss, torn_gradients = _differentiated(objective, replace(forward, **torn))
    others = torch.tensor([0, 2])
    assert torch.equal(torn_loss[others], loss[others]), f"{name}: NaN in one member must not reach another's loss"
    for leaf in _LEAVES:
        same = torch.equal(torn_gradients[leaf][others], gradients[leaf][others])
        assert same, f"{name}: NaN in one member must not reach another's gradient to {leaf}"


def _check_auxiliary(name: str, objective: Objective) -> None:
    network = objective.auxiliary_network()
    if network is None:
        return
    assert network.learning_rate > 0, f"the auxiliary network of {name} needs a learning rate"
    layout = network.layout(LATENTS)
    weights = {key: view.clone().requires_grad_() for key, view in layout.views(_random_rows(layout.size)).items()}
    forward = _forward(objective)
    # As in training the latents depend on the encoder; the loss may depend on them, but is followed by these weights alone.
    forward = replace(forward, z=forward.z.requires_grad_(), auxiliary=lambda z: network(weights, z))
    loss = objective.auxiliary_loss(forward)
    assert tuple(loss.shape) == (MEMBERS, BATCH), f"the auxiliary loss of {name} must be (members, batch), is {tuple(loss.shape)}"
    after = replace(forward)
    objective.terms(after)
    same = torch.allclose(objective.auxiliary_loss(after), loss, rtol=1e-9)
    assert same, f"the auxiliary loss of {name} must be the same whether or not terms left something in shared"
    gradients: tuple[Tensor | None, ...] = (None,) * len(weights)
    if loss.requires_grad:
        gradients = torch.autograd.grad(loss.sum(), list(weights.values()), allow_unused=True)
    for key, gradient in zip(weights, gradients, strict=True):
        missed = f"the auxiliary loss of {name} must reach every auxiliary weight, and does not reach {key}"
        assert gradient is not None, missed
        assert gradient.any(), missed
        assert torch.isfinite(gradient).all(), f"the auxiliary loss of {name} must have a finite gradient to {key}"
    z = forward.z.detach().clone()
    z[1] = torch.nan
    torn, others = objective.auxiliary_loss(replace(forward, z=z)), torch.tensor([0, 2])
    assert torch.equal(torn[others], loss[others]), f"{name}: NaN in one member must not reach another's auxiliary loss"


@cache
def _random_rows(size: int) -> Tensor:
    """Random weights, other ones for each member; drawn once, since a discriminator has millions."""
    return 0.05 * torch.randn(MEMBERS, size, generator=torch.Generator().manual_seed(6), dtype=torch.float64)
