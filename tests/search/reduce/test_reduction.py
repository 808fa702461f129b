# SPDX-License-Identifier: Apache-2.0
"""Reduction by surrogate labels: one plateau, one cell, nothing in noise; every published number by
a closed form.
"""

from __future__ import annotations

import itertools
import statistics
import time
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from unbraid.search.reduce.reduction import (
    NO_PEAKS,
    TOO_FEW_IMAGES,
    VARIANCE_EXPLAINED,
    Reduction,
    ReductionRule,
    least_ratio,
    reduce,
    reduce_in_turn,
)

from ...conftest import Refused

PUBLISHED = ReductionRule(chance=None)
Floats = NDArray[np.float64]


def stairs(
    sizes: list[int], noise: float = 0.01, seed: int = 0
) -> tuple[Floats, NDArray[np.int64]]:
    """Codes of a factor that takes value v for sizes[v] images, in random order, and the values."""
    rng = np.random.default_rng(seed)
    values = rng.permutation(np.repeat(np.arange(len(sizes)), sizes))
    return values + noise * rng.standard_normal(len(values)), values


def grid(
    first: int, second: int, each: int, noise: float = 0.01, seed: int = 0
) -> tuple[Floats, NDArray[np.int64]]:
    """Codes and values of two factors, *each* images for every pair of values, in random order."""
    rng = np.random.default_rng(seed)
    pairs = np.stack(
        [
            one.ravel()
            for one in np.meshgrid(range(first), range(second), range(each), indexing="ij")[:2]
        ],
        axis=1,
    )
    values = rng.permutation(pairs)
    return values + noise * rng.standard_normal(values.shape), values


def cells_of(found: Reduction) -> set[frozenset[int]]:
    return {frozenset(found.images(number).tolist()) for number in range(len(found.candidates))}


def from_derivative(derivative: list[float]) -> Floats:
    return np.concatenate([[0.0], np.cumsum(derivative)])


# One plateau, exactly.


@pytest.mark.parametrize(
    "sizes", [[40] * 5, [30, 60, 45, 90, 50, 30], [400] * 8, [500, 40, 500, 40, 500]]
)
def test_one_latent_keeps_exactly_one_plateau(sizes: list[int]) -> None:
    labels, values = stairs(sizes)
    found = reduce(labels)
    assert found.stopped is None
    (value,) = np.unique(values[found.indices])
    assert found.indices.tolist() == np.flatnonzero(values == value).tolist()
    assert cells_of(found) == {
        frozenset(np.flatnonzero(values == inner).tolist()) for inner in range(1, len(sizes) - 1)
    }


def test_two_plateaus_are_two_halves() -> None:
    labels, values = stairs([100, 60])
    found = reduce(labels)
    assert len(found.latents[0].peaks) == 1
    assert cells_of(found) == {
        frozenset(np.flatnonzero(values == value).tolist()) for value in range(2)
    }


def test_the_flatter_half_ranks_first() -> None:
    low, high = np.linspace(0.0, 0.2, 50), np.linspace(1.0, 1.1, 50)
    assert reduce(np.concatenate([low, high])).indices.tolist() == list(range(50, 100))
    assert reduce(np.concatenate([-low, high])).indices.tolist() == list(range(50, 100))
    assert reduce(np.concatenate([low / 4, high])).indices.tolist() == list(range(50))


def test_index_picks_intervals_by_quality() -> None:
    """Plateaus with slopes in the ratio 1, 2, 4 and steps of one height: the flattest first."""
    parts, top = [], 0.0
    for slope in (3.0, 2.0, 1.0, 4.0, 3.0):
        parts.append(top + slope * np.linspace(0.0, 0.01, 40))
        top = parts[-1][-1] + 1.0
    labels = np.concatenate(parts)
    assert [reduce(labels, index).indices[0] for index in range(3)] == [80, 40, 120]
    (latent,) = reduce(labels).latents
    np.testing.assert_allclose(
        [one.quality for one in latent.intervals], [39 / 0.01, 39 / 0.02, 39 / 0.04]
    )
    assert latent.peaks.tolist() == [39, 79, 119, 159]
    np.testing.assert_allclose(latent.heights, 1.0)


