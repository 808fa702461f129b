# SPDX-License-Identifier: Apache-2.0
"""Where a population trains: which device, how many members at a time, how many chunks side by
side.

On a CPU every core takes one member at a time with one thread: no member waits for another, and its
arithmetic does not depend on who trains beside it, to the last bit. On a GPU a chunk is as large as
its memory allows.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import platform
import sys
from collections.abc import Iterator
from typing import Any

import torch

from unbraid.core.errors import UnbraidError, invalid
from unbraid.data.dataset import Dataset
from unbraid.networks.layers import uses_kernels
from unbraid.population.member import Member
from unbraid.population.plan import Plan

_SAFE_SHARE_OF_FREE_MEMORY = 0.8
_CHECKPOINT_BYTES = 12
"""That a checkpoint takes for each weight: it and Adam's two running means."""
_MOST_CHECKPOINT_BYTES = 2**32
"""A chunk's checkpoint is made in the host's memory."""
_MOST_MEMBERS = 256
"""Beyond so many members a chunk of the usual size trains no faster, and a stop loses more."""
_LEAST_MEMBERS = 4
"""Below so many a chunk of half the members takes about as long (docs/speed.md), so that another
GPU would be taken for nothing.
"""


def choose_device(name: str = "auto") -> torch.device:
    """The device called *name*; `auto` takes the GPUs where there are some."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cpu":
        return torch.device("cpu")
    kind, _, number = name.partition(":")
    if kind != "cuda" or (number and not number.isdecimal()) or name.endswith(":"):
        raise invalid("device", "must be auto, cpu, cuda or cuda:NUMBER", name)
    if not torch.cuda.is_available():
        raise invalid(
            "device", "needs a CUDA device and this machine has none", name, "Use {device=cpu}."
        )
    if not number:
        return torch.device("cuda")
    if int(number) >= torch.cuda.device_count():
        have = f"this machine has {torch.cuda.device_count()}"
        raise invalid(
            "device", f"must name one of the CUDA devices, counted from 0, and {have}", name
        )
    return torch.device("cuda", int(number))


def choose_devices(name: str = "auto") -> tuple[torch.device, list[torch.device] | None]:
    """The device called *name*, and the places where chunks train side by side, if only some of all
    that it stands for were named: `cuda:0,2` are two GPUs.
    """
    first, *more = name.split(",")
    device = choose_device(first)
    if not more:
        return device, None
    places = [device]
    if device.index is not None:
        places += [choose_device(f"cuda:{one}") for one in more]
    if device.index is None or len({*places}) < len(places):
        rule = "must name CUDA devices by their numbers, each once, as in cuda:0,2"
        raise invalid("device", rule, name)
    return device, places


def device_name(device: torch.device) -> str:
    """What a device is called in messages and tables; speeds are compared by it."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"CPU {platform.machine()}, {cores()} cores"


def usual_precision(device: torch.device) -> str:
    """The precision of the heavy layers where none is asked for: bfloat16 on a GPU that runs our
    kernels, and on a processor with instructions for it.

    On such a GPU it is four times as fast, on such a processor up to one and a half times, by the
    network. No score moved that could be seen, of 64 seeds and of 16 (`benchmarks/precision.py`,
    `benchmarks/cpu_precision.py`).
    """
    has_it = uses_kernels(device) or (device.type == "cpu" and _multiplies_bfloat16())
    return "bfloat16" if has_it else "float32"


def _multiplies_bfloat16() -> bool:
    """Whether the processor has instructions for products of bfloat16."""
    asked = getattr(torch.cpu, "get_capabilities", None)  # older versions of torch cannot be asked
    found = asked() if asked else {}
    return bool(found.get("avx512_bf16") or found.get("amx_bf16"))


@contextlib.contextmanager
def explain_oom(device: torch.device, what: str, remedy: str) -> Iterator[None]:
    """Say that *device* has no memory left for *what*, with a *remedy*, instead of the library's
    page about it.
    """
    try:
        yield
    except torch.cuda.OutOfMemoryError as error:
        raise UnbraidError(
            f"the memory of {device}, which others may use too, has no room for {what}. {remedy}"
        ) from error


