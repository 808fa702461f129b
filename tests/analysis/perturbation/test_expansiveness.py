# SPDX-License-Identifier: Apache-2.0
"""Expansiveness and explained variance: closed forms, the packed count against brute force, samples
against the whole.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import unbraid.analysis.perturbation.expansiveness as module
from unbraid.analysis.perturbation.effect import (
    crossings,
    max_norm,
    perturbation_report,
    s_of,
    uniform_s,
)
from unbraid.analysis.perturbation.expansiveness import (
    expansiveness,
    local_expansiveness,
    neighbours,
    step_length,
)
from unbraid.analysis.perturbation.expansiveness_dsprites import examine
from unbraid.core.errors import InputError
from unbraid.data import load
from unbraid.data.perturbed.folder import write_perturbed
from unbraid.data.perturbed.pattern import half_rows, make_pattern, standardised, usual_shift_scale


def test_a_linear_map_expands_by_its_length_everywhere():
    positions = np.sort(np.random.default_rng(0).uniform(-3, 3, 40))
    direction = np.array([[1.0, -2.0], [2.0, 0.0]])
    assert local_expansiveness(
        positions, positions[:, None, None] * direction, 2.0
    ) == pytest.approx(3.0)


def test_eq_7_is_an_infimum_over_all_that_is_near():
    # |s|: left and right of 0 the slope is 1, but -1 and 1 look the same.
    positions = np.array([-1.0, 0.0, 1.0])
    values = np.abs(positions)[:, None]
    assert local_expansiveness(positions, values, 1.5).tolist() == [1.0, 1.0, 1.0]
    assert local_expansiveness(positions, values, 2.5).tolist() == [0.0, 1.0, 0.0]
    assert np.isnan(local_expansiveness(positions, values, 0.5)).all()


def test_the_pattern_is_a_step_function_that_expands_from_step_to_step():
    pattern = make_pattern(0, 32, 32, -200, 200)
    fine = np.arange(-20, 20, 0.25)
    assert local_expansiveness(fine, pattern.frames(half_rows(fine)), 0.3).min() == 0.0
    steps = np.arange(-20.0, 20.0, 4.0)
    smallest = local_expansiveness(steps, pattern.frames(half_rows(steps)), 5.0).min()
    assert smallest == pytest.approx(math.sqrt(2 * 32 * 32) / 4, rel=0.1)


def two_factors() -> np.ndarray:
    """Images of 2x3 values of (a, b), 8x8: the first pixel is a, the second b / 2."""
    images = np.zeros((6, 8, 8), dtype=np.uint8)
    for at, (a, b) in enumerate(itertools.product(range(2), range(3))):
        images[at, 0, 0], images[at, 0, 1] = 255 * a, 102 * b
    return images


def test_change_and_variance_by_hand():
    factors = np.array(list(itertools.product(range(2), range(3))))
    shuffled = np.random.default_rng(0).permutation(6)
    dataset = load(two_factors()[shuffled], factors=factors[shuffled], factor_names=["a", "b"])
    found = expansiveness(dataset)
    assert found.exact
    assert found.images == 6
    assert found.change == pytest.approx([1.0, 0.4])
    assert found.least_change == pytest.approx([1.0, 0.4])
    assert found.explained_variance == pytest.approx([1 / 4, 0.4**2 * 2 / 3])
    table = found.table()
    assert table.index.tolist() == ["a", "b"]
    assert table["values"].tolist() == [2, 3]
    assert table["expansiveness"].tolist() == pytest.approx([1.0 / 2.0, 0.4 / math.sqrt(1.5)])
    missing = [0, 1, 3, 5]  # only (0, 0), (0, 1), (1, 0), (1, 2): one pair for each factor
    part = expansiveness(load(two_factors()[missing], factors=factors[missing]))
    assert part.change == pytest.approx([1.0, 0.4])
    apart = expansiveness(load(two_factors()[[0, 5]], factors=factors[[0, 5]]))
    assert np.isnan(apart.change).all()
    assert apart.explained_variance == pytest.approx([(1 + 0.8**2) / 4] * 2)


def test_without_factors_there_is_nothing_to_tell():
    found = expansiveness(load(two_factors()))
    assert len(found.table()) == 0
    with pytest.raises(InputError, match=r"^images must be at least 2; got 1\.$"):
        expansiveness(load(two_factors()), images=1)


def test_steps_are_those_of_a_uniform_factor_with_unit_variance():
    for values in (2, 5, 32):
        assert (np.arange(values) * step_length(values)).std() == pytest.approx(1.0)
    assert math.isnan(step_length(1))


def test_neighbours_differ_in_one_factor_by_one():
    sizes = (2, 3, 4)
    rows = np.array(list(itertools.product(*map(range, sizes))))[
        np.random.default_rng(1).permutation(24)
    ]
    for factor, size in enumerate(sizes):
        lower, upper = neighbours(rows, sizes, factor)
        assert len(lower) == 24 // size * (size - 1)
        assert np.array_equal(
            rows[upper] - rows[lower], np.tile(np.eye(3, dtype=int)[factor], (len(lower), 1))
        )
    assert [len(part) for part in neighbours(rows, (2**40, 2**40, 4), 0)] == [0, 0]


def test_packed_images_are_counted_as_brute_force_does(monkeypatch):
    sizes = (2, 3, 4, 5)
    words = np.random.default_rng(0).integers(0, 2**63, (*sizes, 2), dtype=np.uint64)
    bits = np.unpackbits(words.view(np.uint8), axis=-1, bitorder="little").astype(np.float64)
    expected: list[list[float]] = [[], [], []]
    for axis in range(4):
        distances = np.linalg.norm(np.diff(bits, axis=axis), axis=-1)
        means = bits.mean(axis=tuple(other for other in range(4) if other != axis))
        for kind, value in zip(
            expected, (distances.mean(), distances.min(), means.var(axis=0).sum()), strict=True
        ):
            kind.append(value)
    for _ in range(2):
        for found, kind in zip(examine(words), expected, strict=True):
            assert found == pytest.approx(kind)
        monkeypatch.delattr(np, "bitwise_count", raising=False)  # NumPy 1
    change, least, variance = examine(words[:1])
    assert np.isnan([change[0], least[0]]).all()
    assert variance[0] == 0.0


def test_squares_that_never_overlap_are_all_equally_far():
    found = expansiveness(load("xysquares"), images=64)
    assert not found.exact
    assert found.change == pytest.approx(math.sqrt(128))
    assert found.least_change == pytest.approx(math.sqrt(128))


def test_a_sample_estimates_the_whole_without_bias(monkeypatch):
    dataset = load("sprites", x=16, y=8, scale=6, image_size=16)
    whole = expansiveness(dataset)
    monkeypatch.setattr(module, "_EXACT_VALUES", 0)
    parts = [expansiveness(dataset, images=96, seed=seed) for seed in range(24)]
    assert not parts[0].exact
    for name in ("change", "explained_variance"):
        draws = np.array([getattr(part, name) for part in parts])
        error = draws.std(axis=0) / math.sqrt(len(parts))
        assert (
            np.abs(draws.mean(axis=0) - getattr(whole, name))
            < 4 * error + 0.01 * getattr(whole, name)
        ).all()


def test_s_beside_the_factors_of_dsprites():
    """Figure 4 without training: by default s passes position near by first (about ε = 0.12),
    overall later (about 0.17).
    """
    dataset = load("dsprites")
    factors = expansiveness(dataset)
    assert factors.exact
    assert factors.change[3:] == pytest.approx([5.67, 5.68], abs=0.01)
    assert factors.explained_variance[3:] == pytest.approx([28.25, 28.44], abs=0.02)
    where = {}
    for rows, clip in itertools.product((1.0, 4.0), (True, False)):
        s = uniform_s(dataset, steps=32, rows_per_step=rows, clip=clip, images=8)
        found = crossings(dataset, s, factors)
        where[rows, clip] = found.local[3], found.overall[3]
        assert found.table().index.tolist() == list(dataset.factor_names)
    # White or black pixels keep half of the swing when clipped: half the change, a quarter of the
    # variance.
    for rows in (1.0, 4.0):
        assert where[rows, True] == pytest.approx(2 * np.array(where[rows, False]), rel=1e-4)
    # All columns flip half of their pixels by 2ε: 2ε sqrt(2048).
    assert where[4.0, False][0] == pytest.approx(
        factors.change[3] / (2 * math.sqrt(2048)), rel=0.01
    )
    assert where[4.0, True] == pytest.approx((0.126, 0.169), abs=0.003)
    assert where[1.0, False] == pytest.approx((0.090, 0.087), abs=0.003)
    assert where[4.0, True][0] < where[4.0, True][1]


def test_the_effect_of_s_is_what_rendering_gives():
    dataset = load("sprites", x=4, y=4, scale=3, shade=2, image_size=16)
    everything = dataset.images(np.arange(len(dataset)))[..., 0] / 255.0
    for clip in (True, False):
        s = uniform_s(dataset, steps=6, rows_per_step=2.0, clip=clip, images=len(dataset))
        shown = everything[None] + 0.3 * s.pattern.frames(s.levels)[:, None]
        shown = (np.clip(shown, 0.0, 1.0) if clip else shown).reshape(6, len(dataset), -1)
        assert s.changes(0.3) == pytest.approx(
            np.linalg.norm(np.diff(shown, axis=0), axis=2), rel=1e-5
        )
        assert s.explained_variance(0.3) == pytest.approx(
            shown.mean(axis=1).var(axis=0).sum(), rel=1e-5
        )
    assert np.isnan(crossings(dataset, uniform_s(dataset, rows_per_step=1e-3)).local).all()


def test_a_report_on_perturbed_data(tmp_path):
    base = load("sprites", x=8, y=4, scale=2, image_size=16)
    rows = base.factors(np.arange(len(base)))
    s = standardised(rows[:, 1].astype(float))[0]  # x alone
    scale = usual_shift_scale(8)
    halves = half_rows(scale * s)
    pattern = make_pattern(0, 16, 16, int(halves.min()), int(halves.max()))
    told = {"shift_scale": scale, "rows_per_step": 4.0}
    options = {"epsilon": 0.1, "clip": True, "seed": 0}
    write_perturbed(
        tmp_path / "p", base, **options, pattern=pattern, half_rows=halves, s=s, provenance=told
    )
    write_perturbed(tmp_path / "u", base, **options)
    report = perturbation_report(load(tmp_path / "p"))
    table = report.table()
    assert table.index.tolist() == ["scale", "x", "y", "s"]
    assert table["rows_per_step"].tolist() == pytest.approx([0.0, 4.0, 0.0, 4.0], abs=0.3)
    assert table.loc["x", "change"] == pytest.approx(expansiveness(base).change[1])
    assert report.max_norm <= 0.1
    assert report.max_norm == pytest.approx(0.1, abs=1e-6)
    assert report.max_norm_images == len(base)
    effect = s_of(load(tmp_path / "p"))
    assert table.loc["s", "change"] == pytest.approx(effect.changes(0.1).mean())
    assert table.loc["s", "expansiveness"] == pytest.approx(effect.expansiveness(0.1))
    assert effect.step == pytest.approx(4.0 / scale)  # rows, in rows per deviation
    assert table.loc["s", "explained_variance"] == pytest.approx(effect.explained_variance(0.1))
    control = perturbation_report(load(tmp_path / "u"))
    assert control.table().index.tolist() == ["scale", "x", "y"]
    assert "rows_per_step" not in control.table()
    assert max_norm(load(tmp_path / "u"), 5)[1] == 5
