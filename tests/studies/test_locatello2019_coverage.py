# SPDX-License-Identifier: Apache-2.0
"""Intervals of the study's own statistics hold the truth, also of those that choose or compare."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.studies import locatello2019_tables as tables
from tests.studies.worlds import assert_covered

from unbraid.studies.intervals import leave_out_seeds
from unbraid.studies.locatello2019.agreement import _agreement
from unbraid.studies.locatello2019.dominance import _gains
from unbraid.studies.locatello2019.models import SCORES
from unbraid.studies.locatello2019.overlap import _overlap, _worst_beats_best
from unbraid.studies.locatello2019.published import BY_SETTING
from unbraid.studies.locatello2019.transfer import _chances
from unbraid.studies.locatello2019.variance import SETTING, _statistics

DATA = ("dsprites", "color_dsprites")
DRAWS = 80


def drawn(chance: np.random.Generator) -> pd.DataFrame:
    """Objectives and strengths with effects that are always the same; luck that the metrics of a
    model and the models of a seed share in part.
    """
    parts = []
    for number, data in enumerate(DATA):
        table = tables.grid(data)
        model = chance.normal(size=len(table))
        seed = 0.5 * chance.normal(size=5)[table["seed"]]
        scores = {
            name: 0.7 * tables.effect(table, ["objective"], 10 * number + metric)
            + 0.7 * tables.effect(table, ["objective", "strength"], 100 * number + metric)
            + 0.7 * (model + chance.normal(size=len(table)))
            + seed
            for metric, name in enumerate(SCORES)
        }
        parts.append(table.assign(**scores))
    table = pd.concat(parts, ignore_index=True)
    return table.assign(position=tables.place(table))


@pytest.mark.slow
@pytest.mark.parametrize(
    "statistics",
    [
        _agreement,
        _overlap,
        _worst_beats_best,
        lambda rows: _statistics(rows, SETTING, BY_SETTING),
        _gains,
        _chances,
    ],
    ids=["agreement", "overlap", "strengths", "variance", "dominance", "choices"],
)
def test_intervals_cover_what_five_seeds_give_on_average(statistics):
    chance = np.random.default_rng(0)
    assert_covered([leave_out_seeds(drawn(chance), statistics) for _ in range(DRAWS)])
