# SPDX-License-Identifier: Apache-2.0
"""The training step of a chunk of members: operations on tensors with a member axis.

Draw, unpack, forward, loss, backward, Adam, record: the same code for one member on a CPU core and
for hundreds on a GPU. Nothing in it mixes members, so a member that diverges is frozen where it
stands and its neighbours do not notice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from unbraid.core import random
from unbraid.core.random import Stream
from unbraid.data.dataset import Dataset
from unbraid.data.few_labels import LabelledSets
from unbraid.data.where_rule import TOTAL, cumulative_weights
from unbraid.networks.layers import carry_low_precision_copy
from unbraid.networks.layout import Layout
from unbraid.networks.network import TrainedWeights
from unbraid.objectives.hyper import stack
from unbraid.objectives.objective import Forward, Objective, total_loss
from unbraid.objectives.priors.prior import UNIFORMS
from unbraid.objectives.schedule import number_at, stacked_number
from unbraid.objectives.supervision.supervision import Supervision
from unbraid.population.adam import BETAS, Adam, Gradient
from unbraid.population.member import Member
from unbraid.population.plan import Plan

DRAWN_AT_ONCE = 16
"""Steps whose random numbers are drawn together, which saves launches and changes no number."""


class Draws(NamedTuple):
    """Random numbers of consecutive steps, `(members, steps, ...)` each."""

    indices: Tensor
    noise: Tensor
    permutation: Tensor | None
    """For objectives that shuffle."""
    images: Tensor | None = None
    """Which of an index's images, for datasets that have many."""
    changed: Tensor | None = None
    """For pairs: the last factor that was changed."""
    prior: Tensor | None = None
    """Uniform numbers that become points of the prior."""
    labelled: Tensor | None = None
    """Which of the labelled images: places in the labelled set."""


_STORED = tuple(item.name for item in fields(Adam) if "derived" not in item.metadata)


