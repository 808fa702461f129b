# SPDX-License-Identifier: Apache-2.0
"""One training step for a chunk of members, as a pure program over tensors with a member axis.

Draw, unpack, forward, loss, backward, Adam, record: the same code for one member on a CPU core and for hundreds on a GPU.
Nothing in it mixes members, so a member that diverges is frozen where it stands and its neighbours do not notice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from unbraid import random
from unbraid.data.dataset import Dataset
from unbraid.networks.layout import Layout
from unbraid.objectives.likelihoods import likelihood as find_likelihood
from unbraid.objectives.objective import Forward, stack, total_loss
from unbraid.population.plan import Member, Plan
from unbraid.random import Stream

_DRAWN_AT_ONCE = 16
"""Steps whose random numbers are drawn together, to spread the cost of launching; the numbers do not depend on it."""

ADAM_BETAS = (0.9, 0.999)
ADAM_EPSILON = 1e-8


@dataclass
class Adam:
    """Weights of one optimiser group with Adam's two running means, each `(members, size)`."""

    weights: Tensor
    gradient_mean: Tensor
    gradient_square: Tensor

    @classmethod
    def start(cls, weights: Tensor) -> Adam:
        """Fresh running means."""
        return cls(weights, torch.zeros_like(weights), torch.zeros_like(weights))

    def update(self, gradient: Tensor, healthy: Tensor, rate: Tensor, betas: tuple[float, float], updates_before: int) -> None:
        """One step of Adam (Kingma and Ba 2015, algorithm 1), in place; members that are not *healthy* keep every bit."""
        first, second = betas
        take_first = torch.where(healthy, 1.0 - first, 0.0).unsqueeze(1)
        take_second = torch.where(healthy, 1.0 - second, 0.0).unsqueeze(1)
        gradient = torch.where(healthy.unsqueeze(1), gradient, 0.0)
        self.gradient_mean.lerp_(gradient, take_first)
        self.gradient_square.lerp_(gradient.square_(), take_second)
        count = updates_before + 1
        size = self.gradient_square.sqrt().mul_((1.0 - second**count) ** -0.5).add_(ADAM_EPSILON)
        pace = torch.where(healthy, rate / (1.0 - first**count), 0.0).unsqueeze(1)
        self.weights.sub_(torch.div(self.gradient_mean, size, out=size).mul_(pace))


