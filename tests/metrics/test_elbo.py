# SPDX-License-Identifier: Apache-2.0
"""ELBO: closed forms of the bound and of the parts of its KL, bias, a plain re-implementation,
degenerate input.
"""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.metrics import ELBO, elbo
from unbraid.metrics.elbo import NOISE_STREAM


def gaussian(
    covariance: np.ndarray, variance: float, rows: int = 3_000, seed: int = 0, samples: int = 10_000
) -> ELBO:
    """Means with the given covariance, exactly, and posteriors of one variance; the aggregate is
    nearly Gaussian.
    """
    generator = np.random.default_rng(seed)
    raw = generator.normal(size=(rows, len(covariance)))
    white = np.linalg.qr(raw - raw.mean(axis=0))[0] * np.sqrt(rows)
    mean = white @ np.linalg.cholesky(covariance).T
    return elbo(
        mean, np.full(mean.shape, np.log(variance)), np.zeros(rows), samples=samples, seed=seed
    )


def test_bound_is_minus_reconstruction_and_exact_kl() -> None:
    mean, logvar = np.array([[1.0, 0.0], [-1.0, 2.0]]), np.log(np.array([[1.0, 1.0], [0.5, 1.0]]))
    result = elbo(mean, logvar, np.array([100.0, 50.0]))
    kl_of_first = (0.5 + 0.5 * (1.0 + 0.5 - np.log(0.5) - 1.0)) / 2
    assert result.kl_per_latent == pytest.approx([kl_of_first, 1.0], abs=1e-12)
    assert result.kl == pytest.approx(kl_of_first + 1.0, abs=1e-12)
    assert result.reconstruction == 75.0
    assert result.score == pytest.approx(-(75.0 + kl_of_first + 1.0), abs=1e-12)


def test_parts_of_a_gaussian_aggregate() -> None:
    # q(z) = N(0, S + v I) has all three parts in closed form.
    covariance, variance = np.array([[1.2, 0.6], [0.6, 0.8]]), 0.5
    result = gaussian(covariance, variance)
    whole = covariance + variance * np.eye(2)
    sizes = np.diag(whole)
    log_determinant = np.linalg.slogdet(whole)[1]
    assert result.mutual_information == pytest.approx(
        0.5 * (log_determinant - 2 * np.log(variance)), abs=0.03
    )
    assert result.total_correlation == pytest.approx(
        0.5 * (np.log(sizes).sum() - log_determinant), abs=0.03
    )
    assert result.dimension_wise_kl == pytest.approx(
        0.5 * (sizes - 1 - np.log(sizes)).sum(), abs=0.03
    )


def test_parts_of_separate_clusters_are_exact() -> None:
    # Four narrow clusters at (a, a): the code tells one of four, each latent alone tells it too.
    centre = np.repeat([-30.0, -10.0, 10.0, 30.0], 25)
    mean, logvar = np.column_stack([centre, centre]), np.full((100, 2), -4.0)
    result = elbo(mean, logvar, np.zeros(100))
    assert result.mutual_information == pytest.approx(np.log(4), abs=1e-12)
    assert result.total_correlation == pytest.approx(np.log(4), abs=1e-12)
    assert result.rows == 100


def test_identical_posteriors_tell_nothing() -> None:
    result = elbo(np.full((50, 3), 0.7), np.full((50, 3), -1.0), np.zeros(50))
    assert (result.mutual_information, result.total_correlation) == pytest.approx(
        (0.0, 0.0), abs=1e-12
    )
    assert result.dimension_wise_kl == pytest.approx(result.sampled_kl, abs=1e-12)


def test_parts_sum_to_the_sampled_kl_which_is_near_the_exact_one() -> None:
    result = gaussian(np.diag([0.9, 0.5, 0.2]), 0.3)
    total = result.mutual_information + result.total_correlation + result.dimension_wise_kl
    assert total == pytest.approx(result.sampled_kl, abs=1e-10)
    assert result.sampled_kl == pytest.approx(result.kl, abs=0.06)


def test_mutual_information_saturates_at_the_logarithm_of_the_rows() -> None:
    # Ten independent latents of 2.3 nats each: the truth is 23, 0 and 0.
    result = gaussian(0.99 * np.eye(10), 0.01, rows=2_000, samples=2_000)
    assert result.kl == pytest.approx(23.0, abs=0.1)
    assert result.mutual_information == pytest.approx(np.log(2_000), abs=0.01)
    assert result.total_correlation == pytest.approx(15.4, abs=0.3)
    assert result.dimension_wise_kl == pytest.approx(0.1, abs=0.1)


def test_fewer_rows_lower_the_information_and_raise_the_total_correlation() -> None:
    covariance = 0.9 * np.eye(5)
    few, many = (gaussian(covariance, 0.1, rows=3_000, samples=samples) for samples in (100, 3_000))
    truth = 0.5 * 5 * np.log(10)
    assert few.rows == 100
    assert few.mutual_information < many.mutual_information < truth
    assert few.total_correlation > many.total_correlation > 0
    assert few.kl == many.kl


