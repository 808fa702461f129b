# SPDX-License-Identifier: Apache-2.0
"""From the winning models of a search to findings: which latents are factors, how sure, what they
look like, what was left out.

A latent of the chosen model that says more than half a nat about an image is a finding. It is
confirmed where at least half of the other models, trained from other seeds, have a latent that
follows it (`search/discover/certainty.py`). Its name is guessed from simple measurements of the
images (`search/discover/naming.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.codes.encode import encode_run
from unbraid.codes.model import Model
from unbraid.data.dataset import Dataset
from unbraid.metrics._posterior import kl_per_latent
from unbraid.metrics._ranks import average_ranks
from unbraid.search.discover.certainty import certainties, confirmed
from unbraid.search.discover.findings import Certainty, FoundFactor
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
class Findings:
    """What the chosen model says of all images, and what was found in that."""

    mean: NDArray[np.float32]
    """`(images, latents)`."""
    factors: tuple[FoundFactor, ...]
    doubtful: tuple[FoundFactor, ...]
    explained: float
    originals: NDArray[np.uint8]
    remembered: NDArray[np.uint8]
    worst: NDArray[np.uint8]
    worst_remembered: NDArray[np.uint8]


def find(
    search: SearchRun,
    model: int,
    device: torch.device,
    names: tuple[str, ...],
    confirming: Sequence[tuple[SearchRun, NDArray[np.int64]]] = (),
) -> Findings:
    """Findings of *model* of the search's winner, confirmed by the winner's other models.

    *confirming* are other searches with the images they were trained on: a latent counts as seen as often as the models of one
    of them, on its own images, have seen it. What only a leaf-run found varies in its part as
    nowhere else.
    """
    run, dataset = search.winner(), search.dataset
    every = np.arange(len(dataset), dtype=np.int64)
    means, logvars = encode_run(run, device, every)
    nats = np.stack(
        [
            kl_per_latent(m.astype(np.float64), v.astype(np.float64))
            for m, v in zip(means, logvars, strict=True)
        ]
    )
    mean = means[model]
    active = _different(mean, active_latents(nats[model], FOUND_NATS))
    sure = _surest(
        [certainties(means.astype(np.float64), nats, model)] if len(means) > 1 else [],
        mean,
        nats[model],
        confirming,
        device,
    )
    decoder = Model(run, model)
    sample = np.unique(
        np.linspace(0, len(dataset) - 1, min(len(dataset), _LOOKED_AT)).astype(np.int64)
    )
    errors, variance, shares = _measured(decoder, dataset, mean, active, sample)
    rows = naming_rows(len(dataset))
    called = (
        name_factors(mean[rows][:, active].astype(np.float64), dataset.images(rows))
        if active
        else []
    )
    found = []
    for place, latent in enumerate(active):
        real = _examples(mean, active, latent)
        found.append(
            FoundFactor(
                number=place + 1,
                latent=latent,
                nats=float(nats[model][latent]),
                name=called[place],
                certainty=sure[latent],
                share=shares[latent],
                drawn=decoder.decode(_moved(mean, active, latent)),
                real=dataset.images(real),
                real_names=tuple(names[index] if names else f"{index}" for index in real),
            )
        )
    explained = float(1.0 - errors.mean() / variance) if variance > 0 else float("nan")
    # Latents of models that have hardly learned anything follow each other by accident.
    believed = [confirmed(one.certainty) and explained >= LITTLE_EXPLAINED for one in found]
    factors = [one for one, sure in zip(found, believed, strict=True) if sure]
    doubtful = [one for one, sure in zip(found, believed, strict=True) if not sure]
    typical = sample[: len(sample) : max(1, len(sample) // EXAMPLES)][:EXAMPLES]
    worst = sample[np.argsort(-errors, kind="stable")[:EXAMPLES]]
    return Findings(
        mean=mean,
        factors=tuple(replace(one, number=place + 1) for place, one in enumerate(factors)),
        doubtful=tuple(replace(one, number=place + 1) for place, one in enumerate(doubtful)),
        explained=explained,
        originals=dataset.images(typical),
        remembered=decoder.decode(mean[typical]),
        worst=dataset.images(worst),
        worst_remembered=decoder.decode(mean[worst]),
    )


def _surest(
    found: list[list[Certainty]],
    mean: NDArray[np.float32],
    nats: NDArray[np.float64],
    confirming: Sequence[tuple[SearchRun, NDArray[np.int64]]],
    device: torch.device,
) -> list[Certainty]:
    """For each latent the largest of the certainties *found* and those by the models of
    *confirming*.
    """
    for search, places in confirming:
        means, logvars = encode_run(
            search.winner(), device, np.arange(len(search.dataset), dtype=np.int64)
        )
        own = [
            kl_per_latent(m.astype(np.float64), v.astype(np.float64))
            for m, v in zip(means, logvars, strict=True)
        ]
        together = np.concatenate([mean[places][None], means]).astype(np.float64)
        found.append(certainties(together, np.stack([nats, *own]), 0))
    return [
        max(column, key=lambda one: (one.seen_in / max(1, one.others), one.agreement))
        for column in zip(*found, strict=True)
    ]


def _different(mean: NDArray[np.float32], active: list[int]) -> list[int]:
    """Those of *active* that do not repeat one before them: two latents that follow each other are
    one finding.
    """
    kept: list[int] = []
    ranks = average_ranks(mean.astype(np.float64))
    for latent in active:
        if all(abs(np.corrcoef(ranks[:, latent], ranks[:, other])[0, 1]) < SAME for other in kept):
            kept.append(latent)
    return kept


def _measured(
    decoder: Model,
    dataset: Dataset,
    mean: NDArray[np.float32],
    active: list[int],
    sample: NDArray[np.int64],
) -> tuple[NDArray[np.float64], float, dict[int, float]]:
    """Squared error of each image of *sample*, the variance of the images, and what each latent
    carries of that variance.
    """
    true = dataset.images(sample).astype(np.float64)
    variance = float(((true - true.mean(axis=0)) ** 2).mean())

    def error(codes: NDArray[Any]) -> NDArray[np.float64]:
        return ((decoder.decode(codes).astype(np.float64) - true) ** 2).mean(axis=(1, 2, 3))

    whole = error(mean[sample])
    shares = {}
    for latent in active:
        without = mean[sample].copy()
        without[:, latent] = mean[:, latent].mean()
        shares[latent] = (
            float(np.clip((error(without).mean() - whole.mean()) / variance, 0.0, 1.0))
            if variance > 0
            else 0.0
        )
    return whole, variance, shares


def _spreads(
    mean: NDArray[np.float32], active: list[int]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    codes = mean[:, active].astype(np.float64)
    return np.median(codes, axis=0), np.maximum(codes.std(axis=0), 1e-12)


def _targets(codes: NDArray[np.float32]) -> NDArray[np.float64]:
    """Evenly spaced codes between two quantiles."""
    low, high = np.quantile(codes.astype(np.float64), QUANTILES)
    return np.linspace(float(low), float(high), FRAMES)


def _moved(mean: NDArray[np.float32], active: list[int], latent: int) -> NDArray[np.float32]:
    """The code of a typical image with one latent moved evenly between two quantiles: `(frames,
    latents)`.
    """
    middle, spread = _spreads(mean, active)
    typical = int((((mean[:, active] - middle) / spread) ** 2).sum(axis=1).argmin())
    codes = np.repeat(mean[typical : typical + 1], FRAMES, axis=0)
    codes[:, latent] = _targets(mean[:, latent])
    return codes


def _examples(mean: NDArray[np.float32], active: list[int], latent: int) -> NDArray[np.int64]:
    """Images at rising codes of *latent* whose other codes are as near to the middle as there are
    any: `(frames,)`.
    """
    middle, spread = _spreads(mean, active)
    away = ((mean[:, active] - middle) / spread) ** 2
    place = active.index(latent)
    others = away.sum(axis=1) - away[:, place]
    targets = _targets(mean[:, latent])
    # The latent itself counts most: what is shown is that it rises.
    distance = (
        25.0 * ((mean[:, latent][None] - targets[:, None]) / spread[place]) ** 2 + others[None]
    )
    nearest = distance.argmin(axis=1)
    return nearest[np.argsort(mean[nearest, latent], kind="stable")]
