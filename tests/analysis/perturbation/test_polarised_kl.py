# SPDX-License-Identifier: Apache-2.0
"""The polarised regime's KL and information levels: closed forms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.analysis.perturbation.information_level import information_levels
from unbraid.analysis.perturbation.polarised_kl import polarised_kl
from unbraid.core.errors import InputError

NUMBERS = st.floats(0.001, 0.7)


def exact(mean, variance):
    """KL of N(mean, variance) from N(0, 1), mean over images, by latent."""
    return 0.5 * (mean**2 + variance - np.log(variance) - 1).mean(axis=0)


@settings(deadline=None, max_examples=30)
@given(st.lists(NUMBERS, min_size=1, max_size=5), st.integers(0, 3), st.integers(0, 10))
def test_it_is_equation_4_less_the_constant(noise, passive, seed):
    chance = np.random.default_rng(seed)
    variance = np.array([*noise, *[1.0] * passive])
    mean = chance.normal(size=(50, len(variance))) * (variance < 0.8)
    each = exact(mean, variance)
    found = polarised_kl(each, variance)
    active = variance < 0.8
    equation = 0.5 * (mean**2 - np.log(variance))[:, active].mean(axis=0).sum()
    assert found.polarised == pytest.approx(equation - 0.5 * active.sum())
    assert found.exact == pytest.approx(each.sum())
    # What it leaves out is half the variance of active latents, and what passive ones have.
    assert found.exact - found.polarised == pytest.approx(0.5 * sum(noise) + found.of_passive)
    assert found.of_passive == pytest.approx(0.0, abs=1e-12)


def test_a_model_without_any_kl_has_no_gap_to_speak_of():
    found = polarised_kl([0.0, 0.0], [1.0, 1.0])
    assert np.isnan(found.relative_gap)
    assert not found.active.any()
    assert polarised_kl([4.0], [0.2]).relative_gap == pytest.approx(0.1 / 4.0)


def test_shapes_that_do_not_fit_are_refused():
    with pytest.raises(InputError, match="kl_by_latent must have a number for each"):
        polarised_kl([1.0], [0.1, 0.2])
    with pytest.raises(InputError, match="mutual_information must have a row for each factor"):
        information_levels([0.1, 0.2], [[1.0]])


def test_the_level_is_of_the_latent_that_knows_most():
    information = [[0.1, 2.0, 0.0], [0.3, 0.0, 0.2]]
    assert information_levels([0.5, 0.01, 1.0], information) == pytest.approx([0.99, 0.5])