def test_labels_without_noise() -> None:
    """Whole numbers: the mean derivative inside is 0, so every quality is infinite, and the largest
    plateau comes first.
    """
    values = np.repeat(np.arange(5), [40, 50, 70, 60, 40])
    found = reduce(values)
    assert [one.size for one in found.candidates] == [70, 60, 50]
    assert found.indices.tolist() == list(range(90, 160))
    assert all(one.quality == np.inf for one in found.latents[0].intervals)


# One cell of the grid.


@pytest.mark.parametrize(
    ("first", "second", "each"), [(3, 4, 30), (2, 2, 40), (6, 7, 12), (10, 5, 40)]
)
def test_two_latents_keep_exactly_one_cell(first: int, second: int, each: int) -> None:
    labels, values = grid(first, second, each)
    found = reduce(labels)
    assert found.stopped is None
    (cell,) = np.unique(values[found.indices], axis=0)
    assert found.indices.tolist() == np.flatnonzero((values == cell).all(axis=1)).tolist()
    # With at most three peaks the outer plateaus count too; with more they do not, and five remain
    # at most.
    counts = [size if size <= 4 else min(size - 2, 5) for size in (first, second)]
    assert len(found.candidates) == counts[0] * counts[1]


def test_the_first_cells_are_distinct() -> None:
    labels, values = grid(4, 4, 30)
    kept = [reduce(labels, index).indices for index in range(3)]
    assert len({tuple(values[one[0]]) for one in kept}) == 3
    assert all(len(np.unique(values[one], axis=0)) == 1 for one in kept)


def test_cells_go_by_how_near_their_size_is_to_the_median() -> None:
    """Two factors of two values, with 20, 50, 60 and 100 images: the median is 55."""
    values = np.repeat(np.array([[0, 0], [0, 1], [1, 0], [1, 1]]), [20, 50, 60, 100], axis=0)
    labels = values + np.linspace(0, 0.1, len(values))[:, None] ** 2
    assert [one.size for one in reduce(labels).candidates][2:] == [20, 100]
    assert {one.size for one in reduce(labels).candidates[:2]} == {50, 60}
    sizes = [reduce(labels, index).indices.size for index in range(4)]
    assert sizes == [one.size for one in reduce(labels).candidates]


def test_equal_sizes_go_by_ranks_then_by_the_first_image() -> None:
    labels, _ = grid(4, 3, 30)
    found = reduce(labels).candidates
    assert len({one.size for one in found}) == 1
    keys = [(sum(one.ranks), one.first) for one in found]
    assert keys == sorted(keys)


def test_cells_of_few_images_do_not_count() -> None:
    """A factor that follows the other but for 5, then 6 images."""
    for strays, cells in ((5, 2), (6, 3)):
        first = np.repeat([0.0, 1.0], 100)
        second = first.copy()
        second[:strays] = 1.0
        wiggle = np.linspace(0.0, 0.01, 200)
        found = reduce(np.stack([first + wiggle, second + wiggle], axis=1))
        assert len(found.candidates) == cells
        assert [one.size for one in found.candidates].count(strays) == cells - 2


def test_many_latents_do_not_need_all_combinations() -> None:
    """Thirty latents: 5**30 combinations exceed 64 bits; images are in but four cells."""
    values = np.repeat(np.arange(4), 50)
    rng = np.random.default_rng(0)
    labels = values[:, None] * rng.choice([-1.0, 1.0], 30) + 0.01 * rng.standard_normal((200, 30))
    found = reduce(labels)
    assert cells_of(found) == {
        frozenset(np.flatnonzero(values == value).tolist()) for value in range(4)
    }


def with_sets(found: Reduction) -> list[set[int]]:
    """The intersections the long way: sets of positions, all combinations."""
    best = [
        [set(one.order[each.start : each.stop].tolist()) for each in one.intervals[:5]]
        for one in found.latents
    ]
    cells = [
        cell
        for combination in itertools.product(*best)
        if len(cell := set.intersection(*combination)) > 5
    ]
    median = statistics.median([len(cell) for cell in cells]) if cells else 0
    return sorted(cells, key=lambda cell: abs(len(cell) - median))


@pytest.mark.parametrize("seed", range(8))
def test_intersections_are_those_of_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, rng.integers(2, 9, 3), (1500, 3))
    found = reduce(values + 0.01 * rng.standard_normal(values.shape))
    wanted = with_sets(found)
    assert len(wanted) > 5
    assert cells_of(found) == {frozenset(cell) for cell in wanted}
    median = statistics.median([len(cell) for cell in wanted])
    distances = [abs(one.size - median) for one in found.candidates]
    assert distances == [abs(len(cell) - median) for cell in wanted]


