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
    parts = _for_chunks(generation, lambda chunk: encode_chunk(chunk, indices, generation.device))
    order = torch.tensor([place for chunk in generation.chunks for place in chunk.places]).argsort()
    return (
        torch.cat([mean for mean, _ in parts])[order],
        torch.cat([logvar for _, logvar in parts])[order],
    )


def encode_chunk(
    chunk: Chunk, indices: NDArray[np.int64], device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Means and log-variances `(models of the chunk, n, latents)` of images *indices*."""
    program = chunk.program
    weights = program.kinds[0].layout.views(chunk.weights())
    objective = program.members[0].build()
    with explain_oom(device, "the codes of a batch", WHEN_FULL):
        wanted = torch.from_numpy(indices).to(device)
        return represent(
            program.network, objective, weights, program.sampler, wanted, program.precision
        )


def reconstruction_nats(
    chunk: Chunk,
    indices: NDArray[np.int64],
    mean: torch.Tensor,
    logvar: torch.Tensor,
    device: torch.device,
) -> torch.Tensor:
    """Negative log-likelihood `(models of the chunk, n)` of images, given one draw from each
    posterior.
    """
    program, members = chunk.program, len(chunk.places)
    found = torch.empty(mean.shape[:2])
    weights = program.kinds[0].layout.views(chunk.weights())
    likelihood = program.likelihood.bound(weights)
    z = mean
    if program.kinds[0].objective.samples_latents:
        seeds = program.draw.seed.cpu()[:members]
        noise = random.normal(seeds, 0, Stream.CODE_NOISE, tuple(z.shape[1:]))
        z = z + torch.exp(0.5 * logvar) * noise
    with explain_oom(device, "the reconstructions of a batch", WHEN_FULL), torch.no_grad():
        wanted = torch.from_numpy(indices).to(device)
        size = images_at_once(
            program.sampler(wanted[:1])[0].numel(),
            members,
            device,
            columns=program.network.uses_columns,
        )
        for start in range(0, len(wanted), size):
            x = program.sampler(wanted[start : start + size]).unsqueeze(0)
            nats = program.network.compare(
                weights,
                z[:, start : start + size].to(device),
                x.expand(members, *x.shape[1:]),
                likelihood,
                program.precision,
            )
            found[:, start : start + size] = nats.cpu()
    return found


def _for_chunks(generation: Generation, work: Callable[[Chunk], Found]) -> list[Found]:
    """*work* on every chunk; on a CPU, one per core."""

    def on_one_core(chunk: Chunk) -> Found:
        if generation.device.type == "cpu":
            torch.set_num_threads(1)
        return work(chunk)

    with ThreadPoolExecutor(cores() if generation.device.type == "cpu" else 1) as pool:
        return list(pool.map(on_one_core, generation.chunks))
