# SPDX-License-Identifier: Apache-2.0
"""Pairs of images that differ in a few factors, drawn on the training device from the factor grid.

Two published rules say how many factors differ:

- `locatello` (Locatello et al. 2020, disentanglement_lib's code, and the code of Michlo et al.
  2023): k is uniform in 1..F−1, or given, and then 1 or k factors change, by a fair coin;
- `michlo` (the text of Michlo et al. 2023's extended paper): k is uniform in 1..F, or given, and k
  factors change.

The factors that change are chosen at random, all sets of k alike, and get a value drawn from all of
theirs, so that one may keep its value by chance, as in both codes. One of them, all alike, is the
last: the label of methods that learn from labelled pairs. Unlike there, everything is a function of
the member's seed and the step.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unbraid.core import random
from unbraid.core.errors import Problem, Shown
from unbraid.core.random import Stream

if TYPE_CHECKING:
    from unbraid.objectives.objective import Setting

RULES = ("locatello", "michlo")


@dataclass(frozen=True)
class PairRule:
    """How the second image of a pair is drawn."""

    rule: str = "locatello"
    changed_factors: int = 0
    """k; 0 draws it for every pair."""
    named: bool = False
    """The method is told which factor changed, and keeps the latent of that number for it."""

    def second(
        self, seed: Tensor, steps: Tensor, first: Tensor, sizes: tuple[int, ...]
    ) -> tuple[Tensor, Tensor]:
        """Indices of the second images, and the last factor that was changed: both `(members,
        steps, pairs)`, as *first* is.

        *first* holds indices into a grid of *sizes* in C order. Each factor has a rank, by a random permutation; those whose rank
        is below the number of factors to change do so, and the highest of their ranks is that of
        the last one.
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

    def problems(self, name: str, setting: Setting) -> list[Problem]:
        """Why no pairs can be drawn from such data."""
        factors = len(setting.factor_sizes)
        if factors == 0:
            remedy = (
                "Load it with factors (a factors.csv, a key factors, factors=...), or use an"
                " objective without."
            )
            return [
                Problem(
                    f"{name}: data", "needs known factors to draw pairs from", Shown("none"), remedy
                )
            ]
        found = []
        if not setting.complete:
            rule = (
                "needs one image for every combination of factor values, in the order of the grid,"
                " to draw pairs from"
            )
            value = (
                f"{setting.dataset_size:,} images for {math.prod(setting.factor_sizes):,}"
                " combinations"
            )
            remedy = "Use data on a whole grid, the last factor moving fastest."
            found.append(Problem(f"{name}: data", rule, Shown(value), remedy))
        if factors < 2:
            remedy = "Use data with more, or an objective that needs no pairs."
            found.append(
                Problem(
                    f"{name}: data",
                    "needs at least two factors to draw pairs from",
                    Shown(f"{factors}"),
                    remedy,
                )
            )
        if self.changed_factors > factors:
            rule = f"must be at most the {factors} factors of the data"
            found.append(
                Problem(
                    f"{name}: changed_factors",
                    rule,
                    self.changed_factors,
                    "Use 0 to draw it for every pair.",
                )
            )
        if self.named and factors > setting.latents:
            rule = f"must be at least the {factors} factors of the data, one for each"
            found.append(
                Problem(
                    f"{name}: latents", rule, setting.latents, f"Use latents={factors} or more."
                )
            )
        if setting.where:
            rule = "cannot be used, since the second image of a pair may break the rule"
            found.append(Problem(f"{name}: where", rule, setting.where, "Leave it out."))
        return found