# Nothing.


@pytest.mark.parametrize("count", [10, 15, 60, 300, 3000, 50_000])
@pytest.mark.parametrize("latents", [1, 2])
@pytest.mark.parametrize("law", ["normal", "uniform", "laplace"])
def test_noise_gives_nothing(law: str, latents: int, count: int) -> None:
    rng = np.random.default_rng([count, latents])
    laws = {
        "normal": rng.standard_normal,
        "uniform": rng.random,
        "laplace": lambda size: rng.laplace(size=size),
    }
    labels = laws[law]((count, latents))
    found = reduce(labels)
    assert found.stopped == NO_PEAKS
    assert found.indices.shape == (0,)
    assert found.candidates == ()
    assert found.chosen is None
    assert found.without_peaks


def test_the_bound_on_chance_holds() -> None:
    """Of 1,000 noises 1% at most show a peak: 20 or more would have a probability of 0.003. The
    published rule alone sees many.
    """
    rng = np.random.default_rng(5)
    noises = [rng.standard_normal(400) for _ in range(500)] + [rng.random(400) for _ in range(500)]
    assert sum(len(reduce(one).latents[0].peaks) > 0 for one in noises) < 20
    assert sum(len(reduce(one, rule=PUBLISHED).latents[0].peaks) > 0 for one in noises) > 300


def test_what_chance_refused_is_kept_as_evidence() -> None:
    labels = np.random.default_rng(1).random(20_000)
    (ours,), (published,) = reduce(labels).latents, reduce(labels, rule=PUBLISHED).latents
    assert len(ours.peaks) == 0
    assert ours.by_chance.tolist() == published.peaks.tolist() != []
    assert len(published.by_chance) == 0


@pytest.mark.parametrize(
    ("count", "which", "ratio"), [(20, 10, 5.0), (4, 2, 3.0), (2, 1, 100.0), (200, 100, 12.0)]
)
def test_the_law_of_the_ratio(count: int, which: int, ratio: float) -> None:
    """Closed form back to the ratio; and a simulation, whose standard error is 0.001 at most."""
    chance = float(np.prod([(count - at) / (count - at + ratio) for at in range(which)]))
    assert least_ratio(count, which, chance) == pytest.approx(ratio, rel=1e-9)
    rng = np.random.default_rng(0)
    others = np.sort(rng.standard_exponential((20_000, count)), axis=1)[:, which - 1]
    # Given the others, the chance of an exponential number to exceed is known.
    assert np.exp(-ratio * others).mean() == pytest.approx(chance, rel=0.15)


@pytest.mark.parametrize(
    ("deviations", "found"), [(12.0, True), (6.0, True), (2.0, False), (1.0, False)]
)
def test_steps_against_the_noise_on_plateaus(deviations: float, found: bool) -> None:
    labels, values = stairs([288] * 16, noise=1 / deviations)
    result = reduce(labels)
    assert (result.stopped is None) is found
    if found:
        share = np.bincount(values[result.indices]).max() / len(result.indices)
        assert share == 1.0 if deviations == 12.0 else share > 0.98


@pytest.mark.parametrize("count", [2, 3, 10, 15, 100])
@pytest.mark.parametrize("latents", [1, 2])
def test_equal_labels_have_no_step(count: int, latents: int) -> None:
    assert reduce(np.full((count, latents), 0.3)).stopped == NO_PEAKS
    assert reduce(np.full((count, latents), 0.3), rule=PUBLISHED).stopped == NO_PEAKS


def test_one_latent_without_a_step_stops_all() -> None:
    labels, _ = stairs([50] * 4)
    both = np.stack([labels, np.linspace(0.0, 1.0, 200)], axis=1)
    found = reduce(both)
    assert found.stopped == NO_PEAKS
    assert found.without_peaks == (1,)
    assert len(found.latents[0].peaks) == 3


def test_variance_is_explained_where_no_cell_holds_enough() -> None:
    """Two factors of 20 values and each pair of values once: a cell holds one image."""
    labels, _ = grid(20, 20, 1)
    found = reduce(labels)
    assert all(len(one.peaks) > 5 for one in found.latents)
    assert found.stopped == VARIANCE_EXPLAINED
    assert found.indices.size == 0