@dataclass
class State:
    """Everything that changes while a chunk trains."""

    step: int
    model: Adam
    auxiliary: Adam | None
    diverged_at: Tensor
    """Step at which a member's loss or gradient stopped being finite, else -1: int64 `(members,)`."""
    window: Tensor
    """Sums of the recorded quantities since the last record: `(members, quantities)`."""
    history: Tensor
    """Means over `log_every` steps: `(members, records, quantities)`; NaN where nothing is recorded."""

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name, as a checkpoint stores them."""
        named = {"diverged_at": self.diverged_at, "window": self.window, "history": self.history}
        for group, adam in (("model", self.model), ("auxiliary", self.auxiliary)):
            if adam is not None:
                named |= {f"{group}.{item.name}": getattr(adam, item.name) for item in fields(Adam)}
        return named

    @classmethod
    def from_tensors(cls, named: dict[str, Tensor], step: int, device: torch.device) -> State:
        """The inverse of `tensors`."""
        on_device = {name: tensor.to(device) for name, tensor in named.items()}
        groups = {
            group: Adam(**{item.name: on_device[f"{group}.{item.name}"] for item in fields(Adam)})
            for group in ("model", "auxiliary")
            if f"{group}.weights" in on_device
        }
        rest = {name: on_device[name] for name in ("diverged_at", "window", "history")}
        return cls(step, groups["model"], groups.get("auxiliary"), **rest)


class Program:
    """The step of one chunk: what is fixed while it trains."""

    def __init__(self, plan: Plan, members: Sequence[Member], dataset: Dataset, device: torch.device, sampler=None) -> None:
        self.plan = plan
        self.members = tuple(members)
        self.device = device
        self.sampler = sampler or dataset.sampler(device)
        self.dataset_size = len(dataset)
        self.sample_shape = dataset.sample_shape
        self.network = plan.build_network()
        self.layout = self.network.layout(self.sample_shape, plan.latents)
        self.likelihood = find_likelihood(plan.likelihood, bounded=dataset.bounded)
        self.objective = stack([member.build() for member in members], device)
        self.auxiliary_network = self.objective.auxiliary_network()
        self.auxiliary_layout = self.auxiliary_network.layout(plan.latents) if self.auxiliary_network else None
        self.seed = torch.tensor([member.seed for member in members], dtype=torch.int64, device=device)
        self.rate = torch.tensor([member.learning_rate for member in members], dtype=torch.float32, device=device)
        self.precision = {"float32": torch.float32, "bfloat16": torch.bfloat16}[plan.precision]
        self.quantities = quantities(plan, members[0])
        self._drawn: tuple[int, tuple[Tensor, Tensor, Tensor | None]] | None = None

    def start(self) -> State:
        """Fresh weights, drawn from the members' seeds alone."""
        auxiliary = None
        if self.auxiliary_layout is not None:
            auxiliary = Adam.start(self.auxiliary_layout.initial(self.seed, Stream.AUXILIARY_WEIGHTS))
        count, records = len(self.members), self.plan.steps // self.plan.log_every
        return State(
            step=0,
            model=Adam.start(self.layout.initial(self.seed, Stream.INITIAL_WEIGHTS)),
            auxiliary=auxiliary,
            diverged_at=torch.full((count,), -1, dtype=torch.int64, device=self.device),
            window=torch.zeros(count, len(self.quantities), device=self.device),
            history=torch.full((count, records, len(self.quantities)), torch.nan, device=self.device),
        )

    def _draw(self, step: int) -> tuple[Tensor, Tensor, Tensor | None]:
        """Image indices, latent noise and (where the objective shuffles) permutations of one step."""
        block = step - step % _DRAWN_AT_ONCE
        if self._drawn is None or self._drawn[0] != block:
            steps = torch.arange(block, block + _DRAWN_AT_ONCE, device=self.device)
            batch, latents = self.plan.batch_size, self.plan.latents
            indices = random.integers(self.seed, steps, Stream.IMAGE_INDICES, (batch,), self.dataset_size)
            noise = random.normal(self.seed, steps, Stream.LATENT_NOISE, (batch, latents))
            shuffle = (
                random.permutations(self.seed, steps, Stream.LATENT_PERMUTATION, latents, batch)
                if self.objective.permutes
                else None
            )
            self._drawn = (block, (indices, noise, shuffle))
        indices, noise, shuffle = self._drawn[1]
        at = step - block
        return indices[:, at], noise[:, at], None if shuffle is None else shuffle[:, at]

    def step(self, state: State) -> None:
        """Advance *state* by one update, in place."""
        indices, noise, permutation = self._draw(state.step)
        x = self.sampler(indices)
        leaves = _leaves(self.layout, state.model.weights)
        mean, logvar = self.network.encode(leaves, x, self.precision)
        z = mean + torch.exp(0.5 * logvar) * noise if self.objective.samples_latents else mean
        raw = self.network.decode(leaves, z, self.sample_shape, self.precision)
        auxiliary_leaves = (
            _leaves(self.auxiliary_layout, state.auxiliary.weights) if self.auxiliary_layout and state.auxiliary else {}
        )
        network = self.auxiliary_network
        forward = Forward(
            reconstruction=self.likelihood.negative_log(raw, x),
            mean=mean,
            logvar=logvar,
            z=z,
            step=torch.full((), state.step, dtype=torch.float32, device=self.device),
            permutation=permutation,
            auxiliary=(lambda latents: network(auxiliary_leaves, latents)) if network else None,
        )
        terms = self.objective.terms(forward)
        loss = total_loss(terms)
        recorded = [*(term.mean() for term in terms.values()), loss]
        # The likelihood's gradient reaches only what the loss depends on: an autoencoder's variance head gets zeros.
        gradient = self.layout.rows(_gradients(loss, leaves))
        healthy = (state.diverged_at < 0) & torch.isfinite(loss.detach()) & torch.isfinite(gradient.sum(dim=1))
        if state.auxiliary is not None and self.auxiliary_layout is not None and network is not None:
            auxiliary_loss = self.objective.auxiliary_loss(forward).mean(dim=1)
            auxiliary_gradient = self.auxiliary_layout.rows(_gradients(auxiliary_loss, auxiliary_leaves))
            recorded.append(auxiliary_loss)
            healthy = healthy & torch.isfinite(auxiliary_loss.detach()) & torch.isfinite(auxiliary_gradient.sum(dim=1))
            rate = torch.full_like(self.rate, network.learning_rate)
            state.auxiliary.update(auxiliary_gradient, healthy, rate, network.adam_betas, state.step)
        state.model.update(gradient, healthy, self.rate, ADAM_BETAS, state.step)
        self._record(state, torch.stack(recorded, dim=1).detach(), healthy)

    def _record(self, state: State, values: Tensor, healthy: Tensor) -> None:
        """Add this step's quantities to the window, close the window when it is full, and note who diverged."""
        broke = (state.diverged_at < 0) & ~healthy
        state.diverged_at = torch.where(broke, state.step, state.diverged_at)
        state.window += torch.where(healthy.unsqueeze(1), values, torch.nan)
        state.step += 1
        if state.step % self.plan.log_every == 0:
            state.history[:, state.step // self.plan.log_every - 1] = state.window / self.plan.log_every
            state.window = torch.zeros_like(state.window)

    def finished(self, state: State) -> bool:
        """Whether no member has a step left to do: the plan is done, or all have diverged."""
        return state.step >= self.plan.steps or bool((state.diverged_at >= 0).all())


def quantities(plan: Plan, member: Member) -> tuple[str, ...]:
    """Names of what a member's history records."""
    objective = member.build()
    extra = ("auxiliary_loss",) if objective.auxiliary_network() is not None else ()
    return (*objective.term_names, "loss", *extra)


def _leaves(layout: Layout, rows: Tensor) -> dict[str, Tensor]:
    """Views of the weights that gradients can be taken of."""
    return {name: view.detach().requires_grad_() for name, view in layout.views(rows).items()}


def _gradients(loss: Tensor, leaves: dict[str, Tensor]) -> list[Tensor]:
    """Gradient of each member's own loss; adding up members mixes nothing, since none depends on another's weights."""
    return list(torch.autograd.grad(loss.sum(), list(leaves.values()), materialize_grads=True))
