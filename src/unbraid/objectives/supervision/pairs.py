# SPDX-License-Identifier: Apache-2.0
"""Pairs of images that differ in a few factors, drawn on the training device from the factor grid.

Two published rules say how many factors differ:

- `locatello` (Locatello et al. 2020, disentanglement_lib's code, and the code of Michlo et al.
  2023): k is uniform in 1..F−1, or given, and then 1 or k factors change, by a fair coin;
- `michlo` (the text of Michlo et al. 2023's extended paper): k is uniform in 1..F, or given, and k
  factors change.

The factors that change are chosen at random, all sets of k alike, and get a value drawn from all of
theirs, so that one may keep its value by chance, as in both codes. One of them, all alike, is the
last: the one that is named to methods that learn from labelled pairs. Unlike there, everything is a
function of the member's seed and the step.

The two images share the posterior of every latent that did not change, an average of their two
(`pair_averaging`); the objective then sees these posteriors of both images. Which latents changed
is guessed from how far apart the two posteriors are, or is the latent that bears the number of the
named factor. β-VAE with pairs is published four times: `ada_gvae` and `ada_mlvae` guess, `gvae` and
`mlvae` know; `gvae` averages arithmetically and `mlvae` harmonically.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unbraid.core import random
from unbraid.core.errors import Problem, Shown
from unbraid.core.random import Stream
from unbraid.core.registry import Citation
from unbraid.objectives.hyper import Choice, Count, Number, choice, count, number
from unbraid.objectives.supervision import pair_averaging
from unbraid.objectives.supervision.supervision import Supervision

if TYPE_CHECKING:
    from unbraid.objectives.objective import Objective, Setting
    from unbraid.objectives.priors.prior import Prior

RULES = ("locatello", "michlo")


@dataclass(frozen=True)
class Pairs(Supervision):
    """Pairs of images that share the posteriors of the latents in which they do not differ."""

    average: Choice = choice(
        "arithmetic", "how the two posteriors are averaged", tuple(pair_averaging.AVERAGES)
    )
    which: Choice = choice(
        "guessed", "whether the changed latents are guessed, or named", ("guessed", "named")
    )
    rule: Choice = choice(
        "locatello",
        "how many factors of a pair change: one or k by a coin (locatello), or k (michlo)",
        RULES,
    )
    changed_factors: Count = count(
        0, "k, how many factors of a pair change; 0 draws it", at_least=0
    )
    divergence: Choice = choice(
        "kl", "how the two posteriors of a latent are compared", tuple(pair_averaging.DIVERGENCES)
    )
    threshold: Number = number(
        0.5,
        "share of the divergences' range below which a latent is averaged",
        at_least=0,
        at_most=1,
    )

    label = "pairs"
    citation = Citation(
        "Locatello et al.",
        2020,
        "Weakly-supervised disentanglement without compromises",
        "ICML, arXiv:2002.02886",
    )

    def posterior(
        self, mean: Tensor, logvar: Tensor, changed: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """The encoder's posteriors where a latent changed, and the average elsewhere."""
        own = self.own(mean, logvar, changed)
        return pair_averaging.share(mean, logvar, own, pair_averaging.AVERAGES[self.average])

    def own(self, mean: Tensor, logvar: Tensor, changed: Tensor | None) -> Tensor:
        """Which latents keep their own posteriors: bool `(members, pairs, latents)`."""
        if self.which == "named":
            assert changed is not None
            return pair_averaging.latent_of_factor(changed, mean.shape[-1])
        # A decision without gradient.
        halves = pair_averaging.first_and_second(mean.detach(), logvar.detach())
        divergence = pair_averaging.DIVERGENCES[self.divergence](*halves)
        return pair_averaging.latents_that_differ(divergence, self.threshold)

    @property
    def pairs(self) -> Pairs:
        """Itself."""
        return self

    def second(
        self, seed: Tensor, steps: Tensor, first: Tensor, sizes: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        """Indices of the second images, and the last factor that was changed.

        Both `(members, steps, pairs)` as *first*, indices into a grid of *sizes* in C order. Each
        factor has a rank, by a random permutation; those whose rank is below the number of factors
        to change do so, and the highest of their ranks is that of the last one.
        """
        pairs, factors = first.shape[-1], len(sizes)
        ranks = random.permutations(seed, steps, Stream.PAIR_FACTORS, pairs, factors)
        differing = self._how_many(seed, steps, pairs, factors)
        words = random.words(seed, steps, Stream.PAIR_VALUES, (pairs, factors))
        second = first
        for factor, size in enumerate(sizes):
            stride = math.prod(sizes[factor + 1 :])
            old = torch.div(first, stride, rounding_mode="floor") % size
            new = (words[..., factor] * size) >> 32
            changes = ranks[..., factor] < differing
            second = second + torch.where(changes, (new - old) * stride, 0)
        last = (ranks == (differing - 1).unsqueeze(-1)).to(torch.int64).argmax(dim=-1)
        return second, last

    def _how_many(self, seed: Tensor, steps: Tensor, pairs: int, factors: int) -> Tensor:
        """How many factors change in each pair: `(members, steps, pairs)`, at least 1."""
        words = random.words(seed, steps, Stream.PAIR_COUNTS, (pairs, 2))
        most = factors if self.rule == "michlo" else factors - 1
        many = 1 + ((words[..., 0] * most) >> 32)
        if self.changed_factors:
            many = torch.full_like(many, self.changed_factors)
        if self.rule == "michlo":
            return many
        return torch.where(words[..., 1] < 2**31, 1, many)

    def problems(self, objective: Objective, setting: Setting, prior: Prior) -> list[Problem]:
        """Why no pairs can be drawn from such data, or mean nothing to *objective*."""
        # Of a method that brings its pairs along, a person knows the method's name alone.
        name = objective.key if objective.supervision == self else self.key
        return [
            Problem(f"{name}: {what}", rule, value, remedy)
            for what, rule, value, remedy in self._refusals(objective, setting, prior)
        ]

    def _refusals(
        self, objective: Objective, setting: Setting, prior: Prior
    ) -> Iterator[tuple[str, str, object, str]]:
        """What is wrong, the rule it breaks, what it is, and the remedy."""
        factors = len(setting.factor_sizes)
        if not objective.samples_latents:
            rule = "must have posteriors with a variance, which the two images of a pair share"
            yield "objective", rule, objective.key, "Use beta_vae, or another VAE."
        if not prior.factorised:
            rule = "must have independent latents"
            yield "prior", rule, prior.key, "Use the prior isotropic."
        if factors == 0:
            remedy = (
                "Load it with factors (a factors.csv, a key factors, factors=...),"
                " or train without pairs."
            )
            yield "data", "needs known factors to draw pairs from", Shown("none"), remedy
            return
        if not setting.complete:
            rule = (
                "needs one image for every combination of factor values, in the order of the grid,"
                " to draw pairs from"
            )
            combinations = math.prod(setting.factor_sizes)
            value = f"{setting.dataset_size:,} images for {combinations:,} combinations"
            remedy = "Use data on a whole grid, the last factor moving fastest."
            yield "data", rule, Shown(value), remedy
        if factors < 2:
            rule = "needs at least two factors to draw pairs from"
            yield "data", rule, Shown(f"{factors}"), "Use data with more, or train without pairs."
        if self.changed_factors > factors:
            rule = f"must be at most the {factors} factors of the data"
            remedy = "Use 0 to draw it for every pair."
            yield "changed_factors", rule, self.changed_factors, remedy
        if self.which == "named" and factors > setting.latents:
            rule = f"must be at least the {factors} factors of the data, one for each"
            yield "latents", rule, setting.latents, f"Use {{latents={factors}}} or more."
        if setting.where:
            rule = "cannot be used, since the second image of a pair may break the rule"
            yield "where", rule, setting.where, "Leave it out."