def cores() -> int:
    """CPU cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def device_type(device: torch.device) -> str:
    """What a device is called where only its type counts: chunks that begin on one end with other
    bits on another.
    """
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def workers(device: torch.device) -> list[torch.device]:
    """Where chunks train side by side: every core, every GPU, or the one GPU that was named.

    GPUs that others fill, or that are of a lesser kind than the best one, would hold up the rest.
    """
    if device.type == "cpu":
        return [device] * cores()
    if device.index is not None or torch.cuda.device_count() <= 1:
        return [device]
    places = [torch.device("cuda", number) for number in range(torch.cuda.device_count())]
    free = {place: torch.cuda.mem_get_info(place)[0] for place in places}
    best = max(places, key=lambda place: (uses_kernels(place), free[place]))
    return [
        place
        for place in places
        if uses_kernels(place) == uses_kernels(best) and 2 * free[place] >= free[best]
    ]


def one_of(device: torch.device) -> torch.device:
    """*device*, or the current GPU where it stands for all of them."""
    if device.type == "cpu" or device.index is not None:
        return device
    return torch.device("cuda", torch.cuda.current_device())


def chunk_size(
    plan: Plan,
    dataset: Dataset,
    device: torch.device,
    places: list[torch.device] | None = None,
    processes: int = 1,
) -> int:
    """The most members that train together on *device*, or in each of *places*: what free memory
    holds, no more than pays, and something for all GPUs of as many *processes*.
    """
    if device.type == "cpu":
        return 1
    torch.cuda.empty_cache()  # what an earlier run of this process left is free too
    places = places or workers(device)
    return equal_work(len(plan.members), _fits(plan, dataset, places), len(places) * processes)


def equal_work(members: int, fits: int, count: int) -> int:
    """The size of chunks for so many workers, each of which has room for *fits* members: as many
    chunks as workers, or twice as many, ..., so that none waits for the last.

    >>> equal_work(300, 256, 8), equal_work(3000, 256, 8), equal_work(6, 256, 8)
    (38, 188, 4)
    """
    if count == 1:
        return max(1, min(fits, members))
    rounds = -(-members // (count * max(1, fits)))
    share = -(-members // (count * rounds))
    return max(1, min(fits, members, max(share, _LEAST_MEMBERS)))


def _fits(plan: Plan, dataset: Dataset, places: list[torch.device]) -> int:
    """How many members the fullest of *places* has room for, and no more than pay."""
    free = min(torch.cuda.mem_get_info(place)[0] for place in places)
    room = int(free * _SAFE_SHARE_OF_FREE_MEMORY) - dataset_bytes(dataset)
    kernels = uses_kernels(places[0]) and not plan.build_network().uses_columns
    # The members of a chunk may be the heaviest of all.
    heaviest = sorted(
        (
            (
                bytes_of_member(plan, dataset, member, kernels=kernels),
                _CHECKPOINT_BYTES * _weights(plan, dataset, member),
            )
            for member, count in members_by_kind(plan)
            for _ in range(count)
        ),
        reverse=True,
    )
    fits, memory, checkpoint = 0, 0, 0
    for bytes_taken, bytes_saved in heaviest[:_MOST_MEMBERS]:
        memory, checkpoint = memory + bytes_taken, checkpoint + bytes_saved
        if memory > room or checkpoint > _MOST_CHECKPOINT_BYTES:
            break
        fits += 1
    return fits


def dataset_bytes(dataset: Dataset) -> int:
    """Estimate of what a dataset takes on a device, 16 GiB at most."""
    return min(dataset.device_bytes, 2**34)


def bytes_of_member(plan: Plan, dataset: Dataset, member: Member, *, kernels: bool) -> int:
    """Upper estimate of the device memory that *member* needs while it trains."""
    weights = _weights(plan, dataset, member)
    values = math.prod(dataset.sample_shape)
    rows = _rows(member, plan.batch_size)
    # Total correlation compares all pairs once; the MMD does so three times, and remembers
    # distances for its gradient.
    pairs = (9 if member.build().needs_prior_points else 4) * rows**2 * plan.latents
    # Weights, their low-precision copy, two running means, gradients twice; layers hold 8 numbers
    # per pixel in the first and last layer. Without kernels the columns of the widest layer add 16
    # for each of those.
    activations = rows * values * (64 if kernels else 8 * 16 * 4)
    return 4 * ((7 + plan.amsgrad) * weights + activations + pairs)


def _weights(plan: Plan, dataset: Dataset, member: Member) -> int:
    """Numbers in the rows of *member*."""
    network = member.build().auxiliary_network()
    auxiliary = network.layout(plan.latents).size if network is not None else 0
    return plan.layout(member, dataset).size + auxiliary


def members_by_kind(plan: Plan) -> list[tuple[Member, int]]:
    """The first member of each kind that can train together, and how many there are."""
    kinds: dict[tuple[Any, ...], list[Member]] = {}
    for member in plan.members:
        kinds.setdefault(member.structure(), []).append(member)
    return [(members[0], len(members)) for members in kinds.values()]


def _rows(member: Member, batch: int) -> int:
    """Images that a step of *member* encodes or decodes, whichever are more."""
    supervision = member.build_supervision()
    images = batch * (2 if any(one.pairs for one in supervision) else 1)
    labelled = batch if any(one.request for one in supervision) else 0
    return max(images * member.build().samples, images + labelled)


_GLIBC_TRIM_THRESHOLD = -1
_GLIBC_MMAP_THRESHOLD = -3


def keep_freed_memory() -> None:
    """Let glibc keep large freed blocks for reuse in this process.

    A step frees and asks again for the same few blocks of megabytes; given back to the system each
    time, they return as page faults that cost a fifth of the step. Elsewhere than on glibc this
    does nothing.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_GLIBC_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_GLIBC_MMAP_THRESHOLD, 2**25)
