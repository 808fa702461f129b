# SPDX-License-Identifier: Apache-2.0
"""The training step of a chunk of members: operations on tensors with a member axis.

Draw, unpack, forward, loss, backward, Adam, record: the same code for one member on a CPU core and
for hundreds on a GPU. Members of several kinds (`kind`) share the passes through the network, the
random numbers and Adam; the terms of the loss are computed once for each kind. Nothing mixes
members, so a member that diverges is frozen where it stands and its neighbours do not notice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from unbraid.core.random import Stream
from unbraid.data.dataset import Dataset
from unbraid.data.few_labels import LabelledSets
from unbraid.networks.layers import carry_low_precision_copy, no_gradients_of
from unbraid.networks.layout import Layout, Weight
from unbraid.networks.network import TrainedWeights
from unbraid.networks.weight_gradients import WeightGradients
from unbraid.objectives.objective import Forward, Objective, total_loss
from unbraid.objectives.schedule import number_at, stacked_number, tensors_of
from unbraid.objectives.supervision.supervision import Supervision
from unbraid.population.adam import BETAS, Adam, Gradient
from unbraid.population.draws import Drawing, Draws, rule_on
from unbraid.population.kind import Kind, joined, kinds_of
from unbraid.population.member import Member
from unbraid.population.plan import Plan
from unbraid.population.side_streams import SideStreams
from unbraid.population.state import State, is_over

DRAWN_AT_ONCE = 16
"""Steps whose random numbers are drawn together, which saves launches and changes no number."""
LEARNED = "learned"
"""The name under which a chunk's rows hold what is learned beside the network."""


_NOT_DECODED = torch.empty(0)
"""Stands for the reconstruction until there is one."""


@dataclass
class _Pass:
    """One kind's part of a step."""

    kind: Kind
    objective: Objective
    """With the numbers of this step, as the next."""
    supervision: list[Supervision]
    forward: Forward
    network: Adam | None = None
    """The optimiser of its auxiliary networks."""
    network_leaves: TrainedWeights | None = None