def test_too_few_images_stop() -> None:
    wiggled = np.repeat([0.0, 1.0, 2.0], [40, 9, 40]) + np.linspace(0.0, 0.001, 89)
    found = reduce(wiggled)
    assert found.stopped == TOO_FEW_IMAGES
    assert found.indices.size == 0
    assert found.chosen is not None
    assert found.chosen.size == 9
    assert found.latents[0].chosen == 0
    assert reduce(wiggled, rule=ReductionRule(fewest_images=9)).indices.tolist() == list(
        range(40, 49)
    )
    ten = np.repeat([0.0, 1.0, 2.0], [40, 10, 40]) + np.linspace(0.0, 0.001, 90)
    assert reduce(ten).indices.tolist() == list(range(40, 50))


def test_three_images() -> None:
    assert reduce([0.0, 0.1, 5.0]).stopped == NO_PEAKS


# Every number of the rule.


def test_published_numbers() -> None:
    assert {one.name: one.default for one in fields(ReductionRule)} == {
        "ignored_ends": 15,
        "peak_deviations": 7.0,
        "usual_deviations": 4.0,
        "separation": 50,
        "chance": 0.01,
        "few_peaks": 3,
        "end_height": 1.0,
        "best_intervals": 5,
        "more_than": 5,
        "fewest_images": 10,
        "trim": 0.0,
    }


def test_a_peak_is_seven_deviations_above_the_median() -> None:
    """Entries 1 and 3 in turn around one bump, 1,300 of them looked at: median 3, deviation 1.
    Numbers are exact in binary.
    """
    for bump, peaks in ((10.0, [700]), (10.0 - 2**-7, [])):
        derivative = [1.0, 3.0] * 350 + [bump] + [1.0, 3.0] * 400
        (latent,) = reduce(from_derivative(derivative), rule=PUBLISHED).latents
        assert (latent.ignored, latent.threshold) == (100, 10.0)
        assert latent.peaks.tolist() == peaks


def test_large_entries_do_not_raise_the_threshold() -> None:
    """The deviation is of entries below the median plus four deviations of all: steps of 1,000
    change nothing.
    """
    base = [1.0, 3.0] * 750
    for at in range(200, 1400, 200):
        base[at] = 1000.0
    (latent,) = reduce(from_derivative(base)).latents
    assert latent.threshold == pytest.approx(3.0 + 7.0, abs=0.05)
    assert latent.peaks.tolist() == list(range(200, 1400, 200))


def test_the_ends_are_ignored() -> None:
    """Of 1,500 entries 100 at each end. The first and last that are looked at cannot be peaks: they
    have one neighbour.
    """
    for at, seen in (
        (99, False),
        (100, False),
        (101, True),
        (1398, True),
        (1399, False),
        (1400, False),
    ):
        derivative = [1.0] * 1500
        derivative[at] = 50.0
        assert reduce(from_derivative(derivative)).latents[0].peaks.tolist() == (
            [at] if seen else []
        )


def test_of_close_peaks_the_higher_stays() -> None:
    """Of 1,500 entries peaks are at least 30 apart."""
    for apart, peaks in ((29, [729]), (30, [700, 730])):
        derivative = [1.0] * 1500
        derivative[700], derivative[700 + apart] = 400.0, 500.0
        assert reduce(from_derivative(derivative)).latents[0].peaks.tolist() == peaks


def test_ends_count_with_few_peaks_and_several_latents() -> None:
    labels, _ = grid(4, 5, 30)
    three, four = reduce(labels).latents
    assert (len(three.peaks), len(four.peaks)) == (3, 4)
    assert sorted(len(one) for one in three.intervals) == [150] * 4
    assert sorted(len(one) for one in four.intervals) == [120] * 3
    assert {(0, 150), (450, 600)} <= {(one.start, one.stop) for one in three.intervals}
    assert len(reduce(labels[:, 0]).candidates) == 2
    assert len(reduce(labels, rule=ReductionRule(few_peaks=2)).latents[0].intervals) == 2


