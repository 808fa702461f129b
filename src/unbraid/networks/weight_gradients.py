# SPDX-License-Identifier: Apache-2.0
"""Gradients of weights on a CUDA stream of their own: nothing in a backward pass waits for them.

A layer's backward pass makes two gradients: that of its input, which the layer before waits for,
and that of its weights, which the optimiser needs at the end. A device that few members do not fill
makes both at once.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import Tensor

from unbraid.core.cuda_streams import stream_of

Made = TypeVar("Made")
_MOST_HELD = 3
"""Layers whose inputs stay in memory at most: beyond that the backward pass waits for the first."""
_beside: dict[int, _Beside] = {}
"""By the number of the device; a backward pass runs in a thread of the library's own."""


@contextlib.contextmanager
def weight_gradients_beside(device: torch.device) -> Iterator[None]:
    """Under it backward passes on *device* make gradients of weights beside the rest; leaving it
    lets the current stream wait for them.
    """
    if device.type != "cuda":
        yield
        return
    number = torch.cuda.current_device() if device.index is None else device.index
    _beside[number] = beside = _Beside(device)
    try:
        yield
    finally:
        del _beside[number]
        beside.join()


def of_weight(weight: Tensor, make: Callable[..., Made], *inputs: Tensor) -> Made:
    """`make(*inputs)`, the gradients of a layer with *weight*: beside the rest where that is on."""
    beside = _beside.get(weight.device.index) if weight.device.type == "cuda" else None
    return make(*inputs) if beside is None else beside.make(weight, make, inputs)


class _Beside:
    """The stream, and what it reads that the main one must not overwrite yet."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = stream_of(device, "weights")
        self._held: deque[tuple[torch.cuda.Event, tuple[Tensor, ...]]] = deque()
        self._seen: set[int] = set()

    def make(self, weight: Tensor, make: Callable[..., Made], inputs: tuple[Tensor, ...]) -> Made:
        main = torch.cuda.current_stream(self._device)
        if weight.data_ptr() in self._seen:
            # A layer that was passed twice: the main stream adds its gradients up.
            self.join()
            return make(*inputs)
        self._seen.add(weight.data_ptr())
        self._stream.wait_stream(main)
        with torch.cuda.stream(self._stream):
            made = make(*inputs)
            event = torch.cuda.Event()
            event.record()
        self._held.append((event, inputs))
        if len(self._held) > _MOST_HELD:
            main.wait_event(self._held.popleft()[0])
        return made

    def join(self) -> None:
        """Let the current stream wait for all gradients so far."""
        if self._seen:
            torch.cuda.current_stream(self._device).wait_stream(self._stream)
        self._held.clear()
