# SPDX-License-Identifier: Apache-2.0
"""What settings and seeds add to the variance of scores, against closed forms and scipy."""

import numpy as np
import pytest
from scipy.stats import f_oneway

from unbraid.report.train.variance import Variance, variance_of, what_matters


def test_variance_by_hand() -> None:
    # Means 2 and 6, each group's variance 1: MSB = 3 * (2² + 2²) = 24, MSW = 1, so the settings'
    # variance is 23/3.
    found = variance_of([[1, 2, 3], [5, 6, 7]])
    assert found is not None
    assert found.settings == pytest.approx(23 / 3)
    assert found.seeds == pytest.approx(1.0)


def test_variance_agrees_with_scipy_on_uneven_groups() -> None:
    generator = np.random.default_rng(0)
    groups = [generator.normal(mean, 1.0, size) for mean, size in ((0, 3), (1, 5), (0.5, 8))]
    found = variance_of(groups)
    assert found is not None
    assert found.chance == pytest.approx(f_oneway(*groups).pvalue)


def test_known_variances_are_recovered() -> None:
    generator = np.random.default_rng(1)
    means = generator.normal(0.0, 3.0, 400)
    found = variance_of([generator.normal(mean, 1.0, 200) for mean in means])
    assert found is not None
    # Against the variance of the means that were drawn: that of the law they come from is off by 7
    # % in 400 draws.
    assert found.settings == pytest.approx(means.var(ddof=1), rel=0.02)
    assert found.seeds == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize("groups", [[[1, 2, 3]], [[1, 2], [3, 4]], [[1, 2, 3], [1, np.nan, 2]], []])
def test_too_few_scores_say_nothing(groups: list[list[float]]) -> None:
    assert variance_of(groups) is None


def test_scores_without_noise() -> None:
    assert variance_of([[1, 1, 1], [2, 2, 2]]) == Variance(pytest.approx(0.5), 0.0, 0.0)
    assert variance_of([[1, 1, 1], [1, 1, 1]]) == Variance(0.0, 0.0, 1.0)


@pytest.mark.parametrize(
    ("variance", "matters"),
    [
        (None, ""),
        (Variance(0.0, 0.0, 1.0), ""),
        (Variance(2.0, 1.0, 0.01), "settings"),
        (Variance(0.5, 1.0, 0.01), "seeds"),
        (Variance(1.0, 1.0, 0.01), "both"),
        (Variance(2.0, 1.0, 0.06), "unclear"),
    ],
)
def test_what_matters(variance: Variance | None, matters: str) -> None:
    assert what_matters(variance) == matters
