# SPDX-License-Identifier: Apache-2.0
"""Gradients of weights on a CUDA stream of their own: nothing in a backward pass waits for them.

A layer's backward pass makes two gradients: that of its input, which the layer before waits for,
and those of its weights, which the optimiser needs at the end. A device that few members do not
fill makes both at once.

Autograd never sees the latter, since whatever it did with them it would do at once: they are kept
here, by leaf, and added to what it found when the pass is over.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Self

import torch
from torch import Tensor

from unbraid.core.cuda_streams import stream_of

Pair = tuple[Tensor, Tensor]
"""Gradients of a layer's weight and bias."""
_MOST_HELD = 3
"""Layers whose inputs stay in memory at most: beyond that the backward pass waits for the first."""
_passes: dict[int, WeightGradients] = {}
"""Backward passes under way, by where their leaves lie; they run in threads of the library's own.
"""


def leaves_of(weight: Tensor, bias: Tensor) -> tuple[int, int] | None:
    """Where a layer's weights lie, for `of_layer`; None where one of them is no leaf, such as a
    bias that was repeated.
    """
    return (weight.data_ptr(), bias.data_ptr()) if weight.is_leaf and bias.is_leaf else None


def of_layer(
    leaves: tuple[int, int] | None, make: Callable[..., Pair], *inputs: Tensor
) -> Pair | tuple[None, None]:
    """`make(*inputs)`, the gradients of a layer's *leaves*: kept, and made beside the rest, where a
    pass asks for that; else at once.
    """
    owner = None if leaves is None else _passes.get(leaves[0])
    if leaves is None or owner is None or _passes.get(leaves[1]) is not owner:
        return make(*inputs)
    owner.make(leaves, make, inputs)
    return None, None


class WeightGradients:
    """The gradients of *leaves* in one backward pass, made beside it on a GPU.

    with WeightGradients(leaves, device) as gradients:
        found = torch.autograd.grad(loss, leaves, allow_unused=True)
    whole = gradients.added_to(found)
    """

    def __init__(
        self, leaves: Mapping[str, Tensor], device: torch.device, *, beside: bool = True
    ) -> None:
        """Without *beside*, and on a CPU, autograd makes them all."""
        self._leaves, self._device = list(leaves.values()), device
        self._stream = stream_of(device, "weights") if device.type == "cuda" else None
        self._beside = beside and self._stream is not None
        self._kept: dict[int, Tensor] = {}
        self._held: deque[tuple[torch.cuda.Stream, torch.cuda.Event, tuple[Tensor, ...]]] = deque()

    def __enter__(self) -> Self:
        """From here on layers keep their gradients here."""
        if self._beside:
            _passes.update((leaf.data_ptr(), self) for leaf in self._leaves)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let the current stream wait for all gradients."""
        if not self._beside:
            return
        for leaf in self._leaves:
            _passes.pop(leaf.data_ptr(), None)
        # After a failed capture waiting fails as well, and would hide why.
        with contextlib.suppress(RuntimeError) if error else contextlib.nullcontext():
            if self._kept and self._stream is not None:
                torch.cuda.current_stream(self._device).wait_stream(self._stream)
        self._held.clear()

    def make(
        self, leaves: tuple[int, int], make: Callable[..., Pair], inputs: tuple[Tensor, ...]
    ) -> None:
        """Keep `make(*inputs)`, the gradients of *leaves*."""
        if self._stream is None:
            self._keep(leaves, make(*inputs))
            return
        main = torch.cuda.current_stream(self._device)
        self._stream.wait_stream(main)
        with torch.cuda.stream(self._stream):
            self._keep(leaves, make(*inputs))
            event = torch.cuda.Event()
            event.record()
        # Until it has been waited for, what the stream reads must not be overwritten.
        self._held.append((main, event, inputs))
        if len(self._held) > _MOST_HELD:
            stream, event, held = self._held.popleft()
            stream.wait_event(event)
            del held

    def _keep(self, leaves: tuple[int, int], made: Pair) -> None:
        for leaf, gradient in zip(leaves, made, strict=True):
            known = self._kept.get(leaf)
            self._kept[leaf] = gradient if known is None else known + gradient

    def added_to(self, found: Sequence[Tensor | None]) -> list[Tensor]:
        """What autograd *found* for each leaf and what was kept of it; zeros where neither is."""
        whole = []
        for leaf, own in zip(self._leaves, found, strict=True):
            kept = self._kept.get(leaf.data_ptr())
            parts = [part for part in (own, kept) if part is not None]
            whole.append(sum(parts[1:], parts[0]) if parts else torch.zeros_like(leaf))
        return whole
