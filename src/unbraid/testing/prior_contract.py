# SPDX-License-Identifier: Apache-2.0
"""The contract of a prior, ours or a plug-in's: `check_prior("my_prior")` in a test."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import torch
from torch import Tensor

from unbraid.networks.layout import Layout
from unbraid.objectives.hyper import stack
from unbraid.objectives.priors import PRIORS
from unbraid.objectives.priors.prior import UNIFORMS, Prior
from unbraid.testing.checks import check_description, refusal

MEMBERS, POINTS, LATENTS = 3, 8, 4
_DRAWS = 20_000


def check_prior(name: str, **options: Any) -> None:
    """Assert everything that plans, objectives and training rely on; messages name what fails.

    *options* make a prior of four latents where the defaults do not:
    `check_prior("anisotropic", variances=(4, 2, 1, 0.5))`.
    """
    kind = PRIORS.load(name)
    prior = kind(**options)
    check_description(name, kind)
    assert kind().key == name, f"the file of '{name}' must bear its name, not '{kind().key}'"
    _check_config(name, prior)
    _check_shapes(name, prior)
    _check_members_are_separate(name, prior)
    _check_gradients(name, prior)
    _check_density_is_that_of_the_draws(name, prior)


def _check_config(name: str, prior: Prior) -> None:
    kind = type(prior)
    assert kind(**prior.hyper()) == prior, f"{name}(**hyper()) must make the same prior"
    assert prior.problems(LATENTS) == [], (
        f"{name} with these options must suit {LATENTS} latents, says {prior.problems(LATENTS)}"
    )
    for item in dataclasses.fields(kind):
        assert "kind" in item.metadata, (
            f"{name}: {item.name} must be a number, count, choice or vector"
        )
        assert item.metadata["help"], f"{name}: {item.name} needs a help text"
        for wrong, rule in _wrong_values(item):
            message = refusal(lambda item=item, wrong=wrong: kind(**{item.name: wrong}))
            expected = f"{name}: {item.name} {rule}"
            assert message.startswith(expected), (
                f"{name}({item.name}={wrong!r}) must be refused with '{expected}...', not"
                f" '{message}'"
            )
        default = getattr(prior, item.name)
        swept = kind(**{**prior.hyper(), item.name: [default, default]}).sweep()
        assert swept == [prior, prior], f"a list for {item.name} of {name} must be a sweep"


def _wrong_values(item: dataclasses.Field[Any]) -> list[tuple[Any, str]]:
    """Values that a field of its kind must refuse, and how the message begins after the name."""
    if item.metadata["kind"] == "choice":
        return [("perhaps", "'perhaps' is unknown"), (7, "must be one of")]
    if item.metadata["kind"] == "vector":
        return [
            ((1.0, math.nan), "must be a finite number; got nan."),
            ("much", "must be numbers with slashes"),
        ]
    return [
        (math.nan, "must be a finite number; got nan."),
        ("much", "must be a number; got 'much'."),
    ]


def _stacked(prior: Prior, weights: Tensor | None = None) -> Prior:
    """The prior of several members in float64, with *weights*, one row per member."""
    layout = Layout(prior.weights(LATENTS))
    rows = torch.zeros(MEMBERS, layout.size, dtype=torch.float64) if weights is None else weights
    return stack([prior] * MEMBERS, dtype=torch.float64).bound(layout.views(rows))


def _rows(prior: Prior) -> Tensor:
    """Other weights for each member."""
    generator = torch.Generator().manual_seed(3)
    return 0.5 * torch.randn(
        MEMBERS, Layout(prior.weights(LATENTS)).size, generator=generator, dtype=torch.float64
    )


def _uniform(count: int, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(
        MEMBERS, count, LATENTS, UNIFORMS, generator=generator, dtype=torch.float64
    ).clamp(1e-9, 1.0 - 1e-9)


def _posteriors(seed: int = 2) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    mean, logvar, noise = (
        torch.randn(MEMBERS, POINTS, LATENTS, generator=generator, dtype=torch.float64)
        for _ in range(3)
    )
    return {
        "mean": mean,
        "logvar": 0.5 * logvar - 1.0,
        "z": mean + torch.exp(0.25 * logvar - 0.5) * noise,
    }


def _check_shapes(name: str, prior: Prior) -> None:
    for weight in prior.weights(LATENTS):
        assert weight.name.startswith("prior."), (
            f"{name}: the weight '{weight.name}' must be called prior.something"
        )
    stacked, plain = (
        _stacked(prior),
        prior.bound(Layout(prior.weights(LATENTS)).views(torch.zeros(1, 16 * LATENTS).double())),
    )
    points = stacked.sample(_uniform(POINTS))
    assert tuple(points.shape) == (
        MEMBERS,
        POINTS,
        LATENTS,
    ), f"{name}: sample must be (members, n, latents), is {tuple(points.shape)}"
    for what, value, alone in (
        ("log_density", stacked.log_density(points), plain.log_density(points)),
        ("kl", stacked.kl(**_posteriors()), plain.kl(**_posteriors())),
        ("sample", points, plain.sample(_uniform(POINTS))),
    ):
        shape = (MEMBERS, POINTS, LATENTS) if what == "sample" else (MEMBERS, POINTS)
        assert tuple(value.shape) == shape, (
            f"{name}: {what} must have the shape {shape}, is {tuple(value.shape)}"
        )
        assert torch.isfinite(value).all(), f"{name}: {what} must be finite at ordinary latents"
        assert torch.allclose(value, alone, rtol=1e-12), (
            f"{name}: {what} must be the same with numbers stacked to tensors"
        )


def _differentiated(
    prior: Prior, parts: dict[str, Tensor], uniform: Tensor, rows: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """A number per member made of all that a prior computes, and its gradients."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in (*parts.values(), rows)]
    bound = _stacked(prior, leaves[-1])
    points = bound.sample(uniform)
    value = (bound.kl(*leaves[:-1]) + bound.log_density(leaves[2])).sum(dim=1) + (
        points + points.square()
    ).sum(dim=(1, 2))
    gradients = torch.autograd.grad(value.sum(), leaves, materialize_grads=True)
    return value.detach(), list(gradients)


