# SPDX-License-Identifier: Apache-2.0
"""Data with one factor more, s, which shows in images through ε f(s) alone (Zietlow et al. 2021,
figure 4).

Every image of the original occurs with every s, so s is independent of its factors: `steps` evenly
spaced values of mean 0 and variance 1. The factor comes last on the grid and moves fastest. Nothing
is stored but the frames f(s); images are drawn from the original's on the training device.

Departs: the paper names neither the number of values of s nor how far they move the pattern; here
as many values as dSprites has positions, 32, and 4 rows for each, see `pattern`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.checks import read_whole, real, whole
from unbraid.core.errors import Problems, Shown
from unbraid.core.grid import FactorGrid
from unbraid.data.dataset import Dataset
from unbraid.data.perturbed.dataset import Perturbed, check_base
from unbraid.data.perturbed.pattern import (
    ROWS_PER_STEP,
    amplitude,
    even_s,
    half_rows,
    make_pattern,
    usual_shift_scale,
)

if TYPE_CHECKING:
    import torch

    from unbraid.data.dataset import Sampler

STEPS = 32
"""Positions of dSprites along a side."""
LEAST_EPSILON = 1e-6
"""A change below 2^-24 is lost in a float32 near 1."""


class WithS(Dataset):
    """Another dataset times an independent factor s that is seen in a faint pattern alone."""

    citation: ClassVar = Perturbed.citation
    licence: ClassVar[str] = "that of the original data"

    def __init__(
        self,
        of: str | os.PathLike[str] | Dataset = "dsprites",
        of_options: dict[str, Any] | None = None,
        *,
        epsilon: float = 0.1,
        steps: int = STEPS,
        rows_per_step: float = ROWS_PER_STEP,
        clip: bool = True,
        seed: int = 0,
    ) -> None:
        problems = Problems()
        self.base = _opened(of, of_options)
        _check(problems, self.base)
        self.epsilon = real(problems, "epsilon", epsilon, LEAST_EPSILON, 1.0)
        self.steps = whole(problems, "steps", steps, 2, 1024)
        rows = real(problems, "rows_per_step", rows_per_step, 0.01, 64.0)
        problems.raise_if_any()
        self.clip, self.seed = bool(clip), read_whole("seed", seed, 0, 2**62)
        self.name = "with_s"
        self.options = {
            "of": self.base.name,
            "of_options": self.base.options,
            "epsilon": self.epsilon,
            "steps": self.steps,
            "rows_per_step": rows,
            "clip": self.clip,
            "seed": self.seed,
        }
        self.grid = FactorGrid((*self.base.grid.names, "s"), (*self.base.grid.sizes, self.steps))
        self.image_shape = self.base.image_shape
        self.bounded = self.clip
        height, width, _ = self.image_shape
        halves = half_rows(usual_shift_scale(self.steps, rows) * even_s(self.steps))
        pattern = make_pattern(self.seed, height, width, int(halves.min()), int(halves.max()))
        self.frames: NDArray[np.int8] = np.ascontiguousarray(pattern.frames(halves)[:, None])
        """f(s) of each s, `(steps, 1, height, width)`."""

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Those of the original, and s."""
        return (*self.base.factor_names, "s")

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """Those of the original, and the number of values of s."""
        return (*self.base.factor_sizes, self.steps)

    @property
    def factor_values(self) -> tuple[NDArray[np.int64], ...]:
        """Those of the original, and places of s in their order."""
        return (*self.base.factor_values, np.arange(self.steps))

    @property
    def repeatable(self) -> bool:
        """As the original is."""
        return self.base.repeatable

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """That of the original."""
        return self.base.sample_shape

    @property
    def device_bytes(self) -> int:
        """The original's, and the frames."""
        return self.base.device_bytes + self.frames.nbytes

    @property
    def about(self) -> list[tuple[str, str]]:
        """The original and how s is seen."""
        clipped = "clipped to [0, 1]" if self.clip else "not clipped"
        told = f"{self.steps} values, seen in at most {self.epsilon:g} of every value, {clipped}"
        return [("Original", self.base.name), ("s", told), *self.base.about]

    def factors(self, indices: ArrayLike) -> NDArray[np.int64]:
        """Factor values of the original and the place of s, last."""
        flat = self.grid.check_index(indices)
        own = self.base.factors(flat // self.steps)
        return np.concatenate([own, (flat % self.steps)[..., None]], axis=-1)

    def images(self, indices: ArrayLike) -> NDArray[np.uint8]:
        """Images clipped to be shown and rounded to grey levels."""
        import torch

        checked = self.grid.check_index(indices)
        flat = torch.from_numpy(np.ascontiguousarray(checked).reshape(-1))
        found = self.as_images(self.sampler("cpu")(flat).numpy())
        return found.reshape(*checked.shape, *self.image_shape)

    def sampler(self, device: torch.device | str) -> Sampler:
        """The original's sampler and the frames, both on *device*."""
        import torch

        original, frames = self.base.sampler(device), torch.from_numpy(self.frames).to(device)
        size, steps, clip = amplitude(self.epsilon), self.steps, self.clip

        def draw(indices: torch.Tensor) -> torch.Tensor:
            place = torch.div(indices, steps, rounding_mode="floor")
            changed = torch.add(original(place), frames[indices - place * steps], alpha=size)
            return changed.clamp_(0.0, 1.0) if clip else changed

        return draw

    def check_files(self) -> None:
        """Those of the original."""
        self.base.check_files()


def _opened(of: str | os.PathLike[str] | Dataset, options: dict[str, Any] | None) -> Dataset:
    from unbraid.data.loading import load

    return of if isinstance(of, Dataset) else load(of, **(options or {}))


def _check(problems: Problems, base: Dataset) -> None:
    """Record why *base* cannot be given a factor s, if so."""
    check_base(problems, base)
    if not base.labelled:
        remedy = "Give labels, or perturb the data by a trained model instead."
        problems.add("data", "must have factors that s can be compared with", base.name, remedy)
    elif "s" in base.factor_names:
        problems.add("data", "must have no factor called s already", Shown(base.name))
