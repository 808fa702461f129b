# SPDX-License-Identifier: Apache-2.0
"""The contract of an objective, ours or a plug-in's: `check_objective("my_vae")` in a test."""

from __future__ import annotations

import dataclasses
import inspect
import math
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from unbraid.core.errors import InputError
from unbraid.core.registry import Citation
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.hyper import stack
from unbraid.objectives.objective import Forward, Objective, Setting, total_loss

MEMBERS, BATCH, LATENTS = 3, 8, 4
SETTING = Setting(LATENTS, (1, 4, 4), (3, 5), dataset_size=15)
_LEAVES = ("reconstruction", "mean", "logvar", "z")
_PARTS = ("permutation", "prior_points")
"""What else of a forward pass has a member axis, where it is there."""


def check_objective(name: str) -> None:
    """Assert all that plans, training and reports rely on, naming the promise that is broken."""
    kind = OBJECTIVES.load(name)
    _check_description(name, kind)
    _check_config(name, kind)
    _check_terms(name, kind())
    _check_reconstruction(name, kind())
    _check_members_are_separate(name, kind())
    _check_latents(name, kind())
    _check_learned(name, kind())
    _check_auxiliary(name, kind())


def _check_description(name: str, kind: type[Objective]) -> None:
    assert dataclasses.is_dataclass(kind), f"{name} must be a dataclass"
    assert kind.__dataclass_params__.frozen, f"{name} must be frozen"  # type: ignore[attr-defined]
    assert isinstance(getattr(kind, "citation", None), Citation), f"{name} needs a Citation"
    assert getattr(kind, "label", ""), f"{name} needs a label"
    first = (inspect.cleandoc(kind.__dict__.get("__doc__") or "")).split("\n\n")[:1]
    assert first, f"{name} needs a docstring; its first paragraph is the table's description"
    # A dataclass without a docstring gets its own signature for one.
    assert first[0].endswith("."), (
        f"the first docstring paragraph of {name} must be one sentence, is {first[0]!r}"
    )
    assert kind().key == name, f"the file of '{name}' must bear its name, not '{kind().key}'"


def _check_config(name: str, kind: type[Objective]) -> None:
    objective = kind()
    assert kind(**objective.hyper()) == objective, f"{name}(**hyper()) must make the same objective"
    fields = {item.name: item for item in dataclasses.fields(kind)}
    assert objective.strength is None or objective.strength in fields, (
        f"strength of {name} must be one of its fields"
    )
    for field, item in fields.items():
        assert "kind" in item.metadata, (
            f"{name}: {field} must be made by number, count, choice or vector"
        )
        assert item.metadata["help"], f"{name}: {field} needs a help text"
        if item.metadata["kind"] == "vector":
            continue
        wrongs = [
            (math.nan, "must be a finite number; got nan."),
            ("much", "must be a number; got 'much'."),
        ]
        if item.metadata["kind"] == "choice":
            wrongs = [(3, f"must be one of {', '.join(item.metadata['options'])}; got 3.")]
        for wrong, told in wrongs:
            message = ""
            try:
                kind(**{field: wrong})
            except InputError as error:
                message = str(error)
            expected = f"{name}: {field} {told}"
            assert message == expected, (
                f"{name}({field}={wrong!r}) must be an InputError that says '{expected}', not"
                f" '{message}'"
            )
        default = getattr(objective, field)
        swept = kind(**{field: [default, default]}).sweep()
        assert swept == [objective, objective], f"a list for {field} of {name} must be a sweep"


def _forward(objective: Objective) -> Forward:
    """Float64 posteriors of a few members, with what the objective asks for besides."""
    generator = torch.Generator().manual_seed(5)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    drawn = BATCH * objective.samples
    mean, logvar = normal(MEMBERS, BATCH, LATENTS), 0.5 * normal(MEMBERS, BATCH, LATENTS) - 1.0
    forward = Forward(
        reconstruction=100.0 + normal(MEMBERS, drawn),
        mean=mean,
        logvar=logvar,
        z=normal(MEMBERS, drawn, LATENTS),
        step=torch.tensor(10.0, dtype=torch.float64),
        samples=objective.samples,
    )
    more: dict[str, Any] = {}
    if objective.permutes:
        more["permutation"] = torch.rand(
            MEMBERS, LATENTS, BATCH, generator=generator, dtype=torch.float64
        ).argsort(dim=-1)
    if objective.needs_prior_points:
        more["prior_points"] = normal(MEMBERS, BATCH, LATENTS)
    forward = replace(forward, **more)
    return _of_members(objective, forward, torch.arange(MEMBERS))


def _of_members(objective: Objective, forward: Forward, members: Tensor) -> Forward:
    """*forward* with learned numbers, memory and auxiliary network of these members."""
    weights = {name: rows[members] for name, rows in _learned(objective).items()}
    memory = {name: value + 0.1 * members.double() for name, value in objective.memory.items()}
    return _with_auxiliary(objective, replace(forward, weights=weights, memory=memory), members)


