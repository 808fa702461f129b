# SPDX-License-Identifier: Apache-2.0
"""Data that a slice makes first, and what a slice leaves for others to make theirs from.

Some data follow from a trained model: those of Zietlow et al. (2021) move with a latent of one. A
slice whose models others need *leaves* a small file beside its table, which is kept with it and
goes wherever the tables go; models do not. A slice that needs it says after which it comes, and
*makes* its data from the plan's and from that file, the same on every machine. What both say of
themselves is part of what their results follow from.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch

    from unbraid.data.dataset import Dataset
    from unbraid.population.run_folder import RunFolder

Left = tuple[dict[str, "torch.Tensor"], dict[str, Any]]
"""What a slice leaves: named tensors, and a record of what they are."""


class Leaves(Protocol):
    """What a slice leaves beside its table when its models are trained and scored."""

    def definition(self) -> dict[str, Any]:
        """What it follows from besides the models, as JSON values."""
        ...

    def take(self, run: RunFolder, device: torch.device) -> Left:
        """Tensors and record from a trained, encoded and scored *run*; `InputError` where none of
        its models will do.
        """
        ...


class MadeData(Protocol):
    """How the data of a slice are made from those that its plan names."""

    @property
    def after(self) -> str:
        """The slice, as pool/slice, that leaves what they are made from; empty for none."""
        ...

    def definition(self) -> dict[str, Any]:
        """What they follow from besides the plan's data and what was left, as JSON values."""
        ...

    def make(self, base: Dataset, left: Left | None, folder: Path) -> Dataset:
        """The data, with their files, where they have any, in the new *folder*."""
        ...
