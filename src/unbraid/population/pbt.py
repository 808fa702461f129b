# SPDX-License-Identifier: Apache-2.0
"""Population-based training (Jaderberg et al. 2017; constants of Estermann et al. 2020): who goes on, who copies whom, who moves.

Training alternates with selection. After each epoch individuals are ranked by their scores. **Exploit**: the lowest fifth take
weights, optimiser state and hyper-parameters of a randomly chosen one of the highest fifth. **Explore**: each hyper-parameter of
a copy is multiplied by 2, 1.2, 0.8 or 0.5, drawn independently. The rest go on as they are, so that the best is never lost.

All chance is a function of (seed, epoch, individual): the same seed gives the same lineage, whatever trains on what.

Departs from the authors' code: an individual that diverged or has no score is replaced too, where that makes more than a fifth;
theirs trains it again from its last checkpoint, up to ten times. Moved values keep to the bounds of their `Evolved`, where theirs
has none but for the batch size. `share=0` never copies: random search with as many trained pictures.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from unbraid import random
from unbraid.errors import Problems, UnbraidError
from unbraid.population.space import Evolved
from unbraid.random import Stream

SMALLEST_POPULATION = 5
"""Of fewer, a fifth is none."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Rule:
    """How the population is selected after an epoch."""

    share: float = 0.2
    """Of the population that is replaced, and from which copies are taken; 0 for random search."""
    factors: tuple[float, ...] = (2.0, 1.2, 0.8, 0.5)
    """By which the hyper-parameters of a copy are multiplied."""
    first_factor: int = 1
    """So many times the population trains in the first epoch, of which the best go on; 2 as published for labelled scores."""

    def problems(self, population: Any) -> list[str]:
        """What is wrong with the rule for so many individuals."""
        found = Problems()
        if isinstance(population, bool) or not isinstance(population, int) or population < SMALLEST_POPULATION:
            remedy = f"Below {SMALLEST_POPULATION} there is no fifth to replace."
            found.add("population", f"must be a whole number of at least {SMALLEST_POPULATION}", population, remedy)
        elif population > 10_000:
            found.add("population", "must be at most 10000", population)
        if isinstance(self.share, bool) or not isinstance(self.share, (int, float)) or not 0.0 <= self.share <= 0.5:
            found.add("share", "must lie in 0 to 0.5", self.share, "Use 0.2 as published, or 0 for random search.")
        good = [isinstance(one, (int, float)) and not isinstance(one, bool) and 0 < one < math.inf for one in self.factors]
        if not good or not all(good):
            found.add("factors", "must be numbers above 0", self.factors, "Use 2, 1.2, 0.8, 0.5 as published.")
        if isinstance(self.first_factor, bool) or not isinstance(self.first_factor, int) or not 1 <= self.first_factor <= 16:
            found.add("first_factor", "must be a whole number from 1 to 16", self.first_factor)
        return found.lines

    def replaced(self, population: int) -> int:
        """How many individuals are replaced, and from how many copies are taken."""
        return math.ceil(self.share * population - _ROUNDING)


@dataclass(frozen=True)
class Heir:
    """One individual of the next epoch."""

    parent: int
    """Whose weights and optimiser state it goes on with: a place in the epoch before, -1 for fresh ones."""
    values: dict[str, float]
    """Its evolved hyper-parameters by name."""
    copied: bool = False
    moves: dict[str, float] = field(default_factory=dict)
    """By what each hyper-parameter of a copy was multiplied."""


def first_individuals(spaces: Mapping[str, Evolved], count: int, seed: int) -> list[Heir]:
    """The population before its first epoch: every hyper-parameter drawn at random."""
    chances = _chances(seed, 0, count, len(spaces))
    return [
        Heir(-1, {name: space.draw(chance) for (name, space), chance in zip(spaces.items(), row, strict=True)}) for row in chances
    ]


def ranking(scores: Sequence[float]) -> list[int]:
    """Places of the individuals, the best first; those without a score last, and equals in order of their places."""
    return sorted(range(len(scores)), key=lambda place: (not math.isfinite(scores[place]), -_finite(scores[place]), place))


def next_individuals(
    scores: Sequence[float],
    now: Sequence[Mapping[str, float]],
    spaces: Mapping[str, Evolved],
    rule: Rule,
    *,
    seed: int,
    epoch: int,
    population: int | None = None,
) -> list[Heir]:
    """Who trains in *epoch*, given the scores (higher is better) and hyper-parameters of the epoch before.

    *population* is how many go on, where that is fewer: the best of them, in the order of their places.
    """
    if not any(map(math.isfinite, scores)):
        raise UnbraidError(
            f"no member of the population has a score after epoch {epoch}: all are NaN, so that there is nothing to select by. "
            "Lower the learning rates if all diverged, or choose another score."
        )
    order = ranking(scores)[: population or len(scores)]
    count = rule.replaced(len(order))
    scored = [place for place in order if math.isfinite(scores[place])]
    best = scored[: max(1, count)]
    # Whoever has no score is replaced even beyond the share; the best themselves never are.
    lowest = set(order[len(best) :][-count:] if count else ()) | (set(order) - set(scored) if count else set())
    chances = _chances(seed, epoch, len(order), 1 + len(spaces))
    heirs = []
    for place, chance in zip(sorted(order), chances, strict=True):
        if place not in lowest:
            heirs.append(Heir(place, dict(now[place])))
            continue
        parent = best[int(chance[0] * len(best))]
        moves = {name: rule.factors[int(one * len(rule.factors))] for name, one in zip(spaces, chance[1:], strict=True)}
        values = {name: spaces[name].move(now[parent][name], factor) for name, factor in moves.items()}
        heirs.append(Heir(parent, {**now[parent], **values}, True, moves))
    return heirs


def converged(best: Sequence[float], within: float, epochs: int) -> bool:
    """Whether the best score changed by less than *within* in each of the last *epochs* epochs."""
    last = list(best)[-(epochs + 1) :]
    return len(last) == epochs + 1 and all(abs(later - earlier) < within for earlier, later in itertools.pairwise(last))


def epoch_seed(seed: int, epoch: int) -> int:
    """The seed with which a model of that *seed* trains in *epoch*: a copy must not repeat the batches of what it copies."""
    if epoch == 0:
        return seed
    # Far from the epochs with which individuals draw, whose seed may be the same number.
    word = random.words(torch.tensor([seed], dtype=torch.int64), epoch + 2**40, Stream.POPULATION, (2,))[0]
    return int(((word[0] & 0x7FFFFFFF) << 32) | word[1])


def _chances(seed: int, epoch: int, individuals: int, each: int) -> list[list[float]]:
    """Uniform numbers in [0, 1) for each individual."""
    drawn = random.uniform(torch.tensor([seed], dtype=torch.int64), epoch, Stream.POPULATION, (individuals, each))
    return drawn[0].tolist()


def _finite(score: float) -> float:
    return score if math.isfinite(score) else 0.0
