# SPDX-License-Identifier: Apache-2.0
"""α brings q(z) to the four clusters of the prior, β widens the posteriors: small trainings of the
paper's pinwheel.
"""

from __future__ import annotations

import json

import numpy as np
import pytest

from unbraid.analysis.theory.aggregate_posterior import InclusiveKL
from unbraid.analysis.theory.pinwheel_decomposition import (
    ALPHAS,
    BETAS,
    PinwheelDecomposition,
    PinwheelMember,
    pinwheel_decomposition,
)
from unbraid.core.errors import InputError
from unbraid.report.gallery.pinwheel_figures import pinwheel_panels


def made(alpha, beta, seed, nats, std=0.1):
    return PinwheelMember(
        beta, alpha, seed, InclusiveKL(nats, 0.01), np.full(4, 0.25), 1.0, std, np.ones((3, 3))
    )


def test_the_trend_is_that_of_the_means_and_counted_by_seed():
    rows = [
        made(1, 0, 0, 3.0),
        made(1, 0, 1, 2.0),
        made(3, 0, 0, 1.0),
        made(3, 0, 1, 2.5),
        made(0, 0.5, 0, 9.0, 0.1),
        made(0, 1, 0, 1.0, 0.3),
    ]
    found = PinwheelDecomposition(tuple(rows), np.arange(3.0))
    assert found.alphas() == [1, 3]
    assert found.betas() == [0.5, 1]
    assert found.mean_kl(alpha=1) == 2.5
    assert found.mean_kl(beta=0.5) == 9.0
    assert found.falls_with_alpha
    assert found.seeds_that_fall == 1
    assert found.overlap_rises_with_beta
    worse = PinwheelDecomposition(
        (made(1, 0, 0, 1.0), made(3, 0, 0, 1.0), made(0, 0.5, 0, 1, 0.3), made(0, 1, 0, 1, 0.3)),
        np.arange(3.0),
    )
    assert not worse.falls_with_alpha
    assert worse.seeds_that_fall == 0
    assert not worse.overlap_rises_with_beta


@pytest.fixture(scope="module")
def trained():
    """The ends of both sweeps, one seed, a third of the steps."""
    return pinwheel_decomposition(seed=7, alphas=(1.0, 8.0), betas=(0.01, 1.2), steps=170)


def test_kl_falls(trained):
    assert trained.falls_with_alpha
    assert trained.mean_kl(alpha=8.0) < 0.6 * trained.mean_kl(alpha=1.0)
    assert trained.mean_kl(beta=0.01) > 2.0


def test_q_has_four_clusters_where_the_prior_has_them(trained):
    (member,) = trained.of(alpha=8.0)
    assert member.arms_kept > 0.95
    assert np.abs(member.shares - 0.25).max() < 0.05
    at = {round(float(value), 6): place for place, value in enumerate(trained.line)}

    def density(first, second):
        return member.density[at[second], at[first]]

    low = max(density(0.0, 0.0), *(density(a, b) for a in (-0.8, 0.8) for b in (-0.8, 0.8)))
    for first, second in ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0)):
        assert density(first, second) > 10 * low
    cell = trained.line[1] - trained.line[0]
    assert member.density.sum() * cell**2 == pytest.approx(1.0, abs=0.05)


def test_the_same_seed_gives_the_same_numbers_and_neighbours_do_not_matter(trained):
    alone = pinwheel_decomposition(seed=7, alphas=(8.0,), betas=(), steps=40)
    beside = pinwheel_decomposition(seed=7, alphas=(3.0, 8.0), betas=(), steps=40)
    assert beside.of(alpha=8.0)[0].kl.nats == pytest.approx(
        alone.of(alpha=8.0)[0].kl.nats, rel=1e-3
    )


def test_at_equal_width_alpha_is_nearer_to_the_prior_or_is_said_not_to_be():
    rows = [
        made(1, 0, 0, 0.6, 0.07),
        made(3, 0, 0, 0.4, 0.09),
        made(0, 0.01, 0, 6.0, 0.05),
        made(0, 1, 0, 0.5, 0.088),
    ]
    found = PinwheelDecomposition(tuple(rows), np.arange(3.0))
    assert [(one.beta, other.alpha) for one, other in found.at_equal_width()] == [(1, 3)]
    assert found.nearer_at_equal_width
    rows[3] = made(0, 1, 0, 0.39, 0.088)
    assert not PinwheelDecomposition(tuple(rows), np.arange(3.0)).nearer_at_equal_width


def test_panels_show_the_densities(trained):
    panels = pinwheel_panels(trained)
    assert [one.heading for one in panels] == [
        "α = 1, β = 0",
        "α = 8, β = 0",
        "β = 0.01, α = 0",
        "β = 1.2, α = 0",
    ]
    assert f"KL(p‖q) {trained.mean_kl(alpha=8.0):.2f} nats" in panels[1].caption
    assert "outside the frame" in panels[2].caption
    assert "outside the frame" not in panels[1].caption
    json.dumps(panels[1].figure.to_plotly_json(), allow_nan=False)
    assert np.array(panels[1].figure.data[0].z) == pytest.approx(
        trained.of(alpha=8.0)[0].density, rel=1e-2
    )


def test_nonsense_is_refused_by_name():
    with pytest.raises(InputError) as caught:
        pinwheel_decomposition(seeds=0)
    assert str(caught.value) == "seeds must be a whole number in 1..1000; got 0."
    with pytest.raises(InputError) as caught:
        pinwheel_decomposition(alphas=(-1.0,))
    assert str(caught.value) == "decomposition: alpha must be at least 0; got -1.0."


@pytest.mark.slow
def test_kl_falls_with_alpha_over_five_seeds():
    found = pinwheel_decomposition(seeds=5, alphas=ALPHAS, betas=())
    assert found.falls_with_alpha
    assert found.seeds_that_fall == 5
    assert found.mean_kl(alpha=1.0) - found.mean_kl(alpha=8.0) > 0.2
    assert all(one.arms_kept > 0.95 for one in found.members)


@pytest.mark.slow
def test_overlap_rises_with_beta_over_three_seeds():
    found = pinwheel_decomposition(seeds=3, alphas=(), betas=BETAS)
    assert found.overlap_rises_with_beta
