# SPDX-License-Identifier: Apache-2.0
"""A few labelled images of a dataset, and the ways in which labels may be worse than the truth.

Locatello et al. (2020), "Disentangling factors of variation using few labels": 100 or 1,000 images
are drawn uniformly, with replacement, and a labeller names their factor values:

    perfect     the values themselves
    binned      at most `bins` values per factor: y <- floor(y bins / n) where n > bins
    noisy       each label is replaced, with probability `noise`, by a random value of its factor
    partial     `observed` factors, chosen at random, in the order of the data; no others
    permuted    each factor's values renamed by a random permutation, so that their order is lost

Images and labels are functions of the label seed alone: the same for every member that shares it,
on every device, and a set of 100 is the beginning of the set of 1,000. Departs: disentanglement_lib
draws from NumPy's generator, so its sets differ from ours; it bins in float32, where we count in
whole numbers; and its partial labeller leaves the factors in random order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbraid.core import random
from unbraid.core.errors import Problem, Shown
from unbraid.core.random import Stream
from unbraid.data.dataset import Dataset

LABELLERS = ("perfect", "binned", "noisy", "partial", "permuted")


class LabelledSet(NamedTuple):
    """Labelled images, as one member sees them."""

    indices: NDArray[np.int64]
    """Which images: `(count,)`."""
    labels: NDArray[np.int64]
    """What the labeller says of them: `(count, factors)`."""
    sizes: tuple[int, ...]
    """How many values each labelled factor takes."""
    observed: tuple[int, ...]
    """Which factors of the data the columns of `labels` are."""


@dataclass(frozen=True)
class LabelRequest:
    """How many labels, by whom."""

    count: int
    labeller: str = "perfect"
    seed: int = 0
    bins: int = 5
    """Most values of a factor, for the labeller `binned`."""
    noise: float = 0.1
    """Probability of a random label, for `noisy`."""
    observed: int = 2
    """Factors that are labelled at all, for `partial`."""

    def factors(self, sizes: Sequence[int]) -> int:
        """How many factors are labelled, of data whose factors have *sizes* values."""
        return self.observed if self.labeller == "partial" else len(sizes)

    def most_values(self, sizes: Sequence[int]) -> tuple[int, ...]:
        """The most values that each labelled factor can have, known before it is drawn which
        factors are observed.
        """
        if self.labeller == "partial":
            return (max(sizes),) * self.observed
        return tuple(min(size, self.bins) if self.labeller == "binned" else size for size in sizes)

    def problems(self, name: str, setting: Any) -> list[Problem]:
        """Why such data has no such labels: *name* asks, *setting* is what it knows of the data."""
        factors = len(setting.factor_sizes)
        if factors == 0:
            rule = "needs known factors to take labels from"
            remedy = (
                "Load it with factors (a factors.csv, a key factors, factors=...),"
                " or train without labels."
            )
            return [Problem(f"{name}: data", rule, Shown("none"), remedy)]
        found = []
        partial = self.labeller == "partial"
        if partial and self.observed > factors:
            rule = f"must be at most the {factors} factors of the data"
            remedy = f"Use observed_factors={factors} or less."
            found.append(Problem(f"{name}: observed_factors", rule, self.observed, remedy))
        labelled = min(self.factors(setting.factor_sizes), factors)
        if labelled > setting.latents:
            rule = f"must be at least the {labelled} labelled factors, one for each"
            fewer = (
                "fewer observed_factors"
                if partial
                else f"labeller=partial with observed_factors={setting.latents}"
            )
            remedy = f"Use {{latents={labelled}}} or more, or {fewer}."
            found.append(Problem(f"{name}: latents", rule, setting.latents, remedy))
        if setting.where:
            rule = "cannot be used, since labelled images are drawn from all images"
            found.append(Problem(f"{name}: where", rule, setting.where, "Leave it out."))
        return found

    def draw(self, dataset: Dataset) -> LabelledSet:
        """The labelled images of *dataset*."""
        training = dataset.training_indices
        size = len(dataset) if training is None else len(training)
        indices = random.integers(self._seed, 0, Stream.LABELLED_INDICES, (self.count,), size)
        indices = indices[0].numpy()
        if training is not None:
            indices = training[indices]
        return self.label(indices, dataset.factors(indices), dataset.factor_sizes)

    def label(
        self, indices: NDArray[np.int64], truth: NDArray[np.int64], sizes: Sequence[int]
    ) -> LabelledSet:
        """What the labeller says of images *indices* with the factor values *truth* `(count,
        factors)`.
        """
        every = tuple(range(len(sizes)))
        if self.labeller == "binned":
            coarse = [
                truth[:, factor] * self.bins // size if size > self.bins else truth[:, factor]
                for factor, size in enumerate(sizes)
            ]
            return LabelledSet(indices, np.stack(coarse, axis=1), self.most_values(sizes), every)
        if self.labeller == "noisy":
            return LabelledSet(indices, self._with_noise(truth, sizes), tuple(sizes), every)
        if self.labeller == "partial":
            order = random.permutations(self._seed, 0, Stream.LABEL_NOISE, 1, len(sizes))[0, 0]
            observed = tuple(sorted(order[: self.observed].tolist()))
            return LabelledSet(
                indices,
                truth[:, list(observed)],
                tuple(sizes[factor] for factor in observed),
                observed,
            )
        if self.labeller == "permuted":
            names = [
                random.permutations(self._seed, factor, Stream.LABEL_NOISE, 1, size)[0, 0]
                for factor, size in enumerate(sizes)
            ]
            renamed = [name.numpy()[truth[:, factor]] for factor, name in enumerate(names)]
            return LabelledSet(indices, np.stack(renamed, axis=1), tuple(sizes), every)
        return LabelledSet(indices, truth, tuple(sizes), every)

    @property
    def _seed(self) -> Tensor:
        return torch.tensor([self.seed], dtype=torch.int64)

    def _with_noise(self, truth: NDArray[np.int64], sizes: Sequence[int]) -> NDArray[np.int64]:
        """*truth* with some labels replaced; image i draws the same chance whatever the count."""
        chance = random.uniform(self._seed, 0, Stream.LABEL_NOISE, truth.shape)[0].numpy()
        drawn = [
            random.integers(self._seed, 1 + factor, Stream.LABEL_NOISE, (len(truth),), size)[
                0
            ].numpy()
            for factor, size in enumerate(sizes)
        ]
        return np.where(chance < self.noise, np.stack(drawn, axis=1), truth)


@dataclass(frozen=True)
class LabelledSets:
    """The labelled images of every member of a chunk, on its device."""

    indices: Tensor
    """int64 `(members, count)`."""
    labels: Tensor
    """float32 `(members, count, factors)`."""
    sizes: Tensor
    """float32 `(members, factors)`: how many values each labelled factor takes."""
    values: int
    """The most values that any factor of any member takes."""

    @property
    def count(self) -> int:
        """Labelled images of a member."""
        return self.indices.shape[1]

    @classmethod
    def of(
        cls, requests: Sequence[LabelRequest | None], dataset: Dataset, device: torch.device
    ) -> LabelledSets | None:
        """The sets that *requests*, one a member, ask for; None where they ask for none."""
        asked = [request for request in requests if request is not None]
        if not asked:
            return None
        drawn = {request: request.draw(dataset) for request in dict.fromkeys(asked)}
        sets = [drawn[request] for request in asked]
        return cls(
            indices=torch.from_numpy(np.stack([one.indices for one in sets])).to(device),
            labels=torch.from_numpy(np.stack([one.labels for one in sets])).to(
                device, torch.float32
            ),
            sizes=torch.tensor([one.sizes for one in sets], dtype=torch.float32, device=device),
            values=max(max(one.sizes) for one in sets),
        )
