# SPDX-License-Identifier: Apache-2.0
"""Checkpoints that do not stop training: the state is copied between two steps and written by a
thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor

import torch
from torch import Tensor

from unbraid.core.cuda_streams import stream_of

Write = Callable[[Mapping[str, Tensor], int], None]
"""Puts tensors and their step on disk."""


class BackgroundSave:
    """Saves the states of one chunk, one at a time and in order."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        """*pool* writes; chunks may share it."""
        self._pool = pool
        self._writing: Future[None] | None = None
        self.seconds = 0.0
        """What the last save took."""

    def __call__(self, tensors: Mapping[str, Tensor], step: int, write: Write) -> None:
        """Copy *tensors* and let *write* have the copies; waits for the save before."""
        self.wait()
        copies, ready = _copied(tensors)
        self._writing = self._pool.submit(self._save, copies, ready, step, write)

    @property
    def busy(self) -> bool:
        """Whether a save is under way."""
        return self._writing is not None and not self._writing.done()

    def wait(self) -> None:
        """Wait until nothing is being written, and raise what went wrong with the last save."""
        if self._writing is not None:
            self._writing.result()

    def _save(
        self, tensors: dict[str, Tensor], ready: torch.cuda.Event | None, step: int, write: Write
    ) -> None:
        began = time.monotonic()
        if ready is not None:
            device = next(iter(tensors.values())).device
            # A stream of its own: on training's the copy would wait for the steps in its queue.
            stream = stream_of(device, "save")
            stream.wait_event(ready)
            with torch.cuda.stream(stream):
                tensors = {name: tensor.cpu() for name, tensor in tensors.items()}
        write(tensors, step)
        self.seconds = time.monotonic() - began


def _copied(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], torch.cuda.Event | None]:
    """A copy that training leaves alone, and what to wait for before it is read.

    On a GPU it stays there, behind the steps in its queue; where it has no room for that, the host
    takes it at once.
    """
    device = next(iter(tensors.values())).device
    if device.type != "cuda":
        return {name: tensor.clone() for name, tensor in tensors.items()}, None
    try:
        copies = {name: tensor.clone() for name, tensor in tensors.items()}
    except torch.cuda.OutOfMemoryError:
        return {name: tensor.cpu() for name, tensor in tensors.items()}, None
    ready = torch.cuda.Event()
    ready.record(torch.cuda.current_stream(device))
    return copies, ready
