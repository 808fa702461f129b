# SPDX-License-Identifier: Apache-2.0
"""Verdicts of Estermann et al. 2020: each claim on tables where it is true and where it is not."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from tests.studies import estermann2020_tables as tables
from tests.studies.estermann2020_tables import WORLDS

from unbraid.studies.claim import VERDICTS
from unbraid.studies.estermann2020 import STUDY, baselines
from unbraid.studies.estermann2020.labels import best_factors, factors_of, share_named
from unbraid.studies.estermann2020.leaf_runs import leaf_runs
from unbraid.studies.estermann2020.models import finals

CLAIM, found, verdict = WORLDS.claims, WORLDS.finding, WORLDS.verdict


@pytest.fixture(autouse=True)
def others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Baselines that never were, so that no verdict here hangs on what is committed."""
    monkeypatch.setattr(baselines, "six_methods", tables.six_methods)


@pytest.mark.parametrize("name", tables.CLAIMS)
def test_at_the_small_scale_every_rule_has_its_statistic(name: str):
    table = WORLDS.table(name)
    small = table.loc[table["data"] != "shapes3d_drawn"]
    result = found(name, small.assign(data=small["data"].replace("dsprites", "sprites")))
    if result is None:
        assert name in ("EST-F4a", "EST-F4b", "EST-F4d")
        return
    assert CLAIM[name].verdict(result) in VERDICTS
    assert name == "EST-F13" or "instead of" in result.remark


@pytest.mark.parametrize("name", ["EST-F4a", "EST-F4b", "EST-F4d"])
def test_a_claim_about_some_data_is_not_judged_on_others(name: str):
    table = WORLDS.table(name).assign(data="sprites")
    assert verdict(name, table) == "not run"


