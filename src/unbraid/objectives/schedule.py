# SPDX-License-Identifier: Apache-2.0
"""A number that changes while a model trains: constant, linear, cosine, cyclic or by a step.

Any numeric hyperparameter, and the learning rate, may be one. It is spelled, stored in a plan and
typed on a command line as `linear(0, 4, 10000)`: from 0 to 4 in 10,000 steps. With u the share of
the ramp that is done after t updates:

    constant(a)                      a
    linear(a, b, steps[, wait])      a + (b - a) u,    u = clip((t - wait) / steps, 0, 1)
    cosine(a, b, steps[, wait])      a + (b - a) (1 - cos πu) / 2
    cyclic(a, b, steps[, share])     linear in cycles, u = min((t mod steps) / (share · steps), 1)
    step(a, b, steps)                a for t <= steps, b after

A cycle goes from a to b in its first *share*, 1/2 by default, and then stays at b.


`cyclic` is that of Fu et al. 2019 (their τ and R are our position in a cycle and *share*; they
count t from 1). `linear` from 0 and `step` are the two annealers of disentanglement_lib's few-label
methods.
"""

from __future__ import annotations

import math
import numbers
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unbraid.core.errors import InputError, Shown, invalid, unknown

KINDS = ("constant", "linear", "cosine", "cyclic", "step")
_EXTRA_NAMES = {"linear": "wait", "cosine": "wait", "cyclic": "share"}
_USUAL_EXTRA = {"cyclic": 0.5}
_SPELLING = re.compile(r"\s*([A-Za-z_]+)\s*\((.*)\)\s*")


@dataclass(frozen=True)
class Schedule:
    """One number as a function of the updates done.

    >>> Schedule.parse("linear(0, 4, 100)").value(25)
    1.0
    >>> str(linear(0, 4, steps=100))
    'linear(0, 4, 100)'
    """

    kind: str
    start: float
    end: float
    steps: float = 1.0
    """Length of the ramp or of a cycle."""
    extra: float = 0.0
    """Updates before a ramp begins; for `cyclic` the share of a cycle that rises."""

    def __post_init__(self) -> None:
        """Check the numbers and store them as floats."""
        if self.kind not in KINDS:
            raise InputError(unknown("schedule", self.kind, KINDS))
        for name in ("start", "end", "steps", "extra"):
            told = _EXTRA_NAMES.get(self.kind, name) if name == "extra" else name
            object.__setattr__(
                self, name, _finite(f"schedule {self.kind}: {told}", getattr(self, name))
            )
        least = 0 if self.kind == "step" else 1
        if self.steps < least:
            raise invalid(f"schedule {self.kind}: steps", f"must be at least {least}", self.steps)
        if self.kind == "cyclic" and not 0 < self.extra <= 1:
            raise invalid("schedule cyclic: share", "must be above 0 and at most 1", self.extra)
        if self.kind in ("linear", "cosine") and self.extra < 0:
            raise invalid(f"schedule {self.kind}: wait", "must be at least 0", self.extra)
        if self.kind == "constant" and self.end != self.start:
            raise invalid("schedule constant: end", f"must be its start, {self.start:g}", self.end)
        # What a kind does not use is not stored, so that equal schedules are those that are spelled
        # alike.
        if self.kind == "constant":
            object.__setattr__(self, "steps", 1.0)
        if self.kind in ("constant", "step"):
            object.__setattr__(self, "extra", 0.0)

    def __str__(self) -> str:
        """The spelling, from which `parse` makes the same schedule, to the last bit."""
        if self.kind == "constant":
            return f"constant({_spelled(self.start)})"
        values = [self.start, self.end, self.steps]
        if self.extra != _USUAL_EXTRA.get(self.kind, 0.0):
            values.append(self.extra)
        return f"{self.kind}({', '.join(_spelled(value) for value in values)})"

    @staticmethod
    def looks_like(text: str) -> bool:
        """Whether *text* has the form of a schedule: a word with numbers in parentheses."""
        return _SPELLING.fullmatch(text) is not None

    @classmethod
    def parse(cls, text: str, name: str = "schedule") -> Schedule:
        """The schedule that *text* spells; *name* is the hyperparameter, for the message where it
        spells none.
        """
        found = _SPELLING.fullmatch(text)
        if found is None:
            raise invalid(name, "must be a schedule", text, "For example linear(0, 4, 10000).")
        kind, words = found[1].lower(), [word.strip() for word in found[2].split(",")]
        if kind not in KINDS:
            raise InputError(f"{name}: {unknown('schedule', kind, KINDS)}")
        least, most = {"constant": (1, 1), "step": (3, 3)}.get(kind, (3, 4))
        try:
            values = [float(word) for word in words]
        except ValueError:
            raise invalid(
                name, "must be a schedule of numbers", text, f"For example {_example(kind)}."
            ) from None
        if not least <= len(values) <= most:
            wanted = {(1, 1): "1 number", (3, 3): "3 numbers"}.get((least, most), "3 or 4 numbers")
            found_count = Shown(f"{text.strip()}, with {len(values)}")
            raise invalid(
                name,
                f"needs {wanted} for the schedule {kind}",
                found_count,
                f"For example {_example(kind)}.",
            )
        try:
            if kind == "constant":
                return constant(values[0])
            extra = values[3] if len(values) > 3 else _USUAL_EXTRA.get(kind, 0.0)
            return cls(kind, values[0], values[1], values[2], extra)
        except InputError as error:
            raise InputError(f"{name}: {error}") from None

    def ends_within(self, steps: float) -> bool:
        """Whether it comes to its end, or goes through a whole cycle, within so many updates."""
        wait = self.extra if self.kind in ("linear", "cosine") else 0.0
        share = self.extra if self.kind == "cyclic" else 1.0
        return self.kind == "constant" or steps >= wait + share * self.steps

    def value(self, step: float) -> float:
        """What the number is after *step* updates."""
        stacked = ScheduledNumber([self], "cpu", torch.float64)
        return float(stacked.at(torch.tensor(float(step), dtype=torch.float64)))


