# SPDX-License-Identifier: Apache-2.0
"""Learning from a few labels: which ones (`unbraid.data.few_labels`), how they count
(`label_losses`), and when.

Locatello et al. (2020): an unsupervised objective plus γ_sup times a supervised term on the
labelled images, a batch of which, as large as the other one, goes through the encoder in every
step: in order, over and over. Their weight by the update t, with threshold T:

    fixed       γ_sup
    anneal      γ_sup min(1, t / T)
    fine_tune   0 for t <= T, γ_sup after

Departs from disentanglement_lib:

- t counts updates for FactorVAE too, where its counter runs twice as fast;
- what l2 and embed learn is learned for FactorVAE too, which there leaves it as it started;
- all labels train, where it can keep some back for validation;
- labelled and unlabelled images are encoded in one pass, so that a network with batch norm sees the
  statistics of both together;
- a learned σ of embed starts at `embedding_sigma`, not at random;
- with the labeller `partial`, whose factors are part of the label seed, embedded values start
  within ±√(3/n) for the largest n of the data, not for each factor's own.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from unbraid.core.errors import Problem, Shown
from unbraid.core.registry import Citation
from unbraid.data.few_labels import LABELLERS, LabelRequest
from unbraid.networks.layout import Weight
from unbraid.objectives import label_losses
from unbraid.objectives.label_losses import LABEL_LOSSES
from unbraid.objectives.objective import Forward, Objective, Setting, Term, choice, count, number
from unbraid.objectives.priors.prior import Prior
from unbraid.objectives.schedule import Schedule

ANNEALINGS = ("fixed", "anneal", "fine_tune")


def annealed(
    kind: str, strength: float | Tensor, step: Tensor, threshold: float | Tensor
) -> float | Tensor:
    """The weight of the supervised term after *step* updates, a 0-d tensor: a number, or
    `(members,)`.
    """
    if kind == "anneal":
        return strength * (step / threshold).clamp(max=1.0)
    if kind == "fine_tune":
        return strength * (step - threshold).clamp(0.0, 1.0)
    return strength


@dataclass(frozen=True)
class FewLabels(Objective):
    """What objectives with labelled images have in common."""

    label_loss: str = choice("xent", "how far posterior means are from labels", LABEL_LOSSES)
    label_count: int = count(100, "labelled images", at_most=10**6)
    labeller: str = choice("perfect", "who labels the images", LABELLERS)
    label_seed: int = number(
        0,
        "seed of the labelled images and of what the labeller does by chance",
        at_least=0,
        at_most=2**53,
        whole=True,
    )
    label_bins: int = count(
        5, "most values of a factor for the labeller binned", at_least=2, at_most=10**6
    )
    label_noise: float = number(
        0.1, "probability of a random label for the labeller noisy", at_least=0, at_most=1
    )
    observed_factors: int = count(2, "factors that the labeller partial labels", at_most=10**4)
    embedding: str = choice(
        "free", "embedded values of the loss embed: free, or ordered on a line", ("free", "ordered")
    )
    embedding_sigma: float = number(1.0, "what multiplies distances in the loss embed", above=0)
    learn_sigma: str = choice(
        "no", "whether that number is learned from there, one for each factor", ("no", "yes")
    )

    citation = Citation(
        "Locatello et al.",
        2020,
        "Disentangling factors of variation using few labels",
        "ICLR, arXiv:1905.01258",
    )

    @property
    def labels(self) -> LabelRequest:
        """The labelled images that the hyperparameters ask for."""
        return LabelRequest(
            self.label_count,
            self.labeller,
            self.label_seed,
            self.label_bins,
            self.label_noise,
            self.observed_factors,
        )

    def problems(self, setting: Setting, prior: Prior) -> list[Problem]:
        """What objectives find, and chance that would have to change during training."""
        found = super().problems(setting, prior)
        if isinstance(self.label_noise, Schedule):
            value = Shown(str(self.label_noise))
            found.append(
                Problem(
                    f"{self.key}: label_noise",
                    "cannot be on a schedule",
                    value,
                    "Labels are made once; give a number.",
                )
            )
        return found

    def weights(self, setting: Setting) -> tuple[Weight, ...]:
        """The scale of l2; the embedded values of embed, and its σ where that is learned."""
        inherited = super().weights(setting)
        if self.label_loss == "l2":
            return (*inherited, Weight("objective.label_scale", (1,), start=1.0))
        if self.label_loss != "embed":
            return inherited
        values = self.labels.most_values(setting.factor_sizes)
        factors = len(values)
        if self.embedding == "ordered":
            # A single number has fans of 1: Glorot's range is ±√3.
            placed = [
                Weight(f"objective.embedding_{part}", (factors,), limit=math.sqrt(3.0))
                for part in ("slope", "bias")
            ]
        else:
            # All are as long as the longest: which factors `partial` observes, and how many values
            # they have, differs by member.
            placed = [
                Weight(f"objective.embedding_{factor}", (max(values),), limit=math.sqrt(3.0 / size))
                for factor, size in enumerate(values)
            ]
        if self.learn_sigma == "yes":
            placed.append(Weight("objective.embedding_sigma", (factors,), start=1.0))
        return (*inherited, *placed)

    def supervised_loss(self, forward: Forward) -> Tensor:
        """Distance of the labelled images' posterior means from their labels, by `label_loss`:
        `(members,)`.
        """
        mean, labels, sizes = forward.labelled_mean, forward.labels, forward.label_sizes
        assert mean is not None
        assert labels is not None
        assert sizes is not None
        if self.label_loss == "l2":
            return label_losses.scaled_squared_error(
                mean, labels, forward.weights["objective.label_scale"]
            )
        if self.label_loss == "l2_sigmoid":
            return label_losses.sigmoid_squared_error(mean, labels, sizes)
        if self.label_loss == "cov":
            return label_losses.covariance_with_others(mean, labels)
        if self.label_loss == "embed":
            return label_losses.embedding_cross_entropy(
                mean, labels, sizes, *self._embedding(forward, sizes)
            )
        return label_losses.sigmoid_cross_entropy(mean, labels, sizes)

    def _embedding(self, forward: Forward, sizes: Tensor) -> tuple[Tensor, Tensor]:
        """Embedded values `(members, factors, values)` and σ `(members, factors)` as they are in
        this step.
        """
        weights, factors = forward.weights, range(sizes.shape[1])
        if self.embedding == "ordered":
            slope, bias = weights["objective.embedding_slope"], weights["objective.embedding_bias"]
            placed = label_losses.ordered_embedding(slope, bias, forward.label_values)
        else:
            placed = torch.stack(
                [weights[f"objective.embedding_{factor}"] for factor in factors], dim=1
            )
        sigma = self.embedding_sigma
        given = sigma.unsqueeze(-1) if isinstance(sigma, Tensor) else sigma
        learned = (
            weights["objective.embedding_sigma"]
            if self.learn_sigma == "yes"
            else torch.ones_like(sizes)
        )
        return placed, given * learned


@dataclass(frozen=True)
class SemiSupervised(FewLabels):
    """An unsupervised objective plus γ_sup times a supervised term; stands before that objective
    among the bases of a class.
    """

    gamma_sup: float = number(1.0, "weight of the supervised term", at_least=0)
    annealing: str = choice("fixed", "how that weight changes during training", ANNEALINGS)
    annealing_steps: int = number(
        10_000,
        "updates until it is reached, or until it sets in for fine_tune",
        at_least=1,
        whole=True,
    )

    def remarks(self, steps: int) -> list[str]:
        """Told where the training ends before the labels have their whole weight."""
        if self.annealing == "fixed" or steps > self.annealing_steps:
            return super().remarks(steps)
        short = (
            "never counts" if self.annealing == "fine_tune" else "does not reach its whole weight"
        )
        told = (
            f"{self.key}: the supervised term {short} in {steps:,} steps; annealing_steps is"
            f" {self.annealing_steps:,}"
        )
        return [*super().remarks(steps), told]

    def supervised(self, forward: Forward) -> dict[str, Term]:
        """The term that the labels add."""
        weight = annealed(self.annealing, self.gamma_sup, forward.step, self.annealing_steps)
        return {"supervised": Term(self.supervised_loss(forward), weight)}
