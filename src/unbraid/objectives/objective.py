# SPDX-License-Identifier: Apache-2.0
"""The contract of an objective: a frozen dataclass of hyperparameters and a function `terms`.

Convention, everywhere: sums over pixels and over latents, means over the batch, nats; β = 4 is the
papers' 4.

`terms` is written once, for any number of members, and reads `self.beta` as if it were a number
(`objectives/hyper.py`). What a method needs beside a batch of images it declares, and the training
step provides: points drawn from the prior, several latents per image, numbers that are learned with
the network, numbers remembered from step to step, a second network with an optimiser of its own.
Pairs and labels come from a supervision (`objectives/supervision`). No objective has code in the
training loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from unbraid.core.errors import Problem, invalid
from unbraid.core.registry import Citation
from unbraid.networks.layout import Layout, Weight
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.hyper import Configured
from unbraid.objectives.priors.isotropic import STANDARD
from unbraid.objectives.priors.prior import Prior

if TYPE_CHECKING:
    from unbraid.objectives.supervision.supervision import Supervision


@dataclass(frozen=True)
class Term:
    """One summand of the loss: `(members, batch)`, or `(members,)` if it exists only per batch."""

    value: Tensor
    weight: float | Tensor = 1.0

    def mean(self) -> Tensor:
        """Mean over the batch: `(members,)`."""
        return self.value if self.value.dim() == 1 else self.value.mean(dim=1)


@dataclass(frozen=True)
class Setting:
    """What an objective may know of the data and the plan before anything runs."""

    latents: int
    sample_shape: tuple[int, ...]
    factor_sizes: tuple[int, ...] = ()
    """Values of each known factor; empty where none is known."""
    complete: bool = True
    """Every combination of factor values has an image, numbered in the order of the grid."""
    where: str = ""
    """The rule by which training picks its images."""
    dataset_size: int = 0


@dataclass(frozen=True)
class Forward:
    """What one forward pass offers to an objective. All tensors carry the member axis first.

    The batch has `rows` images: the batch size, or twice that for pairs, the second images behind
    the first.
    """

    reconstruction: Tensor
    """Negative log-likelihood of each decoded latent: `(members, rows · samples)`."""
    mean: Tensor
    logvar: Tensor
    """Posterior means and log-variances: `(members, rows, latents)`."""
    z: Tensor
    """The latents that were decoded: `(members, rows · samples, latents)`, those of an image side
    by side.
    """
    step: Tensor
    """Number of updates done before this one, a 0-d tensor."""
    permutation: Tensor | None = None
    """For objectives with `permutes`: an independent shuffle of the rows for each latent,
    `(members, latents, rows)`.
    """
    auxiliary: Tensor | None = None
    """For objectives with an auxiliary network: its outputs for `auxiliary_input`."""
    prior: Prior = STANDARD
    """The prior of the latents, with its learned numbers where it has some."""
    prior_points: Tensor | None = None
    """For objectives with `needs_prior_points`: draws from the prior `(members, rows, latents)`."""
    samples: int = 1
    """Latents decoded for each image."""
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    """What is learned beside the network, by name `(members, *shape)`; see `Objective.weights`."""
    memory: Mapping[str, Tensor] = field(default_factory=dict)
    """What is remembered from the step before, by name `(members,)`; see `Objective.memory`."""
    labelled_mean: Tensor | None = None
    """Where images have labels: their posterior means `(members, labelled, latents)`."""
    labels: Tensor | None = None
    """Their labels `(members, labelled, factors)`, whole numbers as floats."""
    label_sizes: Tensor | None = None
    """How many values each labelled factor takes: `(members, factors)`."""
    label_values: int = 0
    """The most values that any labelled factor takes, known to the host for sizes of tables."""
    remembered: dict[str, Tensor] = field(init=False, default_factory=dict)
    """What `terms` leaves here for the `memory` of the next step, by name `(members,)`."""

    def kl(self) -> Tensor:
        """KL divergence of each posterior from the prior, in nats: `(members, rows)`."""
        return self.prior.kl(self.mean, self.logvar, self.z)


class AuxiliaryNetwork(ABC):
    """A second network that learns beside the VAE with an optimiser of its own."""

    learning_rate: float
    adam_betas: tuple[float, float]

    @abstractmethod
    def layout(self, latents: int) -> Layout:
        """Its weights."""

    @abstractmethod
    def __call__(
        self, weights: dict[str, Tensor], z: Tensor, precision: torch.dtype | None = None
    ) -> Tensor:
        """Its outputs for latents `(members, batch, latents)`, heavy layers in *precision*."""


PRIOR_KINDS = {
    "any": "",
    "factorised": "must have independent latents",
    "standard": "must be the standard normal, to whose moments the latents are drawn",
    "none": "is not used by this objective",
}
"""What priors an objective goes with, and why it refuses the others."""


@dataclass(frozen=True)
class Objective(Configured):
    """What is minimised: the sum over `terms` of weight times batch mean."""

    registry = OBJECTIVES
    citation: ClassVar[Citation]
    label: ClassVar[str]
    term_names: ClassVar[tuple[str, ...]]
    """Keys of `terms`, known before anything runs."""
    samples_latents: ClassVar[bool] = True
    """False for a plain autoencoder, which decodes the mean."""
    permutes: ClassVar[bool] = False
    needs_prior_points: ClassVar[bool] = False
    prior_kind: ClassVar[str] = "any"
    """A key of `PRIOR_KINDS`."""
    reads_reconstruction: ClassVar[bool] = True
    """False where `terms` passes `forward.reconstruction` on as a term and computes nothing with
    it: beside other objectives a GPU then computes the rest while images are decoded.
    """
    strength: ClassVar[str | None] = None
    """The field that sets how strongly the method pushes, the one a study sweeps."""
    memory: ClassVar[dict[str, float]] = {}
    """Names and first values of the numbers that are remembered from step to step."""

    def __init_subclass__(cls, **options: Any) -> None:
        """Terms may read the reconstruction, unless who wrote them, or a heir, says otherwise."""
        super().__init_subclass__(**options)

        def first_with(name: str) -> int:
            return next(at for at, one in enumerate(cls.__mro__) if name in vars(one))

        if first_with("reads_reconstruction") > first_with("terms"):
            cls.reads_reconstruction = True

    @property
    def samples(self) -> int:
        """Latents drawn and decoded for each image."""
        return 1

    @property
    def decay(self) -> float | Tensor:
        """Share of the network's weights, times the learning rate, that a step takes away."""
        return 0.0

    @property
    def supervision(self) -> Supervision | None:
        """The supervision that is part of the method, as pairs are of Ada-GVAE."""
        return None

    @abstractmethod
    def terms(self, forward: Forward) -> dict[str, Term]:
        """The summands of the loss by name, in the order of `term_names`.

        Tensor operations alone, which a GPU captures and replays: no `.item()`, no `if` on a
        tensor's value.
        """

    def weights(self, setting: Setting) -> tuple[Weight, ...]:
        """Numbers that are learned with the network, by names that start with `objective.`."""
        return ()

    def latents(
        self, mean: Tensor, logvar: Tensor, noise: Tensor, weights: Mapping[str, Tensor]
    ) -> Tensor:
        """The latents that are decoded: `(members, rows · samples, latents)`, as *noise*."""
        if self.samples > 1:
            mean, logvar = (part.repeat_interleave(self.samples, dim=1) for part in (mean, logvar))
        return mean + torch.exp(0.5 * logvar) * noise if self.samples_latents else mean

    def representation(
        self, mean: Tensor, logvar: Tensor, weights: Mapping[str, Tensor]
    ) -> tuple[Tensor, Tensor]:
        """What trained members say of images: as the encoder, unless codes are quantised."""
        return mean, logvar

    def problems(self, setting: Setting, prior: Prior) -> list[Problem]:
        """Why this cannot be trained on such data with such a prior; empty when it can."""
        refused = self.refuses(prior)
        if not refused:
            return []
        return [Problem(f"{self.key}: prior", refused, prior.key, "Use the prior isotropic.")]

    def refuses(self, prior: Prior) -> str:
        """Why this objective makes no sense with *prior*; empty where it does."""
        allowed = {
            "any": True,
            "factorised": prior.factorised,
            "standard": prior.standard,
            "none": prior.standard,
        }
        return "" if allowed[self.prior_kind] else PRIOR_KINDS[self.prior_kind]

    def auxiliary_network(self) -> AuxiliaryNetwork | None:
        """The network that learns beside the VAE, if the method has one."""
        return None

    def auxiliary_input(self, forward: Forward) -> Tensor:
        """What the auxiliary network sees in a step, `(members, n, latents)`.

        It learns beside the decoder: `forward.reconstruction` is not there yet.
        """
        raise invalid("objective", "has no auxiliary network", self.key)

    def auxiliary_loss(self, forward: Forward) -> Tensor:
        """Loss of the auxiliary network, `(members, n)`, which only its own weights follow."""
        raise invalid("objective", "has no auxiliary network", self.key)


def total_loss(terms: dict[str, Term]) -> Tensor:
    """The one place that reduces: weight times batch mean, summed over the terms, `(members,)`."""
    return torch.stack([term.weight * term.mean() for term in terms.values()]).sum(dim=0)
