# SPDX-License-Identifier: Apache-2.0
"""Where a population trains: which device, how many members at a time, how many chunks side by side.

On a CPU every core takes one member at a time with one thread: no member waits for another, and its arithmetic does not
depend on who trains beside it, to the last bit. On a GPU a chunk is as large as its memory allows.
"""

from __future__ import annotations

import ctypes
import os
import sys

import torch

from unbraid.data.dataset import Dataset
from unbraid.errors import InputError, problem
from unbraid.population.plan import Plan

_SAFE_SHARE_OF_FREE_MEMORY = 0.8


def choose_device(name: str = "auto") -> torch.device:
    """The device called *name*; `auto` takes the first GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cpu":
        return torch.device("cpu")
    if name.split(":")[0] == "cuda":
        if not torch.cuda.is_available():
            raise InputError(problem("device", "needs a CUDA device and this machine has none", name, "Use --device cpu."))
        return torch.device(name)
    raise InputError(problem("device", "must be auto, cpu or cuda", name))


def cores() -> int:
    """CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def chunk_size(plan: Plan, dataset: Dataset, device: torch.device) -> int:
    """How many members train together on *device*."""
    if device.type == "cpu":
        return 1
    free, _ = torch.cuda.mem_get_info(device)
    fits = int(free * _SAFE_SHARE_OF_FREE_MEMORY) // max(1, bytes_per_member(plan, dataset))
    return max(1, min(len(plan.members), fits))


def bytes_per_member(plan: Plan, dataset: Dataset) -> int:
    """Upper estimate of the device memory one member needs while it trains."""
    heaviest = max((member.build().auxiliary_network() for member in plan.members), key=lambda network: network is not None)
    weights = plan.build_network().layout(dataset.sample_shape, plan.latents).size
    weights += heaviest.layout(plan.latents).size if heaviest else 0
    values = 1
    for side in dataset.sample_shape:
        values *= side
    # Columns of the widest layer hold 16 values for each of 8 values per pixel; pairwise terms hold batch x batch x latents.
    activations = plan.batch_size * values * 8 * 16 * 4 + 4 * plan.batch_size**2 * plan.latents
    return 4 * (7 * weights + activations)


_GLIBC_TRIM_THRESHOLD = -1
_GLIBC_MMAP_THRESHOLD = -3


def keep_freed_memory() -> None:
    """Let glibc keep large freed blocks for reuse in this process.

    A step frees and asks again for the same few blocks of megabytes; given back to the system each time, they return as
    page faults that cost a fifth of the step. Elsewhere than on glibc this does nothing.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_GLIBC_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_GLIBC_MMAP_THRESHOLD, 2**25)
