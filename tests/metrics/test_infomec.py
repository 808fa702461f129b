# SPDX-License-Identifier: Apache-2.0
"""InfoMEC: closed forms, the authors' procedure by scikit-learn, each trap, invariants, degenerate
input.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.grid import FactorGrid
from unbraid.metrics import infomec
from unbraid.metrics.infomec import InfoMEC, concentration

FULL = FactorGrid(("a", "b"), (4, 5)).to_factors(np.arange(20))


def counted(codes: np.ndarray, factors: np.ndarray = FULL, **options) -> InfoMEC:
    return infomec(codes, factors, discrete=True, explicitness="regression", **options)


def test_concentration_by_hand() -> None:
    rows = np.array([[1.0, 0.5, 0.0], [0.2, 0.2, 0.2], [0.0, 0.3, 0.0], [0.0, 0.0, 0.0]])
    assert concentration(rows) == pytest.approx(
        [(2 / 3 - 1 / 3) / (2 / 3), 0.0, 1.0, 0.0], abs=1e-12
    )


def test_perfect_codes_score_one_in_all_three() -> None:
    result = infomec(np.column_stack([-2.0 * FULL[:, 1], FULL[:, 0]]), FULL, discrete=True)
    assert (result.infom, result.infoc) == pytest.approx((1.0, 1.0), abs=1e-12)
    assert result.infoe == pytest.approx(1.0, abs=1e-3)
    assert result.score == result.infom
    assert result.normalised_information == pytest.approx(np.array([[0, 1], [1, 0]]), abs=1e-12)


def test_a_mixed_latent_halves_modularity_and_compactness() -> None:
    # The second latent counts all points: it knows both factors whole, and a is known twice.
    result = counted(np.column_stack([FULL[:, 0], 5 * FULL[:, 0] + FULL[:, 1]]))
    assert result.modularity_per_latent == pytest.approx([1.0, 0.0], abs=1e-12)
    assert result.compactness_per_factor == pytest.approx([0.0, 1.0], abs=1e-12)
    assert (result.infom, result.infoc) == pytest.approx((0.5, 0.5), abs=1e-12)


def authors_procedure(
    codes: np.ndarray, factors: np.ndarray, discrete: bool, seed: int
) -> dict[str, np.ndarray | float]:
    """What the authors compute, with the null loss fitted; no latent is pruned."""
    import warnings

    from sklearn.exceptions import ConvergenceWarning
    from sklearn.feature_selection import mutual_info_classif
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss, mutual_info_score
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    def loss(inputs, labels):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = LogisticRegression(C=np.inf, class_weight="balanced", max_iter=100).fit(
                inputs, labels
            )
        return log_loss(labels, model.predict_proba(inputs))

    inputs = (
        OneHotEncoder().fit_transform(codes) if discrete else StandardScaler().fit_transform(codes)
    )
    nmi, saved = np.empty((factors.shape[1], codes.shape[1])), []
    for i, labels in enumerate(factors.T):
        for j in range(codes.shape[1]):
            if discrete:
                nats = mutual_info_score(labels, codes[:, j])
            else:
                nats = mutual_info_classif(
                    inputs[:, [j]],
                    labels,
                    discrete_features=False,
                    n_neighbors=10,
                    random_state=seed,
                )[0]
            nmi[i, j] = nats / mutual_info_score(labels, labels)
        null = loss(np.zeros_like(codes), labels)
        assert null == pytest.approx(np.log(len(np.unique(labels))), abs=1e-12)
        saved.append((null - loss(inputs, labels)) / null)
    sources, latents = nmi.shape
    infom = (np.mean(nmi.max(axis=0) / nmi.sum(axis=0)) - 1 / sources) / (1 - 1 / sources)
    infoc = (np.mean(nmi.max(axis=1) / nmi.sum(axis=1)) - 1 / latents) / (1 - 1 / latents)
    return {"infom": infom, "infoc": infoc, "infoe": np.mean(saved), "nmi": nmi}


@pytest.mark.parametrize("name", ["A/noisy_mixture", "B/perfect_jitter", "A/rotation", "A/warped"])
def test_the_authors_procedure_for_continuous_latents(make_case, name: str) -> None:
    codes, factors = make_case(name).sample
    ours, theirs = infomec(codes, factors, seed=4), authors_procedure(codes, factors, False, 4)
    assert ours.active.all()
    # Equal codes, as in the warped case, are parted by noise near the rounding of scikit-learn's
    # squared distances.
    allowed = 1e-3 if name == "A/warped" else 1e-9
    assert ours.normalised_information.T == pytest.approx(theirs["nmi"], abs=allowed)
    assert (ours.infom, ours.infoc) == pytest.approx(
        (theirs["infom"], theirs["infoc"]), abs=allowed
    )
    assert ours.infoe == pytest.approx(theirs["infoe"], abs=1e-6)


def test_the_authors_procedure_for_discrete_latents(sample) -> None:
    codes, factors = sample[0].round(), sample[1]
    ours, theirs = (
        infomec(codes, factors, discrete=True),
        authors_procedure(codes, factors, True, 0),
    )
    assert ours.normalised_information.T == pytest.approx(theirs["nmi"], abs=1e-9)
    assert (ours.infom, ours.infoc) == pytest.approx((theirs["infom"], theirs["infoc"]), abs=1e-9)
    assert ours.infoe == pytest.approx(theirs["infoe"], abs=1e-6)


def test_the_null_loss_is_that_of_equal_classes_not_the_entropy() -> None:
    # 5 % ones that overlap with the zeros: fitted as if both were as many, measured as they are.
    generator = np.random.default_rng(0)
    rare = np.repeat([0, 1], [1900, 100])
    codes = np.column_stack([rare + generator.normal(size=2000), generator.normal(size=2000)])
    factors = np.column_stack([rare, generator.integers(3, size=2000)])
    ours, theirs = infomec(codes, factors), authors_procedure(codes, factors, False, 0)
    assert ours.infoe == pytest.approx(theirs["infoe"], abs=1e-6)
    lowest_loss = (1.0 - ours.explicitness_per_factor[0]) * np.log(2)
    entropy = -(0.05 * np.log(0.05) + 0.95 * np.log(0.95))
    assert lowest_loss > 2 * entropy  # always saying "zero" with 95 % would have done better


def test_pruning_by_range_and_by_quartiles_differ() -> None:
    # A mixture at rest in four of five samples: wide in range, without inter-quartile range.
    generator = np.random.default_rng(0)
    factors = generator.integers(6, size=(1000, 2))
    resting = np.where(np.arange(1000) % 5 == 0, 1 + factors.sum(axis=1), 0.0)
    codes = np.column_stack([factors + 0.01 * generator.normal(size=(1000, 2)), resting])
    by_range, by_quartiles = (
        infomec(codes, factors, pruning=rule, explicitness="regression")
        for rule in ("qlae", "tripod")
    )
    assert by_range.active.tolist() == [True, True, True]
    assert by_quartiles.active.tolist() == [True, True, False]
    assert np.isnan(by_quartiles.modularity_per_latent).tolist() == [False, False, True]
    assert by_range.infom < by_quartiles.infom - 0.05
    assert by_range.infoe == by_quartiles.infoe  # every latent is read, pruned or not


def test_thresholds_of_pruning() -> None:
    steps, factors = np.linspace(0.0, 1.0, 101), (np.arange(101) % 2)[:, None]

    def active(scales: list[float], **options) -> list[bool]:
        return infomec(
            np.outer(steps, scales), factors, explicitness="regression", **options
        ).active.tolist()

    assert active([20.0, 1.0, 1.001]) == [True, False, True]
    assert active([20.0, 1.0, 0.0], discrete=True) == [True, True, False]
    assert active([10.0, 1.0, 1.001], pruning="tripod") == [True, False, True]
    # Quartiles of discrete codes are absolute: half of the range must be more than 0.1.
    assert active([0.19, 0.21], pruning="tripod", discrete=True) == [False, True]


def test_an_active_latent_without_information_scores_zero() -> None:
    cube = FactorGrid(("a", "b", "c"), (3, 3, 3)).to_factors(np.arange(27))
    result = counted(cube, cube[:, :2])
    assert result.active.all()
    assert result.modularity_per_latent == pytest.approx([1.0, 1.0, 0.0], abs=1e-12)


def test_a_factor_that_no_latent_knows_is_not_compact() -> None:
    result = counted(np.column_stack([FULL[:, 0], FULL[:, 0] < 2]))
    assert result.compactness_per_factor[1] == 0.0
    assert result.compactness_per_factor[0] == pytest.approx(2 * (1 / 1.5) - 1, abs=1e-12)


def test_one_active_latent_is_all_there_is() -> None:
    result = counted(np.column_stack([FULL[:, 0], np.zeros(20)]))
    assert result.compactness_per_factor.tolist() == [1.0, 0.0]
    assert result.infom == pytest.approx(1.0, abs=1e-12)


def test_one_varying_factor_cannot_be_mixed_with_anything() -> None:
    result = counted(np.column_stack([FULL[:, 0], FULL[:, 1]]), FULL[:, :1])
    assert result.modularity_per_latent.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize("pruning", ["qlae", "tripod"])
def test_without_active_latents_all_is_zero(discrete: bool, pruning) -> None:
    result = infomec(np.full((20, 2), 0.1), FULL, discrete=discrete, pruning=pruning)
    assert not result.active.any()
    assert (result.infom, result.infoc) == (0.0, 0.0)
    assert result.infoe == pytest.approx(0.0, abs=1e-12)


def test_a_constant_factor_is_left_out_and_listed() -> None:
    with_constant = np.column_stack([FULL[:, 0], np.full(20, 7), FULL[:, 1]])
    result, without = infomec(FULL, with_constant), infomec(FULL, FULL)
    assert result.constant_factors == (1,)
    assert (result.infom, result.infoe, result.infoc) == (
        without.infom,
        without.infoe,
        without.infoc,
    )
    for values in (
        result.explicitness_per_factor,
        result.compactness_per_factor,
        result.normalised_information[0],
    ):
        assert np.isnan(values).tolist() == [False, True, False]


def test_a_barely_active_latent_counts_as_much_as_a_strong_one() -> None:
    generator = np.random.default_rng(0)
    factors = generator.integers(6, size=(1000, 2))
    codes = factors + 0.05 * generator.normal(size=factors.shape)
    faint = np.column_stack([codes, 0.03 * codes.sum(axis=1)])
    result = infomec(faint, factors, explicitness="regression")
    assert result.active.all()
    assert result.infom == pytest.approx(result.modularity_per_latent.mean(), abs=1e-12)
    assert result.infom < 0.75 < 0.95 < infomec(codes, factors, explicitness="regression").infom


def test_noise_looks_modular_because_information_is_clipped() -> None:
    generator = np.random.default_rng(0)
    result = infomec(
        generator.normal(size=(1000, 10)),
        generator.integers(6, size=(1000, 5)),
        explicitness="regression",
    )
    assert np.nansum(result.normalised_information) < 1.0
    assert result.infom > 0.3


def test_explicitness_is_measured_where_it_was_fitted() -> None:
    generator = np.random.default_rng(0)
    assert (
        infomec(generator.normal(size=(100, 30)), generator.integers(6, size=(100, 2))).infoe > 0.99
    )


def test_regression_is_the_coefficient_of_determination(sample) -> None:
    from sklearn.linear_model import LinearRegression
    from sklearn.preprocessing import OneHotEncoder

    codes, factors = sample
    factors = np.array([5, -2, 11, 3, 4])[factors]
    peer = [LinearRegression().fit(codes, column).score(codes, column) for column in factors.T]
    result = infomec(codes, factors, explicitness="regression")
    assert result.explicitness_per_factor == pytest.approx(peer, abs=1e-9)
    whole = OneHotEncoder(sparse_output=False).fit_transform(codes.round())
    peer = [LinearRegression().fit(whole, column).score(whole, column) for column in factors.T]
    result = infomec(codes.round(), factors, explicitness="regression", discrete=True)
    assert result.explicitness_per_factor == pytest.approx(peer, abs=1e-9)


def test_quantised_codes_passed_as_numbers_lose_explicitness_only() -> None:
    generator = np.random.default_rng(0)
    factors = generator.integers([4, 6], size=(2000, 2))
    shuffled = (
        np.column_stack(
            [np.array([2, 0, 3, 1])[factors[:, 0]], np.array([3, 5, 0, 2, 1, 4])[factors[:, 1]]]
        )
        * 0.5
    )
    codes = np.where(
        generator.random(shuffled.shape) < 0.2, generator.permutation(shuffled), shuffled
    )
    as_values, as_numbers = (
        infomec(codes, factors, discrete=discrete) for discrete in (True, False)
    )
    assert as_numbers.infom == pytest.approx(as_values.infom, abs=0.03)
    assert as_numbers.infoc == pytest.approx(as_values.infoc, abs=0.03)
    assert as_numbers.infoe < as_values.infoe - 0.2


def test_a_factor_whose_values_are_all_different() -> None:
    result = infomec(
        np.arange(12.0).reshape(6, 2), np.column_stack([np.arange(6), np.arange(6) % 2])
    )
    assert not result.normalised_information[:, 0].any()
    assert np.isfinite([result.infom, result.infoe, result.infoc]).all()


def test_refusals(refused) -> None:
    assert refused(infomec, FULL, FULL, pruning="tripode", explicitness="accuracy") == [
        ("pruning", "is unknown", "tripode"),
        ("explicitness", "is unknown", "accuracy"),
    ]
    assert refused(infomec, FULL, FULL, neighbours=0, seed=-1) == [
        ("neighbours", "must be a whole number of at least 1", "0"),
        ("seed", "must be a whole number of at least 0", "-1"),
    ]
    assert refused(infomec, FULL[:1], FULL[:1]) == [
        ("codes", "must have at least 2 rows", "shape (1, 2)")
    ]


def test_the_fewest_samples_and_one_latent() -> None:
    result = infomec(np.array([[0.0], [1.0]]), np.array([[0], [1]]))
    assert np.isfinite([result.infom, result.infoe, result.infoc]).all()


def test_the_seed_parts_equal_codes() -> None:
    generator = np.random.default_rng(0)
    factors = generator.integers(3, size=(300, 2))
    codes = (factors + generator.integers(2, size=factors.shape)) * 1.0
    first, again, other = (
        infomec(codes, factors, explicitness="regression", seed=seed) for seed in (0, 0, 1)
    )
    assert first.infom == again.infom != other.infom
    assert first.infom == pytest.approx(other.infom, abs=0.05)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10_000))
def test_invariants(seed: int) -> None:
    generator = np.random.default_rng(seed)
    factors = generator.integers([3, 4], size=(120, 2))
    codes = factors @ generator.normal(size=(2, 3)) + 0.3 * generator.normal(size=(120, 3))

    def scores(codes: np.ndarray, factors: np.ndarray) -> list[float]:
        result = infomec(codes, factors, explicitness="regression")
        return [result.infom, result.infoe, result.infoc]

    expected = scores(codes, factors)
    assert scores(codes[:, generator.permutation(3)], factors[:, ::-1]) == pytest.approx(
        expected, abs=1e-9
    )
    assert scores(codes * [-1, 1, -1], factors) == pytest.approx(expected, abs=1e-9)
    # One scale for all: the range of a latent beside the others decides whether it is active.
    assert scores(codes * 32.0 + 5.0, factors) == pytest.approx(expected, abs=1e-9)
    assert scores(codes, 3 - 2 * factors) == pytest.approx(expected, abs=1e-9)


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10_000))
def test_invariants_of_discrete_latents(seed: int) -> None:
    generator = np.random.default_rng(seed)
    factors = generator.integers([3, 4], size=(120, 2))
    codes = (
        factors @ generator.normal(size=(2, 3)) + 0.3 * generator.normal(size=(120, 3))
    ).round()
    expected = counted(codes, factors)
    renamed = counted(np.exp(codes[:, ::-1]), np.array([5, -2, 11, 3])[factors])
    assert (renamed.infom, renamed.infoc) == pytest.approx(
        (expected.infom, expected.infoc), abs=1e-9
    )
    doubled = counted(np.tile(codes, (2, 1)), np.tile(factors, (2, 1)))
    assert (doubled.infom, doubled.infoe, doubled.infoc) == pytest.approx(
        (expected.infom, expected.infoe, expected.infoc), abs=1e-9
    )
