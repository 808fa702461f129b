# SPDX-License-Identifier: Apache-2.0
"""Labelled sets: which images, what each labeller says of them, and what cannot be labelled."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unbraid.data import load
from unbraid.data.few_labels import LABELLERS, LabelledSets, LabelRequest

SIZES = (3, 6, 40, 32, 32)
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def sprites():
    """Factors scale 4, x 8, y 6: 192 images."""
    return load("sprites", image_size=16, x=8, y=6, scale=4)


def setting(sizes=SIZES, latents=10, where=""):
    return SimpleNamespace(factor_sizes=sizes, latents=latents, where=where)


def every_value(size: int, column: int, columns: int) -> np.ndarray:
    """Truth in which one column runs through all its values, the others staying at 0."""
    truth = np.zeros((size, columns), dtype=np.int64)
    truth[:, column] = np.arange(size)
    return truth


def test_perfect_labels_are_the_factors_of_their_images(sprites):
    found = LabelRequest(150, seed=4).draw(sprites)
    assert found.indices.shape == (150,)
    assert np.array_equal(found.labels, sprites.factors(found.indices))
    assert (found.sizes, found.observed) == ((4, 8, 6), (0, 1, 2))


def test_images_are_drawn_evenly(sprites):
    found = LabelRequest(19_200, seed=1).draw(sprites)
    assert stats.chisquare(np.bincount(found.indices, minlength=192)).pvalue > 1e-3


def test_a_hundred_labels_are_the_first_of_a_thousand(sprites):
    for labeller in LABELLERS:
        few, many = (LabelRequest(count, labeller, seed=2).draw(sprites) for count in (100, 1000))
        assert np.array_equal(few.indices, many.indices[:100])
        assert np.array_equal(few.labels, many.labels[:100])
        assert few.sizes == many.sizes


@pytest.mark.parametrize("labeller", LABELLERS)
def test_sets_follow_from_the_label_seed_alone(sprites, labeller):
    one, again, other = (LabelRequest(50, labeller, seed=seed).draw(sprites) for seed in (7, 7, 8))
    for a, b in zip(one, again, strict=True):
        assert np.array_equal(a, b)
    assert not np.array_equal(one.indices, other.indices)


def test_all_labellers_label_the_same_images(sprites):
    sets = [LabelRequest(50, labeller, seed=3).draw(sprites) for labeller in LABELLERS]
    assert all(np.array_equal(one.indices, sets[0].indices) for one in sets)


def binned_table(size: int, bins: int = 5) -> list[int]:
    """What the labeller calls each of the *size* values of a factor."""
    sizes = (2, size)
    return (
        LabelRequest(size, "binned", bins=bins)
        .label(np.arange(size), every_value(size, 1, 2), sizes)
        .labels[:, 1]
        .tolist()
    )


def test_bins_by_hand():
    assert binned_table(3) == [0, 1, 2]
    assert binned_table(5) == [0, 1, 2, 3, 4]
    assert binned_table(6) == [0, 0, 1, 2, 3, 4]
    assert binned_table(40) == [value // 8 for value in range(40)]
    # 32 values in bins of 6.4: the first values of the bins are 0, 7, 13, 20, 26
    assert binned_table(32) == [0] * 7 + [1] * 6 + [2] * 7 + [3] * 6 + [4] * 6
    assert binned_table(10, bins=2) == [0] * 5 + [1] * 5


@pytest.mark.parametrize("size", SIZES)
def test_bins_are_those_of_the_published_formula(size):
    published = [
        value if size <= 5 else min(math.floor(value / (size / 5)), 4) for value in range(size)
    ]
    assert binned_table(size) == published


def test_binned_sizes():
    assert LabelRequest(1, "binned").label(
        np.zeros(1, int), np.zeros((1, 5), int), SIZES
    ).sizes == (3, 5, 5, 5, 5)


@settings(max_examples=60, deadline=None)
@given(size=st.integers(1, 300), bins=st.integers(2, 40))
def test_bins_keep_the_order_fill_their_range_and_are_nearly_even(size, bins):
    found = np.array(binned_table(size, bins))
    kept = min(size, bins)
    assert np.array_equal(np.unique(found), np.arange(kept))
    assert (np.diff(found) >= 0).all()
    counts = np.bincount(found)
    assert counts.max() - counts.min() <= 1
    assert LabelRequest(1, "binned", bins=bins).most_values((size,)) == (kept,)


@pytest.mark.parametrize("noise", [0.1, 0.5])
def test_noise_replaces_labels_at_its_rate(noise):
    """A replaced label keeps its value once in n times, so a share of noise (1 − 1/n) is seen to
    change.
    """
    rows = 20_000
    rng = np.random.default_rng(0)
    truth = np.stack([rng.integers(0, size, rows) for size in SIZES], axis=1)
    found = LabelRequest(rows, "noisy", seed=5, noise=noise).label(np.arange(rows), truth, SIZES)
    assert found.sizes == SIZES
    changed = found.labels != truth
    for factor, size in enumerate(SIZES):
        assert (
            stats.binomtest(int(changed[:, factor].sum()), rows, noise * (1 - 1 / size)).pvalue
            > 1e-3
        )
        # Where they replace, labels are drawn from all values alike; those that kept their value by
        # chance are not seen.
        moved = found.labels[changed[:, factor], factor]
        assert stats.chisquare(np.bincount(moved, minlength=size)).pvalue > 1e-3
    assert (found.labels >= 0).all()
    assert (found.labels < np.array(SIZES)).all()
    # Labels of one image are replaced independently of each other.
    both = int((changed[:, 3] & changed[:, 4]).sum())
    assert stats.binomtest(both, rows, (noise * 31 / 32) ** 2).pvalue > 1e-3


def test_noise_of_zero_and_one():
    truth = np.tile(np.arange(3)[:, None], (2000, 1))
    calm, wild = (
        LabelRequest(6000, "noisy", noise=noise).label(np.arange(6000), truth, (3,)).labels
        for noise in (0.0, 1.0)
    )
    assert np.array_equal(calm, truth)
    counts = np.zeros((3, 3))
    np.add.at(counts, (truth[:, 0], wild[:, 0]), 1)
    assert stats.chi2_contingency(counts).pvalue > 1e-3
    assert stats.chisquare(counts.sum(axis=0)).pvalue > 1e-3


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**53), sizes=st.lists(st.integers(1, 40), min_size=1, max_size=5))
def test_permuted_names_are_a_bijection_of_each_factors_values(seed, sizes):
    for factor, size in enumerate(sizes):
        truth = every_value(size, factor, len(sizes))
        found = LabelRequest(size, "permuted", seed=seed).label(np.arange(size), truth, sizes)
        assert sorted(found.labels[:, factor].tolist()) == list(range(size))
        assert found.sizes == tuple(sizes)
        # The other factors stand still, so their label does too.
        assert all(
            len(set(found.labels[:, other])) == 1 for other in range(len(sizes)) if other != factor
        )


def test_permutations_lose_the_order_and_differ_by_factor_and_seed():
    truth = np.tile(np.arange(32)[:, None], (1, 2))
    tables = [
        LabelRequest(32, "permuted", seed=seed).label(np.arange(32), truth, (32, 32)).labels
        for seed in range(50)
    ]
    assert not np.array_equal(tables[0][:, 0], tables[0][:, 1])
    assert not np.array_equal(tables[0], tables[1])
    ranks = [abs(stats.spearmanr(np.arange(32), table[:, 0]).statistic) for table in tables]
    assert np.mean(ranks) < 0.25


def test_the_same_value_has_the_same_name_in_every_image(sprites):
    found = LabelRequest(500, "permuted", seed=6).draw(sprites)
    truth = sprites.factors(found.indices)
    for factor in range(3):
        names = {
            (old, new) for old, new in zip(truth[:, factor], found.labels[:, factor], strict=True)
        }
        assert len(names) == sprites.factor_sizes[factor]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**53), observed=st.integers(1, 5))
def test_partial_labels_are_whole_columns_of_the_truth(seed, observed):
    rows = 30
    truth = np.stack([np.random.default_rng(1).integers(0, size, rows) for size in SIZES], axis=1)
    found = LabelRequest(rows, "partial", seed=seed, observed=observed).label(
        np.arange(rows), truth, SIZES
    )
    assert len(set(found.observed)) == observed
    assert list(found.observed) == sorted(found.observed)
    assert np.array_equal(found.labels, truth[:, list(found.observed)])
    assert found.sizes == tuple(SIZES[factor] for factor in found.observed)


def test_every_pair_of_factors_is_observed_alike():
    seen = [
        LabelRequest(1, "partial", seed=seed)
        .label(np.zeros(1, int), np.zeros((1, 5), int), SIZES)
        .observed
        for seed in range(600)
    ]
    pairs, counts = np.unique(seen, axis=0, return_counts=True)
    assert len(pairs) == 10
    assert stats.chisquare(counts).pvalue > 1e-3


def test_most_values():
    assert LabelRequest(1).most_values(SIZES) == SIZES
    assert LabelRequest(1, "binned").most_values(SIZES) == (3, 5, 5, 5, 5)
    assert LabelRequest(1, "partial", observed=3).most_values(SIZES) == (40, 40, 40)


def test_members_have_their_own_sets_in_one_chunk(sprites):
    requests = [LabelRequest(20, "partial", seed=seed) for seed in (0, 3, 0, 7)]
    stacked = LabelledSets.of(requests, sprites, CPU)
    assert stacked is not None
    assert (stacked.indices.shape, stacked.labels.shape, stacked.sizes.shape) == (
        (4, 20),
        (4, 20, 2),
        (4, 2),
    )
    assert (stacked.indices.dtype, stacked.labels.dtype, stacked.sizes.dtype) == (
        torch.int64,
        torch.float32,
        torch.float32,
    )
    assert stacked.count == 20
    assert len({tuple(row) for row in stacked.sizes.tolist()}) > 1
    assert stacked.values == stacked.sizes.max()
    for member, request in enumerate(requests):
        alone = request.draw(sprites)
        assert np.array_equal(stacked.indices[member], alone.indices)
        assert np.array_equal(stacked.labels[member], alone.labels)
        assert stacked.sizes[member].tolist() == list(alone.sizes)
    assert LabelledSets.of([None, None], sprites, CPU) is None


def test_data_without_factors_is_refused():
    (problem,) = LabelRequest(100).problems("beta_vae", setting(sizes=()))
    assert (problem.name, problem.value) == ("beta_vae: data", "none")
    assert problem.rule == "needs known factors to take labels from"
    assert "factors.csv" in problem.remedy


@pytest.mark.parametrize(
    ("request_", "least", "remedy"),
    [
        (LabelRequest(100), 5, "observed_factors=3"),
        (LabelRequest(100, "partial", observed=4), 4, "fewer observed_factors"),
    ],
)
def test_more_labelled_factors_than_latents_are_refused(request_, least, remedy):
    (problem,) = request_.problems("beta_vae", setting(latents=3))
    assert (problem.name, problem.value) == ("beta_vae: latents", 3)
    assert problem.rule == f"must be at least the {least} labelled factors, one for each"
    assert f"latents={least}" in problem.remedy
    assert remedy in problem.remedy


def test_as_many_labelled_factors_as_latents_are_taken():
    assert LabelRequest(100, "partial", observed=3).problems("vae", setting(latents=3)) == []
    assert LabelRequest(100).problems("vae", setting(latents=5)) == []


def test_more_observed_factors_than_there_are_are_refused():
    request = LabelRequest(100, "partial", observed=6)
    (problem,) = request.problems("dip_vae_i", setting())
    assert (problem.name, problem.value) == ("dip_vae_i: observed_factors", 6)
    assert problem.rule == "must be at most the 5 factors of the data"
    assert "observed_factors=5" in problem.remedy
    assert len(request.problems("dip_vae_i", setting(latents=3))) == 2
    assert LabelRequest(100, "perfect", observed=6).problems("dip_vae_i", setting()) == []


def test_a_rule_of_sampling_is_refused():
    (problem,) = LabelRequest(100).problems("beta_vae", setting(where="x < 3"))
    assert (problem.name, problem.value) == ("beta_vae: where", "x < 3")
    assert problem.remedy == "Leave it out."