def test_the_height_of_an_end_counts_in_the_quality() -> None:
    """Steps of 8 and slopes of 1/128 a place, exact in binary: a quality of 1,024 between peaks,
    128 beside an end of height 1.
    """
    one = from_derivative(([1 / 128] * 49 + [8.0]) * 3 + [1 / 128] * 49)
    found = reduce(np.stack([one, one], axis=1)).latents[0].intervals
    assert [(each.start, each.quality) for each in found] == [
        (50, 1024.0),
        (100, 1024.0),
        (0, 128.0),
        (150, 128.0),
    ]
    higher = (
        reduce(np.stack([one, one], axis=1), rule=ReductionRule(end_height=2.0))
        .latents[0]
        .intervals
    )
    assert [each.quality for each in higher] == [1024.0, 1024.0, 256.0, 256.0]


def test_trim_shortens_both_sides_of_every_interval() -> None:
    labels = np.repeat(np.arange(4.0), 50) + np.repeat([0.03, 0.01, 0.02, 0.03], 50) * np.tile(
        np.linspace(0.0, 1.0, 50), 4
    )
    assert reduce(labels, rule=ReductionRule(trim=0.1)).indices.tolist() == list(range(55, 95))
    both = np.stack([labels, labels], axis=1)
    assert reduce(both, rule=ReductionRule(trim=0.1)).indices.tolist() == list(range(55, 95))
    assert [one.size for one in reduce(both, rule=ReductionRule(trim=0.25)).candidates] == [26] * 4


# Invariants.


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    counts=st.tuples(st.integers(2, 8), st.integers(2, 8)),
    each=st.integers(12, 25),
    scales=st.tuples(st.floats(0.01, 100.0), st.floats(0.01, 100.0)),
    signs=st.tuples(st.sampled_from([-1.0, 1.0]), st.sampled_from([-1.0, 1.0])),
    shift=st.floats(-10.0, 10.0),
)
def test_nothing_depends_on_order_sign_scale_or_which_latent_is_first(
    seed: int,
    counts: tuple[int, int],
    each: int,
    scales: tuple[float, float],
    signs: tuple[float, float],
    shift: float,
) -> None:
    labels, values = grid(*counts, each, seed=seed)
    cells = cells_of(reduce(labels))
    assert all(len(np.unique(values[list(cell)], axis=0)) == 1 for cell in cells)
    assert cells_of(reduce(labels[:, ::-1])) == cells
    assert cells_of(reduce(labels * np.array(scales) * np.array(signs) + shift)) == cells
    order = np.random.default_rng(seed).permutation(len(labels))
    shuffled = cells_of(reduce(labels[order]))
    assert {frozenset(order[list(cell)].tolist()) for cell in shuffled} == cells
    one = cells_of(reduce(labels[:, 0]))
    assert cells_of(reduce(-scales[0] * labels[:, 0])) == one


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(2, 80),
    columns=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
    kind=st.sampled_from(["noise", "few values", "mixture"]),
    rule=st.sampled_from(
        [
            ReductionRule(),
            PUBLISHED,
            ReductionRule(chance=1.0, peak_deviations=1.0, fewest_images=1),
        ]
    ),
)
def test_any_labels_are_answered_soundly(
    rows: int, columns: int, seed: int, kind: str, rule: ReductionRule
) -> None:
    rng = np.random.default_rng(seed)
    noise, few = rng.standard_normal((rows, columns)), rng.integers(0, 4, (rows, columns))
    labels = {"noise": noise, "few values": few, "mixture": few + 0.01 * noise}[kind]
    found = reduce(labels, rule=rule)
    again = reduce(labels, rule=rule)
    assert found.candidates == again.candidates
    np.testing.assert_array_equal(found.indices, again.indices)
    assert (found.stopped is None) == (found.indices.size > 0)
    assert found.indices.dtype == np.int64
    for number, one in enumerate(found.candidates):
        images = found.images(number)
        assert (len(images), images[0]) == (one.size, one.first)
    if found.stopped is None:
        assert found.indices.tolist() == found.images(found.index).tolist()
        for latent, column in zip(found.latents, np.asarray(labels).T, strict=True):
            assert latent.chosen is not None
            kept = latent.intervals[latent.chosen]
            assert set(found.indices.tolist()) <= set(latent.order[kept.start : kept.stop].tolist())
            np.testing.assert_array_equal(latent.values, np.sort(column))


