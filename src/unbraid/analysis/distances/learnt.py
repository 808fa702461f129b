# SPDX-License-Identifier: Apache-2.0
"""What trained members make of perceived distances, for all members of a run (Michlo et al. 2023).

At each level of a member (means, posteriors, reconstructions) distances are compared by Spearman's
rank correlation with two others of the same pairs: those of the ground truth and those that the
loss perceives between the inputs. Along the traversals of a factor it is averaged over traversals,
then over factors; both are undefined where the other distances are all equal, as those of XYSquares
at spacing 8 are along every traversal. There random pairs, of which some agree in several factors,
still tell. Posteriors are compared by the mean of KL both ways, as in the authors' code.

The overlap (their figure 1) is the share of draws z from q(z|x) whose decoded image is nearer, by
the loss, to another image of x's traversal than to x; a tie counts half. It is 0 for a model whose
posteriors are apart, and about (n - 1)/n along n values for one that decodes at random.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbraid.analysis.distances.image_pairs import (
    ABSENT,
    RandomPairs,
    Traversals,
    choose_pairs,
    choose_traversals,
    labels_needed,
)
from unbraid.analysis.distances.levels import (
    BOTH_WAYS,
    Perception,
    TrainedMember,
    data_perception,
    perception_of,
    samples_on,
    trained_member,
)
from unbraid.analysis.distances.perceived_loss import PerceivedLoss, loss_of
from unbraid.analysis.distances.tally import ground_truth, rank_correlations
from unbraid.core import random
from unbraid.core.errors import InputError
from unbraid.core.random import Stream
from unbraid.population.run_folder import RunFolder

if TYPE_CHECKING:
    import pandas as pd

REVISION = 1
"""Raised when the numbers change for the same run."""
IMAGES = 1024
"""Images of each factor, and random pairs, that a member looks at."""
_AT_ONCE = 512
"""Images that are held at a time, so that memory is bounded on any device."""
_SAME = 1e-6
"""Two distances of which one is this share of the other nearer are a tie."""
LEVELS = ("means", "posteriors", "reconstructions")
COLUMNS = (
    "inputs_with_truth",
    *(f"{level}_with_{other}" for other in ("truth", "inputs") for level in LEVELS),
    *(f"{level}_with_inputs_random" for level in LEVELS),
    "overlap",
)
"""Of `learnt_distances`, beside the member's number."""


