# SPDX-License-Identifier: Apache-2.0
"""What counted information does not see: order and sign of latents, order of factors, scale, names
of values, copies of samples.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.metrics import METRICS

COUNTED = ["mig", "mig_sup", "jemmig", "dcimig", "modularity"]


@pytest.mark.parametrize("name", COUNTED)
@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 10_000))
def test_the_score_stays(name: str, seed: int) -> None:
    metric = METRICS.load(name)
    generator = np.random.default_rng(seed)
    factors = generator.integers([3, 4], size=(120, 2))
    codes = factors @ generator.normal(size=(2, 3)) + 0.3 * generator.normal(size=(120, 3))
    score = metric(codes, factors).score
    assert 0.0 <= score <= 1.0
    # Powers of two scale without rounding, so no code crosses the edge of a bin.
    changed = {
        "order": (codes[:, generator.permutation(3)], factors[:, ::-1]),
        "sign": (codes * generator.choice([-1.0, 1.0], size=3), factors),
        "scale": (codes * [0.25, 4.0, 64.0], factors),
        "names of values": (codes, np.array([5, -2, 11, 3])[factors]),
        "copies of samples": (np.tile(codes, (3, 1)), np.tile(factors, (3, 1))),
    }
    for what, arguments in changed.items():
        assert metric(*arguments).score == pytest.approx(score, abs=1e-12), what
