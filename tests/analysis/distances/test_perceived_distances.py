# SPDX-License-Identifier: Apache-2.0
"""Perceived distances: closed forms of XYSquares, the paper's Table A1, scipy's rank correlation, a
trained member.
"""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

import unbraid as ub
from unbraid.analysis.distances.levels import euclidean, kl
from unbraid.analysis.distances.perceived_distances import RANDOM, Distances, perceived_distances
from unbraid.analysis.distances.perceived_loss import parse_loss
from unbraid.analysis.distances.tally import ground_truth, rank_correlations
from unbraid.commands.run import Run
from unbraid.core.errors import InputError

from .conftest import SMALL

GAPS = ground_truth(np.arange(8))


@pytest.fixture(scope="module")
def squares() -> dict[int, Distances]:
    """XYSquares at every spacing, few pairs: all traversals are alike."""
    return {
        spacing: perceived_distances(ub.load("xysquares", spacing=spacing), pairs=200)
        for spacing in range(1, 9)
    }


def factor(found: Distances, name: str, level: str = "inputs") -> Any:
    (level_found,) = (one for one in found.levels if one.key == level)
    return next(one for one in level_found.factors if one.factor == name)


@pytest.mark.parametrize("spacing", range(1, 9))
def test_xysquares_matrices_are_the_closed_form_exactly(
    squares: dict[int, Distances], spacing: int
) -> None:
    expected = 2 * 8 * np.minimum(8, spacing * GAPS) / (64 * 64 * 3)
    for one in squares[spacing].inputs.factors:
        assert np.array_equal(one.matrix, expected)
        assert one.importance.mean == pytest.approx(expected[GAPS > 0].mean(), rel=1e-14)
        assert one.importance.std == pytest.approx(expected[GAPS > 0].std(), rel=1e-9)
        assert one.importance.standard_error == 0


def test_xysquares_without_overlap_is_table_a1(squares: dict[int, Distances]) -> None:
    """Michlo et al., Table A1: each factor .0104 ± 0; random pairs .0308 ± .0022."""
    for one in squares[8].inputs.factors:
        assert (one.importance.mean, one.importance.std) == (128 / 12288, 0.0)
    random = perceived_distances(ub.load("xysquares"), pairs=4000).inputs.random
    closed = 3 * (63 / 64) * 128 / 12288
    assert closed == pytest.approx(0.0308, abs=5e-5)
    assert random.mean == pytest.approx(closed, abs=4 * random.standard_error)
    # How many of the three squares moved is binomial.
    assert random.std == pytest.approx(128 / 12288 * math.sqrt(3 * 63 / 64 / 64), rel=0.2)


def test_rank_correlation_falls_with_spacing_and_ends_undefined(
    squares: dict[int, Distances],
) -> None:
    found = [factor(squares[spacing], "y_G").spearman for spacing in range(1, 9)]
    assert found[0] == pytest.approx(1.0, abs=1e-12)
    assert all(before >= after - 1e-12 for before, after in itertools.pairwise(found[:7]))
    assert found[0] > found[1] > found[2] > found[3] > 0.3
    assert math.isnan(found[7])
    last = factor(squares[8], "y_G")
    assert last.undefined == last.traversals > 0
    assert math.isnan(last.spearman_of_mean)
    off = GAPS > 0
    for spacing in range(1, 8):
        theirs = spearmanr(np.minimum(8, spacing * GAPS)[off], GAPS[off]).statistic
        assert found[spacing - 1] == pytest.approx(theirs, abs=1e-12)


def test_a_blur_brings_the_order_back() -> None:
    found = perceived_distances(ub.load("xysquares"), "mse+box31", pairs=60)
    for one in found.inputs.factors:
        assert one.spearman > 0.95
        assert one.undefined == 0