def learnt_distances(
    run: RunFolder,
    *,
    members: Sequence[int] | None = None,
    loss: PerceivedLoss | None = None,
    images: int = IMAGES,
    seed: int = 0,
    device: torch.device | str = "cpu",
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> pd.DataFrame:
    """A row for each of *members*, by default all that did not diverge, with `COLUMNS`.

    *loss* is by default that of the run. Which traversals and pairs are looked at comes from
    *seed*. *progress* learns how many members are done, of how many.
    """
    import pandas as pd

    run = getattr(run, "folder", run)  # a `Run` holds one
    chosen = [*members] if members is not None else _healthy(run)
    loss = loss or loss_of(run.plan.likelihood)
    inputs = _Inputs.of(run, loss, images, seed, torch.device(device))
    rows = []
    for number, member in enumerate(chosen):
        rows.append({"member": int(member)} | _of_member(run, int(member), inputs))
        progress(number + 1, len(chosen))
    return pd.DataFrame(rows, columns=["member", *COLUMNS])


def _healthy(run: RunFolder) -> list[int]:
    return run.members().query("status != 'diverged'")["member"].tolist()


@dataclass(frozen=True)
class _Inputs:
    """What all members of a run are compared with."""

    loss: PerceivedLoss
    sampler: Callable[[Tensor], Tensor]
    device: torch.device
    traversals: list[Traversals]
    pairs: RandomPairs
    along: list[NDArray[np.float64]]
    """Distances between inputs along each factor's traversals, as `_along` has them."""
    apart: NDArray[np.float64]
    """Those of the random pairs."""

    @classmethod
    def of(
        cls, run: RunFolder, loss: PerceivedLoss, images: int, seed: int, device: torch.device
    ) -> _Inputs:
        dataset = run.dataset
        if problems := labels_needed(dataset):
            raise InputError(*problems)
        found, missing = choose_traversals(dataset, images, seed)
        if not found:
            raise InputError(*missing)
        traversals = [one.leading(images) for one in found]
        pairs = choose_pairs(len(dataset), images, seed)
        sampler = samples_on(dataset, device)
        seen = data_perception(dataset, loss, sampler, device)
        along = [_along(seen, one)["inputs"] for one in traversals]
        return cls(loss, sampler, device, traversals, pairs, along, _apart(seen, pairs)["inputs"])


def _of_member(run: RunFolder, member: int, inputs: _Inputs) -> dict[str, float]:
    """The columns of one member."""
    trained = trained_member(run, member, inputs.device)
    given = inputs.loss, inputs.sampler, inputs.device
    seen = perception_of(trained, run.dataset, *given, BOTH_WAYS)
    found: dict[str, list[float]] = {name: [] for name in COLUMNS}
    for number, (chosen, perceived) in enumerate(zip(inputs.traversals, inputs.along, strict=True)):
        truth = _pairs_of(ground_truth(chosen.values)[None])
        found["inputs_with_truth"].append(_mean(rank_correlations(perceived, truth[0])))
        for level, distances in _along(seen, chosen).items():
            found[f"{level}_with_truth"].append(_mean(rank_correlations(distances, truth[0])))
            found[f"{level}_with_inputs"].append(_mean(rank_correlations(distances, perceived)))
        if trained.samples_latents:
            found["overlap"].append(_overlap(trained, chosen, inputs, number))
    for level, distances in _apart(seen, inputs.pairs).items():
        correlation = rank_correlations(distances[None], inputs.apart)[0]
        found[f"{level}_with_inputs_random"].append(float(correlation))
    return {name: _mean(np.array(values)) for name, values in found.items()}


def _mean(values: NDArray[np.float64]) -> float:
    """Mean of those that are defined; NaN where none is."""
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else math.nan


def _pairs_of(matrices: NDArray[np.float64]) -> NDArray[np.float64]:
    """The pairs of two different values `(traversals, pairs)` of *matrices*, in both orders."""
    return matrices[:, ~np.eye(matrices.shape[-1], dtype=bool)]


def _along(seen: Perception, chosen: Traversals) -> dict[str, NDArray[np.float64]]:
    """By level the distances along each traversal `(traversals, pairs)`; NaN where one of the two
    values has no sample.
    """
    parts: dict[str, list[NDArray[np.float64]]] = {level.key: [] for level in seen.levels}
    for table in _batches(chosen):
        with torch.no_grad():
            features = seen.look(_filled(table).to(seen.device))
            for level in seen.levels:
                own = tuple(part.unflatten(0, table.shape) for part in features[level.key])
                parts[level.key].append(level.matrix(own).cpu().numpy())
    there = chosen.indices != ABSENT
    known = _pairs_of((there[:, :, None] & there[:, None, :]).astype(np.float64)) > 0
    return {
        key: np.where(known, _pairs_of(np.concatenate(found)), np.nan)
        for key, found in parts.items()
    }


def _apart(seen: Perception, pairs: RandomPairs) -> dict[str, NDArray[np.float64]]:
    """By level the distances of random pairs of two different samples."""
    parts: dict[str, list[NDArray[np.float64]]] = {level.key: [] for level in seen.levels}
    two = pairs.first != pairs.second
    first, second = pairs.first[two], pairs.second[two]
    for start in range(0, len(first), _AT_ONCE // 2):
        part = slice(start, start + _AT_ONCE // 2)
        with torch.no_grad():
            one, other = (
                seen.look(torch.from_numpy(side[part]).to(seen.device)) for side in (first, second)
            )
            for level in seen.levels:
                parts[level.key].append(level.pairs(one[level.key], other[level.key]).cpu().numpy())
    return {key: np.concatenate(found) for key, found in parts.items()}


def _overlap(trained: TrainedMember, chosen: Traversals, inputs: _Inputs, number: int) -> float:
    """Share of draws that decode to another image of their traversal, of factor *number*."""
    mistakes = draws = 0.0
    for batch, table in enumerate(_batches(chosen)):
        there = torch.from_numpy(table != ABSENT).to(inputs.device)
        samples = inputs.sampler(_filled(table).to(inputs.device))
        with torch.no_grad():
            mean, logvar = trained.encode(samples)
            key = torch.tensor([number], device=mean.device)
            noise = random.normal(key, batch, Stream.CODE_NOISE, tuple(mean.shape))[0]
            decoded = trained.decode(mean + torch.exp(0.5 * logvar) * noise)
            truth, made = (one.unflatten(0, table.shape) for one in (samples, decoded))
            distances = inputs.loss.between(truth, made).transpose(1, 2)
        own = distances.diagonal(dim1=1, dim2=2)
        others = distances.masked_fill(~there[:, None, :], math.inf)
        others = others.masked_fill(torch.eye(table.shape[1], device=own.device).bool(), math.inf)
        nearest = others.amin(dim=2)
        gap = own - nearest
        tie = gap.abs() <= _SAME * torch.maximum(own, nearest)
        wrong = torch.where(tie, 0.5, (gap > 0).double())
        counted = there & nearest.isfinite()
        mistakes += float(wrong[counted].sum())
        draws += float(counted.sum())
    return mistakes / draws if draws else math.nan


def _batches(chosen: Traversals) -> list[NDArray[np.int64]]:
    """The traversals in parts of a bounded number of images."""
    together = max(1, _AT_ONCE // chosen.indices.shape[1])
    return [
        chosen.indices[start : start + together]
        for start in range(0, len(chosen.indices), together)
    ]


def _filled(table: NDArray[np.int64]) -> Tensor:
    """Indices `(n,)`; where a value has no sample, another of the traversal stands in."""
    return torch.from_numpy(
        np.where(table == ABSENT, table.max(axis=1, keepdims=True), table).ravel()
    )
