# SPDX-License-Identifier: Apache-2.0
"""Models chosen without labels: quantiles of picks, and when a way to choose is trusted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from tests.studies import locatello2019_tables as tables

from unbraid.studies.locatello2019 import choosing
from unbraid.studies.locatello2019.choosing import (
    JUDGED,
    NEEDED,
    WAYS,
    best_choice,
    estimates,
    pick,
    quantiles,
)
from unbraid.studies.locatello2019.models import SCORES

FOUR = ("dsprites", "color_dsprites", "noisy_dsprites", "shapes3d_drawn")


def world(*data: str, good: str = "", seeds: int = 5) -> pd.DataFrame:
    """Models whose metrics follow one thing, and so does the score *good*; all else is noise."""
    table = tables.grid(*data, seeds=seeds)
    draw = tables.normal(table)
    quality = draw()
    scores = {name: quality + 0.3 * draw() for name in SCORES}
    blind = {name: draw() for name in NEEDED}
    if good:
        blind[good] = quality + 0.3 * draw()
    return table.assign(**scores | blind)


def test_a_pick_by_hand():
    scores = {
        "udr": np.array([0.9, 0.5, 0.8, np.nan]),
        "elbo": np.array([-9.0, -1.0, -2.0, 0.0]),
        "active_units": np.array([1.0, 5.0, 5.0, 5.0]),
    }
    assert {way: pick(way, scores) for way in WAYS if "rank" not in way} == {
        "UDR": 0,
        "ELBO": 3,
        "UDR of models with many latents": 2,
    }
    both = {"udr": np.array([0.9, 0.5, 0.8, 0.1]), "elbo": np.array([-9.0, -5.0, -1.0, -2.0])}
    assert pick("UDR and ELBO, sum of ranks", both) == 2


def test_a_score_that_is_the_truth_picks_the_best_of_every_seed():
    table = world("dsprites", seeds=3)
    table = table.assign(udr=table["mig"], **{name: table["mig"] for name in SCORES})
    found = quantiles(choosing.choosable(table))
    rank = table["mig"].rank().sub(1) / (len(table) - 1)
    expected = rank.groupby(table["seed"]).max().mean()
    assert found["dsprites: mig: UDR"] == pytest.approx(expected)
    assert found["UDR"] == found["dsprites: UDR"] == pytest.approx(expected)
    opposite = quantiles(choosing.choosable(table.assign(udr=-table["mig"])))
    assert opposite["UDR"] < 0.1


def test_a_score_that_is_noise_picks_a_random_one():
    found = estimates(choosing.choosable(world(*FOUR, seeds=10)))["UDR"]
    assert found.low < 0.5 < found.high
    assert 0.3 < found.value < 0.7


def test_the_way_that_knows_is_trusted_once_data_suffice():
    enough = world(*FOUR, good="elbo")
    found = best_choice(enough)
    assert found is not None
    assert found.way == "ELBO"
    assert (*found.by_data,) == FOUR[1:]  # dSprites had been looked at
    assert found.trusted
    assert found.quantile.low > choosing.LEAST_QUANTILE
    assert "better than 9" in found.expectation()
    assert best_choice(enough[enough["data"] != FOUR[1]]) is None
    assert best_choice(world(*FOUR, good="elbo", seeds=4)) is None
    half = enough[(enough["data"] != FOUR[3]) | (enough["objective"] != "beta_vae")]
    assert best_choice(half) is None
    assert best_choice(pd.DataFrame()) is None


def test_no_way_is_trusted_where_none_is_good():
    found = best_choice(world(*FOUR))
    assert found is not None
    assert not found.trusted


def test_a_way_that_fails_on_one_data_set_is_not_trusted():
    table = world(*FOUR, "scream_dsprites", "cars3d", "smallnorb", good="udr")
    bad = (table["data"] == "shapes3d_drawn").to_numpy()
    table.loc[bad, "udr"] *= -1
    table.loc[~bad, [*JUDGED]] = table.loc[~bad, ["udr"] * len(JUDGED)].to_numpy()
    found = best_choice(table)
    assert found is not None
    assert found.way == "UDR"
    assert found.quantile.low > choosing.LEAST_QUANTILE
    assert not found.trusted
    assert "on shapes3d_drawn" in found.expectation()
    assert replace(found, by_data={"cars3d": 0.51}).trusted


def test_committed_tables_can_be_read():
    from unbraid.studies import table

    rows = choosing.choosable(table("locatello2019"))
    found = estimates(rows)
    assert all(0 <= found[way].low <= found[way].value <= found[way].high <= 1 for way in WAYS)
    assert choosing.best_choice_known() is not None