@pytest.mark.slow
def test_dsprites_is_table_a1() -> None:
    """Michlo et al., Table A1, within 0.002. With pairs of equal value counted in, shape would be
    .0143: a third less.
    """
    paper = {
        RANDOM: 0.0754,
        "y": 0.0584,
        "x": 0.0559,
        "scale": 0.0250,
        "shape": 0.0214,
        "orientation": 0.0172,
    }
    table = perceived_distances(ub.load("dsprites")).importance_table().set_index("factor")
    for name, value in paper.items():
        assert table["mean"][name] == pytest.approx(value, abs=0.002)
    assert table["std"][RANDOM] == pytest.approx(0.0289, abs=0.001)
    assert (table["pairs"] >= 50_000).all()
    assert list(table.index[:1]) == [RANDOM]
    assert set(table.index[1:3]) == {"x", "y"}
    assert list(table.index[3:]) == ["scale", "shape", "orientation"]
    # Every pair there is, counted once by the bits that differ in the packed rows
    # (numpy.bitwise_count, no products).
    counted = {
        "shape": 0.0214835,
        "scale": 0.0251369,
        "orientation": 0.0165149,
        "x": 0.0572033,
        "y": 0.0573458,
    }
    for name, value in counted.items():
        assert table["mean"][name] == pytest.approx(value, abs=4 * table["standard_error"][name])


def test_importance_and_matrices_by_counting_every_pair() -> None:
    data = ub.load("sprites", **SMALL)
    images = data.images(np.arange(len(data))).reshape(len(data), -1) / 255.0
    apart = ((images[:, None] - images[None]) ** 2).mean(axis=2)
    labels = data.factors(np.arange(len(data)))
    found = perceived_distances(data)
    differs = labels[:, None] != labels[None]
    assert found.inputs.random.mean == pytest.approx(apart.mean(), rel=1e-6)
    assert found.inputs.random.std == pytest.approx(apart.std(), rel=1e-6)
    assert found.inputs.random.standard_error == 0
    for axis, one in enumerate(found.inputs.factors):
        only = differs[:, :, axis] & (differs.sum(axis=2) == 1)
        assert one.importance.mean == pytest.approx(apart[only].mean(), rel=1e-6)
        assert one.importance.std == pytest.approx(apart[only].std(), rel=1e-6)
        assert one.importance.pairs == only.sum() // 2
        assert one.importance.standard_error == 0
        for i, j in np.ndindex(one.matrix.shape):
            if i != j:
                cell = only & (labels[:, None, axis] == i) & (labels[None, :, axis] == j)
                assert one.matrix[i, j] == pytest.approx(apart[cell].mean(), rel=1e-6)
        rows = [data.grid.traversal(start, axis) for start in np.flatnonzero(labels[:, axis] == 0)]
        off = ~np.eye(len(one.values), dtype=bool)
        if len(one.values) > 2:
            rounded = apart.round(9)  # as our ties
            each = [
                spearmanr(rounded[np.ix_(row, row)][off], ground_truth(one.values)[off]).statistic
                for row in rows
            ]
            assert one.spearman == pytest.approx(np.mean(each), abs=1e-9)
        else:
            assert math.isnan(one.spearman)


def test_the_standard_error_is_honest() -> None:
    """Over seeds, means of few traversals scatter around the exact one no more than their errors
    say: less, being spread.
    """
    data = ub.load("sprites", image_size=16, x=6, y=6, scale=4, orientation=4)
    exact = factor(perceived_distances(data), "y").importance.mean
    few = [
        factor(perceived_distances(data, pairs=150, seed=seed), "y").importance
        for seed in range(40)
    ]
    score = np.array([(one.mean - exact) / one.standard_error for one in few])
    assert abs(score.mean()) < 0.3
    assert 0.05 < score.std() < 0.8


@settings(deadline=None, max_examples=50)
@given(st.integers(0, 2**31), st.integers(3, 20), st.booleans())
def test_rank_correlations_are_scipys(seed: int, pairs: int, gaps: bool) -> None:
    draws = np.random.default_rng(seed)
    distances, truth = (
        draws.integers(0, 4, (5, pairs)).astype(float),
        draws.integers(0, 3, pairs).astype(float),
    )
    if gaps:
        distances[draws.random(distances.shape) < 0.2] = np.nan
    found = rank_correlations(distances, truth)
    for row, ours in zip(distances, found, strict=True):
        there = np.isfinite(row)
        if there.sum() < 2 or len(set(row[there])) < 2 or len(set(truth[there])) < 2:
            assert math.isnan(ours)
        else:
            assert ours == pytest.approx(spearmanr(row[there], truth[there]).statistic, abs=1e-12)
    # Any stretching of the distances leaves the ranks.
    np.testing.assert_allclose(rank_correlations(3.0 * distances, truth), found, atol=1e-12)


