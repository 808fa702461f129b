# SPDX-License-Identifier: Apache-2.0
"""Intervals of the study's statistics over seeds hold what five seeds give on average."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from tests.studies import michlo2023_tables as tables
from tests.studies.worlds import assert_covered

from unbraid.studies.intervals import leave_out_seeds
from unbraid.studies.michlo2023.blur import _statistics as by_loss
from unbraid.studies.michlo2023.models import models
from unbraid.studies.michlo2023.pools import BLUR, SPACINGS
from unbraid.studies.michlo2023.spacings import _statistics as by_spacing

DRAWS = 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pool", "statistics"),
    [(SPACINGS, partial(by_spacing, kind="ada")), (BLUR, by_loss)],
    ids=["spacings", "blur"],
)
def test_intervals_cover_what_five_seeds_give_on_average(pool, statistics):
    """Seeds share part of their luck whatever their setting."""
    table, chance = tables.world(True), np.random.default_rng(0)
    table = table[table["pool"] == pool].reset_index(drop=True)
    found = []
    for _ in range(DRAWS):
        luck = 0.1 * chance.normal(size=5)[table["seed"]]
        drawn = {name: table[name] + luck + 0.1 * chance.normal(size=len(table))
                 for name in ("mig", "dci")}  # fmt: skip
        rows = models(table.assign(**drawn), [pool], ("mig", "dci", "active_units"))
        assert rows is not None
        found.append(leave_out_seeds(rows.rows, statistics))
    assert_covered(found, 0.87)
