# SPDX-License-Identifier: Apache-2.0
"""Encoding: means and log-variances of images by trained networks, in batches of bounded size.

Everything that encodes images by their number goes through here: stored codes, searches and runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.networks.layers import uses_kernels
from unbraid.networks.network import Network
from unbraid.objectives.objective import Objective
from unbraid.population.devices import explain_oom
from unbraid.population.kind import kinds_of
from unbraid.population.member import Member
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
    most = min(_DEVICE_BYTES // (bytes_a_value * values * members), 8192)
    # Kernels are compiled apart for multiples of 16 and others; training has those of the former.
    return most - most % 16 if most > 16 else max(1, most)


def represent(
    network: Network,
    objective: Objective,
    weights: dict[str, torch.Tensor],
    samples: Callable[[torch.Tensor], torch.Tensor],
    indices: torch.Tensor,
    precision: torch.dtype | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`encode_images`, and what the *objective* makes of it: quantised codes for QLAE."""
    found = encode_images(network, weights, samples, indices, precision)
    return _represented(objective, *found, weights)


def _represented(
    objective: Objective,
    mean: torch.Tensor,
    logvar: torch.Tensor,
    weights: dict[str, torch.Tensor],
) -> tuple[torch.Tensor, torch.Tensor]:
    learned = {
        name: weight.cpu() for name, weight in weights.items() if name.startswith("objective.")
    }
    return objective.representation(mean, logvar, learned)


def encode_members(
    run: RunFolder,
    members: Sequence[Member],
    rows: torch.Tensor,
    samples: Callable[[torch.Tensor], torch.Tensor],
    indices: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Means and log-variances `(members, n, latents)` of images *indices*, by trained *rows*.

    The network, which all share, is passed with all of them; what their objectives make of its
    codes follows kind by kind.
    """
    network = run.plan.build_network()
    weights = network.layout(run.dataset.sample_shape, run.plan.latents).views(rows)
    mean, logvar = encode_images(network, weights, samples, indices, run.plan.dtype)
    begin = 0
    for kind in kinds_of(members):
        place = slice(begin, begin + len(kind))
        begin = place.stop
        own = run.layout(kind[0]).views(rows[place])
        mean[place], logvar[place] = _represented(kind[0].build(), mean[place], logvar[place], own)
    return mean, logvar


def encode_run(
    run: RunFolder, device: torch.device, indices: NDArray[np.int64], member: int | None = None
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Means and log-variances `(models, n, latents)` by the models of a run, or by one *member*."""
    remedy = "Free some memory, or use the CPU."
    with explain_oom(device, f"the data '{run.dataset.name}'", remedy):
        sampler = run.dataset.sampler(device)
    places = torch.from_numpy(indices).to(device)
    found: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
    for chunk in run.chunks():
        wanted = [one for one in chunk if member is None or one.id == member]
        if not wanted:
            continue
        rows = run.trained(chunk).weights[[chunk.index(one) for one in wanted]].to(device)
        with explain_oom(device, "the codes of a batch", remedy):
            codes = encode_members(run, wanted, rows, sampler, places)
        for one, mean, logvar in zip(wanted, *codes, strict=True):
            found[one.id] = mean, logvar
    means, logvars = zip(*(found[one] for one in sorted(found)), strict=True)
    return torch.stack(means).numpy(), torch.stack(logvars).numpy()
