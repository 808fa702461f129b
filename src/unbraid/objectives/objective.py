# SPDX-License-Identifier: Apache-2.0
"""The contract of an objective: a frozen dataclass of hyper-parameters and one pure function `terms`.

Convention, everywhere: sums over pixels and over latents, means over the batch, nats; β = 4 is the papers' 4.

A numeric field holds a number; a list is a sweep, which a plan expands into one objective a member. In training the
members of one chunk are stacked: the same dataclass, whose numeric fields are tensors `(members,)`. `terms` is therefore
written once, for any number of members, and reads `self.beta` as if it were a number.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from unbraid.errors import InputError, Problems, problem
from unbraid.networks.layout import Layout
from unbraid.registry import Citation


def number(default: float, help: str, *, at_least: float | None = None, above: float | None = None, whole: bool = False) -> Any:
    """A numeric hyper-parameter with its allowed range; the command line and the checks derive from it."""
    return field(default=default, metadata={"help": help, "at_least": at_least, "above": above, "whole": whole})


@dataclass(frozen=True)
class Term:
    """One summand of the loss: `(members, batch)` per sample, or `(members,)` where it exists only per batch."""

    value: Tensor
    weight: float | Tensor = 1.0

    def mean(self) -> Tensor:
        """Mean over the batch: `(members,)`."""
        return self.value if self.value.dim() == 1 else self.value.mean(dim=1)


@dataclass(frozen=True)
class Forward:
    """What one forward pass offers to an objective. All tensors carry the member axis first."""

    reconstruction: Tensor
    """Negative log-likelihood of each sample, up to constants: `(members, batch)`."""
    mean: Tensor
    logvar: Tensor
    z: Tensor
    """Posterior means, log-variances and the latents that were decoded: `(members, batch, latents)`."""
    step: Tensor
    """Number of updates done before this one, a 0-d tensor."""
    permutation: Tensor | None = None
    """For objectives with `permutes`: an independent shuffle of the batch for each latent, `(members, latents, batch)`."""
    auxiliary: Callable[[Tensor], Tensor] | None = None
    """For objectives with an auxiliary network: that network, `(members, batch, latents) -> (members, batch, outputs)`."""
    shared: dict[str, Tensor] = field(init=False, default_factory=dict)
    """What `terms` leaves here for `auxiliary_loss`, so that nothing is computed twice."""


class AuxiliaryNetwork(ABC):
    """A second network that learns beside the VAE, with its own optimiser settings (FactorVAE's discriminator)."""

    learning_rate: float
    adam_betas: tuple[float, float]

    @abstractmethod
    def layout(self, latents: int) -> Layout:
        """Its weights."""

    @abstractmethod
    def __call__(self, weights: dict[str, Tensor], z: Tensor, precision: torch.dtype | None = None) -> Tensor:
        """Its outputs for latents `(members, batch, latents)`, heavy layers in *precision*."""


@dataclass(frozen=True)
class Objective(ABC):
    """What is minimised: the sum over `terms` of weight times batch mean."""

    citation: ClassVar[Citation]
    label: ClassVar[str]
    term_names: ClassVar[tuple[str, ...]]
    """Keys of `terms`, known before anything runs."""
    samples_latents: ClassVar[bool] = True
    """False for a plain autoencoder, which decodes the mean."""
    permutes: ClassVar[bool] = False
    strength: ClassVar[str | None] = None
    """The field that sets how strongly the method pushes, the one a study sweeps."""

    def __post_init__(self) -> None:
        """Check every number against its range; a list of numbers is a sweep and stored as a tuple."""
        problems = Problems()
        for item in dataclasses.fields(self):
            if not _is_number(item):
                continue
            value = getattr(self, item.name)
            value = value.tolist() if hasattr(value, "tolist") else value  # NumPy's numbers and arrays
            values = tuple(value) if isinstance(value, (list, tuple)) else (value,)
            if not values:
                problems.add(f"{self.key}: {item.name}", "needs at least one value", value)
            checked = [_checked(self.key, item, one, problems) for one in values]
            object.__setattr__(self, item.name, tuple(checked) if isinstance(value, (list, tuple)) else checked[0])
        problems.raise_if_any()

    @property
    def key(self) -> str:
        """The registered name; that of the file for a class that is not registered."""
        from unbraid.objectives import OBJECTIVES

        home = f"{type(self).__module__}:{type(self).__qualname__}"
        found = [name for table in (OBJECTIVES.built_in, OBJECTIVES) for name, target in table.items() if target == home]
        return found[0] if found else type(self).__module__.rpartition(".")[2]

    @abstractmethod
    def terms(self, forward: Forward) -> dict[str, Term]:
        """The summands of the loss by name, in the order of `term_names`.

        Tensor operations alone, which a GPU captures and replays: no `.item()`, no `if` on a tensor's value.
        """

    def auxiliary_network(self) -> AuxiliaryNetwork | None:
        """The network that learns beside the VAE, if the method has one."""
        return None

    def auxiliary_loss(self, forward: Forward) -> Tensor:
        """Loss of the auxiliary network, `(members, batch)`; only that network's weights follow its gradient."""
        raise InputError(problem("objective", "has no auxiliary network", self.key))

    def hyper(self) -> dict[str, Any]:
        """Names and values of the hyper-parameters."""
        return {item.name: getattr(self, item.name) for item in dataclasses.fields(self)}

    def sweep(self) -> list[Self]:
        """One objective for each combination of the lists among the fields, the first field slowest."""
        values = [v if isinstance(v, tuple) else (v,) for v in self.hyper().values()]
        names = list(self.hyper())
        return [type(self)(**dict(zip(names, combination, strict=True))) for combination in itertools.product(*values)]


def _is_number(item: dataclasses.Field[Any]) -> bool:
    return "at_least" in item.metadata


def _checked(key: str, item: dataclasses.Field[Any], value: Any, problems: Problems) -> Any:
    """*value* as the field's kind of number, with what is wrong with it added to *problems*."""
    name = f"{key}: {item.name}"
    rules = item.metadata
    # numbers.Real counts NumPy's scalars in, which are not Python's int or float.
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        problems.add(name, "must be a number", value)
        return value
    try:
        plain = float(value)
    except OverflowError:  # a whole number beyond the largest float
        plain = math.inf
    if not math.isfinite(plain):
        problems.add(name, "must be a finite number", value)
    elif rules["at_least"] is not None and plain < rules["at_least"]:
        problems.add(name, f"must be at least {rules['at_least']:g}", value)
    elif rules["above"] is not None and plain <= rules["above"]:
        problems.add(name, f"must be above {rules['above']:g}", value)
    elif rules["whole"] and not plain.is_integer():
        problems.add(name, "must be a whole number", value)
    else:
        return int(plain) if rules["whole"] else plain
    return value


def stack(objectives: Sequence[Objective], device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Objective:
    """One objective for all members of a chunk: numeric fields become tensors `(members,)`, the others must agree."""
    first = objectives[0]
    stacked = object.__new__(type(first))
    for item in dataclasses.fields(first):
        values = [getattr(one, item.name) for one in objectives]
        if _is_number(item):
            object.__setattr__(stacked, item.name, torch.tensor(values, dtype=dtype, device=device))
        elif any(value != values[0] for value in values):
            raise InputError(problem(item.name, "must agree within a chunk", values))
        else:
            object.__setattr__(stacked, item.name, values[0])
    return stacked


def structure(objective: Objective) -> tuple[Any, ...]:
    """What must agree for two objectives to be stacked: the class and the fields that are not numbers."""
    fixed = (getattr(objective, item.name) for item in dataclasses.fields(objective) if not _is_number(item))
    return (type(objective), *fixed)


def total_loss(terms: dict[str, Term]) -> Tensor:
    """The one place that reduces: weight times batch mean, summed over the terms, `(members,)`."""
    return torch.stack([term.weight * term.mean() for term in terms.values()]).sum(dim=0)