def test_rounding_makes_no_order() -> None:
    noise = 1.0 + 1e-12 * np.random.default_rng(0).standard_normal((1, 6))
    assert np.isnan(rank_correlations(noise, np.arange(6.0))).all()
    assert np.isnan(rank_correlations(1e-14 * np.arange(6.0)[None], np.arange(6.0))).all()


def test_kl_and_l2_between_posteriors() -> None:
    draws = torch.Generator().manual_seed(0)
    parts = [torch.randn(7, 3, generator=draws, dtype=torch.float64) for _ in range(4)]
    normal = torch.distributions.Normal
    first, second = (
        normal(parts[0], (0.5 * parts[1]).exp()),
        normal(parts[2], (0.5 * parts[3]).exp()),
    )
    torch.testing.assert_close(
        kl(*parts), torch.distributions.kl_divergence(first, second).sum(dim=1)
    )
    assert bool((kl(parts[0], parts[1], parts[0], parts[1]) == 0).all())
    torch.testing.assert_close(
        euclidean(parts[0], parts[2]), torch.linalg.vector_norm(parts[0] - parts[2], dim=1)
    )


def test_the_levels_of_a_member_by_its_own_model(run: Run) -> None:
    found = perceived_distances(run.dataset, run=run.folder, member=0)
    assert [level.key for level in found.levels] == [
        "inputs",
        "means",
        "posteriors",
        "reconstructions",
    ]
    assert [level.measure for level in found.levels] == ["mse", "L2", "KL", "mse"]
    assert found.member == run.folder.plan.members[0].label()
    mean, logvar = run.model(0).posterior(run.dataset.images(np.arange(len(run.dataset))))
    decoded = run.model(0).decode(mean).reshape(len(mean), -1) / 255.0
    for one in found.levels[1].factors:
        axis = run.dataset.factor_names.index(one.factor)
        rows = [
            run.dataset.grid.traversal(at, axis)
            for at in np.flatnonzero(run.dataset.factors(np.arange(40))[:, axis] == 0)
        ]
        l2 = np.mean(
            [np.linalg.norm(mean[row][:, None] - mean[row][None], axis=2) for row in rows], axis=0
        )
        np.testing.assert_allclose(one.matrix, l2, rtol=1e-4, atol=1e-6)
        pixels = np.mean(
            [((decoded[row][:, None] - decoded[row][None]) ** 2).mean(axis=2) for row in rows],
            axis=0,
        )
        np.testing.assert_allclose(
            factor(found, one.factor, "reconstructions").matrix, pixels, atol=1e-3
        )
        nats = []
        for row in rows:
            loc, scale = torch.tensor(mean[row]), torch.tensor(logvar[row]).div(2).exp()
            first, second = (
                torch.distributions.Normal(loc[at], scale[at])
                for at in (np.s_[:, None], np.s_[None])
            )
            nats.append(torch.distributions.kl_divergence(first, second).sum(dim=2).numpy())
        np.testing.assert_allclose(
            factor(found, one.factor, "posteriors").matrix,
            np.mean(nats, axis=0),
            rtol=1e-3,
            atol=1e-6,
        )
    assert factor(found, "x", "posteriors").importance.pairs == factor(found, "x").importance.pairs


def test_a_plain_autoencoder_has_no_posteriors(run: Run) -> None:
    found = perceived_distances(run.dataset, run=run.folder, member=1, pairs=50)
    assert [level.key for level in found.levels] == ["inputs", "means", "reconstructions"]


def test_tables(run: Run) -> None:
    found = perceived_distances(run.dataset, run=run.folder, pairs=100)
    importance, order, matrices = (
        found.importance_table(),
        found.order_table(),
        found.matrix_table(),
    )
    assert len(importance) == 4 * 4
    assert importance["factor"][0] == RANDOM
    assert (importance["mean"] > 0).all()
    assert list(order["factor"][:3]) == list(run.dataset.factor_names)
    assert len(matrices) == 5 * (5**2 + 4**2 + 2**2)
    truth = matrices[(matrices["level"] == "ground_truth") & (matrices["factor"] == "x")]
    assert (truth["distance"] == (truth["first"] - truth["second"]).abs()).all()
    assert all(table.columns.is_unique for table in (importance, order, matrices))