def test_peer_is_the_definition_pair_by_pair() -> None:
    from scipy.special import logsumexp
    from scipy.stats import norm

    generator = np.random.default_rng(5)
    mean, logvar = generator.normal(size=(300, 3)), generator.normal(size=(300, 3))
    result = elbo(mean, logvar, np.zeros(300), seed=9)
    scale = np.exp(0.5 * logvar)
    z = mean + scale * np.random.default_rng([9, NOISE_STREAM]).normal(size=mean.shape)
    density = norm.logpdf(z[:, None], mean, scale)  # draw, posterior, latent
    joint = logsumexp(density.sum(axis=2), axis=1) - np.log(300)
    apart = (logsumexp(density, axis=1) - np.log(300)).sum(axis=1)
    own, prior = norm.logpdf(z, mean, scale).sum(axis=1), norm.logpdf(z).sum(axis=1)
    assert result.mutual_information == pytest.approx((own - joint).mean(), abs=1e-10)
    assert result.total_correlation == pytest.approx((joint - apart).mean(), abs=1e-10)
    assert result.dimension_wise_kl == pytest.approx((apart - prior).mean(), abs=1e-10)


def test_seed_chooses_rows_and_draws() -> None:
    generator = np.random.default_rng(0)
    arguments = (
        generator.normal(size=(60, 2)),
        generator.normal(size=(60, 2)),
        generator.normal(size=60),
    )
    first, again, other = (elbo(*arguments, samples=30, seed=seed) for seed in (0, 0, 1))
    assert first.mutual_information == again.mutual_information != other.mutual_information
    assert first.score == other.score
    assert first.rows == 30


def test_rows_are_chosen_among_all() -> None:
    # The first half says nothing about which sample it is, the second half everything: 100 of 200
    # rows see both.
    mean = np.concatenate([np.zeros(100), np.arange(1.0, 101.0) * 100.0])[:, None]
    found = [
        elbo(
            mean, np.full((200, 1), -4.0), np.zeros(200), samples=100, seed=seed
        ).mutual_information
        for seed in range(5)
    ]
    # k alike among 100 rows leave log 100 - k/100 log k nats.
    assert 0.5 * np.log(100) < min(found) < max(found) < 0.8 * np.log(100)


def test_bound_ignores_order_and_sign_of_latents() -> None:
    generator = np.random.default_rng(0)
    mean, logvar, nats = (
        generator.normal(size=(60, 4)),
        generator.normal(size=(60, 4)),
        generator.normal(size=60),
    )
    order = [2, 0, 3, 1]
    score = elbo(mean, logvar, nats).score
    assert elbo(-mean[:, order], logvar[:, order], nats).score == pytest.approx(score, abs=1e-12)
    assert elbo(
        np.tile(mean, (2, 1)), np.tile(logvar, (2, 1)), np.tile(nats, 2)
    ).score == pytest.approx(score, abs=1e-12)


def test_one_sample_has_an_aggregate_of_its_own() -> None:
    result = elbo(np.array([[0.5, 0.0]]), np.zeros((1, 2)), np.array([3.0]))
    assert (result.mutual_information, result.total_correlation) == (0.0, 0.0)
    assert result.score == pytest.approx(-3.125, abs=1e-12)


def test_posteriors_too_narrow_to_draw_from_are_still_told_apart() -> None:
    # exp(-200) beside means of 1: z equals the mean in double precision, yet log q(z|x) must have
    # its noise.
    mean = np.array([[1.0], [2.0], [3.0], [4.0]])
    result = elbo(mean, np.full((4, 1), -200.0), np.zeros(4))
    assert result.mutual_information == pytest.approx(np.log(4), abs=1e-12)
    assert np.isfinite(result.sampled_kl)


def test_the_widest_and_the_narrowest_posteriors_allowed_have_finite_parts() -> None:
    # Of the wide one's draw the narrow one's density is 0, and the other way round it is all but 0.
    result = elbo(np.array([[0.0], [1.0]]), np.array([[500.0], [-500.0]]), np.zeros(2))
    assert result.mutual_information == pytest.approx(np.log(2), abs=1e-12)
    assert result.total_correlation == pytest.approx(0.0, abs=1e-12)
    assert np.isfinite([result.score, result.kl, result.dimension_wise_kl, result.sampled_kl]).all()


def test_bad_arguments_are_refused_together(refused) -> None:
    assert refused(
        elbo, np.array([[0.0], [np.nan]]), np.zeros((2, 1)), np.array([[1.0], [2.0]])
    ) == [
        ("mean", "must be finite and at most 1e+30 in size", "nan at row 1, latent 0"),
        (
            "reconstruction",
            "must have the shape (n,), one number for each row of mean",
            "shape (2, 1)",
        ),
    ]
    assert refused(elbo, np.zeros((3, 1)), np.zeros((3, 1)), np.zeros(2)) == [
        (
            "reconstruction",
            "must have the shape (n,), one number for each row of mean, here 3",
            "shape (2,)",
        )
    ]
    assert refused(elbo, np.zeros((2, 1)), np.zeros((2, 1)), np.array([1.0, np.inf])) == [
        ("reconstruction", "must be finite and at most 1e+30 in size", "inf at row 1")
    ]
    assert refused(elbo, np.zeros((2, 1)), np.zeros((2, 1)), np.full(2, 1e308)) == [
        ("reconstruction", "must be finite and at most 1e+30 in size", "1e+308 at row 0")
    ]
    assert refused(elbo, np.zeros((2, 1)), np.zeros((2, 1)), np.array(["a", "b"])) == [
        ("reconstruction", "must be numbers", "dtype <U1")
    ]
    assert refused(elbo, np.zeros((2, 1)), np.zeros((2, 1)), np.zeros(2), samples=0, seed=-1) == [
        ("samples", "must be a whole number of at least 1", "0"),
        ("seed", "must be a whole number of at least 0", "-1"),
    ]
