# SPDX-License-Identifier: Apache-2.0
"""Scores of a generation; those of a chunk whose epoch is over while other chunks still train."""

from __future__ import annotations

import math
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.core.errors import InputError
from unbraid.data.dataset import Dataset
from unbraid.population.devices import cores
from unbraid.search.pbt.encode_generation import encode_chunk, reconstruction_nats
from unbraid.search.pbt.generation import Chunk, Generation
from unbraid.search.pbt.scorer import ModelScore, Scorer


class Judging:
    """Scores the models of one generation."""

    def __init__(
        self, scorer: Scorer, generation: Generation, dataset: Dataset, folder: Path
    ) -> None:
        self._scorer, self.generation = scorer, generation
        self._dataset, self._folder = dataset, folder
        self._pool = ThreadPoolExecutor(cores())
        self._found: dict[int, Future[float]] = {}

    @cached_property
    def _of_model(self) -> ModelScore:
        return self._scorer.of_model(self._dataset, self._folder)

    def chunk_done(self, chunk: Chunk) -> None:
        """Encode a chunk whose epoch is over and begin to score its models; where models are
        compared, wait for all.
        """
        if self._scorer.compares:
            return
        indices, nats = self._of_model.indices, None
        mean, logvar = encode_chunk(chunk, indices, self.generation.device)
        if self._of_model.reads_reconstruction:
            nats = reconstruction_nats(chunk, indices, mean, logvar, self.generation.device)
        for row, place in enumerate(chunk.places):
            self._found[place] = self._pool.submit(
                self._score, mean[row], logvar[row], None if nats is None else nats[row]
            )

    def _score(self, mean: torch.Tensor, logvar: torch.Tensor, nats: torch.Tensor | None) -> float:
        try:
            return self._of_model.score(
                mean.numpy(), logvar.numpy(), None if nats is None else nats.numpy()
            )
        except InputError:  # codes that are not finite, or that the metric cannot take
            return math.nan

    def scores(self) -> list[float]:
        """The score of each individual; NaN where a model of it diverged or there is no value."""
        with self._pool:
            by_model = (
                self._scorer.agreements(self.generation, self._dataset)
                if self._scorer.compares
                else self._by_model()
            )
        by_model = np.where(self.generation.diverged(), np.nan, by_model)
        return by_model.reshape(-1, self._scorer.models).mean(axis=1).tolist()

    def _by_model(self) -> NDArray[np.float64]:
        for chunk in self.generation.chunks:
            if chunk.places[0] not in self._found:  # its epoch was over when the search went on
                self.chunk_done(chunk)
        return np.array([self._found[place].result() for place in sorted(self._found)])
