# SPDX-License-Identifier: Apache-2.0
"""The rules of the pilot of Zietlow et al. 2021, on tables of which each answer is known."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest

from unbraid.studies.results import stacked
from unbraid.studies.zietlow2021 import pilot, settings
from unbraid.studies.zietlow2021.pilot import learning_rate, shapes_epsilon, shapes_strength, steps

EMPTY = stacked([])


def rates(mig: dict[tuple[float, int], float], lost: str = "") -> pd.DataFrame:
    """Models whose MIG is told by rate and updates, in all methods alike but for their seeds."""
    rows = [
        {"pool": "pilot-rate", "objective": method, "seed": seed, "learning_rate": rate,
         "steps": at, "status": "trained", "mig": value + 0.01 * (seed - 1)}
        for ((rate, at), value), method, seed in product(
            mig.items(), settings.PILOT_METHODS, range(3))
        if method != lost
    ]  # fmt: skip
    return stacked([pd.DataFrame(rows)])


def table_of(**by_rate: tuple[float, float, float]) -> pd.DataFrame:
    """MIG after 20,000, 40,000 and 60,000 updates at r1, r2 and r5."""
    named = dict(zip(("r1", "r2", "r5"), settings.PILOT_RATES, strict=True))
    return rates(
        {
            (named[key], at): value
            for key, values in by_rate.items()
            for at, value in zip(settings.PILOT_STAGES, values, strict=True)
        }
    )


def test_the_largest_rate_that_is_hardly_worse_and_the_fewest_updates():
    table = table_of(r1=(0.1, 0.2, 0.3), r2=(0.15, 0.265, 0.28), r5=(0.2, 0.2, 0.2))
    assert learning_rate(table) == 2e-4  # 0.02 below the best, the largest is 0.1 below
    assert steps(table) == 40_000
    table = table_of(r1=(0.1, 0.2, 0.3), r2=(0.1, 0.2, 0.2), r5=(0.3, 0.25, 0.28))
    assert learning_rate(table) == 5e-4
    assert steps(table) == 20_000  # more than at the end is no reason to train on


def test_nothing_is_chosen_before_its_pool_is_trained():
    table = rates({(rate, 60_000): 0.2 for rate in settings.PILOT_RATES}, lost="factor_vae")
    for one in (EMPTY, table_of(r1=(0.1, 0.2, 0.3)), table):
        assert learning_rate(one) is None
        assert steps(one) is None
    assert shapes_strength(EMPTY, "beta_vae") is None
    assert shapes_epsilon(EMPTY) is None


def strengths(units: dict[float, list[float]]) -> pd.DataFrame:
    rows = [
        {"pool": "pilot-strengths", "objective": "beta_vae", "strength": beta, "seed": seed,
         "status": "trained" if own == own else "diverged", "active_units": own}
        for beta, each in units.items() for seed, own in enumerate(each)
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("units", "chosen"),
    [
        ({8: [6, 6, 6], 16: [5, 6, 4], 32: [5, 4, 3]}, 16),
        ({8: [6, 6, 6], 16: [4, 4, 4], 32: [6, 5, 3]}, 32),
        ({8: [3, 3, 3], 16: [3, 3, 3], 32: [3, 3, 3]}, 8),
        ({8: [6, 6, 6], 16: [5, np.nan, np.nan], 32: [2, 2, 2]}, 8),  # diverged ones have none
    ],
)
def test_the_largest_beta_that_leaves_enough_latents(units, chosen):
    assert shapes_strength(strengths(units), "beta_vae") == chosen
    assert shapes_strength(strengths(units), "beta_tcvae") is None


def with_s(preferred: dict[float, int]) -> pd.DataFrame:
    """Of three models at each ε so many have s in their least noisy latent."""
    rows = []
    for epsilon, hits in preferred.items():
        for seed in range(3):
            noise = [0.05, 0.01] if seed < hits else [0.01, 0.05]
            rows.append(
                {"pool": "pilot-epsilon", "data": f"shapes3d_drawn_s_{epsilon:g}", "seed": seed,
                 "status": "trained", "factors": ["x", "s"], "information": [0.9, 0.0, 0.0, 0.5],
                 "variance_by_latent": noise, "information_level": [0.9, 0.9]}
            )  # fmt: skip
    return pd.DataFrame(rows)


def test_the_smallest_epsilon_at_which_most_prefer_s():
    assert shapes_epsilon(with_s({0.1: 1, 0.15: 2, 0.2: 3})) == 0.15
    assert shapes_epsilon(with_s({0.1: 1, 0.15: 1, 0.2: 1})) == 0.2
    assert shapes_epsilon(with_s({0.1: 3, 0.15: 3})) is None


def test_what_is_told_follows_the_order_of_the_pools():
    assert "Next: unbraid study run zietlow2021 --scale gpu --pool pilot-rate" in pilot.told(EMPTY)
    now, at = settings.LEARNING_RATE, settings.STEPS
    same = rates(
        {
            (rate, stage): 0.3 if rate == now and stage >= at else 0.1
            for rate, stage in product(settings.PILOT_RATES, settings.PILOT_STAGES)
        }
    )
    assert pilot.told(same).splitlines()[:2] == [f"LEARNING_RATE: {now:g}", f"STEPS: {at:g}"]
    assert pilot.told(same).endswith("--pool pilot-strengths")
    other = same.assign(mig=[0.1 if rate == now else 0.3 for rate in same["learning_rate"]])
    assert f"; settings.py has {now:g}" in pilot.told(other)
    assert pilot.told(other).endswith("before going on.")
