# SPDX-License-Identifier: Apache-2.0
"""The contract of a supervision: what is known of some images, and what any objective makes of it.

A supervision is a frozen dataclass of hyperparameters, chosen beside objective and prior, and
stacked over members as they are. It may ask for labelled images or for pairs, change the posteriors
that an objective sees, and add terms to its loss. A method may bring one along
(`Objective.supervision`): the pairs of Ada-GVAE.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from unbraid.core.errors import Problem
from unbraid.core.registry import Citation
from unbraid.networks.layout import Weight
from unbraid.objectives.hyper import Configured
from unbraid.objectives.supervision import SUPERVISIONS

if TYPE_CHECKING:
    from unbraid.data.few_labels import LabelRequest
    from unbraid.objectives.objective import Forward, Objective, Setting, Term
    from unbraid.objectives.priors.prior import Prior
    from unbraid.objectives.supervision.pairs import Pairs


@dataclass(frozen=True)
class Supervision(Configured):
    """What is known beside images, and how it is learned from."""

    registry = SUPERVISIONS
    citation: ClassVar[Citation]
    label: ClassVar[str]
    term_names: ClassVar[tuple[str, ...]] = ()
    """Keys of `terms`, which follow those of the objective."""

    @property
    def request(self) -> LabelRequest | None:
        """Which images have labels."""
        return None

    @property
    def pairs(self) -> Pairs | None:
        """How every image of a batch gets a second one, where it does."""
        return None

    def posterior(
        self, mean: Tensor, logvar: Tensor, changed: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The posteriors that the objective sees, from the encoder's own.

        *changed* `(members, pairs)` is the factor in which a pair differs, the last one of several.
        """
        return mean, logvar

    def weights(self, setting: Setting) -> tuple[Weight, ...]:
        """Numbers that are learned with the network, by names that start with `supervision.`."""
        return ()

    def terms(self, forward: Forward) -> dict[str, Term]:
        """What is added to the terms of the objective, in the order of `term_names`."""
        return {}

    def problems(self, objective: Objective, setting: Setting, prior: Prior) -> list[Problem]:
        """Why *objective* cannot learn from it, on such data with such a prior."""
        return []
