# SPDX-License-Identifier: Apache-2.0
"""Who goes on, who copies whom and who moves: on scores that are plain numbers, and on the toy of the paper."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as some
from scipy import stats

from unbraid.errors import UnbraidError
from unbraid.population.pbt import (
    SMALLEST_POPULATION,
    Heir,
    Rule,
    converged,
    epoch_seed,
    first_individuals,
    next_individuals,
    ranking,
)
from unbraid.population.space import Evolved

NAN = math.nan
WIDE = {"rate": Evolved(1e-9, 1e9), "beta": Evolved(1e-9, 1e9)}
"""So wide that no bound is ever met and a move is its factor."""


def after(scores: Sequence[float], rule: Rule | None = None, *, seed: int = 0, epoch: int = 1, **options) -> list[Heir]:
    """The heirs of individuals whose hyper-parameters tell their place: rate 1, 2, ... and beta 100, 200, ..."""
    now = [{"rate": place + 1.0, "beta": 100.0 * (place + 1)} for place in range(len(scores))]
    return next_individuals(scores, now, WIDE, rule or Rule(), seed=seed, epoch=epoch, **options)


def places_of(heirs: Sequence[Heir], *, copied: bool) -> list[int]:
    return [place for place, heir in enumerate(heirs) if heir.copied == copied]


def shuffled_scores(count: int, seed: int = 0) -> list[float]:
    return np.random.default_rng(seed).permutation(count).astype(float).tolist()


# The toy of Jaderberg et al. 2017, figure 2: the score is 1.2 - a² - b², and training climbs 1.2 - h_a a² - h_b b² instead.


def toy_scores(rule: Rule, seed: int, *, population: int = 10, epochs: int = 30) -> list[float]:
    """Scores of the population in the end, with four steps of gradient ascent an epoch."""
    spaces = {"h_a": Evolved(0.01, 1.0), "h_b": Evolved(0.01, 1.0)}
    heirs = first_individuals(spaces, population, seed)
    weights = [np.array([0.9, 0.9]) for _ in heirs]
    for epoch in range(1, epochs + 1):
        strengths = [np.array([heir.values["h_a"], heir.values["h_b"]]) for heir in heirs]
        weights = [point * (1 - 0.02 * strength) ** 4 for point, strength in zip(weights, strengths, strict=True)]
        scores = [1.2 - float(point @ point) for point in weights]
        if epoch < epochs:
            heirs = next_individuals(scores, [heir.values for heir in heirs], spaces, rule, seed=seed, epoch=epoch)
            weights = [weights[heir.parent] for heir in heirs]
    return scores


def test_the_papers_toy_converges_and_beats_random_search():
    best = 1.2 - 2 * 0.9**2 * (0.98**4) ** (2 * 30)  # both strengths at their upper end from the start
    for seed in range(5):
        evolved, drawn = toy_scores(Rule(), seed), toy_scores(Rule(share=0), seed)
        assert best - 0.05 < max(evolved) <= best + 1e-12
        assert max(evolved) > max(drawn)
        assert np.median(evolved) > max(np.median(drawn) + 0.2, max(drawn))
        assert np.std(evolved) < np.std(drawn) / 2


@pytest.mark.parametrize("count", range(SMALLEST_POPULATION, 57))
def test_exactly_a_fifth_rounded_up_is_replaced_by_copies_of_the_best_fifth(count: int):
    fifth = -(-count // 5)
    assert Rule().replaced(count) == fifth
    scores = shuffled_scores(count, seed=count)
    heirs = after(scores, epoch=count)
    assert sorted(scores[place] for place in places_of(heirs, copied=True)) == list(range(fifth))
    assert all(scores[heirs[place].parent] >= count - fifth for place in places_of(heirs, copied=True))
    for place in places_of(heirs, copied=False):
        assert heirs[place] == Heir(place, {"rate": place + 1.0, "beta": 100.0 * (place + 1)})


@pytest.mark.parametrize(
    ("share", "count", "replaced"), [(0.28, 25, 7), (0.07, 100, 7), (0.14, 50, 7), (0.2, 35, 7), (0.21, 35, 8)]
)
def test_a_share_is_the_decimal_fraction_that_was_written(share: float, count: int, replaced: int):
    """As floats 0.28 times 25 is 7.000000000000001, of which the next whole number would be 8."""
    assert Rule(share).replaced(count) == replaced
    assert len(places_of(after(shuffled_scores(count), Rule(share)), copied=True)) == replaced


def test_of_half_an_odd_number_the_middle_one_is_kept():
    heirs = after([1.0, 2.0, 3.0, 4.0, 5.0], Rule(share=0.5))
    assert places_of(heirs, copied=True) == [0, 1]
    assert all(heir.parent >= 2 for heir in heirs)


@given(
    some.one_of(
        some.lists(some.floats(-5, 5), min_size=5, max_size=40),
        some.lists(some.one_of(some.floats(-5, 5), some.just(NAN)), min_size=5, max_size=40).filter(
            lambda scores: any(map(math.isfinite, scores))
        ),
    ),
    some.sampled_from([0.2, 0.1, 0.34, 0.5]),
    some.integers(0, 2**31 - 1),
    some.integers(1, 10_000),
)
def test_every_selection_keeps_the_best_and_replaces_the_rest(scores: list[float], share: float, seed: int, epoch: int):
    heirs = after(scores, Rule(share), seed=seed, epoch=epoch)
    assert len(heirs) == len(scores)
    finite = [score for score in scores if math.isfinite(score)]
    best, count = scores.index(max(finite)), Rule(share).replaced(len(scores))
    assert heirs[best] == Heir(best, {"rate": best + 1.0, "beta": 100.0 * (best + 1)})
    copies, kept = places_of(heirs, copied=True), places_of(heirs, copied=False)
    without = [place for place, score in enumerate(scores) if not math.isfinite(score)]
    assert set(without) <= set(copies)
    # Of a half, rounded up, the upper half is not replaced; and all parents are among the best `count`.
    assert len(copies) == max(min(count, len(scores) - min(count, len(finite))), len(without))
    bar = sorted(finite, reverse=True)[: max(1, count)][-1]
    assert all(scores[heirs[place].parent] >= bar for place in copies)
    dropped = [scores[place] for place in copies if math.isfinite(scores[place])]
    assert max(dropped, default=-math.inf) <= min(scores[place] for place in kept)


def test_a_copy_has_the_values_of_its_parent_times_its_moves():
    heirs = after(shuffled_scores(20, seed=3), seed=5)
    copies = [heirs[place] for place in places_of(heirs, copied=True)]
    assert len(copies) == 4
    for heir in copies:
        assert heir.values == {
            "rate": (heir.parent + 1) * heir.moves["rate"],
            "beta": 100.0 * (heir.parent + 1) * heir.moves["beta"],
        }
        assert set(heir.moves.values()) <= {2.0, 1.2, 0.8, 0.5}


def test_values_that_do_not_evolve_come_from_the_parent():
    now = [{"rate": 1.0, "fixed": float(place)} for place in range(5)]
    heirs = next_individuals([0.0, 1.0, 2.0, 3.0, 4.0], now, {"rate": Evolved(0.1, 10)}, Rule(), seed=0, epoch=1)
    assert (heirs[0].parent, heirs[0].values["fixed"], set(heirs[0].moves)) == (4, 4.0, {"rate"})


def test_moved_values_keep_to_their_bounds_and_the_factor_is_recorded_as_drawn():
    spaces = {"size": Evolved(4, 1024, whole=True)}
    seen = set()
    for epoch in range(1, 60):
        heirs = next_individuals([0, 1, 2, 3, 4], [{"size": 1000}] * 5, spaces, Rule(), seed=1, epoch=epoch)
        seen.add((heirs[0].moves["size"], heirs[0].values["size"]))
    assert seen == {(2.0, 1024), (1.2, 1024), (0.8, 800), (0.5, 500)}


def test_factors_and_parents_are_uniform_and_independent():
    copies = []
    for epoch in range(1, 501):
        scores = shuffled_scores(30, seed=epoch)
        copies += [(heir, 29 - scores[heir.parent]) for heir in after(scores, seed=11, epoch=epoch) if heir.copied]
    assert len(copies) == 3000
    pairs = Counter((heir.moves["rate"], heir.moves["beta"]) for heir, _ in copies)
    assert set(pairs) == set(itertools.product((2.0, 1.2, 0.8, 0.5), repeat=2))
    assert stats.chisquare(list(pairs.values())).pvalue > 1e-3
    ranks = Counter(rank for _, rank in copies)
    assert set(ranks) == set(range(6))
    assert stats.chisquare(list(ranks.values())).pvalue > 1e-3


def lineage(seed: int, *, population: int = 10, epochs: int = 12) -> list[list[dict]]:
    """A whole lineage whose scores are a function of the hyper-parameters."""
    heirs = first_individuals(WIDE, population, seed)
    found = [[asdict(heir) for heir in heirs]]
    for epoch in range(1, epochs):
        scores = [-abs(math.log(heir.values["rate"]) - 1) - abs(math.log(heir.values["beta"]) - 2) for heir in heirs]
        heirs = next_individuals(scores, [heir.values for heir in heirs], WIDE, Rule(), seed=seed, epoch=epoch)
        found.append([asdict(heir) for heir in heirs])
    return found


def test_the_same_seed_is_the_same_lineage_and_another_is_another():
    first = lineage(3)
    assert lineage(3) == first
    other = lineage(4)
    assert [heir["values"] for heir in other[0]] != [heir["values"] for heir in first[0]]
    assert all(a != b for a, b in zip(first, other, strict=True))


def test_a_lineage_can_be_entered_anywhere():
    """Nothing but the epoch before and its number decides: what a search relies on that goes on after a kill."""
    scores = shuffled_scores(15, seed=2)
    for epoch in (7, 1, 7):
        again = after(scores, seed=9, epoch=epoch)
        assert again == after(scores, seed=9, epoch=epoch)
    assert after(scores, seed=9, epoch=7) != after(scores, seed=9, epoch=8)


def test_a_stored_lineage_keeps_its_meaning():
    """Pinned: a search begun by an older version goes on with the same choices."""
    pinned = {
        1: [(1, 9, 0.5, 0.5), (3, 9, 2.0, 0.5)],
        2: [(1, 9, 0.8, 1.2), (3, 5, 0.8, 0.5)],
        3: [(1, 5, 0.8, 2.0), (3, 5, 0.8, 0.8)],
        1000: [(1, 9, 0.8, 0.8), (3, 5, 0.5, 0.8)],
    }
    for epoch, copies in pinned.items():
        heirs = after([5.0, 1.0, 4.0, 0.0, 3.0, 9.0, 2.0, 7.0, 6.0, 8.0], seed=42, epoch=epoch)
        found = [(place, heirs[place]) for place in places_of(heirs, copied=True)]
        assert [(place, heir.parent, heir.moves["rate"], heir.moves["beta"]) for place, heir in found] == copies


def test_first_individuals_are_fresh_and_drawn_one_by_one():
    spaces = {"rate": Evolved(1e-4, 1e-2), "size": Evolved(8, 64, (8, 16, 32, 64), keeps_to_list=True, whole=True)}
    few, more = first_individuals(spaces, 5, 7), first_individuals(spaces, 400, 7)
    assert more[:5] == few, "individuals do not depend on how many there are"
    assert all(heir.parent == -1 and not heir.copied and heir.moves == {} for heir in more)
    sizes = Counter(heir.values["size"] for heir in more)
    assert set(sizes) == {8, 16, 32, 64}
    assert stats.chisquare(list(sizes.values())).pvalue > 1e-3
    depths = [math.log10(heir.values["rate"] / 1e-4) / 2 for heir in more]
    assert stats.kstest(depths, "uniform").pvalue > 1e-3
    assert abs(stats.pearsonr(depths, [heir.values["size"] for heir in more]).statistic) < 0.15


def test_a_population_without_evolved_values_copies_weights_alone():
    assert first_individuals({}, 5, 0) == [Heir(-1, {})] * 5
    heirs = next_individuals([1.0, 2.0, 3.0, 4.0, 5.0], [{}] * 5, {}, Rule(), seed=0, epoch=1)
    assert heirs == [Heir(4, {}, True), *(Heir(place, {}) for place in (1, 2, 3, 4))]


def test_equals_rank_in_order_of_their_places():
    assert ranking([1.0, 3.0, 1.0, 3.0, 3.0]) == [1, 3, 4, 0, 2]
    assert ranking([NAN, 0.0, math.inf, -1.0, -math.inf, 0.0]) == [1, 5, 3, 0, 2, 4]
    heirs = after([0.5] * 10)
    assert places_of(heirs, copied=True) == [8, 9]
    assert {heirs[place].parent for place in (8, 9)} <= {0, 1}


def test_negative_scores_rank_above_none_at_all():
    heirs = after([-5.0, NAN, -3.0, -4.0, NAN, -1.0, -2.0])
    assert places_of(heirs, copied=True) == [1, 4]


def test_whoever_has_no_score_is_replaced_beyond_the_share():
    scores = [NAN, 1.0, NAN, 2.0, math.inf, 3.0, NAN, 4.0, NAN, 5.0]
    heirs = after(scores)
    assert places_of(heirs, copied=True) == [0, 2, 4, 6, 8]
    assert {heirs[place].parent for place in (0, 2, 4, 6, 8)} <= {9, 7}
    # Two of ten are the share: with one without a score the lowest of the others goes too.
    assert places_of(after([NAN, *map(float, range(9))]), copied=True) == [0, 1]


def test_a_single_score_is_everyones_parent():
    heirs = after([NAN, NAN, NAN, 0.25, NAN, NAN, NAN, NAN, NAN, NAN])
    assert [heir.parent for heir in heirs] == [3] * 10
    assert places_of(heirs, copied=False) == [3]


@pytest.mark.parametrize("without", [NAN, math.inf, -math.inf])
@pytest.mark.parametrize("share", [0.2, 0.0])
def test_no_score_at_all_is_said(without: float, share: float):
    with pytest.raises(UnbraidError) as caught:
        after([without] * 7, Rule(share), epoch=4)
    assert str(caught.value) == (
        "no member of the population has a score after epoch 4: all are NaN, so that there is nothing to select by. "
        "Lower the learning rates if all diverged, or choose another score."
    )


def test_share_0_never_copies():
    for epoch, scores in enumerate(([NAN, 1.0, NAN, 2.0, 3.0], shuffled_scores(28)), start=1):
        heirs = after(scores, Rule(share=0), epoch=epoch)
        assert [heir.parent for heir in heirs] == list(range(len(scores)))
        assert not any(heir.copied or heir.moves for heir in heirs)


def test_of_a_larger_first_epoch_the_best_go_on():
    scores = shuffled_scores(20, seed=8)
    heirs = after(scores, population=10)
    assert len(heirs) == 10
    survivors = [place for place in range(20) if scores[place] >= 10]
    lowest = [at for at, place in enumerate(survivors) if scores[place] < 12]
    assert places_of(heirs, copied=True) == lowest
    assert [heirs[at].parent for at in range(10) if at not in lowest] == [survivors[at] for at in range(10) if at not in lowest]
    assert all(scores[heirs[at].parent] >= 18 for at in lowest)
    never = after(scores, Rule(share=0), population=10)
    assert [heir.parent for heir in never] == survivors


def test_a_rule_says_everything_that_is_wrong_with_it():
    assert Rule().problems(5) == []
    assert Rule(share=0, factors=(3,), first_factor=2).problems(10_000) == []
    assert Rule(share=0.6, factors=(2.0, 0.0), first_factor=0).problems(4) == [
        "population must be a whole number of at least 5; got 4. Below 5 there is no fifth to replace.",
        "share must lie in 0 to 0.5; got 0.6. Use 0.2 as published, or 0 for random search.",
        "factors must be numbers above 0; got (2.0, 0.0). Use 2, 1.2, 0.8, 0.5 as published.",
        "first_factor must be a whole number from 1 to 16; got 0.",
    ]
    assert Rule(share=NAN, factors=(), first_factor=17).problems(10_001) == [
        "population must be at most 10000; got 10001.",
        "share must lie in 0 to 0.5; got nan. Use 0.2 as published, or 0 for random search.",
        "factors must be numbers above 0; got (). Use 2, 1.2, 0.8, 0.5 as published.",
        "first_factor must be a whole number from 1 to 16; got 17.",
    ]
    for wrong in (True, 7.0, "7", None):
        assert Rule().problems(wrong) == [
            f"population must be a whole number of at least 5; got {wrong!r}. Below 5 there is no fifth to replace."
        ]


def test_convergence_looks_at_exactly_so_many_changes():
    flat = [0.5] * 7
    assert converged(flat, 0.005, 6)
    assert not converged(flat[:6], 0.005, 6), "six changes need seven epochs"
    assert converged([0.0, *flat], 0.005, 6), "older changes do not count"
    for at in range(1, 7):
        jump = [0.5] * at + [0.75] * (7 - at)
        assert not converged(jump, 0.005, 6)
        assert not converged([-score for score in jump], 0.005, 6)
    # A change of exactly the limit is not below it (both are exact in binary).
    assert not converged([0.5, 0.75], 0.25, 1)
    assert converged([0.5, 0.75], 0.2500001, 1)
    # Small changes that add up are convergence by this rule, as published.
    assert converged([0.004 * epoch for epoch in range(7)], 0.005, 6)
    assert not converged([0.5, 0.5, NAN, 0.5, 0.5], 0.005, 3)
    assert converged([NAN, 0.5, 0.5, 0.5, 0.5], 0.005, 3)


def test_seeds_of_epochs_differ_from_each_other():
    seeds = [epoch_seed(seed, epoch) for seed in range(25) for epoch in range(1, 40)]
    assert len({*seeds, *range(25)}) == 1000
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert stats.kstest([seed / 2**63 for seed in seeds], "uniform").pvalue > 1e-3
    assert [epoch_seed(seed, 0) for seed in (0, 7, 2**62)] == [0, 7, 2**62], "the first epoch begins with the seed itself"
    assert epoch_seed(5, 3) == epoch_seed(5, 3)
