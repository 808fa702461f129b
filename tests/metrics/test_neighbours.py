# SPDX-License-Identifier: Apache-2.0
"""Information by nearest neighbours: closed forms, the definition written out, scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import digamma

from unbraid.core.grid import relabel
from unbraid.metrics._neighbours import _digamma, _ross, neighbour_information


def mixed_sample(seed: int, rows: int = 600) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    factors = generator.integers([3, 5, 8], size=(rows, 3))
    codes = factors @ generator.normal(size=(3, 4)) + 0.5 * generator.normal(size=(rows, 4))
    return codes, relabel(factors)[0]


def slow_ross(values: np.ndarray, labels: np.ndarray, neighbours: int) -> float:
    """The definition, a sample at a time."""
    sharing = np.array([np.sum(labels == label) for label in labels])
    values, labels, sharing = values[sharing > 1], labels[sharing > 1], sharing[sharing > 1]
    if len(values) == 0:
        return 0.0
    total = 0.0
    for row, value in enumerate(values):
        distances = np.abs(values - value)
        same = np.sort(distances[(labels == labels[row]) & (np.arange(len(values)) != row)])
        k = min(neighbours, len(same))
        radius = same[k - 1]
        within = np.sum(distances < radius) if radius > 0 else np.sum(distances == 0)
        total += digamma(k) - digamma(sharing[row]) - digamma(within)
    return max(0.0, digamma(len(values)) + total / len(values))


def test_digamma_of_whole_numbers() -> None:
    assert _digamma(200)[1:] == pytest.approx(digamma(np.arange(1, 201)), abs=1e-12)
    assert len(_digamma(1)) == 2


def test_values_that_never_meet_are_told_without_fail() -> None:
    # Only samples of the same value are near, so m = k and psi(n) - mean psi(n_v) remains.
    labels = np.repeat([0, 1, 2], [20, 30, 50])
    codes = labels * 10.0 + np.random.default_rng(0).uniform(size=100)
    expected = digamma(100) - (20 * digamma(20) + 30 * digamma(30) + 50 * digamma(50)) / 100
    assert neighbour_information(codes[:, None], labels[:, None], neighbours=10, seed=0)[
        0, 0
    ] == pytest.approx(expected, abs=1e-12)


def test_equal_codes_keep_their_information() -> None:
    # The noise parts them; as numbers they have no k-th neighbour at a distance.
    labels = np.repeat([0, 1], 40)
    expected = digamma(80) - digamma(40)
    assert neighbour_information(
        labels[:, None] * 1.0, labels[:, None], neighbours=10, seed=3
    ) == pytest.approx(expected, abs=1e-12)
    assert _ross(labels * 1.0, labels, 10, _digamma(80)) == 0.0


def test_two_overlapping_gaussians() -> None:
    generator = np.random.default_rng(1)
    labels = generator.integers(2, size=20_000)
    codes = labels * 2.0 + generator.normal(size=20_000)
    at = np.linspace(-8, 10, 20_001)
    of_first, of_second = (
        np.exp(-((at - mean) ** 2) / 2) / np.sqrt(2 * np.pi) for mean in (0.0, 2.0)
    )
    mean = (of_first + of_second) / 2
    exact = (
        np.sum(of_first * np.log(of_first / mean) + of_second * np.log(of_second / mean))
        / 2
        * (at[1] - at[0])
    )
    assert neighbour_information(codes[:, None], labels[:, None], neighbours=10, seed=0)[
        0, 0
    ] == pytest.approx(exact, abs=0.01)


@settings(deadline=None, max_examples=60)
@given(
    st.integers(0, 10_000),
    st.integers(2, 60),
    st.integers(1, 12),
    st.sampled_from([2, 5, 40]),
    st.booleans(),
)
def test_agrees_with_the_definition(
    seed: int, rows: int, neighbours: int, values: int, coarse: bool
) -> None:
    generator = np.random.default_rng(seed)
    labels = relabel(generator.integers(values, size=(rows, 1)))[0][:, 0]
    codes = labels * 0.5 + generator.normal(size=rows)
    ordered, labels = np.sort(codes.round(1) if coarse else codes), labels[np.argsort(codes)]
    assert _ross(ordered, labels, neighbours, _digamma(rows)) == pytest.approx(
        slow_ross(ordered, labels, neighbours), abs=1e-12
    )


@pytest.mark.parametrize("quantised", [False, True])
def test_agrees_with_sklearn(quantised: bool) -> None:
    from sklearn.feature_selection import mutual_info_classif
    from sklearn.preprocessing import StandardScaler

    codes, levels = mixed_sample(5)
    codes = np.where(codes > np.median(codes, axis=0), 1.5, -0.5) if quantised else codes
    ours = neighbour_information(codes, levels, neighbours=10, seed=4)
    standard = StandardScaler().fit_transform(codes)
    for latent in range(4):
        for factor in range(3):
            peer = mutual_info_classif(
                standard[:, [latent]],
                levels[:, factor],
                discrete_features=False,
                n_neighbors=10,
                random_state=4,
            )
            assert ours[latent, factor] == pytest.approx(peer[0], abs=1e-9)


def test_neither_the_order_of_latents_nor_a_scale_matters() -> None:
    codes, levels = mixed_sample(2)
    codes[:, 0] = codes[:, 0].round()
    nats = neighbour_information(codes, levels, neighbours=10, seed=0)
    order = [2, 0, 3, 1]
    assert neighbour_information(
        codes[:, order] * 8.0 + 3.0, levels, neighbours=10, seed=0
    ) == pytest.approx(nats[order], abs=1e-9)


def test_only_equal_codes_feel_the_seed() -> None:
    codes, levels = mixed_sample(2)
    codes[:, 0] = codes[:, 0].round()
    one, other = (neighbour_information(codes, levels, neighbours=10, seed=seed) for seed in (0, 1))
    assert one[1:].tolist() == other[1:].tolist()
    assert one[0].tolist() != other[0].tolist()
    assert one[0] == pytest.approx(other[0], abs=0.02)


def test_more_neighbours_than_samples_are_all_of_them() -> None:
    codes, levels = mixed_sample(2, rows=30)
    all_of_them = neighbour_information(codes, levels, neighbours=29, seed=0)
    assert (
        neighbour_information(codes, levels, neighbours=10**9, seed=0).tolist()
        == all_of_them.tolist()
    )


def test_nothing_is_known_of_unique_values_or_by_a_constant_latent() -> None:
    codes = np.column_stack([[0.0, 1.0, 2.0, 10.0, 11.0, 12.0], np.full(6, 0.1)])
    levels = np.column_stack([np.arange(6), [0, 0, 0, 1, 1, 1]])
    nats = neighbour_information(codes, levels, neighbours=10, seed=0)
    assert nats[0, 0] == nats[1, 0] == nats[1, 1] == 0.0
    assert nats[0, 1] == pytest.approx(digamma(6) - digamma(3), abs=1e-12)
