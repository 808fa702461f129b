# SPDX-License-Identifier: Apache-2.0
"""A few labelled pictures of a dataset, and the ways in which labels may be worse than the truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from unbraid.data.dataset import Dataset

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class LabelRequest:
    """How many labels, by whom."""

    count: int
    labeller: str = "perfect"
    seed: int = 0

    def problems(self, name: str, setting: Any) -> list[str]:
        """Why such data has no such labels."""
        return []


@dataclass(frozen=True)
class LabelledSets:
    """The labelled pictures of every member of a chunk, on its device."""

    indices: Tensor
    """int64 `(members, count)`."""
    labels: Tensor
    """float32 `(members, count, factors)`."""
    sizes: Tensor
    """float32 `(members, factors)`."""

    @property
    def count(self) -> int:
        """Labelled pictures of a member."""
        return self.indices.shape[1]

    @classmethod
    def of(cls, requests: Sequence[LabelRequest | None], dataset: Dataset, device: torch.device) -> LabelledSets | None:
        """The sets that *requests*, one a member, ask for; None where they ask for none."""
        if requests[0] is None:
            return None
        raise NotImplementedError