@dataclass
class State:
    """Everything that changes while a chunk trains."""

    step: int
    """Updates done, as the host counts them."""
    clock: Tensor
    """The same as the device counts them: int64, 0-d."""
    model: Adam
    auxiliary: Adam | None
    diverged_at: Tensor
    """Step at which a member's loss or gradient stopped being finite, else -1: `(members,)`."""
    window: Tensor
    """Sums of the recorded quantities since the last record: `(members, quantities)`."""
    history: Tensor
    """Means over `log_every` steps: `(members, records, quantities)`; NaN where none is."""
    memory: Tensor
    """What the objective remembers from step to step: `(members, names)`."""
    age: Tensor
    """Updates of a member beyond those of the clock, for Adam to count: int64 `(members,)`. Members
    that changed their batch size on the way (population-based training) have done more or fewer
    than the clock says; for all others it is 0."""

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name, as a checkpoint stores them."""
        named = {
            "diverged_at": self.diverged_at,
            "window": self.window,
            "history": self.history,
            "age": self.age,
        }
        if self.memory.shape[1]:
            named["memory"] = self.memory
        for group, adam in (("model", self.model), ("auxiliary", self.auxiliary)):
            if adam is not None:
                named |= {f"{group}.{name}": getattr(adam, name) for name in _STORED}
        return named

    @classmethod
    def from_tensors(cls, named: dict[str, Tensor], step: int, device: torch.device) -> State:
        """The inverse of `tensors`."""
        on_device = {name: tensor.to(device) for name, tensor in named.items()}
        groups = {
            group: Adam(**{name: on_device[f"{group}.{name}"] for name in _STORED})
            for group in ("model", "auxiliary")
            if f"{group}.weights" in on_device
        }
        rest = {name: on_device[name] for name in ("diverged_at", "window", "history")}
        rest["memory"] = on_device.get("memory", rest["window"].new_zeros(len(rest["window"]), 0))
        rest["age"] = on_device.get("age", torch.zeros_like(rest["diverged_at"]))
        clock = torch.full((), step, dtype=torch.int64, device=device)
        return cls(step, clock, groups["model"], groups.get("auxiliary"), **rest)


class TrainingStep:
    """The step of one chunk: what is fixed while it trains."""

    def __init__(
        self,
        plan: Plan,
        members: Sequence[Member],
        dataset: Dataset,
        device: torch.device,
        sampler: Callable[..., Tensor] | None = None,
        cumulative: Tensor | None = None,
    ) -> None:
        self.plan = plan
        self.members = tuple(members)
        self.device = device
        self.sampler = sampler or dataset.sampler(device)
        self.dataset_size = len(dataset)
        self.factor_sizes = dataset.factor_sizes
        self.fresh_images = dataset.fresh
        self.cumulative = rule_on(plan, dataset, device) if cumulative is None else cumulative
        self.sample_shape = dataset.sample_shape
        self.network = plan.build_network()
        self.likelihood = plan.build_likelihood(dataset)
        self.objective = stack([member.build() for member in members], device)
        self.prior = stack([member.build_prior() for member in members], device)
        supervisions = [member.build_supervision() for member in members]
        self.supervision = [stack(column, device) for column in zip(*supervisions, strict=True)]
        self.layout = plan.layout(members[0], dataset)
        self.network_size = self.network.layout(self.sample_shape, plan.latents).size
        self.auxiliary_network = self.objective.auxiliary_network()
        self.auxiliary_layout = (
            self.auxiliary_network.layout(plan.latents) if self.auxiliary_network else None
        )
        self.pairs = next((one.pairs for one in self.supervision if one.pairs), None)
        requests = [one.request for member in supervisions for one in member]
        self.labelled = LabelledSets.of(requests, dataset, device)
        self.seed = torch.tensor(
            [member.seed for member in members], dtype=torch.int64, device=device
        )
        self.rate = stacked_number([member.rate() for member in members], device, torch.float32)
        self.precision = plan.dtype
        self.quantities = quantities(plan, members[0])
        self._drawn: tuple[int, Draws] | None = None

    @property
    def rows(self) -> int:
        """Images of a step that are decoded again: the batch, or both images of its pairs."""
        return self.plan.batch_size * (2 if self.pairs else 1)

    def start(self) -> State:
        """Fresh weights, drawn from the members' seeds alone."""
        auxiliary = None
        if self.auxiliary_layout is not None:
            auxiliary = Adam.start(
                self.auxiliary_layout.initial(self.seed, Stream.AUXILIARY_WEIGHTS)
            )
        count, records = len(self.members), self.plan.steps // self.plan.log_every
        return State(
            step=0,
            clock=torch.zeros((), dtype=torch.int64, device=self.device),
            model=Adam.start(self.layout.initial(self.seed, Stream.INITIAL_WEIGHTS)),
            auxiliary=auxiliary,
            diverged_at=torch.full((count,), -1, dtype=torch.int64, device=self.device),
            window=torch.zeros(count, len(self.quantities), device=self.device),
            history=torch.full(
                (count, records, len(self.quantities)), torch.nan, device=self.device
            ),
            memory=torch.tensor(
                [list(self.objective.memory.values())] * count,
                dtype=torch.float32,
                device=self.device,
            ),
            age=torch.zeros(count, dtype=torch.int64, device=self.device),
        )

    def prepare(self, state: State) -> None:
        """Make what is derived from the weights and kept beside them while they train."""
        for adam in (state.model, state.auxiliary):
            if adam is not None and adam.low_precision_copy is None:
                adam.keep_low_precision_copy(self.precision)

    def forget_draws(self) -> None:
        """Free the numbers drawn ahead."""
        self._drawn = None

    def draw(self, steps: Tensor) -> Draws:
        """Every random number of *steps*, an int64 tensor `(steps,)`."""
        batch, latents, rows = self.plan.batch_size, self.plan.latents, self.rows
        noise = random.normal(
            self.seed, steps, Stream.LATENT_NOISE, (rows * self.objective.samples, latents)
        )
        indices = self._indices(steps)
        changed = shuffle = images = prior = labelled = None
        if self.pairs is not None:
            second, changed = self.pairs.second(self.seed, steps, indices, self.factor_sizes)
            indices = torch.cat([indices, second], dim=-1)
        if self.objective.permutes:
            shuffle = random.permutations(
                self.seed, steps, Stream.LATENT_PERMUTATION, latents, rows
            )
        if self.objective.needs_prior_points:
            prior = random.uniform(self.seed, steps, Stream.PRIOR_POINTS, (rows, latents, UNIFORMS))
            prior = prior + 2.0**-25  # above 0, for logarithms
        if self.labelled is not None:
            place = (
                steps.unsqueeze(-1) * batch + torch.arange(batch, device=self.device)
            ) % self.labelled.count
            labelled = place.expand(len(self.members), -1, -1)
            indices = torch.cat(
                [indices, self.labelled.indices.gather(1, labelled.flatten(1)).view_as(labelled)],
                dim=-1,
            )
        if self.fresh_images:
            images = random.words(self.seed, steps, Stream.FRESH_IMAGES, (indices.shape[-1],)) >> 1
            images[..., rows:] = 0  # a labelled image is one image, not all that share its factors
        return Draws(indices, noise, shuffle, images, changed, prior, labelled)

    def _indices(self, steps: Tensor) -> Tensor:
        """Image indices `(members, steps, batch)`: uniform, or by the plan's rule."""
        batch = self.plan.batch_size
        if self.cumulative is None:
            return random.integers(
                self.seed, steps, Stream.IMAGE_INDICES, (batch,), self.dataset_size
            )
        words = random.words(self.seed, steps, Stream.IMAGE_INDICES, (batch, 2))
        place = ((words[..., 0] << 32) | words[..., 1]) & (TOTAL - 1)
        return torch.searchsorted(self.cumulative, place, right=True)

    def step(self, state: State) -> None:
        """Advance *state* by one update, in place."""
        block = state.step - state.step % DRAWN_AT_ONCE
        if self._drawn is None or self._drawn[0] != block:
            self._drawn = (
                block,
                self.draw(torch.arange(block, block + DRAWN_AT_ONCE, device=self.device)),
            )
        self.update(state, self._drawn[1], state.step - block)
        state.step += 1

    def update(self, state: State, draws: Draws, at: int) -> None:
        """One update with step *at* of *draws*: device work alone, which a CUDA graph captures."""
        step = state.clock.to(torch.float32)
        objective, rate = self.objective.at(step), number_at(self.rate, step)
        supervision = [one.at(step) for one in self.supervision]
        leaves = self._leaves(self.layout, state.model)
        network = self.auxiliary_network
        auxiliary_leaves: dict[str, Tensor] = {}
        if self.auxiliary_layout is not None and state.auxiliary is not None:
            auxiliary_leaves = self._leaves(self.auxiliary_layout, state.auxiliary)
        forward = self._forward(objective, supervision, leaves, state, draws, at)
        if network is not None:
            seen = objective.auxiliary_input(forward)
            forward = replace(forward, auxiliary=network(auxiliary_leaves, seen, self.precision))
        terms = objective.terms(forward)
        for one in supervision:
            terms |= one.terms(forward)
        loss = total_loss(terms)
        recorded = [*(term.mean() for term in terms.values()), loss]
        # The likelihood's gradient reaches only what the loss depends on: an autoencoder's variance
        # head gets zeros.
        gradient = Gradient(self.layout, _gradients(loss, leaves, again=network is not None))
        healthy = (state.diverged_at < 0) & torch.isfinite(loss.detach()) & gradient.finite()
        if (
            state.auxiliary is not None
            and self.auxiliary_layout is not None
            and network is not None
        ):
            auxiliary_loss = objective.auxiliary_loss(forward).mean(dim=1)
            auxiliary_gradient = Gradient(
                self.auxiliary_layout, _gradients(auxiliary_loss, auxiliary_leaves)
            )
            recorded.append(auxiliary_loss)
            healthy = (
                healthy & torch.isfinite(auxiliary_loss.detach()) & auxiliary_gradient.finite()
            )
            own_rate = torch.full_like(rate, network.learning_rate)
            state.auxiliary.update(
                auxiliary_gradient, healthy, own_rate, network.adam_betas, state.clock + state.age
            )
        if isinstance(objective.decay, Tensor):
            kept = 1.0 - torch.where(healthy, rate * objective.decay, 0.0)
            state.model.weights[:, : self.network_size].mul_(kept.unsqueeze(1))
        state.model.update(gradient, healthy, rate, BETAS, state.clock + state.age)
        self._remember(state, forward, leaves, healthy)
        self._record(state, torch.stack(recorded, dim=1).detach(), healthy)

    def _forward(
        self,
        objective: Objective,
        supervision: Sequence[Supervision],
        leaves: TrainedWeights,
        state: State,
        draws: Draws,
        at: int,
    ) -> Forward:
        """Images to posteriors to latents and back, with all that was asked for."""
        chosen = (draws.indices,) if draws.images is None else (draws.indices, draws.images)
        images = self.sampler(*(part[:, at] for part in chosen))
        mean, logvar = self.network.encode(leaves, images, self.precision)
        x, rows = images, self.rows
        labelled: dict[str, Any] = {}
        if self.labelled is not None and draws.labelled is not None:
            labels = self.labelled.labels.gather(
                1, draws.labelled[:, at, :, None].expand(-1, -1, self.labelled.labels.shape[2])
            )
            labelled = {
                "labelled_mean": mean[:, rows:],
                "labels": labels,
                "label_sizes": self.labelled.sizes,
            }
            labelled["label_values"] = self.labelled.values
            x, mean, logvar = images[:, :rows], mean[:, :rows], logvar[:, :rows]
        changed = None if draws.changed is None else draws.changed[:, at]
        for one in supervision:
            mean, logvar = one.posterior(mean, logvar, changed)
        z = objective.latents(mean, logvar, draws.noise[:, at], leaves)
        prior = self.prior.at(state.clock).bound(leaves)
        if objective.samples > 1:
            x = x.repeat_interleave(objective.samples, dim=1)
        return Forward(
            reconstruction=self.network.compare(
                leaves, z, x, self.likelihood.bound(leaves), self.precision
            ),
            mean=mean,
            logvar=logvar,
            z=z,
            step=state.clock.to(torch.float32),
            permutation=None if draws.permutation is None else draws.permutation[:, at],
            prior=prior,
            prior_points=None if draws.prior is None else prior.sample(draws.prior[:, at]),
            samples=objective.samples,
            weights=leaves,
            memory=dict(zip(objective.memory, state.memory.unbind(dim=1), strict=True)),
            **labelled,
        )

    def _remember(
        self, state: State, forward: Forward, leaves: TrainedWeights, healthy: Tensor
    ) -> None:
        """Keep what the pass left for the next step: the objective's memory, running means."""
        if self.objective.memory:
            now = torch.stack(
                [forward.remembered[name].detach() for name in self.objective.memory], dim=1
            )
            state.memory.copy_(torch.where(healthy.unsqueeze(1), now, state.memory))
        views = self.layout.views(state.model.weights) if leaves.notes else {}
        for name, note in leaves.notes.items():
            kept = healthy.view(-1, *([1] * (note.dim() - 1)))
            views[name].copy_(torch.where(kept, note.detach(), views[name]))

    def _leaves(self, layout: Layout, adam: Adam) -> TrainedWeights:
        """Views of the weights that gradients can be taken of, each with its copy if it has one."""
        leaves = TrainedWeights(
            {
                name: view.detach().requires_grad_()
                for name, view in layout.views(adam.weights).items()
            }
        )
        if adam.low_precision_copy is not None:
            for name, copy in layout.views(adam.low_precision_copy).items():
                carry_low_precision_copy(leaves[name], copy)
        return leaves

    def _record(self, state: State, values: Tensor, healthy: Tensor) -> None:
        """Add this step's quantities to the window, close it when full, note who diverged."""
        broke = (state.diverged_at < 0) & ~healthy
        state.diverged_at.copy_(torch.where(broke, state.clock, state.diverged_at))
        state.window += torch.where(healthy.unsqueeze(1), values, torch.nan)
        every, records = self.plan.log_every, state.history.shape[1]
        if records > 0:
            slot = (
                torch.div(state.clock, every, rounding_mode="floor").clamp(max=records - 1).view(1)
            )
            full = (state.clock + 1) % every == 0
            old = state.history.index_select(1, slot)
            state.history.index_copy_(
                1, slot, torch.where(full, (state.window / every).unsqueeze(1), old)
            )
            state.window.copy_(torch.where(full, 0.0, state.window))
        state.clock += 1

    def finished(self, state: State) -> bool:
        """Whether no member has a step left to do: the plan is done, or all have diverged."""
        return state.step >= self.plan.steps or bool((state.diverged_at >= 0).all())


def rule_on(plan: Plan, dataset: Dataset, device: torch.device) -> Tensor | None:
    """Running totals of the weights that the plan's rule gives the images; None without a rule."""
    return (
        torch.from_numpy(cumulative_weights(plan.where, dataset)).to(device) if plan.where else None
    )


def quantities(plan: Plan, member: Member) -> tuple[str, ...]:
    """Names of what a member's history records."""
    objective = member.build()
    added = [name for one in member.build_supervision() for name in one.term_names]
    extra = ("auxiliary_loss",) if objective.auxiliary_network() is not None else ()
    return (*objective.term_names, *added, "loss", *extra)


def _gradients(loss: Tensor, leaves: dict[str, Tensor], *, again: bool = False) -> list[Tensor]:
    """Gradient of each member's own loss; members share no weights, so their sum mixes nothing."""
    return list(
        torch.autograd.grad(
            loss.sum(), list(leaves.values()), materialize_grads=True, retain_graph=again
        )
    )
