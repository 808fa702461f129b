# SPDX-License-Identifier: Apache-2.0
"""Surrogate labels: gaps by hand, MIG's own numbers where the labels are true factors, and labels
that survive their file.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from unbraid.core.errors import DamagedFileError
from unbraid.metrics.mig import mig
from unbraid.search.rpu.surrogate_labels import (
    SurrogateLabels,
    active_latents,
    counted_labels,
    read_surrogates,
    surrogate_gaps,
    write_surrogates,
)

EVERY = np.arange(8)
BITS = np.array([[a, b, c] for a in (0, 1) for b in (0, 1) for c in (0, 1)], dtype=np.float32)
"""Three independent bits of eight images."""


def labels(indices: np.ndarray, *columns: np.ndarray) -> SurrogateLabels:
    return SurrogateLabels(
        np.asarray(indices, dtype=np.int64), np.stack(columns, axis=1).astype(np.float32)
    )


def test_gap_by_hand():
    # Latent 0 is the first bit, latent 1 the second with one image wrong, latent 2 copies the
    # first.
    wrong = BITS[:, 1].copy()
    wrong[0] = 1.0
    codes = np.stack([BITS[:, 0], wrong, BITS[:, 0] + 3.0], axis=1)
    level = labels(EVERY, BITS[:, 0] * 5.0, BITS[:, 1] - 2.0)
    # First label: two latents know it all, gap 0. Second: 1 of 4 images of value 0 reads 1.
    table = np.array([[3, 0], [1, 4]]) / 8
    told = float(
        sum(
            p * math.log(p / (table.sum(1)[i] * table.sum(0)[j]))
            for (i, j), p in np.ndenumerate(table)
            if p
        )
    )
    expected = (0.0 + told / math.log(2)) / 2
    assert surrogate_gaps(codes, EVERY, [(level,)]) == pytest.approx(expected, abs=1e-12)


def test_true_factors_as_labels_give_the_numbers_of_mig_on_the_images_that_carry_them():
    generator = np.random.default_rng(3)
    factors = generator.integers(0, [6, 4, 20], (400, 3))
    factors[:20, 2] = np.arange(20)  # every value occurs, so that 20 bins hold one value each
    codes = (factors @ generator.normal(size=(3, 5)) + generator.normal(size=(400, 5))).astype(
        np.float32
    )
    part = np.sort(generator.permutation(400)[:150])
    whole, of_part = mig(codes, factors), mig(codes[part], factors[part][:, :2])
    root = labels(np.arange(400), *factors.T)
    level = labels(part, factors[part][:, 0], factors[part][:, 1])
    assert surrogate_gaps(codes, np.arange(400), [(root,)]) == pytest.approx(whole.score, abs=1e-12)
    expected = np.mean([*whole.per_factor, *of_part.per_factor])
    assert surrogate_gaps(codes, np.arange(400), [(root, level)]) == pytest.approx(
        expected, abs=1e-12
    )
    # Codes of the images that carry labels alone, as a search encodes them.
    assert surrogate_gaps(codes[part], part, [(level,)]) == pytest.approx(of_part.score, abs=1e-12)


def test_the_score_is_the_median_over_leaf_runs():
    codes = np.stack([BITS[:, 0], BITS[:, 1]], axis=1)
    known, half, unknown = (
        labels(EVERY, BITS[:, 0]),
        labels(EVERY, BITS[:, 0], BITS[:, 2]),
        labels(EVERY, BITS[:, 2]),
    )
    one = {"known": 1.0, "half": 0.5, "unknown": 0.0}
    for level, expected in zip((known, half, unknown), one.values(), strict=True):
        assert surrogate_gaps(codes, EVERY, [(level,)]) == pytest.approx(expected, abs=1e-12)
    assert surrogate_gaps(codes, EVERY, [(known,), (unknown,), (half,)]) == pytest.approx(
        0.5, abs=1e-12
    )
    assert surrogate_gaps(codes, EVERY, [(unknown,), (known,), (known,)]) == pytest.approx(
        1.0, abs=1e-12
    )
    assert surrogate_gaps(codes, EVERY, [(known,), (half,)]) == pytest.approx(0.75, abs=1e-12)
    assert surrogate_gaps(codes, EVERY, [(known, unknown)]) == pytest.approx(0.5, abs=1e-12)


def test_labels_that_do_not_vary_are_left_out():
    codes = np.stack([BITS[:, 0], BITS[:, 1]], axis=1)
    flat = np.full(8, 2.5)
    assert surrogate_gaps(codes, EVERY, [(labels(EVERY, BITS[:, 0], flat),)]) == pytest.approx(
        1.0, abs=1e-12
    )
    assert surrogate_gaps(
        codes, EVERY, [(labels(EVERY, BITS[:, 0]), labels(EVERY[:3], flat[:3]))]
    ) == pytest.approx(1.0, abs=1e-12)
    assert surrogate_gaps(
        codes, EVERY, [(labels(EVERY, BITS[:, 0]),), (labels(EVERY, flat),)]
    ) == pytest.approx(1.0, abs=1e-12)
    assert math.isnan(surrogate_gaps(codes, EVERY, [(labels(EVERY, flat),)]))


@given(
    values=arrays.arrays(np.float32, (30, 2), elements=st.floats(-5, 5, width=32)),
    codes=arrays.arrays(np.float32, (30, 4), elements=st.floats(-5, 5, width=32)),
    order=st.permutations(range(4)),
)
@settings(max_examples=40, deadline=None)
def test_order_of_latents_and_size_of_labels_do_not_matter(
    values: np.ndarray, codes: np.ndarray, order: list[int]
):
    every = np.arange(30)
    score = surrogate_gaps(codes, every, [(SurrogateLabels(every, values),)])
    again = surrogate_gaps(
        codes[:, order], every, [(SurrogateLabels(every, values[:, ::-1] * np.float32(4.0)),)]
    )
    assert (math.isnan(score) and math.isnan(again)) or again == pytest.approx(score, abs=1e-9)
    assert math.isnan(score) or 0.0 <= score <= 1.0


def test_active_latents_say_more_than_the_threshold_the_most_first():
    nats = np.array([0.2, 3.0, 1.0, 1.0001, 7.0, 3.0])
    assert active_latents(nats) == [4, 1, 5, 3]
    assert active_latents(nats, 0.1) == [4, 1, 5, 3, 2, 0]
    assert active_latents(nats, 7.0) == []


def test_large_levels_are_thinned_to_a_part_that_stays_the_same():
    many = SurrogateLabels(np.arange(1000) * 3, np.arange(2000, dtype=np.float32).reshape(1000, 2))
    thin = many.thinned(100)
    assert len(thin.indices) == len(thin.values) == 100
    assert (np.diff(thin.indices) > 0).all()
    np.testing.assert_array_equal(
        thin.values[:, 0], thin.indices / 3 * 2
    )  # every label is still with its image
    np.testing.assert_array_equal(many.thinned(100).indices, thin.indices)
    assert 300 < np.median(thin.indices) / 3 < 700, (
        "a leading part would be no fair sample of the data"
    )
    assert many.thinned(1000) is many


def test_one_root_belongs_to_every_leaf_run(tmp_path: Path):
    root = labels(EVERY, BITS[:, 0], BITS[:, 1])
    write_surrogates(
        tmp_path / "s.safetensors", [(root,), (root, labels(EVERY[:4], BITS[:4, 2])), (root,)]
    )
    found = read_surrogates(tmp_path / "s.safetensors")
    assert [len(leaf) for leaf in found] == [1, 2, 1]
    for leaf in found:
        np.testing.assert_array_equal(leaf[0].indices, root.indices)
        np.testing.assert_array_equal(leaf[0].values, root.values)


def test_labels_survive_their_file(tmp_path: Path):
    generator = np.random.default_rng(0)
    root = SurrogateLabels(np.arange(60_000), generator.normal(size=(60_000, 2)).astype(np.float32))
    level = SurrogateLabels(np.array([3, 9, 11]), generator.normal(size=(3, 1)).astype(np.float32))
    path = tmp_path / "final" / "surrogates.safetensors"
    write_surrogates(path, [(root, level), (root,)])
    found = read_surrogates(path)
    assert [len(leaf) for leaf in found] == [2, 1]
    np.testing.assert_array_equal(found[0][0].indices, root.thinned().indices)
    assert len(found[0][0].indices) == 50_000
    np.testing.assert_array_equal(found[0][0].values, root.thinned().values)
    np.testing.assert_array_equal(found[0][1].indices, level.indices)
    np.testing.assert_array_equal(found[0][1].values, level.values)
    np.testing.assert_array_equal(found[1][0].indices, found[0][0].indices)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(DamagedFileError):
        read_surrogates(path)


# Which labels count.


def of(count: int, columns: int, confirmed: tuple[bool, ...] = ()) -> SurrogateLabels:
    values = np.random.default_rng(columns).normal(size=(count, columns)).astype(np.float32)
    return SurrogateLabels(np.arange(count), values, confirmed)


def test_labels_of_few_images_weigh_less():
    ((root, leaf),) = counted_labels([(of(3600, 2), of(400, 1))], "weighed")
    assert (root.weight, leaf.weight) == (0.9, 0.5)


def test_labels_that_no_other_model_found_are_left_out():
    leaf = (of(50, 2, (True, False)), of(20, 1, (False,)), of(10, 2, (False, True)))
    ((root, deep),) = counted_labels([leaf], "confirmed")
    np.testing.assert_array_equal(root.values, leaf[0].values[:, :1])
    np.testing.assert_array_equal(deep.values, leaf[2].values[:, 1:])
    unknown = (of(50, 2, (False, False)), of(20, 1))
    assert counted_labels([unknown], "confirmed") == [unknown[:1]]
    assert counted_labels([leaf], "published") == [leaf]


def test_weights_decide_the_gap():
    """One label is known and one is not: the gap is the known one's share of the weights."""
    rng = np.random.default_rng(0)
    codes = rng.uniform(size=(4000, 2))
    known = SurrogateLabels(np.arange(4000), codes[:, :1].astype(np.float32), weight=3.0)
    other = SurrogateLabels(np.arange(4000), rng.uniform(size=(4000, 1)).astype(np.float32))
    every = np.arange(4000)
    alone = surrogate_gaps(codes, every, [(known,)])
    assert alone > 0.9
    assert surrogate_gaps(codes, every, [(known, other)]) == pytest.approx(0.75 * alone, abs=0.01)


def test_weights_and_confirmations_are_kept(tmp_path):
    leaf = (of(50, 2, (True, False)), of(20, 1, (False,)))
    path = tmp_path / "labels.safetensors"
    write_surrogates(path, counted_labels([leaf], "weighed"))
    ((root, deep),) = read_surrogates(path)
    assert (root.confirmed, deep.confirmed) == ((True, False), (False,))
    assert (root.weight, deep.weight) == (50 / 450, 20 / 420)