def test_without_baselines_the_headline_is_not_judged(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(baselines, "six_methods", lambda data: tables.six_methods(data).iloc[:0])
    assert verdict("EST-F4a", tables.against("dsprites", True)) == "not run"


def test_the_page_opens_with_the_headline():
    assert STUDY.answer is not None
    assert STUDY.answer(pd.DataFrame()) is None
    told = [STUDY.answer(tables.against("dsprites", true)) for true in (True, False)]
    assert told[0] is not None
    assert told[1] is not None
    assert "5 of 5 seeds have a MIG above" in told[0].remark
    assert "MIG +" in told[0].remark
    assert told[0].remark != told[1].remark
    assert told[0].exhibit is not None


def test_baselines_are_whole_grids_of_locatello2019(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    rows = baselines.six_methods("dsprites")
    assert rows["objective"].nunique() == 6
    assert len(rows) == 6 * 6 * rows["seed"].nunique()
    assert rows[["mig", "dci"]].notna().to_numpy().all()
    assert baselines.six_methods("cars3d").empty


# What counts.


def lost(table: pd.DataFrame, seed: int) -> pd.DataFrame:
    """A table whose recursion of a *seed* came to no final population."""
    gone = (table["seed"] == seed) & (table["stage"] == "final-3")
    return pd.concat(
        [
            table[~gone],
            table[gone & (table["row"] == "winner")].assign(
                row="none", mig=np.nan, dci=np.nan, information=None
            ),
        ],
        ignore_index=True,
    )


def test_a_recursion_that_fails_counts_as_nothing():
    table = tables.against("dsprites", True)
    whole, less = found("EST-F4a", table), found("EST-F4a", lost(table, 2))
    assert whole is not None
    assert less is not None
    name = "MIG less the best method's mean"
    gone = table.loc[(table["row"] == "winner") & (table["seed"] == 2), "mig"]
    fall = float(gone.iloc[0]) / 5
    assert less.estimate(name).value == pytest.approx(whole.estimate(name).value - fall)
    assert "count as 0: 1." in less.remark
    assert CLAIM["EST-F4a"].verdict(less) != "reproduced"


def test_a_recursion_that_ended_at_its_root_counts_as_nothing_too():
    roots = tables.table([tables.labeller("dsprites", 5, "root", [])])
    rows = finals(pd.concat([tables.against("dsprites", True), roots], ignore_index=True))
    assert rows.loc[rows["failed"], ["seed", "mig", "leaf_runs"]].values.tolist() == [[5, 0, 3]]
    assert len(rows) == 6


def test_a_root_that_found_nothing_is_a_miss():
    table = tables.roots(True)
    rows = table[table["seed"] != 3]
    searched = table[(table["seed"] == 3) & (table["row"] == "individual")]
    result = found("EST-F2a", pd.concat([rows, searched], ignore_index=True))
    assert result is not None
    assert result.estimate("share of seeds with x and y alone").value == 0.8


def test_other_ranges_stand_beside_the_published_one():
    ours = [
        tables.labeller("dsprites", seed, "root", ["x", "y", "scale"], pool="our-ranges")
        for seed in range(5)
    ]
    rates = [
        tables.labeller("dsprites", seed, "root", ["x", "y"], pool="our-rates")
        | {"stage": "search"}
        for seed in range(5)
    ]
    table = pd.concat([tables.roots(True), tables.table([*ours, *rates])], ignore_index=True)
    result = found("EST-F2a", table)
    assert result is not None
    assert result.estimate("the same, our ranges").value == 0.0
    assert result.estimate("the same, our rates, published β").value == 1.0
    assert CLAIM["EST-F2a"].verdict(result) == "reproduced"


def test_half_of_the_finals_are_not_compared():
    table = tables.leaf_runs(True)
    kept = table[(table["stage"] != "final-1") | (table["seed"] < 3)]
    result = leaf_runs(kept)
    assert result is not None
    assert result.estimates[0].count == 2 * 3 * 4


def test_factors_of_labels():
    one = pd.Series(tables.labeller("dsprites", 0, "root", ["x", "shape+orientation"]))
    assert best_factors(one, 0.7) == ["x", ""]
    assert factors_of(one) == {"x", "shape", "orientation"}


def test_a_label_of_another_factor_counts_against_its_level():
    one = pd.Series(tables.labeller("dsprites", 0, "leaf-0/level-2", ["scale", "shape", "x+scale"]))
    assert share_named(one, {"scale"}) == pytest.approx((1 + 0 + 0.5) / 3)
    assert share_named(pd.Series(tables.labeller("dsprites", 0, "leaf-0/level-2", [])), {"x"}) == 0


def test_levels_of_random_factors_are_not_the_order_of_the_paper():
    """Two labels a level: one of them is a named factor of 3D Shapes in three of four cases."""
    chance = np.random.default_rng(0)
    rows = []
    for data, (first, _, _) in tables.ORDER.items():
        for seed in range(20):
            rows.append(tables.labeller(data, seed, "root", first))
            for leaf, level in product(range(3), (2, 3)):
                drawn = chance.choice(tables.FACTORS[data], 2, replace=False)
                rows.append(tables.labeller(data, seed, f"leaf-{leaf}/level-{level}", drawn))
    result = found("EST-F5", tables.table(rows))
    assert result is not None
    told = [one.value for one in result.estimates if "labels of level" in one.name]
    assert told == pytest.approx([0.2, 0.4, 0.5, 0.33], abs=0.12)
    assert CLAIM["EST-F5"].verdict(result) == "not reproduced"


def test_a_recursion_without_a_root_is_a_miss_at_every_level():
    table = tables.levels(True)
    rows = table[(table["data"] == "dsprites") & (table["seed"] == 4)]
    gone = rows[rows["stage"] == "root"].iloc[:1].assign(row="none", stage="final-3")
    result = found("EST-F5", pd.concat([table.drop(rows.index), gone], ignore_index=True))
    assert result is not None
    assert result.estimate("dsprites: first level finds x and y").value == 0.8


def test_one_kind_of_search_does_not_make_up_for_the_other():
    known = {"x": 0.9, "y": 0.9, "scale": 0.9}
    good = tables.final("dsprites", 0, 3, 0.4, 0.5, known)
    lists = {name: good[name] for name in ("information", "factors")}
    less = [{"x": 0.7, "y": 0.7, "scale": 0.1 + 0.01 * seed} for seed in tables.SEEDS]
    rows = [tables.final("dsprites", seed, 3, 0.4, 0.5, less[seed]) for seed in tables.SEEDS]
    table = tables.table([*rows, *tables.searches("dsprites", 0.42, 0.52, **lists)])
    result = found("EST-S5", table)
    assert result is not None
    assert result.estimate("least known of x, y and scale").value == pytest.approx(0.12)
    assert CLAIM["EST-S5"].verdict(result) == "not reproduced"


@pytest.mark.slow
def test_intervals_cover_the_truth():
    """Of spreads and gains, whose intervals are made by leaving seeds out."""
    chance, hits, draws = np.random.default_rng(0), 0, 100
    for _ in range(draws):
        rows = []
        for seed in range(5):
            own = chance.normal(0.0, 0.02)
            for runs, rise in enumerate((0.0, 0.05, 0.06, 0.07)):
                mig = 0.3 + rise + own + chance.normal(0.0, 0.02)
                rows.append(tables.final("dsprites", seed, runs, mig, mig))
        result = leaf_runs(tables.table(rows))
        assert result is not None
        gain = result.estimate("MIG gained by three leaf-runs")
        hits += gain.low <= 0.07 <= gain.high
    assert 0.88 <= hits / draws <= 0.99
