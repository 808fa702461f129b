# SPDX-License-Identifier: Apache-2.0
"""CUDA streams beside the main one: what kinds of members compute for themselves runs side by side.

The terms of a loss are dozens of small kernels, none of which fills a device, and an auxiliary
network's derivative needs nothing of the decoder's. On a CPU all of it runs in turn.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from unbraid.core.cuda_streams import stream_of


class SideStreams:
    """Numbered streams that start from the main one and come back to it.

    Memory is safe without further marks: what a stream uses of the main one is held by the caller
    until `join`, and what it makes is used again only after the next `start`.
    """

    def __init__(self, device: torch.device, count: int) -> None:
        self._device = device
        self._streams = (
            [stream_of(device, "kind", number) for number in range(count)]
            if device.type == "cuda"
            else []
        )

    @contextlib.contextmanager
    def start(self, number: int) -> Iterator[None]:
        """What is launched here follows all that the main stream was given so far."""
        if self._streams:
            self._streams[number].wait_stream(torch.cuda.current_stream(self._device))
        with self.go_on(number):
            yield

    @contextlib.contextmanager
    def go_on(self, number: int) -> Iterator[None]:
        """What is launched here follows what the stream itself was given, and nothing newer."""
        if not self._streams:
            yield
            return
        with torch.cuda.stream(self._streams[number]):
            yield

    def join(self) -> None:
        """Let the main stream wait for all of them."""
        for stream in self._streams:
            torch.cuda.current_stream(self._device).wait_stream(stream)