def test_own_labels_without_a_grid() -> None:
    """Two bright levels of an image by day; one value of `day` is met alone."""
    rows = np.array([[0, 0], [1, 0], [2, 0], [0, 1], [1, 1], [2, 7]])
    images = np.zeros((6, 16, 16, 1), np.uint8)
    images[:, :, :, 0] = (40 * rows[:, :1] + rows[:, 1:])[:, :, None]
    found = perceived_distances(ub.load(images, factors=rows, factor_names=["light", "day"]))
    light, day = found.inputs.factors
    assert light.matrix == pytest.approx((40 * GAPS[:3, :3] / 255) ** 2, rel=1e-5)
    assert light.traversals == 2
    assert light.importance.pairs == 4
    assert light.importance.standard_error == 0
    assert light.spearman == pytest.approx(1.0)
    assert light.undefined == 1  # with two of the values there is one distance
    assert day.values.tolist() == [0, 1, 2]
    assert day.matrix[0, 1] == pytest.approx((1 / 255) ** 2, rel=1e-4)
    assert day.matrix[0, 2] == pytest.approx((7 / 255) ** 2, rel=1e-4)
    assert math.isnan(day.matrix[1, 2])
    assert found.data == "own images"
    assert found.missing == ()


def test_points_are_compared_too() -> None:
    found = perceived_distances(ub.load("pinwheel"), pairs=2000)
    (arm,) = found.inputs.factors
    assert arm.matrix.shape == (4, 4)
    assert arm.importance.mean > 0


def test_data_without_labels_is_one_message() -> None:
    data = ub.load(np.zeros((3, 16, 16), np.uint8))
    message = (
        "data needs known factors, whose values are compared; got 'own' without labels. "
        "Give labels when loading it: factors=..., or a factors.csv in the folder of images."
    )
    with pytest.raises(InputError, match=f"^{re.escape(message)}$"):
        perceived_distances(data)


def test_every_problem_at_once(run: Run) -> None:
    data = ub.load(np.zeros((3, 16, 16), np.uint8))
    with pytest.raises(InputError) as told:
        perceived_distances(data, "mae", run=run.folder, member=7, pairs=0, seed=-1)
    lines = str(told.value).splitlines()
    assert len(lines) == 5
    assert lines[0] == "pairs must be a whole number in 1..10000000; got 0."
    assert lines[1] == "seed must be a whole number of at least 0; got -1."
    assert lines[2].startswith("loss must be mse or bce")
    assert lines[3].startswith("data needs known factors")
    assert lines[4] == "member must be one of 0..1; got 7."


def test_labels_without_any_traversal_say_why_for_each() -> None:
    data = ub.load(np.zeros((3, 16, 16), np.uint8), factors=np.array([[0, 0], [1, 1], [2, 2]]))
    with pytest.raises(InputError) as told:
        perceived_distances(data)
    assert [line.split(";")[0] for line in str(told.value).splitlines()] == [
        "factor 'factor_0' needs samples that differ in it and agree in every other factor",
        "factor 'factor_1' needs samples that differ in it and agree in every other factor",
    ]


def test_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    data = ub.load("sprites", **SMALL)
    whole = perceived_distances(data, "bce+box3")
    monkeypatch.setitem(perceived_distances.__globals__["_NUMBERS_AT_ONCE"], "cpu", 1)
    alone = perceived_distances(data, "bce+box3")
    for one, other in zip(whole.inputs.factors, alone.inputs.factors, strict=True):
        np.testing.assert_allclose(one.matrix, other.matrix, rtol=1e-12)
        assert one.importance.mean == pytest.approx(other.importance.mean, rel=1e-12)
        assert one.spearman == pytest.approx(other.spearman, abs=1e-9, nan_ok=True)


def test_a_member_that_diverged_is_refused(tmp_path: Path) -> None:
    small: dict[str, Any] = {
        "network": "mlp",
        "network_options": {"hidden": 16},
        "latents": 3,
        "steps": 20,
        "quiet": True,
    }
    run = ub.train(
        "sprites",
        out=tmp_path / "run",
        data_options=SMALL,
        learning_rate=1e6,
        device="cpu",
        **small,
    )
    with pytest.raises(
        InputError,
        match=r"^member must be one that did not diverge; got 0, whose loss .* at step \d+\. None",
    ):
        perceived_distances(run.dataset, run=run.folder)


def test_names_of_data() -> None:
    assert (
        perceived_distances(ub.load("xysquares", spacing=3), pairs=10).data == "xysquares:spacing=3"
    )
    assert (
        perceived_distances(ub.load("xysquares"), parse_loss("bce"), pairs=10).data == "xysquares"
    )
