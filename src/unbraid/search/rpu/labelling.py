# SPDX-License-Identifier: Apache-2.0
"""Surrogate labels of a search without labels: the active latents of its best model.

Of the winner's models the one that agrees best with the others is taken, a collapsed one only where
all are. Latents with a
dataset-mean KL above 1 nat are active, and their means over all images of the search are the
labels. A search whose best score stays below 0.1 has failed.
"""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.codes.encode import encode_run
from unbraid.core.errors import DamagedFileError, invalid
from unbraid.core.failpoints import failpoint
from unbraid.core.files import only_one
from unbraid.core.records import build_object, from_record
from unbraid.core.store import read_tensors, write_tensors
from unbraid.metrics._posterior import kl_per_latent
from unbraid.metrics.udr import udr
from unbraid.scoring.metric_names import base, options
from unbraid.search.discover.certainty import certainties, confirmed
from unbraid.search.pbt.collapsed import counted
from unbraid.search.pbt.search import SearchRun
from unbraid.search.rpu.surrogate_labels import ACTIVE_NATS, active_latents

_AXES = {"values": 2, "kl_per_latent": 1}
FAILED_BELOW = 0.1
"""A best agreement under this is no agreement (the authors' code)."""


@dataclass(frozen=True)
class Labelling:
    """What the best model of a search says of its images."""

    score: float
    """Of the winning group in the search."""
    model: int
    """The model of the winning group that agrees best with the others."""
    model_scores: tuple[float, ...]
    kl_per_latent: NDArray[np.float64]
    """Over all images of the search, nats."""
    latents: tuple[int, ...]
    """The active ones, those that say most first."""
    values: NDArray[np.float32]
    """Their means `(images, active latents)`."""
    active_nats: float = ACTIVE_NATS
    """A latent is active above this KL."""
    confirmed: tuple[bool, ...] = ()
    """Which of the active ones at least half of the other models had found too; none where an
    earlier version did not ask.
    """

    @property
    def failed(self) -> bool:
        """Whether the search found no agreement."""
        return not self.score >= FAILED_BELOW

    def save(self, path: Path, winner: str) -> None:
        """Store it in one file that says of which run, by its plan's digest, it was made."""
        about: dict[str, Any] = {"score": self.score, "model": self.model, "winner": winner}
        about |= {
            "active_nats": self.active_nats,
            "model_scores": list(self.model_scores),
            "latents": list(self.latents),
            "confirmed": list(self.confirmed),
        }
        tensors = {
            "values": torch.from_numpy(self.values),
            "kl_per_latent": torch.from_numpy(self.kl_per_latent),
        }
        write_tensors(path, tensors, about)

    @classmethod
    def load(cls, path: Path, winner: str | None = None) -> Labelling:
        """The inverse of `save`; labels that were made of another run than *winner* are refused."""
        tensors, about = read_tensors(path)
        if winner is not None and about.get("winner", winner) != winner:
            raise DamagedFileError(f"{path} holds the labels of another search.")
        told = {name: value for name, value in about.items() if name != "winner"}
        arrays = {name: tensor.numpy() for name, tensor in tensors.items()}

        def build() -> Labelling:
            if {name: array.ndim for name, array in arrays.items()} != _AXES:
                raise invalid("tensors", f"must be {', '.join(_AXES)}", sorted(arrays))
            return from_record(cls, told, "", **arrays)

        found = build_object(path, "labels", build, "Remove it, and it is made again.")
        if found.values.shape[1] != len(found.latents):
            raise DamagedFileError(f"{path} does not hold a label for each of its latents.")
        return found


def label(search: SearchRun, device: torch.device, active_nats: float = ACTIVE_NATS) -> Labelling:
    """Labels from the winner of a finished search; computed once and kept in its folder.

    They are made again where the file is damaged or was made with another *active_nats*.
    """
    path = search.path / "labels.safetensors"
    run, scorer = search.winner(), search.search.scorer
    with contextlib.suppress(FileNotFoundError, DamagedFileError):
        stored = Labelling.load(path, run.plan.digest())
        if stored.active_nats == active_nats:
            return stored
    few = scorer.sample(search.dataset)
    mean, logvar = (part.astype(np.float64) for part in encode_run(run, device, few))
    nats = np.stack([kl_per_latent(*model) for model in zip(mean, logvar, strict=True)])
    compared = mean, nats
    scores = udr(
        mean, nats, **(options(scorer.metric) if base(scorer.metric) == "udr" else {})
    ).per_model
    noisy = run.plan.members[0].build().samples_latents
    alive = [counted(*model, noisy=noisy) > 0 for model in zip(mean, logvar, strict=True)]
    sift = search.search.collapsed_last and any(alive)
    best = int(np.argmax(np.where(alive, scores, -np.inf) if sift else scores))
    every = np.arange(len(search.dataset), dtype=np.int64)
    mean, logvar = (part[0] for part in encode_run(run, device, every, best))
    nats = kl_per_latent(mean.astype(np.float64), logvar.astype(np.float64))
    active = active_latents(nats, active_nats)
    sure = [confirmed(one) for one in certainties(*compared, best)]
    made = Labelling(
        score=search.winner_record()["score"],
        model=best,
        model_scores=tuple(float(score) for score in scores),
        kl_per_latent=nats,
        latents=tuple(active),
        values=np.ascontiguousarray(mean[:, active], dtype=np.float32),
        active_nats=float(active_nats),
        confirmed=tuple(sure[latent] for latent in active),
    )
    with only_one(search.path, patience=math.inf):
        made.save(path, run.plan.digest())
    failpoint("labels.stored")
    return made
