# SPDX-License-Identifier: Apache-2.0
"""Launches of Triton's kernels, all through one door: a rehearsal only has them compiled.

A kernel is compiled when it is first launched, and a training step needs about thirty. Compiled one
after the other they take longer than the rest of the start. In a rehearsal a step runs without its
kernels, each of which is compiled on a thread of its own meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor

_rehearsals: dict[torch.device, _Rehearsal] = {}
"""By device, since devices train side by side."""
_MOST_THREADS = 32


def launch_kernel(kernel: Any, grid: tuple[int, ...], *arguments: Any, **options: Any) -> bool:
    """Launch *kernel* on the device of its first tensor; False where this is but a rehearsal.

    What the kernel would have written is then whatever was in memory.
    """
    on = next(argument for argument in arguments if isinstance(argument, Tensor))
    rehearsal = _rehearsals.get(on.device)
    if rehearsal is not None and rehearsal.includes_this_thread():
        rehearsal.ask(kernel, grid, arguments, options)
        return False
    with torch.cuda.device_of(on):
        kernel[grid](*arguments, **options)
    return True


@contextlib.contextmanager
def compiling_in_parallel(device: torch.device) -> Iterator[None]:
    """Under it no kernel that this thread launches on *device* runs: all are compiled at once.

    Leaving it waits for the last. What fails to compile is left to the first launch, which tells.
    """
    if device.type == "cuda" and device.index is None:
        device = torch.device("cuda", torch.cuda.current_device())
    if device in _rehearsals:
        yield
        return
    _rehearsals[device] = rehearsal = _Rehearsal(device)
    try:
        yield
    finally:
        del _rehearsals[device]
        rehearsal.wait()


class _Rehearsal:
    """Kernels asked for on one device, each compiled once."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._thread = threading.get_ident()
        self._asked: set[Any] = set()
        self._threads = ThreadPoolExecutor(
            min(_MOST_THREADS, len(os.sched_getaffinity(0)))
            if hasattr(os, "sched_getaffinity")
            else os.cpu_count()
        )

    def includes_this_thread(self) -> bool:
        """Whether it is the rehearsing thread, or one of the library's own, on which derivatives
        run; other threads' kernels run as ever.
        """
        if threading.get_ident() == self._thread:
            return True
        return isinstance(threading.current_thread(), threading._DummyThread)

    def ask(
        self, kernel: Any, grid: tuple[int, ...], arguments: tuple, options: dict[str, Any]
    ) -> None:
        """Have *kernel* compiled for such *arguments*, unless it was asked for already."""
        stand_ins = tuple(
            _Like(argument) if isinstance(argument, Tensor) else argument for argument in arguments
        )
        key = (kernel, tuple(map(_kind, stand_ins)), tuple(options.items()))
        if key not in self._asked:
            self._asked.add(key)
            self._threads.submit(self._compile, kernel, grid, stand_ins, options)

    def _compile(
        self, kernel: Any, grid: tuple[int, ...], arguments: tuple, options: dict[str, Any]
    ) -> None:
        with contextlib.suppress(Exception):
            on_device = self.device.type == "cuda"
            with torch.cuda.device(self.device) if on_device else contextlib.nullcontext():
                compiled = kernel.warmup(*arguments, grid=grid, **options)
                if on_device:
                    compiled.run  # noqa: B018  loads it, and compiles what launches it

    def wait(self) -> None:
        """Return when the last is compiled."""
        self._threads.shutdown()


class _Like:
    """What the compiler asks of a tensor, without its memory."""

    def __init__(self, tensor: Tensor) -> None:
        self.dtype = tensor.dtype
        self._address = tensor.data_ptr() % 16

    def data_ptr(self) -> int:
        """An address that is as even as the tensor's."""
        return self._address


def _kind(argument: Any) -> Any:
    """What of *argument* tells one compiled kernel from another."""
    if isinstance(argument, _Like):
        return argument.dtype, argument.data_ptr()
    if isinstance(argument, int):
        return argument == 1, argument % 16 == 0, -(2**31) <= argument < 2**31
    return type(argument)
