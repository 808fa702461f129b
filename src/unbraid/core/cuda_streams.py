# SPDX-License-Identifier: Apache-2.0
"""CUDA streams by role: each has one of its own on a device, for good.

The library hands out the same 32 streams of a device in turn. Taken anew for every chunk and
checkpoint, a stream that scores would sooner or later be one that another thread captures.
"""

from __future__ import annotations

import threading

import torch

_POOL = 32
_lock = threading.Lock()
_taken: dict[tuple[torch.device, str, int], torch.cuda.Stream] = {}
MOST_OF_A_ROLE = 16
"""Numbers of a role beyond it share streams: what they run is in order, only not side by side."""


def stream_of(device: torch.device, role: str, number: int = 0) -> torch.cuda.Stream:
    """The stream of a *role* on *device*, the same at every call."""
    if device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    key = (device, role, number % MOST_OF_A_ROLE)
    with _lock:
        if key not in _taken:
            others = {one.cuda_stream for (place, *_), one in _taken.items() if place == device}
            stream = torch.cuda.Stream(device)
            for _ in range(_POOL):
                if stream.cuda_stream not in others:
                    break
                stream = torch.cuda.Stream(device)
            _taken[key] = stream
        return _taken[key]