def _learned(objective: Objective) -> dict[str, Tensor]:
    """Learned numbers of the members, near where they start."""
    generator = torch.Generator().manual_seed(9)
    return {
        weight.name: (
            weight.start
            + 0.1 * torch.randn(MEMBERS, *weight.shape, generator=generator, dtype=torch.float64)
        )
        for weight in objective.weights(SETTING)
    }


def _with_auxiliary(objective: Objective, forward: Forward, members: Tensor) -> Forward:
    """*forward* with what the auxiliary network of these members says, other weights for each."""
    network = objective.auxiliary_network()
    if network is None:
        return forward
    layout = network.layout(LATENTS)
    weights = layout.views(_random_rows(layout.size)[members])
    return replace(forward, auxiliary=network(weights, objective.auxiliary_input(forward)))


def _differentiated(
    objective: Objective, forward: Forward, members: Tensor
) -> tuple[Tensor, dict[str, Tensor]]:
    """Loss of each member and its gradients, zeros where it does not depend on the tensor."""
    leaves = {leaf: getattr(forward, leaf).detach().clone().requires_grad_() for leaf in _LEAVES}
    followed = _with_auxiliary(objective, replace(forward, **leaves), members)
    loss = total_loss(objective.terms(followed))
    gradients = torch.autograd.grad(loss.sum(), list(leaves.values()), materialize_grads=True)
    return loss.detach(), dict(zip(_LEAVES, gradients, strict=True))


def _check_terms(name: str, objective: Objective) -> None:
    terms = objective.terms(_forward(objective))
    assert tuple(terms) == objective.term_names, (
        f"terms of {name} are {tuple(terms)}, term_names {objective.term_names}"
    )
    assert "reconstruction" in terms, f"{name} needs a term called reconstruction"
    for term_name, term in terms.items():
        shape = tuple(term.value.shape)
        allowed = ((MEMBERS, BATCH), (MEMBERS, BATCH * objective.samples), (MEMBERS,))
        assert shape in allowed, (
            f"{name}: {term_name} must be (members, batch) or (members,), is {shape}"
        )
        assert torch.isfinite(term.value).all(), (
            f"{name}: {term_name} must be finite on ordinary posteriors"
        )
    loss, gradients = _differentiated(objective, _forward(objective), torch.arange(MEMBERS))
    assert tuple(loss.shape) == (MEMBERS,), f"the loss of {name} must have one entry per member"
    for leaf, gradient in gradients.items():
        assert torch.isfinite(gradient).all(), f"{name}: the gradient to {leaf} must be finite"
    share = torch.full((MEMBERS, BATCH), 1.0 / BATCH, dtype=torch.float64)
    counted = gradients["reconstruction"].view(MEMBERS, BATCH, objective.samples).sum(dim=-1)
    assert torch.allclose(counted, share), (
        f"{name} must count the reconstruction once, as a mean over the batch"
    )
    together = total_loss(
        stack([objective] * MEMBERS, dtype=torch.float64).terms(_forward(objective))
    )
    assert torch.allclose(together, loss, rtol=1e-12), (
        f"{name} must give the same loss with its numbers stacked to tensors"
    )


def _check_reconstruction(name: str, objective: Objective) -> None:
    """Terms that are computed beside the decoder must not read what it has not made yet."""
    if objective.reads_reconstruction:
        return
    forward = _forward(objective)
    unknown = replace(forward, reconstruction=torch.full_like(forward.reconstruction, math.nan))
    stacked = stack([objective] * MEMBERS, dtype=torch.float64)
    for term, value in stacked.terms(unknown).items():
        assert value.value is unknown.reconstruction or not value.value.isnan().any(), (
            f"{name}: reads_reconstruction must be True, since {term} is computed from it"
        )


def _check_members_are_separate(name: str, objective: Objective) -> None:
    forward, members = _forward(objective), torch.arange(MEMBERS)
    loss, gradients = _differentiated(objective, forward, members)
    # No rotation: a term that looks at the next member would rotate with it.
    order = torch.tensor([2, 1, 0])
    moved: dict[str, Any] = {leaf: getattr(forward, leaf)[order] for leaf in _LEAVES}
    for part in _PARTS:
        if (value := getattr(forward, part)) is not None:
            moved[part] = value[order]
    turned = _of_members(objective, replace(forward, **moved), order)
    turned_loss, turned_gradients = _differentiated(objective, turned, order)
    assert torch.equal(turned_loss, loss[order]), (
        f"{name} mixes members: losses must move with the members"
    )
    for leaf in _LEAVES:
        same = torch.equal(turned_gradients[leaf], gradients[leaf][order])
        assert same, f"{name} mixes members: gradients to {leaf} must move with the members"
    torn = {leaf: getattr(forward, leaf).clone() for leaf in _LEAVES}
    for tensor in torn.values():
        tensor[1] = torch.nan
    torn_loss, torn_gradients = _differentiated(objective, replace(forward, **torn), members)
    others = torch.tensor([0, 2])
    assert torch.equal(torn_loss[others], loss[others]), (
        f"{name}: NaN in one member must not reach another's loss"
    )
    for leaf in _LEAVES:
        same = torch.equal(torn_gradients[leaf][others], gradients[leaf][others])
        assert same, f"{name}: NaN in one member must not reach another's gradient to {leaf}"


