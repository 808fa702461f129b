# SPDX-License-Identifier: Apache-2.0
"""Scores and active latents of a generation; those of a chunk whose epoch is over while others
still train.
"""

from __future__ import annotations

import math
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
import torch

from unbraid.core.errors import InputError, UnbraidError
from unbraid.data.dataset import Dataset
from unbraid.population.devices import cores
from unbraid.search.pbt.collapsed import counted
from unbraid.search.pbt.encode_generation import (
    encode_chunk,
    encode_generation,
    reconstruction_nats,
)
from unbraid.search.pbt.generation import Chunk, Generation
from unbraid.search.pbt.scorer import Scorer

Judged = tuple[float, int]
"""Score and number of active latents of a model."""


class Judging:
    """Scores the models of one generation; left by an error, it begins no further score."""

    def __init__(
        self, scorer: Scorer, generation: Generation, dataset: Dataset, folder: Path
    ) -> None:
        self.generation = generation
        self._scorer, self._dataset = scorer, dataset
        self._of_model = None if scorer.compares else scorer.of_model(dataset, folder)
        self._pool = ThreadPoolExecutor(cores())
        self._found: dict[int, Future[Judged]] = {}
        self._compared: list[Judged] = []

    def __enter__(self) -> Self:
        """Scoring threads start when there is something to score."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Wait for the scores that are being computed, and leave the others."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def chunk_done(self, chunk: Chunk) -> None:
        """Begin to score the models of a chunk whose epoch is over, while others train.

        What fails, for want of memory perhaps, fails again in `scores`, when the epoch is over for
        all and can be saved.
        """
        try:
            self._begin(chunk)
        except UnbraidError:
            return

    def _begin(self, chunk: Chunk) -> None:
        """Encode a chunk and have its models scored; where models are compared, all must wait."""
        if self._of_model is None:
            return
        device, indices, nats = self.generation.device, self._of_model.indices, None
        mean, logvar = encode_chunk(chunk, indices, device)
        if self._of_model.reads_reconstruction:
            nats = reconstruction_nats(chunk, indices, mean, logvar, device)
        for row, place in enumerate(chunk.places):
            self._found[place] = self._pool.submit(
                self._score, mean[row], logvar[row], None if nats is None else nats[row]
            )

    def _score(self, mean: torch.Tensor, logvar: torch.Tensor, nats: torch.Tensor | None) -> Judged:
        assert self._of_model is not None
        active = self._active(mean, logvar)
        try:
            score = self._of_model.score(
                mean.numpy(), logvar.numpy(), None if nats is None else nats.numpy()
            )
        except InputError:  # codes that are not finite, or that the metric cannot take
            score = math.nan
        return score, active

    def scores(self) -> list[float]:
        """The score of each individual; NaN where a model of it diverged or there is no value."""
        by_model = np.array([score for score, _ in self._by_model()])
        by_model = np.where(self.generation.diverged(), np.nan, by_model)
        return by_model.reshape(-1, self._scorer.models).mean(axis=1).tolist()

    def active_latents(self) -> list[int]:
        """How many latents each individual uses: the fewest of its models."""
        by_model = np.array([active for _, active in self._by_model()])
        return by_model.reshape(-1, self._scorer.models).min(axis=1).tolist()

    def _active(self, mean: torch.Tensor, logvar: torch.Tensor) -> int:
        objective = self.generation.chunks[0].program.kinds[0].objective
        return counted(mean.numpy(), logvar.numpy(), noisy=objective.samples_latents)

    def _by_model(self) -> list[Judged]:
        if self._of_model is None:
            self._compared = self._compared or self._compare()
            return self._compared
        for chunk in self.generation.chunks:
            if chunk.places[0] not in self._found:  # done when the search went on, or failed before
                self._begin(chunk)
        return [self._found[place].result() for place in sorted(self._found)]

    def _compare(self) -> list[Judged]:
        """Of models that are scored by each other."""
        generation = self.generation
        codes = encode_generation(generation, self._scorer.sample(self._dataset))
        active = self._pool.map(self._active, *codes)
        scores = self._scorer.agreements(codes, generation.device).tolist()
        return list(zip(scores, active, strict=True))
