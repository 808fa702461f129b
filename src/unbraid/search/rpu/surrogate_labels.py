# SPDX-License-Identifier: Apache-2.0
"""Surrogate labels (Estermann et al. 2020, section 4): codes of models, used as factors.

A model's active latents are those with a mean KL above 1 nat; their means over the data it was
trained on are the labels. Levels of a leaf-run carry labels for ever smaller parts of the data. The
score of a code by a leaf-run is the mutual information gap, where each label's column of the
information is counted only on the images that carry it; codes and labels are both cut into 20 bins
of equal width. A label that does not vary is left out, as MIG leaves out constant factors. The
score over several leaf-runs is the median of theirs.

Which labels count, and for how much, is one of `LABEL_RULES`:

    published   all, each for as much as any other
    weighed     a level of n images counts n / (n + 400) times: information among 20 x 20 bins, read
                off a few hundred images, is mostly chance
    confirmed   those that at least half of the other models of the winning group had found too
                (`search/discover/certainty.py`), and the root's all where none of them was
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import DamagedFileError
from unbraid.core.records import build_object, from_record
from unbraid.core.store import read_tensors, write_tensors
from unbraid.metrics._information import histogram_bins
from unbraid.metrics.mig import mig

ACTIVE_NATS = 1.0
BINS = 20
MOST_POINTS = 50_000
"""Images of a level that are looked at."""
LABEL_RULES = ("published", "weighed", "confirmed")


@dataclass(frozen=True)
class SurrogateLabels:
    """Labels of one level: images by their place in the whole data, one column per latent."""

    indices: NDArray[np.int64]
    values: NDArray[np.float32]
    """`(n, latents)`."""
    confirmed: tuple[bool, ...] = ()
    """Which of them other models had found too; none where that was not asked."""
    weight: float = 1.0
    """How much each of its labels counts."""

    def thinned(self, most: int = MOST_POINTS) -> SurrogateLabels:
        """At most so many images, chosen at random once and for all, in their order."""
        if len(self.indices) <= most:
            return self
        kept = np.sort(np.random.default_rng(0).permutation(len(self.indices))[:most])
        return replace(self, indices=self.indices[kept], values=self.values[kept])

    def only(self, which: Sequence[bool]) -> SurrogateLabels:
        """Some of its labels."""
        chosen = np.flatnonzero(which)
        confirmed = tuple(self.confirmed[at] for at in chosen) if self.confirmed else ()
        return replace(self, values=self.values[:, chosen], confirmed=confirmed)


Leaf = tuple[SurrogateLabels, ...]
"""The levels of one leaf-run, the root's first."""


def active_latents(kl_per_latent: NDArray[np.float64], threshold: float = ACTIVE_NATS) -> list[int]:
    """Latents with a mean KL above *threshold* nats, those that say most first."""
    return [
        int(latent)
        for latent in np.argsort(-kl_per_latent, kind="stable")
        if kl_per_latent[latent] > threshold
    ]


def counted_labels(leaves: Sequence[Leaf], rule: str) -> list[Leaf]:
    """*leaves* with the labels that count by *rule*, and their weights."""
    if rule == "weighed":
        return [tuple(map(_weighed, leaf)) for leaf in leaves]
    return [_confirmed(leaf) for leaf in leaves] if rule == "confirmed" else [*leaves]


def _weighed(labels: SurrogateLabels) -> SurrogateLabels:
    """*labels* with the weight that their number of images gives them."""
    count = len(labels.indices)
    return replace(labels, weight=count / (count + BINS**2))


def _confirmed(leaf: Leaf) -> Leaf:
    """The levels of *leaf* that have confirmed labels, with those alone."""
    kept = tuple(one.only(one.confirmed) for one in leaf if any(one.confirmed))
    return kept or leaf[:1]


def surrogate_gaps(
    codes: NDArray[np.floating], indices: NDArray[np.int64], leaves: Sequence[Leaf]
) -> float:
    """Median over leaf-runs of the mean gap over their labels, by their weights.

    *codes* are those of the images *indices*, ascending.
    """
    scores = []
    for leaf in leaves:
        gaps: list[float] = []
        weights: list[float] = []
        for level in leaf:
            labels = histogram_bins(level.values.astype(np.float64), BINS)
            labels = labels[:, labels.min(axis=0) < labels.max(axis=0)]
            if (
                labels.shape[1] == 0
            ):  # nothing varies at this level, so there is nothing to know about it
                continue
            own = codes[np.searchsorted(indices, level.indices)].astype(np.float64)
            gaps += mig(own, labels, bins=BINS).per_factor.tolist()
            weights += [level.weight] * labels.shape[1]
        if gaps:
            scores.append(float(np.average(gaps, weights=weights)))
    return float(np.median(scores)) if scores else float("nan")


def write_surrogates(path: Path, leaves: Sequence[Leaf]) -> None:
    """Store the labels of all leaf-runs in one file."""
    import torch

    tensors = {}
    for number, leaf in enumerate(leaves):
        for depth, labels in enumerate(leaf):
            thin = labels.thinned()
            # Copies, since the root's labels belong to every leaf-run and a file takes no tensor
            # twice.
            tensors[f"{number}.{depth}.indices"] = torch.tensor(thin.indices)
            tensors[f"{number}.{depth}.values"] = torch.tensor(thin.values, dtype=torch.float32)
    about = {
        "leaves": [len(leaf) for leaf in leaves],
        "confirmed": [[list(labels.confirmed) for labels in leaf] for leaf in leaves],
        "weights": [[labels.weight for labels in leaf] for leaf in leaves],
    }
    write_tensors(path, tensors, about)


@dataclass(frozen=True)
class _About:
    """What the file of `write_surrogates` says beside its tensors."""

    leaves: list[int]
    """How many levels each leaf-run has."""
    confirmed: list[list[list[bool]]] = field(default_factory=list)
    weights: list[list[float]] = field(default_factory=list)
    """Of each level; earlier versions wrote neither."""


def read_surrogates(path: Path) -> list[Leaf]:
    """The inverse of `write_surrogates`."""
    tensors, about = read_tensors(path)
    remedy = "Remove it and resume: it is made again."
    told = build_object(path, "a file of labels", lambda: from_record(_About, about), remedy)
    leaves = told.leaves
    if 2 * sum(leaves) != len(tensors):  # before as many names are made
        raise DamagedFileError(f"{path} does not hold the labels that it tells of. {remedy}")
    named = {f"{n}.{depth}" for n, levels in enumerate(leaves) for depth in range(levels)}
    whole = tensors.keys() == {f"{name}.{part}" for name in named for part in ("indices", "values")}
    whole = whole and all(
        tensors[f"{name}.indices"].dim() == 1
        and tensors[f"{name}.values"].dim() == 2
        and len(tensors[f"{name}.indices"]) == len(tensors[f"{name}.values"])
        for name in named
    )
    if not whole:
        raise DamagedFileError(f"{path} does not hold the labels that it tells of. {remedy}")
    known = [[*map(len, told.confirmed)], [*map(len, told.weights)]]
    if known != [leaves, leaves] and (told.confirmed or told.weights):
        raise DamagedFileError(f"{path} does not tell of each of its levels. {remedy}")
    return [
        tuple(
            SurrogateLabels(
                tensors[f"{number}.{depth}.indices"].numpy(),
                tensors[f"{number}.{depth}.values"].numpy(),
                tuple(told.confirmed[number][depth]) if told.confirmed else (),
                told.weights[number][depth] if told.weights else 1.0,
            )
            for depth in range(levels)
        )
        for number, levels in enumerate(leaves)
    ]
