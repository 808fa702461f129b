# SPDX-License-Identifier: Apache-2.0
"""Members of one kind in a chunk: a slice of the member axis with an objective of its own.

All members of a chunk share the passes through the network; what differs from kind to kind is
stacked and computed here, on the rows of its own members.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch
from torch import Tensor

from unbraid.core import random
from unbraid.core.random import Stream
from unbraid.data.dataset import Dataset
from unbraid.objectives.hyper import stack
from unbraid.objectives.priors.prior import UNIFORMS
from unbraid.population.member import Member
from unbraid.population.plan import Plan


class Kind:
    """What is fixed for the members of one kind while they train."""

    def __init__(
        self,
        plan: Plan,
        members: Sequence[Member],
        first: int,
        dataset: Dataset,
        device: torch.device,
    ) -> None:
        """*members* stand in their chunk from place *first* on."""
        self.members = tuple(members)
        self.place = slice(first, first + len(members))
        self.objective = stack([member.build() for member in members], device)
        self.prior = stack([member.build_prior() for member in members], device)
        columns = zip(*(member.build_supervision() for member in members), strict=True)
        self.supervision = [stack(column, device) for column in columns]
        self.pairs = next((one.pairs for one in self.supervision if one.pairs), None)
        self.layout = plan.layout(members[0], dataset)
        self.auxiliary_network = self.objective.auxiliary_network()
        self.auxiliary_layout = (
            self.auxiliary_network.layout(plan.latents) if self.auxiliary_network else None
        )
        self.quantities = quantities(members[0])
        self.seed = torch.tensor(
            [member.seed for member in members], dtype=torch.int64, device=device
        )

    def learned(self, rows: Tensor) -> dict[str, Tensor]:
        """Views of what is learned beside the network, in *rows* of what lies behind it."""
        own = rows[self.place] if rows.shape[0] != len(self.members) else rows
        found, start = {}, 0
        for weight in self.layout.added:
            found[weight.name] = own.narrow(1, start, weight.count).view(-1, *weight.shape)
            start += weight.count + weight.gap
        return found

    def permutation(self, steps: Tensor, latents: int, rows: int) -> Tensor | None:
        """For objectives that shuffle: `(members, steps, latents, rows)`."""
        if not self.objective.permutes:
            return None
        return random.permutations(self.seed, steps, Stream.LATENT_PERMUTATION, latents, rows)

    def prior_points(self, steps: Tensor, latents: int, rows: int) -> Tensor | None:
        """Uniform numbers that become points of the prior, for objectives that need them."""
        if not self.objective.needs_prior_points:
            return None
        drawn = random.uniform(self.seed, steps, Stream.PRIOR_POINTS, (rows, latents, UNIFORMS))
        return drawn + 2.0**-25  # above 0, for logarithms


def joined(parts: Sequence[Tensor]) -> Tensor:
    """The rows of all kinds, one after the other."""
    return parts[0] if len(parts) == 1 else torch.cat(list(parts))


def kinds_of(members: Sequence[Member]) -> list[tuple[Member, ...]]:
    """*members* cut where the kind changes: each part can be stacked."""
    return [tuple(part) for _, part in groupby(members, key=lambda one: one.structure())]


def quantities(member: Member) -> tuple[str, ...]:
    """Names of what a member's history records."""
    objective = member.build()
    added = [name for one in member.build_supervision() for name in one.term_names]
    extra = ("auxiliary_loss",) if objective.auxiliary_network() is not None else ()
    return (*objective.term_names, *added, "loss", *extra)


def chunks_of(members: Sequence[Member], most: int) -> list[tuple[Member, ...]]:
    """Members that train together: those that share their passes, kind beside kind, in parts of
    equal size and at most *most* members.
    """
    groups: dict[Any, dict[Any, list[Member]]] = {}
    for member in members:
        kinds = groups.setdefault(shared_passes(member), {})
        kinds.setdefault(member.structure(), []).append(member)
    chunks = []
    for kinds in groups.values():
        together = [member for kind in kinds.values() for member in kind]
        size = equal_share(len(together), most)
        chunks += [tuple(together[at : at + size]) for at in range(0, len(together), size)]
    return sorted(chunks, key=lambda chunk: chunk[0].id)


def equal_share(count: int, most: int) -> int:
    """The size of equal parts of *count* things, at most *most*."""
    return -(-count // -(-count // most))


def shared_passes(member: Member) -> tuple[Any, ...]:
    """What members must have in common to share a chunk: how many images a step encodes, how many
    latents it decodes, which labels it reads.
    """
    supervision = member.build_supervision()
    labels = [one.request for one in supervision if one.request]
    return (
        any(one.pairs for one in supervision),
        member.build().samples,
        *((one.count, one.labeller, one.bins, one.observed) for one in labels),
    )
