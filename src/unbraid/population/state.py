# SPDX-License-Identifier: Apache-2.0
"""Everything that changes while a chunk of members trains, one row a member."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

import torch
from torch import Tensor

from unbraid.population.adam import Adam

STORED = tuple(item.name for item in fields(Adam) if not item.metadata)
"""Tensors of an optimiser group that a file holds."""
OPTIONAL = tuple(item.name for item in fields(Adam) if "optional" in item.metadata)
"""Those that it holds of some optimisers."""


@dataclass
class State:
    """The state of a chunk."""

    step: int
    """Updates done, as the host counts them."""
    clock: Tensor
    """The same as the device counts them: int64, 0-d."""
    model: Adam
    auxiliary: tuple[Adam, ...]
    """The auxiliary networks, one for each kind of member that has one, a row for each of its
    members.
    """
    diverged_at: Tensor
    """Step at which a member's loss or gradient stopped being finite, else -1: `(members,)`."""
    window: Tensor
    """Sums of the recorded quantities since the last record: `(members, quantities)`."""
    history: Tensor
    """Means over `log_every` steps: `(members, records, quantities)`; NaN where none is."""
    memory: Tensor
    """What the objectives remember from step to step: `(members, names)`."""
    age: Tensor
    """Updates of a member beyond those of the clock, for Adam to count: int64 `(members,)`. Members
    that changed their batch size on the way (population-based training) have done more or fewer
    than the clock says; for all others it is 0."""

    def tensors(self) -> dict[str, Tensor]:
        """All tensors by name, as a checkpoint stores them."""
        named = {
            "diverged_at": self.diverged_at,
            "window": self.window,
            "history": self.history,
            "age": self.age,
        }
        if self.memory.shape[1]:
            named["memory"] = self.memory
        for group, adam in zip(_groups(len(self.auxiliary)), self.optimisers, strict=True):
            held = {name: getattr(adam, name) for name in (*STORED, *OPTIONAL)}
            named |= {f"{group}.{name}": one for name, one in held.items() if one is not None}
        return named

    @property
    def optimisers(self) -> tuple[Adam, ...]:
        """Those of the models and of the auxiliary networks."""
        return (self.model, *self.auxiliary)

    @classmethod
    def from_tensors(cls, named: dict[str, Tensor], step: int, device: torch.device) -> Self:
        """The inverse of `tensors`."""
        on_device = {name: tensor.to(device) for name, tensor in named.items()}
        count = sum(name.endswith(".weights") for name in on_device)
        model, *auxiliary = (_adam_of(on_device, group) for group in _groups(count - 1))
        rest = {name: on_device[name] for name in ("diverged_at", "window", "history")}
        rest["memory"] = on_device.get("memory", rest["window"].new_zeros(len(rest["window"]), 0))
        rest["age"] = on_device.get("age", torch.zeros_like(rest["diverged_at"]))
        clock = torch.full((), step, dtype=torch.int64, device=device)
        return cls(step, clock, model, tuple(auxiliary), **rest)

    def become(self, other: State) -> None:
        """Hold what *other* holds, in place: a captured step goes on reading the same tensors."""
        theirs = other.tensors()
        for name, tensor in self.tensors().items():
            tensor.copy_(theirs[name])
        for adam in self.optimisers:
            if adam.low_precision_copy is not None:
                adam.low_precision_copy.copy_(adam.weights)
        self.clock.copy_(other.clock)
        self.step = other.step

    def record(self, values: Tensor, healthy: Tensor, every: int) -> None:
        """Add a step's *values* to the window, close it after *every* steps, note who diverged."""
        broke = (self.diverged_at < 0) & ~healthy
        self.diverged_at.copy_(torch.where(broke, self.clock, self.diverged_at))
        self.window += torch.where(healthy.unsqueeze(1), values, torch.nan)
        records = self.history.shape[1]
        if records > 0:
            slot = (
                torch.div(self.clock, every, rounding_mode="floor").clamp(max=records - 1).view(1)
            )
            full = (self.clock + 1) % every == 0
            old = self.history.index_select(1, slot)
            self.history.index_copy_(
                1, slot, torch.where(full, (self.window / every).unsqueeze(1), old)
            )
            self.window.copy_(torch.where(full, 0.0, self.window))
        self.clock += 1


def is_over(step: int, diverged_at: Tensor, steps: int) -> bool:
    """Whether no member of a chunk has one of *steps* left: all are done, or all have diverged."""
    return step >= steps or bool((diverged_at >= 0).all())


def _groups(auxiliary: int) -> list[str]:
    """Names of the optimisers in a file."""
    return ["model", *("auxiliary" if k == 0 else f"auxiliary{k + 1}" for k in range(auxiliary))]


def _adam_of(named: Mapping[str, Tensor], group: str) -> Adam:
    found = {name: named[f"{group}.{name}"] for name in STORED}
    more: dict[str, Any] = {name: named.get(f"{group}.{name}") for name in OPTIONAL}
    return Adam(**found, **more)
