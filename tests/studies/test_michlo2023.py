# SPDX-License-Identifier: Apache-2.0
"""Verdicts of Michlo et al. 2023: each claim on tables where it is true and where it is not."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pandas as pd
import pytest
from tests.studies import michlo2023_tables as tables
from tests.studies.michlo2023_tables import WORLDS

import unbraid as ub
from unbraid.analysis.distances.perceived_distances import perceived_distances
from unbraid.studies import STUDIES
from unbraid.studies.michlo2023 import exact
from unbraid.studies.michlo2023.betas import _largest_alive
from unbraid.studies.michlo2023.datasets import against_table, no_order_of, order_of
from unbraid.studies.michlo2023.measured import MEASURED, distances_of, measure
from unbraid.studies.michlo2023.pools import ARMS, COLLAPSE
from unbraid.studies.michlo2023.prediction import compare, of_results
from unbraid.studies.michlo2023.published import A1, BY_LOSS, BY_SPACING, RANDOM

CLAIM, finding, verdict = WORLDS.claims, WORLDS.found, WORLDS.verdict
true_finding = WORLDS.true_finding


def true_table() -> pd.DataFrame:
    """Made by the first test that asks; nobody may change it."""
    return WORLDS.table("MIC-C")


@pytest.fixture(autouse=True)
def _own_tables_alone(monkeypatch: pytest.MonkeyPatch):
    """No verdict hangs on what other studies have committed."""
    for place, instead in WORLDS.patches.items():
        monkeypatch.setattr(place, instead)


@pytest.mark.parametrize(
    "name", [name for name in tables.CLAIMS if name not in ("MIC-C", "MIC-P", "MIC-F10")]
)
def test_models_left_out_are_told(name):
    table = WORLDS.spoiled(true_table())
    own = table[table["pool"].isin(CLAIM[name].pools)]
    if (own["status"] == "diverged").any():
        assert "Models left out" in finding(name, table).remark


@pytest.mark.parametrize("name", tables.CLAIMS)
def test_settings_alone_are_not_judged(name):
    assert verdict(name, true_table().loc[:, :"likelihood"]) == "not run"


def test_published_numbers_stand_beside_ours():
    """In the world where they are true they are what is found."""
    for name, kind in (("MIC-F9a", "ada"), ("MIC-F9b", "beta")):
        for score in ("mig", "dci"):
            for spacing, paper in enumerate(BY_SPACING[kind, score], start=1):
                one = true_finding(name).estimate(f"{score.upper()} at spacing {spacing}")
                assert one.paper == paper
                assert one.value == pytest.approx(paper, abs=0.03)
    one = true_finding("MIC-F11").estimate("DCI of Ada-GVAE, blur")
    assert one.paper == BY_LOSS["ada", "blur"][1]
    assert one.value == pytest.approx(one.paper, abs=0.03)


def test_what_needs_no_training_could_fail():
    """The same measurements of other data, other orders, another table, another loss."""
    spread = exact.distances_at(4)  # squares that overlap are not all equally far apart
    assert CLAIM["MIC-E7"].verdict(spread) == "not reproduced"
    assert CLAIM["MIC-F3a"].verdict(order_of([("dsprites", "orientation")])) == "not reproduced"
    for name, at in (("MIC-F8", exact.order_at), ("MIC-S54", exact.overlap_at)):
        assert CLAIM[name].verdict(at((8, 7, 6, 5, 4, 3, 2, 1))) == "not reproduced"
    other = {"dsprites": A1["dsprites"] | {"shape": 0.0584, "y": 0.0214}}
    assert CLAIM["MIC-A1"].verdict(against_table(other)) == "not reproduced"
    for radius, alpha in ((31, 63.0), (15, 63.0**2)):
        assert CLAIM["MIC-E11"].verdict(exact.overlap_loss_at(radius, alpha)) == "not reproduced"


def test_kinds_without_order():
    """The rule on the shapes of dSprites, which are kinds, and on x, which is not."""
    assert WORLDS.finding("MIC-F3b", pd.DataFrame()) is None  # the file of Cars3D is not here
    assert CLAIM["MIC-F3b"].verdict(no_order_of("dsprites", "shape")) == "reproduced"
    assert CLAIM["MIC-F3b"].verdict(no_order_of("dsprites", "x")) == "not reproduced"


def test_pairs_nearer_than_apart_by_counting():
    """Against random images of XYSquares themselves."""
    for spacing in (2, 7):
        data = ub.load("xysquares", spacing=spacing)
        draws = np.random.default_rng(spacing).integers(0, len(data), (2, 800))
        gap = data.images(draws[0]).astype(float) - data.images(draws[1])
        distances = ((gap / 255) ** 2).mean(axis=(1, 2, 3))
        counted = (distances < exact.APART - 1e-9).mean()
        along, apart = exact.nearer_than_apart(spacing)
        assert counted == pytest.approx(apart, abs=4 * math.sqrt(apart * (1 - apart) / 800))
        matrix = perceived_distances(data, pairs=50).inputs.factors[0].matrix
        off = matrix[np.triu_indices(8, 1)]
        assert (off < exact.APART - 1e-9).mean() == pytest.approx(along)


def test_the_committed_distances_are_what_is_measured():
    """Those of XYSquares, which are exact, and Table A1 of dSprites within the errors of few."""
    assert {*MEASURED} == {
        (str(data), str(loss)) for data, loss in MEASURED if distances_of(data, loss) is not None
    }
    stored, now = distances_of("xysquares:spacing=3"), measure("xysquares:spacing=3", "mse", 300)
    for factor, own in now.set_index("factor").drop(index=RANDOM).iterrows():
        assert own["mean"] == pytest.approx(stored.loc[factor, "mean"], rel=1e-12)
        assert own["spearman"] == pytest.approx(stored.loc[factor, "spearman"], rel=1e-12)
    stored = distances_of("dsprites")
    now = measure("dsprites", "mse", 1500).set_index("factor")
    gap = (now["mean"] - stored["mean"]).abs()
    assert (gap <= 4 * np.hypot(now["standard_error"], stored["standard_error"])).all()


def test_half_an_arm_less_is_not_judged():
    table = true_table()
    for arm in ARMS:
        assert verdict("MIC-C", table[~table["slice"].str.startswith(f"{arm}-")]) == "not run"


def test_the_cause_of_the_collapse_is_named():
    assert "undone by: Xavier-normal weights" in true_finding("MIC-C").remark
    assert true_finding("MIC-C").estimate("largest fall by one change").value == 0.4
    same = true_table().copy()
    own = same["pool"] == COLLAPSE
    same.loc[own, "active_units"] = np.where(same.loc[own, "seed"] < 8, 1.0, 6.0)
    found = finding("MIC-C", same)
    assert CLAIM["MIC-C"].verdict(found) == "undecided"
    assert "the setting's own spread" in found.remark


def test_where_no_seed_collapses_nothing_is_explained():
    none = true_table().copy()
    none.loc[none["pool"] == COLLAPSE, "active_units"] = 6.0
    found = finding("MIC-C", none)
    assert CLAIM["MIC-C"].verdict(found) == "undecided"
    assert found.remark.startswith("No seed of the setting collapsed here")


@pytest.mark.parametrize(("name", "pool", "other"), [("MIC-F4", "levels", "inputs"),
                                                     ("MIC-F10", "blur", "truth")])  # fmt: skip
def test_a_level_without_order_counts_as_none(name, pool, other):
    """Collapsed models reconstruct the same image always; without them the rest would look good."""
    table = true_table().copy()
    collapsed = (table["pool"] == pool) & (table["seed"] >= 2)
    collapsed &= table["likelihood"].str.contains("box") | (pool == "levels")
    table.loc[collapsed, f"distances.reconstructions_with_{other}"] = np.nan
    found = finding(name, table)
    assert CLAIM[name].verdict(found) != "reproduced"
    told = [one for one in found.estimates if one.name.startswith("reconstructions with")]
    whole = true_finding(name).estimate(told[0].name)
    assert told[0].value == pytest.approx(0.4 * whole.value, abs=0.02)
    assert told[0].count == whole.count


def test_a_seed_that_diverged_is_a_lost_seed():
    table = true_table().copy()
    lost = (table["pool"] == COLLAPSE) & (table["seed"] >= 18)
    table.loc[lost, "active_units"] = np.nan
    table.loc[lost, "status"] = "diverged"
    table.loc[lost, "steps"] = 100
    one = finding("MIC-C", table).estimate("collapsed share: Xavier-normal weights")
    assert one.value == pytest.approx(2 / 20)


def test_the_largest_beta_without_collapse():
    def models(*active: float) -> pd.DataFrame:
        return pd.DataFrame({"beta": [0.01, 0.1, 1.0], "active_units": active})

    assert _largest_alive(models(6, 3, 2)) == pytest.approx(-1.0)
    assert _largest_alive(models(6, 6, 6)) == pytest.approx(0.0)
    assert _largest_alive(models(6, 1, 6)) == pytest.approx(-2.0)  # what revives is luck
    assert _largest_alive(models(0, 0, 0)) == pytest.approx(-2.5)


def test_prediction_needs_factors_that_can_be_compared():
    """Data that cannot be loaded, that have no order to compare or one seed alone say nothing."""
    one = {"loss": "mse", "information": [0.5, 0.2], "factors": ["x", "y"]}
    few = pd.DataFrame([{"data": "dsprites", "seed": seed} | one for seed in range(3)])
    assert compare([few]) is None  # two factors
    six = {"loss": "mse", "factors": list(distances_of("dsprites").index[1:])}
    six["information"] = [0.9, 0.8, 0.5, 0.2, 0.1]
    single = pd.DataFrame([{"data": "dsprites", "seed": 0} | six])
    assert compare([single]) is None
    unknown = pd.DataFrame([{"data": "nowhere", "seed": seed} | six for seed in range(3)])
    assert compare([unknown]) is None
    found = compare([unknown, pd.concat([single, single.assign(seed=1)], ignore_index=True)])
    assert found.estimate("importance with information, mean within data sets").value == 1.0


class Stored:
    """Results of a study all of whose slices are done: tables with information by factor."""

    def __init__(self, name: str, pools: Sequence[str] = ()) -> None:
        self.study = STUDIES.load(name)
        self.parts = [
            (pool, one)
            for pool in self.study.pools("gpu", 0)
            for one in pool.slices
            if not pools or pool.name in pools
        ]

    def slices(self):
        return self.parts

    def done(self, pool, one) -> bool:
        return True

    def read(self, pool, one) -> pd.DataFrame:
        names = distances_of("dsprites").index[1:]
        return pd.DataFrame(
            {
                "pool": pool.name,
                "slice": one.name,
                "data": one.data,
                "seed": [0, 1],
                "steps": 100,
                "information": [[0.1, 0.2, 0.3, 0.4, 0.5]] * 2,
                "factors": [[*names]] * 2,
            }
        )


def foretold(name: str, *pools: str) -> pd.DataFrame:
    return pd.concat(list(of_results(Stored(name, pools))), ignore_index=True)


def test_changed_data_are_not_foretold_by_those_they_were_made_of():
    """Of zietlow2021, whose patterned, noisy and enlarged dSprites are loaded as others."""
    found = foretold("zietlow2021", "table1", "table2", "extra-factor")
    assert {*found["data"]} == {"dsprites", "shapes3d_drawn"}
    assert not [name for name in found["slice"] if "modified" in name or "-s-" in name]


def test_models_that_were_told_factors_and_pilots_foretell_nothing():
    found = foretold("zietlow2021")
    assert not [name for name in found["slice"] if "labels" in name]
    assert not [name for name in found["pool"] if "pilot" in name]
    assert "overlap" in " ".join(found["slice"])


def test_tables_of_every_study_are_read_but_those_of_searches():
    """Searches say neither loss nor data as plans do; that of estermann2020 has nothing else."""
    assert not list(of_results(Stored("estermann2020")))
    for name in ("locatello2019", "mathieu2019"):
        found = foretold(name)
        assert {*found["loss"]} <= {"mse", "mse+box31"}
        assert "pilot" not in {*found["pool"]}
