# SPDX-License-Identifier: Apache-2.0
"""Encoding: means and log-variances of images by trained networks, in batches of bounded size.

Everything that encodes images by their number goes through here: stored codes, searches and runs.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.networks.layers import uses_kernels
from unbraid.networks.network import Network
from unbraid.objectives.objective import Objective
from unbraid.population.devices import explain_oom
from unbraid.population.kind import kinds_of
from unbraid.population.run_folder import RunFolder

_DEVICE_BYTES = 2**32
"""Activations in flight on a GPU: bounds its memory, however many members and images there are."""


def encode_images(
    network: Network,
    weights: dict[str, torch.Tensor],
    samples: Callable[[torch.Tensor], torch.Tensor],
    indices: torch.Tensor,
    precision: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Means and log-variances `(members, n, latents)` of images *indices*, on the host.

    They are encoded in batches of bounded size, which members share. *precision* is that of the
    heavy layers, for a run's codes the one its members trained in.
    """
    members = next(iter(weights.values())).shape[0]
    size = images_at_once(
        samples(indices[:1])[0].numel(), members, indices.device, columns=network.uses_columns
    )
    found: list[torch.Tensor] = []
    with torch.no_grad():
        for start in range(0, len(indices), size):
            x = samples(indices[start : start + size]).unsqueeze(0)
            parts = network.encode(weights, x.expand(members, *x.shape[1:]), precision)
            found = found or [
                torch.empty(members, len(indices), part.shape[2], dtype=part.dtype)
                for part in parts
            ]
            for whole, part in zip(found, parts, strict=True):
                whole[:, start : start + size] = part.cpu()
    mean, logvar = found
    return mean, logvar


def images_at_once(
    values: int, members: int, device: torch.device, *, columns: bool = False
) -> int:
    """How many images of *values* numbers are encoded together for so many members.

    *columns* is as `Network.uses_columns` says.
    """
    if device.type == "cpu":
        return max(1, min(256, 2048 // members))
    # The first layer holds 8 numbers a pixel in float32, and its successor reads it; without
    # kernels it is read as 16 columns more.
    bytes_a_value = 64 if uses_kernels(device) and not columns else 1024
    return max(1, min(_DEVICE_BYTES // (bytes_a_value * values * members), 8192))


def represent(
    network: Network,
    objective: Objective,
    weights: dict[str, torch.Tensor],
    samples: Callable[[torch.Tensor], torch.Tensor],
    indices: torch.Tensor,
    precision: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`encode_images`, and what the *objective* makes of it: quantised codes for QLAE."""
    mean, logvar = encode_images(network, weights, samples, indices, precision)
    learned = {
        name: weight.cpu() for name, weight in weights.items() if name.startswith("objective.")
    }
    return objective.representation(mean, logvar, learned)


def encode_run(
    run: RunFolder, device: torch.device, indices: NDArray[np.int64], member: int | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Means and log-variances `(models, n, latents)` by the models of a run, or by one *member*."""
    remedy = "Free some memory, or use the CPU."
    network = run.plan.build_network()
    with explain_oom(device, f"the data '{run.dataset.name}'", remedy):
        sampler = run.dataset.sampler(device)
    places = torch.from_numpy(indices).to(device)
    found: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for chunk in run.chunks():
        wanted = [one for one in chunk if member is None or one.id == member]
        if not wanted:
            continue
        rows = run.trained(chunk).weights
        for kind in kinds_of(wanted):
            own = rows[[chunk.index(one) for one in kind]].to(device)
            with explain_oom(device, "the codes of a batch", remedy):
                weights, objective = run.layout(kind[0]).views(own), kind[0].build()
                codes = represent(network, objective, weights, sampler, places, run.plan.dtype)
            for one, mean, logvar in zip(kind, *codes, strict=True):
                found[one.id] = mean, logvar
    means, logvars = zip(*(found[one] for one in sorted(found)), strict=True)
    return torch.stack(means).numpy(), torch.stack(logvars).numpy()
