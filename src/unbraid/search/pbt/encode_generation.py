# SPDX-License-Identifier: Apache-2.0
"""What the models of a population say about images while they train: codes, and reconstructions."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.codes.encode import images_at_once, represent
from unbraid.core import random
from unbraid.core.random import Stream
from unbraid.population.devices import cores, explain_oom
from unbraid.search.pbt.generation import WHEN_FULL, Chunk, Generation

Found = TypeVar("Found")


def encode_generation(
    generation: Generation, indices: NDArray[np.int64]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Means and log-variances `(models, n, latents)` of images *indices* by every model."""

    def encode(chunk: Chunk) -> tuple[torch.Tensor, torch.Tensor]:
        program, wanted = chunk.program, torch.from_numpy(indices).to(generation.device)
        weights = program.kinds[0].layout.views(chunk.state.model.weights)
        objective = program.members[0].build()
        return represent(
            program.network, objective, weights, program.sampler, wanted, program.precision
        )

    parts = _for_chunks(generation, encode)
    order = torch.tensor([place for chunk in generation.chunks for place in chunk.places]).argsort()
    return (
        torch.cat([mean for mean, _ in parts])[order],
        torch.cat([logvar for _, logvar in parts])[order],
    )


def reconstruction_nats(
    generation: Generation, indices: NDArray[np.int64], mean: torch.Tensor, logvar: torch.Tensor
) -> torch.Tensor:
    """Negative log-likelihood `(models, n)` of images, given one draw from each posterior."""
    found = torch.empty(mean.shape[:2])

    def measure(chunk: Chunk) -> None:
        program, places, wanted = (
            chunk.program,
            list(chunk.places),
            torch.from_numpy(indices).to(generation.device),
        )
        weights = program.kinds[0].layout.views(chunk.state.model.weights)
        likelihood = program.likelihood.bound(weights)
        z = mean[places]
        if program.kinds[0].objective.samples_latents:
            noise = random.normal(program.draw.seed.cpu(), 0, Stream.CODE_NOISE, tuple(z.shape[1:]))
            z = z + torch.exp(0.5 * logvar[places]) * noise
        size = images_at_once(
            program.sampler(wanted[:1])[0].numel(),
            len(places),
            generation.device,
            columns=program.network.uses_columns,
        )
        with torch.no_grad():
            for start in range(0, len(wanted), size):
                x = program.sampler(wanted[start : start + size]).unsqueeze(0)
                part = z[:, start : start + size].to(generation.device)
                nats = program.network.compare(
                    weights,
                    part,
                    x.expand(len(places), *x.shape[1:]),
                    likelihood,
                    program.precision,
                )
                found[places, start : start + size] = nats.cpu()

    _for_chunks(generation, measure)
    return found


def _for_chunks(generation: Generation, work: Callable[[Chunk], Found]) -> list[Found]:
    """*work* on every chunk; on a CPU, one per core."""

    def on_one_core(chunk: Chunk) -> Found:
        if generation.device.type == "cpu":
            torch.set_num_threads(1)
        with explain_oom(generation.device, "the codes of a batch", WHEN_FULL):
            return work(chunk)

    with ThreadPoolExecutor(cores() if generation.device.type == "cpu" else 1) as pool:
        return list(pool.map(on_one_core, generation.chunks))
