# SPDX-License-Identifier: Apache-2.0
"""KL of Gaussian posteriors: closed form, and its digits near the prior."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.metrics._posterior import kl_per_latent


def test_closed_form() -> None:
    variance = np.array([[0.1, 1.0, 7.0]])
    expected = 0.5 * (4.0 + variance - np.log(variance) - 1.0)
    assert kl_per_latent(np.full((1, 3), -2.0), np.log(variance)) == pytest.approx(
        expected[0], rel=1e-14
    )


@pytest.mark.parametrize("logvar", [1e-9, -1e-9, 1e-6])
def test_a_posterior_close_to_the_prior_keeps_its_digits(logvar: float) -> None:
    # exp(v) - v - 1 = v^2 / 2 + v^3 / 6 + ...; subtracted one by one, nothing is left below 1e-16.
    series = 0.5 * (logvar**2 / 2 + logvar**3 / 6)
    assert kl_per_latent(np.zeros((1, 1)), np.full((1, 1), logvar))[0] == pytest.approx(
        series, rel=1e-6, abs=0.0
    )
