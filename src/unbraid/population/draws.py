# SPDX-License-Identifier: Apache-2.0
"""The random numbers of a chunk's steps: functions of each member's seed and the step alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from unbraid.core import random
from unbraid.core.random import Stream
from unbraid.data.dataset import Dataset
from unbraid.data.few_labels import LabelledSets
from unbraid.data.where_rule import TOTAL, cumulative_weights
from unbraid.population.kind import Kind, joined
from unbraid.population.plan import Plan


class Draws(NamedTuple):
    """Random numbers of consecutive steps, `(members, steps, ...)` each."""

    indices: Tensor
    noise: Tensor
    permutations: tuple[Tensor | None, ...]
    """For each kind, where its objective shuffles."""
    prior: tuple[Tensor | None, ...]
    """For each kind that needs them, uniform numbers that become points of the prior."""
    images: Tensor | None = None
    """Which of an index's images, for datasets that have many."""
    changed: Tensor | None = None
    """For pairs: the last factor that was changed."""
    labelled: Tensor | None = None
    """Which of the labelled images: places in the labelled set."""


class Drawing:
    """Draws for the members of a chunk: what is fixed while it trains."""

    def __init__(
        self,
        plan: Plan,
        kinds: Sequence[Kind],
        dataset: Dataset,
        device: torch.device,
        labelled: LabelledSets | None,
        cumulative: Tensor | None,
    ) -> None:
        self.plan, self.kinds, self.dataset, self.device = plan, kinds, dataset, device
        self.labelled, self.cumulative = labelled, cumulative
        self.seed = torch.cat([kind.seed for kind in kinds])
        self.samples = kinds[0].objective.samples
        self.paired = kinds[0].pairs is not None
        self.every = (
            torch.from_numpy(dataset.every_training_index()).to(device) if plan.full_batch else None
        )

    @property
    def rows(self) -> int:
        """Images of a step that are decoded again: the batch, or both images of its pairs."""
        return self.plan.batch_size * (2 if self.paired else 1)

    def __call__(self, steps: Tensor) -> Draws:
        """Every random number of *steps*, an int64 tensor `(steps,)`."""
        batch, latents, rows = self.plan.batch_size, self.plan.latents, self.rows
        noise = random.normal(self.seed, steps, Stream.LATENT_NOISE, (rows * self.samples, latents))
        indices = self._indices(steps)
        changed = images = labelled = None
        if self.paired:
            seconds = [self._second(kind, steps, indices) for kind in self.kinds]
            second, changed = (joined(parts) for parts in zip(*seconds, strict=True))
            indices = torch.cat([indices, second], dim=-1)
        if self.labelled is not None:
            place = (
                steps.unsqueeze(-1) * batch + torch.arange(batch, device=self.device)
            ) % self.labelled.count
            labelled = place.expand(len(self.seed), -1, -1)
            indices = torch.cat(
                [indices, self.labelled.indices.gather(1, labelled.flatten(1)).view_as(labelled)],
                dim=-1,
            )
        if self.dataset.fresh:
            images = random.words(self.seed, steps, Stream.FRESH_IMAGES, (indices.shape[-1],)) >> 1
            images[..., rows:] = 0  # a labelled image is one image, not all that share its factors
        return Draws(
            indices,
            noise,
            tuple(kind.permutation(steps, latents, rows) for kind in self.kinds),
            tuple(kind.prior_points(steps, latents, rows) for kind in self.kinds),
            images,
            changed,
            labelled,
        )

    def _second(self, kind: Kind, steps: Tensor, indices: Tensor) -> tuple[Tensor, Tensor]:
        """The second images of a kind's pairs, and the last factor that was changed."""
        assert kind.pairs is not None
        return kind.pairs.second(kind.seed, steps, indices[kind.place], self.dataset.factor_sizes)

    def _indices(self, steps: Tensor) -> Tensor:
        """Image indices `(members, steps, batch)`: uniform, by the plan's rule, or all of them."""
        batch = self.plan.batch_size
        if self.every is not None:
            return self.every.expand(len(self.seed), len(steps), batch).contiguous()
        if self.cumulative is None:
            return random.integers(
                self.seed, steps, Stream.IMAGE_INDICES, (batch,), len(self.dataset)
            )
        words = random.words(self.seed, steps, Stream.IMAGE_INDICES, (batch, 2))
        place = ((words[..., 0] << 32) | words[..., 1]) & (TOTAL - 1)
        return torch.searchsorted(self.cumulative, place, right=True)


def rule_on(plan: Plan, dataset: Dataset, device: torch.device) -> Tensor | None:
    """Running totals of the weights that the plan's rule and the data's split give the images; None
    where training draws from all alike.
    """
    if not plan.where and dataset.training_indices is None:
        return None
    return torch.from_numpy(cumulative_weights(plan.where or None, dataset)).to(device)
