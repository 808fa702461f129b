# SPDX-License-Identifier: Apache-2.0
"""What the models of a population say about images while they train: means, log-variances, and how
well they give them back.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.codes.codes import encode_images, images_at_once
from unbraid.core import random
from unbraid.core.random import Stream
from unbraid.population.devices import cores, explain_oom
from unbraid.population.run_folder import RunFolder
from unbraid.search.pbt.generation import WHEN_FULL, Chunk, Generation

Found = TypeVar("Found")


def encode_generation(
    generation: Generation, indices: NDArray[np.int64]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Means and log-variances `(models, n, latents)` of images *indices* by every model of the
    population, on the host.
    """

    def encode(chunk: Chunk) -> tuple[torch.Tensor, torch.Tensor]:
        program, wanted = chunk.program, torch.from_numpy(indices).to(generation.device)
        weights = program.layout.views(chunk.state.model.weights)
        mean, logvar = encode_images(
            program.network, weights, program.sampler, wanted, program.precision
        )
        learned = {
            name: weight.cpu() for name, weight in weights.items() if name.startswith("objective.")
        }
        return program.members[0].build().representation(mean, logvar, learned)

    parts = _for_chunks(generation, encode)
    order = torch.tensor([place for chunk in generation.chunks for place in chunk.places]).argsort()
    return (
        torch.cat([mean for mean, _ in parts])[order],
        torch.cat([logvar for _, logvar in parts])[order],
    )


def reconstruction_nats(
    generation: Generation, indices: NDArray[np.int64], mean: torch.Tensor, logvar: torch.Tensor
) -> torch.Tensor:
    """Negative log-likelihood `(models, n)` of images *indices* given one draw from each posterior."""
    found = torch.empty(mean.shape[:2])

    def measure(chunk: Chunk) -> None:
        program, places, wanted = (
            chunk.program,
            list(chunk.places),
            torch.from_numpy(indices).to(generation.device),
        )
        weights = program.layout.views(chunk.state.model.weights)
        likelihood = program.likelihood.bound(weights)
        z = mean[places]
        if program.objective.samples_latents:
            noise = random.normal(program.seed.cpu(), 0, Stream.CODE_NOISE, tuple(z.shape[1:]))
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
    """*work* on every chunk; on a CPU, one a core."""

    def on_one_core(chunk: Chunk) -> Found:
        if generation.device.type == "cpu":
            torch.set_num_threads(1)
        with explain_oom(generation.device, "the codes of a batch", WHEN_FULL):
            return work(chunk)

    with ThreadPoolExecutor(cores() if generation.device.type == "cpu" else 1) as pool:
        return list(pool.map(on_one_core, generation.chunks))


def encode_run(
    run: RunFolder, device: torch.device, indices: NDArray[np.int64], member: int | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Means and log-variances `(models, n, latents)` of images *indices* by the trained models of a
    run, or by one *member*.
    """
    remedy = "Free some memory, or use --device cpu."
    network, plan = run.plan.build_network(), run.plan
    with explain_oom(device, f"the data '{run.dataset.name}'", remedy):
        sampler = run.dataset.sampler(device)
    means, logvars = [], []
    for chunk in run.chunks():
        wanted = [place for place, one in enumerate(chunk) if member is None or one.id == member]
        if not wanted:
            continue
        rows = run.trained_state(chunk).model.weights[wanted]
        with explain_oom(device, "the codes of a batch", remedy):
            weights = run.layout(chunk[0]).views(rows.to(device))
            mean, logvar = encode_images(
                network, weights, sampler, torch.from_numpy(indices).to(device), plan.dtype
            )
        learned = {
            name: weight.cpu() for name, weight in weights.items() if name.startswith("objective.")
        }
        mean, logvar = chunk[0].build().representation(mean, logvar, learned)
        means.append(mean.numpy())
        logvars.append(logvar.numpy())
    return np.concatenate(means), np.concatenate(logvars)