class _Lesson(NamedTuple):
    """What auxiliary networks learn in a step."""

    gradient: Gradient
    finite: Tensor
    """Of which members: `(members of the kind,)`."""


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
        self.dataset = dataset
        self.device = device
        self.sampler = sampler or dataset.sampler(device)
        if cumulative is None:
            cumulative = rule_on(plan, dataset, device)
        self.network = plan.build_network()
        self.likelihood = plan.build_likelihood(dataset)
        self.kinds: list[Kind] = []
        for part in kinds_of(members):
            first = self.kinds[-1].place.stop if self.kinds else 0
            self.kinds.append(Kind(plan, part, first, dataset, device))
        own = self.network.layout(dataset.sample_shape, plan.latents)
        self.network_size = own.size
        learned = max(kind.layout.size for kind in self.kinds) - own.size
        self.layout = own.with_more((Weight(LEARNED, (learned,)),)) if learned else own
        requests = [one.request for member in members for one in member.build_supervision()]
        self.labelled = LabelledSets.of(requests, dataset, device)
        self.draw = Drawing(plan, self.kinds, dataset, device, self.labelled, cumulative)
        self.rate = stacked_number([member.rate() for member in members], device, torch.float32)
        self.precision = plan.dtype
        apart = len(self.kinds) > 1 or self.kinds[0].auxiliary_network is not None
        self.beside = SideStreams(device, len(self.kinds) if apart else 0)
        self.weights_beside = True
        """Whether gradients of weights are made beside the rest of a backward pass on a GPU."""
        self._drawn: tuple[int, Draws] | None = None

    def numbers(self) -> dict[str, Tensor]:
        """What members of the same kinds may differ in, by name: seeds and hyperparameters."""
        found = {"rate": self.rate} | {"seed": self.draw.seed}
        for place, kind in enumerate(self.kinds):
            configured = [kind.objective, kind.prior, *kind.supervision]
            found |= {f"{place}.seed": kind.seed}
            for number, one in enumerate(configured):
                found |= {f"{place}.{number}.{name}": value for name, value in vars(one).items()}
        return tensors_of(found)

    def can_become(self, other: TrainingStep) -> bool:
        """Whether only numbers of members tell it from *other*, on the same data and device."""
        same = self.labelled is None and other.labelled is None
        same &= replace(self.plan, members=()) == replace(other.plan, members=())
        same &= [one.structure() for one in self.members] == [
            one.structure() for one in other.members
        ]
        return same and self.numbers().keys() == other.numbers().keys()

    def become(self, other: TrainingStep) -> None:
        """Train the members of *other* from now on: its numbers are written in place, where a
        captured step reads them.
        """
        theirs = other.numbers()
        for name, number in self.numbers().items():
            number.copy_(theirs[name])
        self.forget_draws()

    @property
    def rows(self) -> int:
        """Images of a step that are decoded again."""
        return self.draw.rows

    def start(self) -> State:
        """Fresh weights, drawn from the members' seeds alone."""
        count, records = len(self.members), self.plan.steps // self.plan.log_every
        width = max(len(kind.quantities) for kind in self.kinds)
        names = max(len(kind.objective.memory) for kind in self.kinds)
        memory = torch.zeros(count, names)
        for kind in self.kinds:
            first = list(kind.objective.memory.values())
            memory[kind.place, : len(first)] = torch.tensor(first, dtype=torch.float32)
        return State(
            step=0,
            clock=torch.zeros((), dtype=torch.int64, device=self.device),
            model=Adam.start(
                torch.cat(
                    [
                        _padded(
                            kind.layout.initial(kind.seed, Stream.INITIAL_WEIGHTS), self.layout.size
                        )
                        for kind in self.kinds
                    ]
                ),
                amsgrad=self.plan.amsgrad,
            ),
            auxiliary=tuple(
                Adam.start(kind.auxiliary_layout.initial(kind.seed, Stream.AUXILIARY_WEIGHTS))
                for kind in self.kinds
                if kind.auxiliary_layout is not None
            ),
            diverged_at=torch.full((count,), -1, dtype=torch.int64, device=self.device),
            window=torch.zeros(count, width, device=self.device),
            history=torch.full((count, records, width), torch.nan, device=self.device),
            memory=memory.to(self.device),
            age=torch.zeros(count, dtype=torch.int64, device=self.device),
        )

    def extended(self, state: State) -> State:
        """*state* with room for the records of a plan that was given more steps."""
        more = self.plan.steps // self.plan.log_every - state.history.shape[1]
        if more > 0:
            state.history = F.pad(state.history, (0, 0, 0, more), value=torch.nan)
        return state

    def prepare(self, state: State) -> None:
        """Make what is derived from the weights and kept beside them while they train."""
        for adam in state.optimisers:
            if adam.low_precision_copy is None:
                adam.keep_low_precision_copy(self.precision)

    def forget_draws(self) -> None:
        """Free the numbers drawn ahead."""
        self._drawn = None

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
        rate = number_at(self.rate, state.clock.to(torch.float32))
        leaves = self._leaves(self.layout, state.model)
        passes = self._forward(leaves, state, draws, at)
        losses, recorded = [], []
        for number, one in enumerate(passes):
            beside_decoder = not one.objective.reads_reconstruction
            with (self.beside.go_on if beside_decoder else self.beside.start)(number):
                terms = one.objective.terms(one.forward)
            with self.beside.start(number):
                for supervision in one.supervision:
                    terms |= supervision.terms(one.forward)
                losses.append(total_loss(terms))
                recorded.append([*(term.mean() for term in terms.values()), losses[-1]])
        self.beside.join()
        loss, again = joined(losses), any(one.network for one in passes)
        # The likelihood's gradient reaches only what the loss depends on: an autoencoder's variance
        # head gets zeros.
        with contextlib.ExitStack() as spared:
            for adam in state.auxiliary:
                spared.enter_context(no_gradients_of(adam.weights))
            gradient = Gradient(
                self.layout, _gradients(loss, leaves, again=again, beside=self.weights_beside)
            )
        healthy = (state.diverged_at < 0) & torch.isfinite(loss.detach()) & gradient.finite()
        # Before any stream reads it: the clock goes on in the main one.
        counts = state.clock + state.age
        if again:
            lessons = [self._lesson(*one) for one in enumerate(zip(passes, recorded, strict=True))]
            self.beside.join()
            finite = [
                torch.ones_like(healthy[one.kind.place]) if lesson is None else lesson.finite
                for one, lesson in zip(passes, lessons, strict=True)
            ]
            healthy = healthy & joined(finite)
            self._teach(passes, lessons, healthy, counts)
        for one in passes:
            if isinstance(one.objective.decay, Tensor):
                here = one.kind.place
                kept = 1.0 - torch.where(healthy[here], rate[here] * one.objective.decay, 0.0)
                state.model.weights[here, : self.network_size].mul_(kept.unsqueeze(1))
        state.model.update(gradient, healthy, rate, BETAS, counts)
        self._remember(state, passes, leaves, healthy)
        values = [
            _padded(torch.stack(some, dim=1).detach(), state.window.shape[1]) for some in recorded
        ]
        state.record(joined(values), healthy, self.plan.log_every)
        self.beside.join()

    def _lesson(self, number: int, given: tuple[_Pass, list[Tensor]]) -> _Lesson | None:
        """What a kind's auxiliary networks learn in this step, and their loss in the records."""
        one, recorded = given
        layout = one.kind.auxiliary_layout
        if layout is None or one.network_leaves is None:
            return None
        # Beside the derivative of the model's own loss, which the stream does not wait for.
        with self.beside.go_on(number):
            loss = one.objective.auxiliary_loss(one.forward).mean(dim=1)
            recorded.append(loss)
            gradient = Gradient(layout, _gradients(loss, one.network_leaves, beside=False))
            return _Lesson(gradient, torch.isfinite(loss.detach()) & gradient.finite())

    def _teach(
        self,
        passes: list[_Pass],
        lessons: Sequence[_Lesson | None],
        healthy: Tensor,
        counts: Tensor,
    ) -> None:
        """Update the auxiliary networks of *healthy* members, which have done *counts* updates."""
        for number, (one, lesson) in enumerate(zip(passes, lessons, strict=True)):
            network, here = one.kind.auxiliary_network, one.kind.place
            if lesson is not None and network is not None and one.network is not None:
                with self.beside.start(number):
                    one.network.update(
                        lesson.gradient,
                        healthy[here],
                        torch.full_like(lesson.finite, network.learning_rate, dtype=torch.float32),
                        network.adam_betas,
                        counts[here],
                    )

    def _forward(self, leaves: TrainedWeights, state: State, draws: Draws, at: int) -> list[_Pass]:
        """Images to posteriors to latents and back, with all that was asked for, for each kind."""
        chosen = (draws.indices,) if draws.images is None else (draws.indices, draws.images)
        images = self.sampler(*(part[:, at] for part in chosen))
        mean, logvar = self.network.encode(leaves, images, self.precision)
        x, rows = images, self.rows
        labelled: list[dict[str, Any]] = [{} for _ in self.kinds]
        if self.labelled is not None and draws.labelled is not None:
            labelled = self._labelled(self._split(mean[:, rows:]), draws.labelled[:, at])
            x, mean, logvar = images[:, :rows], mean[:, :rows], logvar[:, :rows]
        means, logvars = self._split(mean), self._split(logvar)
        step = state.clock.to(torch.float32)
        behind = leaves.get(LEARNED)
        learned = [kind.learned(behind) if behind is not None else {} for kind in self.kinds]
        numbers = [
            (kind.objective.at(step), [one.at(step) for one in kind.supervision])
            for kind in self.kinds
        ]
        networks = iter(state.auxiliary)
        passes = []
        for number, (kind, (objective, supervision)) in enumerate(
            zip(self.kinds, numbers, strict=True)
        ):
            with self.beside.start(number):
                mean, logvar = means[number], logvars[number]
                changed = None if draws.changed is None else draws.changed[kind.place, at]
                for one in supervision:
                    mean, logvar = one.posterior(mean, logvar, changed)
                prior = kind.prior.at(state.clock).bound(learned[number])
                permutation, points = draws.permutations[number], draws.prior[number]
                memory = state.memory[kind.place].unbind(dim=1)
                forward = Forward(
                    reconstruction=_NOT_DECODED,
                    mean=mean,
                    logvar=logvar,
                    z=objective.latents(mean, logvar, draws.noise[kind.place, at], learned[number]),
                    step=step,
                    permutation=None if permutation is None else permutation[:, at],
                    prior=prior,
                    prior_points=None if points is None else prior.sample(points[:, at]),
                    samples=self.draw.samples,
                    weights=learned[number],
                    memory=dict(zip(objective.memory, memory, strict=False)),
                    **labelled[number],
                )
                passes.append(_Pass(kind, objective, supervision, forward))
        self.beside.join()
        if self.draw.samples > 1:
            x = x.repeat_interleave(self.draw.samples, dim=1)
        likelihood = self.likelihood.bound(
            {
                weight.name: joined([own[weight.name] for own in learned])
                for weight in self.likelihood.weights
            }
        )
        z = joined([one.forward.z for one in passes])
        for number, one in enumerate(passes):
            network, layout = one.kind.auxiliary_network, one.kind.auxiliary_layout
            if network is not None and layout is not None:
                # Beside the decoder, for which the stream does not wait.
                with self.beside.go_on(number):
                    one.network = next(networks)
                    one.network_leaves = self._leaves(layout, one.network)
                    seen = one.objective.auxiliary_input(one.forward)
                    said = network(one.network_leaves, seen, self.precision)
                    one.forward = replace(one.forward, auxiliary=said)
        compared = self.network.compare(leaves, z, x, likelihood, self.precision)
        for one, reconstruction in zip(passes, self._split(compared), strict=True):
            one.forward = replace(one.forward, reconstruction=reconstruction)
        return passes

    def _labelled(self, means: Sequence[Tensor], places: Tensor) -> list[dict[str, Any]]:
        """What the labels of a step say, for each kind: its *means* of the labelled images, which
        are those at *places* of its set.
        """
        assert self.labelled is not None
        labels = self.labelled.labels.gather(
            1, places.unsqueeze(-1).expand(-1, -1, self.labelled.labels.shape[2])
        )
        return [
            {
                "labelled_mean": mean,
                "labels": labels[kind.place],
                "label_sizes": self.labelled.sizes[kind.place],
                "label_values": self.labelled.values,
            }
            for kind, mean in zip(self.kinds, means, strict=True)
        ]

    def _split(self, tensor: Tensor) -> Sequence[Tensor]:
        """The rows of each kind; the gradients of all come back as one."""
        if len(self.kinds) == 1:
            return (tensor,)
        return tensor.split([len(kind.members) for kind in self.kinds])

    def _remember(
        self, state: State, passes: list[_Pass], leaves: TrainedWeights, healthy: Tensor
    ) -> None:
        """Keep what the pass left for the next step: the objectives' memory, running means."""
        for one in passes:
            if one.objective.memory:
                now = torch.stack(
                    [one.forward.remembered[name].detach() for name in one.objective.memory], dim=1
                )
                kept = state.memory[one.kind.place, : now.shape[1]]
                kept.copy_(torch.where(healthy[one.kind.place].unsqueeze(1), now, kept))
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

    def finished(self, state: State) -> bool:
        """Whether no member has a step left to do."""
        return is_over(state.step, state.diverged_at, self.plan.steps)


def _padded(rows: Tensor, width: int) -> Tensor:
    """*rows* with zeros behind them."""
    return F.pad(rows, (0, width - rows.shape[1])) if rows.shape[1] < width else rows


def _gradients(
    loss: Tensor, leaves: dict[str, Tensor], *, beside: bool, again: bool = False
) -> list[Tensor]:
    """Gradient of each member's own loss; members share no weights, so their sum mixes nothing."""
    with WeightGradients(leaves, loss.device, beside=beside) as gradients:
        found = torch.autograd.grad(
            loss.sum(), list(leaves.values()), allow_unused=True, retain_graph=again
        )
    return gradients.added_to(found)