def test_float32_and_one_dimension_are_the_same_labels() -> None:
    labels, _ = stairs([60] * 6)
    wanted = reduce(labels)
    for other in (labels[:, None], labels.astype(np.float32), labels.tolist()):
        np.testing.assert_array_equal(reduce(other).indices, wanted.indices)
    assert reduce(labels.astype(np.float32)).latents[0].values.dtype == np.float64


def test_labels_are_left_as_they_were() -> None:
    labels, _ = grid(3, 3, 20)
    before = labels.copy()
    reduce(labels)
    np.testing.assert_array_equal(labels, before)


@pytest.mark.parametrize(
    ("count", "seconds"), [(50_000, 5.0), pytest.param(737_280, 30.0, marks=pytest.mark.slow)]
)
def test_large_datasets_take_seconds(count: int, seconds: float) -> None:
    """Positions of all dSprites: 32 by 32 values."""
    rng = np.random.default_rng(0)
    values = rng.integers(0, 32, (count, 2))
    labels = (values + 0.05 * rng.standard_normal((count, 2))).astype(np.float32)
    began = time.process_time()
    found = reduce(labels)
    assert time.process_time() - began < seconds
    (cell,) = np.unique(values[found.indices], axis=0)
    assert found.indices.tolist() == np.flatnonzero((values == cell).all(axis=1)).tolist()
    assert len(found.candidates) == 25


# Refusals.


def test_bad_labels_are_refused_by_name(refused: Refused) -> None:
    def problem(labels: Any) -> tuple[str, str]:
        ((name, rule, value),) = refused(reduce, labels)
        assert name == "labels"
        return rule, value

    assert problem([["a"], ["b"]]) == ("must be real numbers", "an array of <U1")
    assert problem(np.zeros(3, dtype=bool)) == ("must be real numbers", "an array of bool")
    uneven = ("must be an array of numbers", "rows of unequal length")
    assert problem([[1.0, 2.0], [3.0]]) == uneven
    shape = "must be of shape (images, latents), two images at least"
    assert problem(np.zeros((5, 0))) == (shape, "(5, 0)")
    assert problem(np.zeros((2, 2, 2))) == (shape, "(2, 2, 2)")
    assert problem([1.0]) == (shape, "(1, 1)")
    assert problem(3.0) == (shape, "()")
    labels, finite = np.zeros((9, 2)), "must be finite, less than 1e+100 in size"
    labels[4, 1] = np.nan
    assert problem(labels) == (finite, "nan for image 4, latent 1")
    labels[7, 0], labels[8, 0] = -np.inf, 1e200
    assert problem(labels) == (finite, "nan for image 4, latent 1, and 2 more")


def test_bad_indices_are_refused_by_name(refused: Refused) -> None:
    labels, _ = grid(2, 2, 40)
    there = ("index", "must be in 0..3, the candidates there are", "4")
    assert refused(reduce, labels, 4) == [there]
    for wrong in (-1, 0.5):
        least = ("index", "must be a whole number of at least 0", str(wrong))
        assert refused(reduce, labels, wrong) == [least]
    # Where there is nothing to choose from, the reason is of more use than a refusal.
    assert reduce(np.zeros(50), 7).stopped == NO_PEAKS


def test_parts_are_taken_in_turn() -> None:
    values = np.repeat(np.arange(5.0), 40) + np.linspace(0, 0.01, 200)
    assert len(reduce(values).candidates) == 3
    for index in range(5):
        np.testing.assert_array_equal(
            reduce_in_turn(values, index).indices, reduce(values, index % 3).indices
        )
    assert reduce_in_turn(np.zeros((30, 1)), 2).stopped == NO_PEAKS


def test_bad_rules_are_refused_all_at_once(refused: Refused) -> None:
    wrong: dict[str, Any] = {"ignored_ends": 2, "separation": 0, "trim": 0.5, "chance": 0.0}
    wrong |= {"fewest_images": 0, "peak_deviations": float("nan")}
    assert refused(ReductionRule, **wrong) == [
        ("ignored_ends", "must be a whole number of at least 3", "2"),
        ("separation", "must be a whole number of at least 1", "0"),
        ("fewest_images", "must be a whole number of at least 1", "0"),
        ("peak_deviations", "must be a number from 0 to 1e+06", "nan"),
        ("trim", "must be a number from 0 to 0.49", "0.5"),
        ("chance", "must be a number from 1e-12 to 1", "0.0"),
    ]