def _check_members_are_separate(name: str, prior: Prior) -> None:
    parts, uniform, rows = _posteriors(), _uniform(POINTS), _rows(prior)
    value, gradients = _differentiated(prior, parts, uniform, rows)
    # No rotation: what looks at the next member would rotate with it.
    order = torch.tensor([2, 1, 0])
    moved = {key: part[order] for key, part in parts.items()}
    turned, turned_gradients = _differentiated(prior, moved, uniform[order], rows[order])
    assert torch.equal(turned, value[order]), (
        f"{name} mixes members: values must move with the members"
    )
    for before, after in zip(gradients, turned_gradients, strict=True):
        assert torch.equal(after, before[order]), (
            f"{name} mixes members: gradients must move with the members"
        )
    torn = {key: part.clone() for key, part in parts.items()}
    for part in (*torn.values(), torn_rows := rows.clone()):
        part[1] = torch.nan
    torn_value, torn_gradients = _differentiated(prior, torn, uniform, torn_rows)
    others = torch.tensor([0, 2])
    assert torch.equal(torn_value[others], value[others]), (
        f"{name}: NaN in one member must not reach another"
    )
    for before, after in zip(gradients, torn_gradients, strict=True):
        assert torch.equal(after[others], before[others]), (
            f"{name}: NaN in one member must not reach another's gradient"
        )


def _check_gradients(name: str, prior: Prior) -> None:
    rows = _rows(prior)
    _, gradients = _differentiated(prior, _posteriors(), _uniform(POINTS), rows)
    for leaf, gradient in zip(("mean", "logvar", "z", "its weights"), gradients, strict=True):
        assert torch.isfinite(gradient).all(), f"{name}: the gradient to {leaf} must be finite"
    for weight, gradient in Layout(prior.weights(LATENTS)).views(gradients[-1]).items():
        assert gradient.any(), f"{name}: something must depend on {weight}, which is learned"


def _check_density_is_that_of_the_draws(name: str, prior: Prior) -> None:
    """Stein's identity, E_p[f(z) d log p / dz_d + df / dz_d] = 0, ties draws to the density.

    It holds for bounded f and every smooth density on the whole space, whatever its constant.
    """
    stacked = _stacked(prior, _rows(prior))
    points = stacked.sample(_uniform(_DRAWS)).detach().requires_grad_()
    (slope,) = torch.autograd.grad(stacked.log_density(points).sum(), [points])
    for direction in (
        (1.0, 0.0, 0.0, 0.0),
        (0.0, 1.0, 0.0, 0.0),
        (0.0, 0.0, 1.0, 0.0),
        (0.0, 0.0, 0.0, 2.0),
        (1.0, -0.5, 0.7, 0.2),
    ):
        along = torch.tensor(direction, dtype=torch.float64)
        angle = points.detach() @ along
        for wave, its_slope in ((angle.sin(), angle.cos()), (angle.cos(), -angle.sin())):
            parts = wave.unsqueeze(-1) * slope + its_slope.unsqueeze(-1) * along
            error = parts.std(dim=1) / math.sqrt(_DRAWS)
            far = float((parts.mean(dim=1).abs() / error).max())
            assert far < 6.0, (
                f"{name}: draws must follow log_density; they differ by {far:.1f} standard errors"
            )
