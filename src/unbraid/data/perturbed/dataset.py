# SPDX-License-Identifier: Apache-2.0
"""Perturbed data (Zietlow et al. 2021): a dataset plus at most ε in every value.

Either the pattern of s(x) is added or plain noise.

A folder written by `unbraid perturb` holds `perturbed.json`, which names the original data and says
how it is changed, and for the pattern `perturbation.safetensors`: the signs, the pace of each
column, s of every image and its half rows. Images are not stored: the original's are drawn and
changed on the training device, so that the folder of all dSprites takes 5 MB. The noise of the
control is a pure function of seed and index, the same numbers on every device.

Departs: as `pattern` does. The pattern is the same in all channels; noise is drawn
for every value.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core import store
from unbraid.core.errors import InputError, Problems, Shown
from unbraid.core.folders import whole_path
from unbraid.core.registry import Citation
from unbraid.data.dataset import Dataset
from unbraid.data.perturbed.folder import read_pattern, read_record
from unbraid.data.perturbed.pattern import Pattern, amplitude

if TYPE_CHECKING:
    import torch

    from unbraid.data.dataset import Sampler


class Perturbed(Dataset):
    """Perturbed data: images changed by at most ε, by a pattern that turns VAEs, or by noise.

    `source` is the folder that it was written to; `base` the original data.
    """

    citation: ClassVar = Citation(
        "D. Zietlow, M. Rolinek, G. Martius",
        2021,
        "Demystifying inductive biases for (β-)VAE based architectures",
        "ICML",
    )
    licence: ClassVar[str] = "that of the original data"

    def __init__(self, source: str | os.PathLike[str], base: Dataset) -> None:
        self.folder = whole_path("data", source)
        self.record = read_record(self.folder)
        if base.fingerprint() != self.record["base"]["fingerprint"]:
            raise InputError(
                f"the original data of {self.folder} has changed since it was perturbed:"
                f" '{base.name}' has another fingerprint. Perturb it again."
            )
        self.base = base
        self.name = "perturbed"
        self.options = {"source": str(self.folder)}
        self.grid = self.base.grid
        self.image_shape = self.base.image_shape
        self.noise: str = self.record["noise"]
        self.epsilon: float = self.record["epsilon"]
        self.clip: bool = self.record["clip"]
        self.seed: int = self.record["seed"]
        self.bounded = self.base.bounded and self.clip
        self.pattern: Pattern | None = None
        self.half_rows: NDArray[np.int16] | None = None
        self.s: NDArray[np.float32] | None = None
        """s of every image, mean 0 and variance 1 over the data; None for plain noise."""
        if self.noise == "pattern":
            self.pattern, self.half_rows, self.s = read_pattern(
                self.folder, self.record, len(self), self.image_shape
            )

    @property
    def factor_names(self) -> tuple[str, ...]:
        """Names of the original's factors."""
        return self.base.factor_names

    @property
    def factor_sizes(self) -> tuple[int, ...]:
        """Sizes of the original's factors."""
        return self.base.factor_sizes

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """That of the original."""
        return self.base.sample_shape

    @property
    def training_indices(self) -> NDArray[np.int64] | None:
        """Those of the original."""
        return self.base.training_indices

    @property
    def scoring_indices(self) -> NDArray[np.int64] | None:
        """Those of the original."""
        return self.base.scoring_indices

    @property
    def device_bytes(self) -> int:
        """The original's, and the pattern with the place of every image in it."""
        return self.base.device_bytes + sum(array.nbytes for array in self._stored())

    def _stored(self) -> list[NDArray[Any]]:
        return (
            []
            if self.pattern is None or self.half_rows is None
            else [self.pattern.signs, self.half_rows]
        )

    @property
    def factor_values(self) -> tuple[NDArray[np.int64], ...]:
        """Those of the original."""
        return self.base.factor_values

    @property
    def about(self) -> list[tuple[str, str]]:
        """The original, how it is changed, and where s comes from."""
        made, base = self.record["provenance"], self.record["base"]
        options = ",".join(f"{name}={value}" for name, value in base["options"].items())
        kind = (
            "uniform noise, the control" if self.pattern is None else "a pattern that slides with s"
        )
        clipped = (
            "clipped to [0, 1]" if self.clip else "not clipped: values run below 0 and above 1"
        )
        lines = [
            ("Original", base["name"] + (f":{options}" if options else "")),
            (
                "Changed by",
                f"{kind}, at most {self.epsilon:g} in every value, {clipped}, seed {self.seed}",
            ),
        ]
        if self.pattern is not None:
            lines.append(
                (
                    "s from",
                    (
                        f"latent {made['latent']} of member {made['member']} ({made['label']}) of"
                        f" {made['run']}"
                    ),
                )
            )
        return lines

    def factors(self, indices: ArrayLike) -> NDArray[np.int64]:
        """Factor values of the original, untouched."""
        return self.base.factors(indices)

    def images(self, indices: ArrayLike) -> NDArray[np.uint8]:
        """The original's images, changed, clipped to be shown and rounded to grey levels."""
        import torch

        checked = self.grid.check_index(indices)
        flat = np.ascontiguousarray(checked).reshape(-1)
        original = np.moveaxis(self.base.images(flat), -1, 1).astype(np.float32) / np.float32(255.0)
        samples = self.disturber("cpu")(torch.from_numpy(original), torch.from_numpy(flat))
        return self.as_images(samples.numpy()).reshape(*checked.shape, *self.image_shape)

    def sampler(self, device: torch.device | str) -> Sampler:
        """The original's sampler and what it takes to change its samples, both on *device*."""
        original, disturb = self.base.sampler(device), self.disturber(device)

        def draw(indices: torch.Tensor) -> torch.Tensor:
            return disturb(original(indices), indices)

        return draw

    def disturber(
        self, device: torch.device | str
    ) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        """A function `(samples, indices) -> changed samples` by tensor operations on *device*."""
        change = self._with_noise(device) if self.pattern is None else self._with_pattern(device)

        def disturb(samples: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
            changed = change(samples, indices)
            return changed.clamp_(0.0, 1.0) if self.clip else changed

        return disturb

    @cached_property
    def _frames(self) -> tuple[NDArray[np.int8], NDArray[np.int32]]:
        """All f(s) that occur, `(frames, 1, height, width)`, and which of them each image shows.

        Adding one is a single pass over an image, where reading it off the pattern would take
        several.
        """
        assert self.pattern is not None
        levels, places = np.unique(np.asarray(self.half_rows), return_inverse=True)
        return np.ascontiguousarray(self.pattern.frames(levels)[:, None]), places.astype(np.int32)

    def _with_pattern(
        self, device: torch.device | str
    ) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        """Samples plus the signs of their s, times the amplitude."""
        import torch

        frames, frame_of = (torch.from_numpy(array).to(device) for array in self._frames)
        size = amplitude(self.epsilon)

        def change(samples: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
            return torch.add(samples, frames[frame_of[indices]], alpha=size)

        return change

    def _with_noise(
        self, device: torch.device | str
    ) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
        """Samples plus noise that is uniform between minus and plus the amplitude."""
        import torch

        from unbraid.core import random

        seed = torch.tensor([self.seed], device=device)
        size = amplitude(self.epsilon)

        def change(samples: torch.Tensor, indices: torch.Tensor) -> torch.Tensor:
            chance = random.uniform(seed, indices, random.Stream.IMAGE_NOISE, self.sample_shape)[0]
            # Each operation by itself, so that all devices round alike; rounding leads no number
            # past the amplitude.
            return samples + chance.mul_(2.0 * size).sub_(size)

        return change

    def check_files(self) -> None:
        """Those of the original; its own are checked when they are opened."""
        self.base.check_files()

    def fingerprint(self) -> str:
        """A digest of the original and of all that is added; where the folder lies is left out."""
        options = {name: self.record[name] for name in ("noise", "epsilon", "clip", "seed")}
        digest = hashlib.sha256(
            store.digest([self.name, self.record["base"]["fingerprint"], options]).encode()
        )
        if self.pattern is not None and self.half_rows is not None:
            for array in (self.pattern.signs, self.pattern.paces, self.half_rows):
                digest.update(f"{array.shape} {self.pattern.origin}".encode())
                digest.update(np.ascontiguousarray(array).data)
        return digest.hexdigest()


def check_base(problems: Problems, base: Dataset) -> None:
    """Record why *base* cannot be perturbed, if so."""
    if isinstance(base, Perturbed):
        problems.add(
            "data",
            "must not be perturbed already",
            Shown(str(base.folder)),
            "Perturb the original, with a larger epsilon.",
        )
    elif not base.bounded or len(base.sample_shape) != 3:
        problems.add("data", "must be images with values in [0, 1]", base.name)
    if base.fresh:
        problems.add(
            "data",
            "must show one image for each index, and this set draws them anew each time",
            base.name,
        )
    if not base.repeatable:
        remedy = "Save it with numpy.savez(file, images=..., factors=...) and give the file."
        problems.add(
            "data", "must be found again by name or path", Shown("an array in memory"), remedy
        )
