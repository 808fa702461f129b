# SPDX-License-Identifier: Apache-2.0
"""Found factors: which latents of the winning models are factors, how sure, what they look like.

A latent of the chosen model that carries more than half a nat about an image is a finding. It is
confirmed where at least half of the other models, trained from other seeds, have a latent that
follows it (`search/discover/certainty.py`). Of a search whose groups were all collapsed, or of
models that draw hardly anything, nothing counts as found. Its name is guessed from simple
measurements of the images (`search/discover/naming.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.codes.encode import encode_run
from unbraid.codes.model import Model
from unbraid.codes.traversals import images_along, traverse, typical_image
from unbraid.data.dataset import Dataset
from unbraid.metrics._posterior import kl_per_latent
from unbraid.metrics._ranks import average_ranks
from unbraid.search.discover.certainty import certainties, confirmed
from unbraid.search.discover.findings import Certainty, FoundFactor, Name
from unbraid.search.discover.naming import name_factors, naming_rows
from unbraid.search.pbt.search import SearchRun
from unbraid.search.rpu.surrogate_labels import active_latents

FOUND_NATS = 0.5
SAME = 0.8
"""Rank correlation from which on two latents of a model are taken for one."""
FRAMES = 9
QUANTILES = (0.02, 0.98)
EXAMPLES = 8
LITTLE_EXPLAINED = 0.1
"""Share of the images' variance below which a model has learned too little for anything to count as
found.
"""
_LOOKED_AT = 600
"""Images on which variance and errors are measured."""


@dataclass(frozen=True)
class ModelFindings:
    """What the chosen model says of all images, and the factors found in that."""

    mean: NDArray[np.float32]
    """`(images, latents)`."""
    factors: tuple[FoundFactor, ...]
    doubtful: tuple[FoundFactor, ...]
    explained: float
    collapsed: bool
    """Whether every group of models was collapsed, so that nothing counts as found."""
    originals: NDArray[np.uint8]
    remembered: NDArray[np.uint8]
    worst: NDArray[np.uint8]
    worst_remembered: NDArray[np.uint8]

    def with_names(self, names: Mapping[int, str]) -> ModelFindings:
        """The same where people named latents: their words are a factor's title."""

        def named(factors: tuple[FoundFactor, ...]) -> tuple[FoundFactor, ...]:
            return tuple(
                replace(one, name=replace(one.name, title=names.get(one.latent, one.name.title)))
                for one in factors
            )

        return replace(self, factors=named(self.factors), doubtful=named(self.doubtful))


