# SPDX-License-Identifier: Apache-2.0
"""Few labels: which ones (`unbraid.data.few_labels`), how they count (`label_losses`), and when.

Locatello et al. (2020): an unsupervised objective plus a weight times a supervised term on the
labelled images, a batch of which, as large as the other one, goes through the encoder in every
step: in order, over and over. The weight γ by the update t, with threshold T:

    fixed       γ
    anneal      γ min(1, t / T)
    fine_tune   0 for t <= T, γ after

Their S2 methods are `beta_vae`, `factor_vae`, `dip_vae_i`, `dip_vae_ii` and `beta_tcvae` with
labels. With `alone` the objective sees posteriors that send no gradient back, so that labels alone
teach the encoder: `ae` with it is the supervised baseline of the paper, whose decoder only shows
what was encoded.

Departs from disentanglement_lib:

- t counts updates for FactorVAE too, where its counter runs twice as fast;
- what l2 and embed learn is learned for FactorVAE too, which there leaves it as it started;
- all labels train, where it can keep some back for validation;
- labelled and unlabelled images are encoded in one pass, so that a network with batch norm sees the
  statistics of both together;
- a learned σ of embed starts at `embedding_sigma`, not at random;
- with the labeller `partial`, whose factors are part of the label seed, embedded values start
  within ±√(3/n) for the largest n of the data, not for each factor's own;
- the decoder of the supervised baseline gets posterior means, where it gets latents drawn with the
  variances of an encoder head that nothing trains.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from unbraid.core.errors import Problem, Shown
from unbraid.core.registry import Citation
from unbraid.data.few_labels import LABELLERS, LabelRequest
from unbraid.networks.layout import Weight
from unbraid.objectives import hyper
from unbraid.objectives.hyper import Choice, Count, Number, choice, number
from unbraid.objectives.objective import Forward, Objective, Setting, Term
from unbraid.objectives.priors.prior import Prior
from unbraid.objectives.schedule import Schedule
from unbraid.objectives.supervision import label_losses
from unbraid.objectives.supervision.label_losses import LABEL_LOSSES
from unbraid.objectives.supervision.supervision import Supervision

ANNEALINGS = ("fixed", "anneal", "fine_tune")


def annealed(
    kind: str, strength: float | Tensor, step: Tensor, threshold: float | Tensor
) -> float | Tensor:
    """The weight of the supervised term after *step* updates: a number, or `(members,)`."""
    if kind == "anneal":
        return strength * (step / threshold).clamp(max=1.0)
    if kind == "fine_tune":
        return strength * (step - threshold).clamp(0.0, 1.0)
    return strength


@dataclass(frozen=True)
class FewLabels(Supervision):
    """Labels of a few images: their distance from the posterior means joins the loss."""

    count: Count = hyper.count(100, "labelled images", at_most=10**6)
    loss: Choice = choice("xent", "how far posterior means are from labels", LABEL_LOSSES)
    weight: Number = number(1.0, "weight of the supervised term", at_least=0)
    annealing: Choice = choice("fixed", "how that weight changes during training", ANNEALINGS)
    annealing_steps: Number = number(
        10_000,
        "updates until it is reached, or until it sets in for fine_tune",
        at_least=1,
        whole=True,
    )
    alone: Choice = choice(
        "no", "whether labels alone teach the encoder, and the rest only the decoder", ("no", "yes")
    )
    labeller: Choice = choice("perfect", "who labels the images", LABELLERS)
    seed: Number = number(
        0,
        "seed of the labelled images and of what the labeller does by chance",
        at_least=0,
        at_most=2**53,
        whole=True,
    )
    bins: Count = hyper.count(
        5, "most values of a factor for the labeller binned", at_least=2, at_most=10**6
    )
    noise: Number = number(
        0.1, "probability of a random label for the labeller noisy", at_least=0, at_most=1
    )
    observed_factors: Count = hyper.count(
        2, "factors that the labeller partial labels", at_most=10**4
    )
    embedding: Choice = choice(
        "free", "embedded values of the loss embed: free, or ordered on a line", ("free", "ordered")
    )
    embedding_sigma: Number = number(1.0, "what multiplies distances in the loss embed", above=0)
    learn_sigma: Choice = choice(
        "no", "whether that number is learned from there, one for each factor", ("no", "yes")
    )

    label = "few labels"
    term_names = ("supervised",)
    citation = Citation(
        "Locatello et al.",
        2020,
        "Disentangling factors of variation using few labels",
        "ICLR, arXiv:1905.01258",
    )

    @property
    def request(self) -> LabelRequest:
        """The labelled images of one member."""
        return LabelRequest(
            self.count,
            self.labeller,
            cast(int, self.seed),
            self.bins,
            cast(float, self.noise),
            self.observed_factors,
        )

    def problems(self, objective: Objective, setting: Setting, prior: Prior) -> list[Problem]:
        """Data without such labels, and chance that would have to change during training."""
        found = self.request.problems(self.key, setting)
        noise: object = self.noise
        if isinstance(noise, Schedule):
            remedy = "Labels are made once; give a number."
            shown = Shown(str(noise))
            found.append(Problem(f"{self.key}: noise", "cannot be on a schedule", shown, remedy))
        return found

    def remarks(self, steps: int) -> list[str]:
        """Where the training ends before the labels have their whole weight."""
        wait = int(self.annealing_steps)
        if self.annealing == "fixed" or steps > wait:
            return super().remarks(steps)
        short = (
            "never counts" if self.annealing == "fine_tune" else "does not reach its whole weight"
        )
        return [
            *super().remarks(steps),
            f"{self.key}: the supervised term {short} in {steps:,} steps;"
            f" annealing_steps is {wait:,}",
        ]

    def posterior(
        self, mean: Tensor, logvar: Tensor, changed: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The encoder's own, cut off from it where labels alone teach it."""
        return (mean.detach(), logvar.detach()) if self.alone == "yes" else (mean, logvar)

    def weights(self, setting: Setting) -> tuple[Weight, ...]:
        """The scale of l2; the embedded values of embed, and its σ where that is learned."""
        if self.loss == "l2":
            return (Weight("supervision.label_scale", (1,), start=1.0),)
        if self.loss != "embed":
            return ()
        values = self.request.most_values(setting.factor_sizes)
        factors = len(values)
        if self.embedding == "ordered":
            # A single number has fans of 1: Glorot's range is ±√3.
            placed = [
                Weight(f"supervision.embedding_{part}", (factors,), limit=math.sqrt(3.0))
                for part in ("slope", "bias")
            ]
        else:
            # All are as long as the longest: which factors `partial` observes, and how many values
            # they have, differs by member.
            longest = max(values)
            placed = [
                Weight(f"supervision.embedding_{factor}", (longest,), limit=math.sqrt(3.0 / size))
                for factor, size in enumerate(values)
            ]
        if self.learn_sigma == "yes":
            placed.append(Weight("supervision.embedding_sigma", (factors,), start=1.0))
        return tuple(placed)

    def terms(self, forward: Forward) -> dict[str, Term]:
        """The term that the labels add."""
        weight = annealed(self.annealing, self.weight, forward.step, self.annealing_steps)
        return {"supervised": Term(self._distance(forward), weight)}

    def _distance(self, forward: Forward) -> Tensor:
        """Distance of the labelled images' posterior means from their labels: `(members,)`."""
        mean, labels, sizes = forward.labelled_mean, forward.labels, forward.label_sizes
        assert mean is not None
        assert labels is not None
        assert sizes is not None
        if self.loss == "l2":
            scale = forward.weights["supervision.label_scale"]
            return label_losses.scaled_squared_error(mean, labels, scale)
        if self.loss == "l2_sigmoid":
            return label_losses.sigmoid_squared_error(mean, labels, sizes)
        if self.loss == "cov":
            return label_losses.covariance_with_others(mean, labels)
        if self.loss == "embed":
            placed, sigma = self._embedding(forward, sizes)
            return label_losses.embedding_cross_entropy(mean, labels, sizes, placed, sigma)
        return label_losses.sigmoid_cross_entropy(mean, labels, sizes)

    def _embedding(self, forward: Forward, sizes: Tensor) -> tuple[Tensor, Tensor]:
        """Embedded values `(members, factors, values)` and σ `(members, factors)` of this step."""
        weights, factors = forward.weights, range(sizes.shape[1])
        if self.embedding == "ordered":
            slope, bias = (weights[f"supervision.embedding_{part}"] for part in ("slope", "bias"))
            placed = label_losses.ordered_embedding(slope, bias, forward.label_values)
        else:
            rows = [weights[f"supervision.embedding_{factor}"] for factor in factors]
            placed = torch.stack(rows, dim=1)
        sigma = self.embedding_sigma
        given = sigma.unsqueeze(-1) if isinstance(sigma, Tensor) else sigma
        if self.learn_sigma == "yes":
            return placed, given * weights["supervision.embedding_sigma"]
        return placed, given * torch.ones_like(sizes)