def constant(value: float) -> Schedule:
    """Always *value*."""
    return Schedule("constant", value, value)


def linear(start: float, end: float, steps: float, wait: float = 0.0) -> Schedule:
    """From *start* to *end* in *steps* updates, after *wait* updates at *start*."""
    return Schedule("linear", start, end, steps, wait)


def cosine(start: float, end: float, steps: float, wait: float = 0.0) -> Schedule:
    """The same along half a cosine: slow, fast, slow."""
    return Schedule("cosine", start, end, steps, wait)


def cyclic(start: float, end: float, steps: float, share: float = 0.5) -> Schedule:
    """Cycles of *steps* updates, each rising from *start* to *end* in its first *share* and staying
    there.
    """
    return Schedule("cyclic", start, end, steps, share)


def step(start: float, end: float, steps: float) -> Schedule:
    """*start* up to and including *steps* updates, then *end*."""
    return Schedule("step", start, end, steps)


def _finite(name: str, value: float) -> float:
    """*value* as a float; NumPy's numbers are numbers too."""
    try:
        plain = (
            math.nan
            if isinstance(value, bool) or not isinstance(value, numbers.Real)
            else float(value)
        )
    except OverflowError:  # a whole number beyond the largest float
        plain = math.inf
    if not math.isfinite(plain):
        raise invalid(name, "must be a finite number", value)
    return plain


def _spelled(value: float) -> str:
    """The shortest spelling that reads back as the same float, whole numbers without a point."""
    return repr(value).removesuffix(".0")


def _example(kind: str) -> str:
    return {"constant": "constant(4)", "step": "step(0, 4, 10000)"}.get(
        kind, f"{kind}(0, 4, 10000)"
    )


class ScheduledNumber:
    """One hyperparameter of all members of a chunk, some of them on schedules: `at(step)` is a
    tensor `(members,)`.
    """

    def __init__(
        self, values: Sequence[float | Schedule], device: torch.device | str, dtype: torch.dtype
    ) -> None:
        schedules = [
            value if isinstance(value, Schedule) else constant(float(value)) for value in values
        ]

        def column(numbers: Sequence[float]) -> Tensor:
            return torch.tensor(numbers, dtype=dtype, device=device)

        self.start = column([one.start for one in schedules])
        self.end = column([one.end for one in schedules])
        self.steps = column([max(one.steps, 1.0) for one in schedules])
        self.wait = column(
            [{"cyclic": 0.0, "step": one.steps}.get(one.kind, one.extra) for one in schedules]
        )
        self.share = column([one.extra if one.kind == "cyclic" else 1.0 for one in schedules])
        kinds = [
            torch.tensor([one.kind == kind for one in schedules], device=device)
            for kind in ("cosine", "cyclic", "step")
        ]
        self.is_cosine, self.is_cyclic, self.is_step = kinds

    def at(self, step: Tensor) -> Tensor:
        """The numbers `(members,)` after *step* updates, a 0-d tensor; tensor operations alone."""
        step = step.to(self.start.dtype)
        ramp = ((step - self.wait) / self.steps).clamp(0.0, 1.0)
        # The remainder is exact where the fraction of step / steps would lose digits after many
        # cycles.
        turned = torch.remainder(step, self.steps) / (self.share * self.steps)
        ramp = torch.where(self.is_cyclic, turned.clamp(max=1.0), ramp)
        ramp = torch.where(self.is_cosine, 0.5 - 0.5 * torch.cos(math.pi * ramp), ramp)
        ramp = torch.where(self.is_step, (step > self.wait).to(ramp.dtype), ramp)
        # lerp ends at exactly `end`; start + (end - start) would round it away where start is much
        # larger.
        return torch.lerp(self.start, self.end, ramp)


def stacked_number(
    values: Sequence[float | Schedule], device: torch.device | str, dtype: torch.dtype
) -> Tensor | ScheduledNumber:
    """One number of all members: a tensor `(members,)`, unless one of them is on a schedule."""
    if any(isinstance(value, Schedule) for value in values):
        return ScheduledNumber(values, device, dtype)
    return torch.tensor(values, dtype=dtype, device=device)


def number_at(value: Tensor | ScheduledNumber, step: Tensor) -> Tensor:
    """A stacked number as it is after *step* updates."""
    return value.at(step) if isinstance(value, ScheduledNumber) else value


def tensors_of(values: dict[str, Any]) -> dict[str, Tensor]:
    """The tensors behind stacked *values*, by name; what is no number of members is left out."""
    found: dict[str, Tensor] = {}
    for name, value in values.items():
        if isinstance(value, ScheduledNumber):
            found |= {f"{name}.{part}": tensor for part, tensor in vars(value).items()}
        elif isinstance(value, Tensor):
            found[name] = value
    return found


def bounds(value: float | Tensor | Schedule) -> tuple[float, float]:
    """The least and the largest value that a number of one member ever has."""
    if isinstance(value, Schedule):
        return min(value.start, value.end), max(value.start, value.end)
    return float(value), float(value)