def find(
    search: SearchRun,
    model: int,
    device: torch.device,
    names: tuple[str, ...],
    confirming: Sequence[tuple[SearchRun, NDArray[np.int64]]] = (),
) -> ModelFindings:
    """Factors in *model* of the search's winner, confirmed by the winner's other models.

    *confirming* are other searches with the images they were trained on: a latent counts as seen as
    often as the models of one of them, on its own images, have seen it. What only a leaf-run found
    varies in its part as nowhere else.
    """
    run, dataset = search.winner(), search.dataset
    means, nats = _encoded(search, device)
    mean = means[model]
    active = different_latents(mean, active_latents(nats[model], FOUND_NATS))
    own = [certainties(means.astype(np.float64), nats, model)] if len(means) > 1 else []
    others = [_confirmed_by(one, places, mean, nats[model], device) for one, places in confirming]
    sure = [_surest(column) for column in zip(*own, *others, strict=True)]
    decoder = Model(run, model)
    sample = np.unique(
        np.linspace(0, len(dataset) - 1, min(len(dataset), _LOOKED_AT)).astype(np.int64)
    )
    errors, variance, shares = _lost_without(decoder, dataset, mean, active, sample)
    explained = float(1.0 - errors.mean() / variance) if variance > 0 else float("nan")
    typical, found = mean[typical_image(mean, active)], []
    for latent, name in zip(active, _named(dataset, mean, active), strict=True):
        real = images_along(mean, active, latent, FRAMES, QUANTILES)
        found.append(
            FoundFactor(
                number=0,
                latent=latent,
                nats=float(nats[model][latent]),
                name=name,
                certainty=sure[latent],
                share=shares[latent],
                drawn=decoder.decode(traverse(typical, latent, mean[:, latent], FRAMES, QUANTILES)),
                real=dataset.images(real),
                real_names=tuple(names[index] if names else f"{index}" for index in real),
            )
        )
    # Latents of models that have hardly learned anything follow each other by accident.
    collapsed = bool(search.winner_record()["collapsed"])
    learned = explained >= LITTLE_EXPLAINED and not collapsed
    shown = sample[: len(sample) : max(1, len(sample) // EXAMPLES)][:EXAMPLES]
    worst = sample[np.argsort(-errors, kind="stable")[:EXAMPLES]]
    return ModelFindings(
        mean=mean,
        factors=_numbered(one for one in found if learned and confirmed(one.certainty)),
        doubtful=_numbered(one for one in found if not (learned and confirmed(one.certainty))),
        explained=explained,
        collapsed=collapsed,
        originals=dataset.images(shown),
        remembered=decoder.decode(mean[shown]),
        worst=dataset.images(worst),
        worst_remembered=decoder.decode(mean[worst]),
    )


def different_latents(mean: NDArray[np.float32], active: Sequence[int]) -> list[int]:
    """Those of *active* that do not follow one before them: two that do are one finding.

    >>> rising = np.arange(5, dtype=np.float32)
    >>> different_latents(np.stack([rising, rising**3, rising % 2], axis=1), [0, 1, 2])
    [0, 2]
    """
    kept: list[int] = []
    ranks = average_ranks(mean.astype(np.float64))
    for latent in active:
        if all(abs(np.corrcoef(ranks[:, latent], ranks[:, other])[0, 1]) < SAME for other in kept):
            kept.append(latent)
    return kept


def _encoded(
    search: SearchRun, device: torch.device
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Means `(models, images, latents)` of all images of a search by its winner, and mean KLs."""
    every = np.arange(len(search.dataset), dtype=np.int64)
    means, logvars = encode_run(search.winner(), device, every)
    nats = [
        kl_per_latent(mean.astype(np.float64), logvar.astype(np.float64))
        for mean, logvar in zip(means, logvars, strict=True)
    ]
    return means, np.stack(nats)


def _confirmed_by(
    search: SearchRun,
    places: NDArray[np.int64],
    mean: NDArray[np.float32],
    nats: NDArray[np.float64],
    device: torch.device,
) -> list[Certainty]:
    """How far the models of another search, on its images *places*, confirm each latent."""
    means, own = _encoded(search, device)
    together = np.concatenate([mean[places][None], means]).astype(np.float64)
    return certainties(together, np.concatenate([nats[None], own]), 0)


def _surest(found: Sequence[Certainty]) -> Certainty:
    return max(found, key=lambda one: (one.seen_in / max(1, one.others), one.agreement))


def _named(dataset: Dataset, mean: NDArray[np.float32], active: list[int]) -> list[Name]:
    if not active:
        return []
    rows = naming_rows(len(dataset))
    return name_factors(mean[rows][:, active].astype(np.float64), dataset.images(rows))


def _numbered(found: Iterable[FoundFactor]) -> tuple[FoundFactor, ...]:
    return tuple(replace(one, number=number) for number, one in enumerate(found, start=1))


def _lost_without(
    decoder: Model,
    dataset: Dataset,
    mean: NDArray[np.float32],
    active: list[int],
    sample: NDArray[np.int64],
) -> tuple[NDArray[np.float64], float, dict[int, float]]:
    """Squared errors of images *sample*, their variance, and its share that each latent carries."""
    true = dataset.images(sample).astype(np.float64)
    variance = float(((true - true.mean(axis=0)) ** 2).mean())

    def error(codes: NDArray[Any]) -> NDArray[np.float64]:
        return ((decoder.decode(codes).astype(np.float64) - true) ** 2).mean(axis=(1, 2, 3))

    whole = error(mean[sample])
    shares = dict.fromkeys(active, 0.0)
    for latent in active if variance > 0 else ():
        without = mean[sample].copy()
        without[:, latent] = mean[:, latent].mean()
        lost = (error(without).mean() - whole.mean()) / variance
        shares[latent] = float(np.clip(lost, 0.0, 1.0))
    return whole, variance, shares