def _check_latents(name: str, objective: Objective) -> None:
    """Latents have the shape of the noise, and a NaN in one member reaches no other."""
    forward = _forward(objective)
    noise = torch.randn(
        forward.z.shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64
    )

    def latents(mean: Tensor) -> Tensor:
        return objective.latents(mean, forward.logvar, noise, forward.weights)

    found = latents(forward.mean)
    shape = tuple(forward.z.shape)
    assert tuple(found.shape) == shape, (
        f"{name}: latents must have the shape {shape}, have {tuple(found.shape)}"
    )
    assert torch.isfinite(found).all(), f"{name}: latents must be finite on ordinary posteriors"
    torn_mean = forward.mean.clone()
    torn_mean[1] = torch.nan
    others = torch.tensor([0, 2])
    assert torch.equal(latents(torn_mean)[others], found[others]), (
        f"{name}: NaN in one member must not reach another's latents"
    )
    for tensor in objective.representation(forward.mean, forward.logvar, forward.weights):
        assert tensor.shape == forward.mean.shape, (
            f"{name}: the representation must have the posteriors' shape"
        )


def _check_learned(name: str, objective: Objective) -> None:
    """Learned numbers bear the objective's prefix and follow the loss; all memory is written."""
    forward = _forward(objective)
    weights = {key: value.clone().requires_grad_() for key, value in forward.weights.items()}
    assert all(key.startswith("objective.") for key in weights), (
        f"{name}: learned numbers must be called objective.*"
    )
    followed = replace(forward, weights=weights)
    z = objective.latents(forward.mean, forward.logvar, torch.zeros_like(forward.z), weights)
    loss = total_loss(objective.terms(replace(followed, z=z)))
    if weights:
        gradients = torch.autograd.grad(
            loss.sum() + z.square().sum(), list(weights.values()), allow_unused=True
        )
        for key, gradient in zip(weights, gradients, strict=True):
            assert gradient is not None, f"the loss of {name} must reach {key}"
            assert torch.isfinite(gradient).all(), (
                f"the loss of {name} must have a finite gradient to {key}"
            )
    after = replace(forward)
    objective.terms(after)
    assert set(after.remembered) == set(objective.memory), (
        f"terms of {name} must remember {', '.join(objective.memory)}"
    )
    for key, value in after.remembered.items():
        assert tuple(value.shape) == (MEMBERS,), (
            f"{name}: what is remembered as {key} must have one entry per member"
        )


def _check_auxiliary(name: str, objective: Objective) -> None:
    network = objective.auxiliary_network()
    if network is None:
        return
    assert network.learning_rate > 0, f"the auxiliary network of {name} needs a learning rate"
    layout = network.layout(LATENTS)
    weights = {
        key: view.clone().requires_grad_()
        for key, view in layout.views(_random_rows(layout.size)).items()
    }
    # As in training the latents depend on the encoder; the loss may depend on them, but is followed
    # by these weights alone.
    forward = _forward(objective)
    forward = replace(forward, z=forward.z.requires_grad_())
    seen = objective.auxiliary_input(forward)
    loss = objective.auxiliary_loss(replace(forward, auxiliary=network(weights, seen)))
    assert loss.dim() == 2, f"the auxiliary loss of {name} must be (members, n)"
    assert len(loss) == MEMBERS, f"the auxiliary loss of {name} must be (members, n)"
    gradients: tuple[Tensor | None, ...] = (None,) * len(weights)
    if loss.requires_grad:
        gradients = torch.autograd.grad(loss.sum(), list(weights.values()), allow_unused=True)
    for key, gradient in zip(weights, gradients, strict=True):
        missed = (
            f"the auxiliary loss of {name} must reach every auxiliary weight, and does not reach"
            f" {key}"
        )
        assert gradient is not None, missed
        assert gradient.any(), missed
        assert torch.isfinite(gradient).all(), (
            f"the auxiliary loss of {name} must have a finite gradient to {key}"
        )
    z = forward.z.detach().clone()
    z[1] = torch.nan
    broken = replace(forward, z=z)
    broken = replace(broken, auxiliary=network(weights, objective.auxiliary_input(broken)))
    torn, others = objective.auxiliary_loss(broken), torch.tensor([0, 2])
    assert torch.equal(torn[others], loss[others]), (
        f"{name}: NaN in one member must not reach another's auxiliary loss"
    )


@cache
def _random_rows(size: int) -> Tensor:
    """Random weights of each member; drawn once, since a discriminator has millions."""
    return 0.05 * torch.randn(
        MEMBERS, size, generator=torch.Generator().manual_seed(6), dtype=torch.float64
    )
