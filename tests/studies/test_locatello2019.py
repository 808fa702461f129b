# SPDX-License-Identifier: Apache-2.0
"""Verdicts of Locatello et al. 2019: each claim on tables where it is true and where it is not."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from tests.studies import locatello2019_tables as tables
from tests.studies.locatello2019_tables import WORLDS

from unbraid.studies.claim import VERDICTS
from unbraid.studies.locatello2019.burgess import CAPACITIES
from unbraid.studies.locatello2019.dominance import gain_of_choosing
from unbraid.studies.locatello2019.models import SCORES, models
from unbraid.studies.locatello2019.overlap import overlap_of_objectives, worst_beats_best
from unbraid.studies.locatello2019.published import BY_OBJECTIVE, BY_SETTING
from unbraid.studies.locatello2019.theory import mixing_maps, score_without

CLAIM, finding, verdict = WORLDS.claims, WORLDS.found, WORLDS.verdict
true_finding, true_table = WORLDS.true_finding, WORLDS.table


@pytest.mark.parametrize("name", tables.CLAIMS)
def test_models_of_the_other_pool_do_not_count(name):
    other = "main" if name.startswith("LOC-B") else "burgess"
    assert verdict(name, true_table(name).assign(pool=other)) == "not run"


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("LOC-K1", "dsprites"),
        ("LOC-K2", "dsprites"),
        ("LOC-F3l", "dsprites"),
        ("LOC-K4a", "dsprites"),
        ("LOC-K4b", "dsprites"),
        ("LOC-K4c", "dsprites"),
        ("LOC-K4d", "dsprites"),
        ("LOC-F5", "color_dsprites"),
        ("LOC-F6", "color_dsprites"),
    ],
)
def test_a_claim_about_some_data_is_not_judged_on_others(name, data):
    table = true_table(name)
    only = table[table["data"] == table["data"].iloc[0]].assign(data=data)
    assert verdict(name, only) == "not run"


def test_the_size_of_a_reduced_study_is_not_judged():
    assert verdict("LOC-N", tables.noise_scores(tables.grid(*tables.DATA))) == "not run"


@pytest.mark.parametrize(
    "name", [name for name in tables.CLAIMS if name[:5] not in ("LOC-N", "LOC-B")]
)
def test_half_a_grid_is_not_judged(name):
    table = true_table(name)
    half = table[tables.place(table) < 4]
    assert verdict(name, half) == "not run"


@pytest.mark.parametrize(
    ("name", "column"),
    [("LOC-K2", "sap"), ("LOC-F5", "dci"), ("LOC-K1", "total_correlation")],
)
def test_a_constant_score_is_undecided(name, column):
    assert verdict(name, true_table(name).assign(**{column: 0.5})) == "undecided"


def test_a_constant_score_is_left_out_of_the_variance_explained():
    table = tables.by_setting(True).assign(mig=0.5)
    found = finding("LOC-Tb", table)
    assert math.isnan(found.estimate("dsprites: mig").value)
    assert math.isfinite(found.estimate("mean share").low)
    assert verdict("LOC-K4a", tables.dominance(True).assign(mig=0.5)) == "reproduced"


def test_noise_shows_no_choice_that_depends_on_data_and_metric():
    """Luck gains nothing: where nothing matters, the claim that no model dominates fails too."""
    table = pd.concat(
        [tables.noise_scores(tables.grid(name), number) for number, name in enumerate(tables.FIVE)]
    )
    for statistic in ("objective", "strength"):
        one = finding("LOC-K4a", table).estimate(f"gain of choosing the {statistic} anew")
        assert one.low < 0.05


def test_the_variance_explained_of_the_papers_shares_is_the_papers():
    for name, published in (("LOC-Ta", BY_OBJECTIVE), ("LOC-Tb", BY_SETTING)):
        found = true_finding(name)
        for data in tables.FIVE:
            for metric in SCORES:
                one = found.estimate(f"{data}: {metric}")
                assert one.paper == published[data, metric]
                assert one.value == pytest.approx(one.paper, abs=0.15)
        mean = found.estimate("mean share")
        assert mean.value == pytest.approx(mean.paper, abs=0.02)
        null = found.estimate("mean share of shuffled scores")
        assert null.low < 0 < null.high < 0.05


def test_a_choice_that_is_the_best_everywhere_gains_nothing():
    scores = np.zeros((4, 3, 5))
    scores[:, 1] = 1.0
    assert gain_of_choosing(scores) == 0.0
    scores[:2, 2] = 2.0  # best in half of the cases, worst in the others
    scores[2:, 2] = -2.0
    # Choice 1 is the best of all cases with a mean of 1; each case's own best adds 1 in half.
    assert gain_of_choosing(scores) == 0.5
    assert math.isnan(gain_of_choosing(scores[:, :, :1]))
    assert math.isnan(gain_of_choosing(np.full_like(scores, np.nan)))  # an objective never trained


def test_runs_of_strengths():
    apart = np.array([[0.0, 0.1, 0.2], [5.0, 5.1, 5.2]])
    assert worst_beats_best(apart) == 0.0
    assert worst_beats_best(np.ones((3, 4))) == 0.5
    # Without a strength that was never trained and a run that diverged.
    torn = np.vstack([np.c_[apart, [np.nan, 9.0]], np.full(4, np.nan)])
    assert worst_beats_best(torn) == 0.0
    assert math.isnan(worst_beats_best(apart[:, :2]))
    chance = np.random.default_rng(0)
    drawn = np.mean([worst_beats_best(chance.normal(size=(6, 5))) for _ in range(400)])
    assert drawn == pytest.approx(0.5, abs=0.03)


def test_the_overlap_is_measured_on_any_data():
    table = tables.overlap(True).assign(data="dsprites")
    assert overlap_of_objectives(table) is None
    found = overlap_of_objectives(table, data="dsprites")
    assert found is not None
    assert found.estimate("worse objective beats better").value > 0.4


def test_small_sprites_take_the_place_of_other_data():
    table = tables.total_correlation(True).assign(data="sprites")
    found = finding("LOC-K1", table)
    assert CLAIM["LOC-K1"].verdict(found) == "reproduced"
    assert "on sprites instead of color_dsprites" in found.remark
    kept = models(table[tables.place(table) != 3], ["total_correlation"])
    assert kept is not None
    assert sorted({*kept.rows["position"]}) == [0, 1, 2, 4, 5]


def test_stand_ins_and_lost_models_are_told():
    found = finding("LOC-K4b", WORLDS.spoiled(tables.unsupervised(True)))
    assert "shapes3d_drawn is a drawn stand-in for 3D Shapes." in found.remark
    assert "Models left out, since they diverged or lack a score: " in found.remark


def test_a_seed_counts_once_its_grid_is_there():
    table = tables.noise_scores(tables.grid("dsprites", seeds=3))
    late = (table["seed"] == 2) & (tables.place(table) > 1)
    kept = models(table[~late], SCORES)
    assert kept is not None
    assert {*kept.rows["seed"]} == {0, 1}


def test_choices_between_data_by_hand():
    """Two settings differ, the same way everywhere: the better is always chosen."""
    parts = []
    for data in ("dsprites", "color_dsprites"):
        table = tables.grid(data, seeds=3)
        best = (table["objective"] == "beta_vae") & (table["strength"] == 16.0)
        parts.append(table.assign(**{name: best.astype(float) for name in SCORES}))
    found = finding("LOC-K4d", pd.concat(parts))
    # The chosen model ties with the other 2 of its setting and beats the other 105 of 108.
    for where in ("same data and metric, other seed", "same metric, other data"):
        assert found.estimate(where).value == pytest.approx((105 + 2 / 2) / 107)
    assert found.estimate("same less other data").value == pytest.approx(0.0)


def test_capacities_are_read_off_the_line_between_stages():
    found = finding("LOC-B3", tables.capacity(True))
    # Learned at a tenth: y, the later of the two of position, at 4 nats.
    expected = {"position": 4.0, "scale": 7.5, "shape": 14.0, "orientation": 21.0}
    for name, nats in expected.items():
        one = found.estimate(f"{name}, nats")
        assert one.value == pytest.approx(nats, abs=0.7)
        assert one.paper == CAPACITIES[name]
    assert found.remark == ""


def test_a_seed_that_diverged_is_left_out_with_the_stages_before():
    table = tables.capacity(True)
    lost = (table["seed"] < 5) & (table["steps"] > 350)
    table.loc[lost, "status"] = "diverged"
    table.loc[lost, "steps"] = 360
    for name in ("LOC-B3", "LOC-B8"):
        found = finding(name, table)
        assert found.estimates[0].count == 5
        assert found.remark == "Models left out, since they diverged or lack a score: 5."
    assert finding("LOC-B3", table).estimate("position, nats").value == pytest.approx(4.0, abs=0.7)
    assert WORLDS.finding("LOC-B8", table.assign(status="diverged")) is None


def test_a_factor_that_is_never_learned_comes_last():
    table = tables.capacity(True)
    for shares in table["information"]:
        shares.reshape(5, 4)[2] = 0.01  # orientation
    found = finding("LOC-B3", table)
    assert found.estimate("rank correlation with the paper's order").value == 1.0
    assert found.remark.startswith("Of 10 seeds never learned is orientation by 10:")
    assert math.isnan(found.estimate("orientation, nats").value)


def test_an_order_before_the_first_stage_is_said_to_be_drawn_not_measured():
    table = tables.capacity(True)
    assert "before the first stage" not in finding("LOC-B3", table).remark
    shares = table.loc[table["seed"] < 4, "information"]
    for one in shares:
        one.reshape(5, 4)[:3] = 0.9  # x, y and scale, from the first stage on
    assert finding("LOC-B3", table).remark.startswith("In 4 of 10 seeds several factors")


def test_an_objective_against_the_trend_of_the_others_is_named():
    table = tables.total_correlation(True)
    assert "Against" not in finding("LOC-K1", table).remark
    turned = table["objective"] == "factor_vae"
    table.loc[turned, "total_correlation_sampled"] *= -1
    told = "Against the mean goes the trend of sampled codes of factor_vae (+"
    assert told in finding("LOC-K1", table).remark


def test_the_impossibility_theorem():
    # A reflection that hardly mixes keeps the law and the score too.
    assert CLAIM["LOC-TH1"].verdict(mixing_maps([1e-6])) == "not reproduced"


def test_the_blind_spot_of_the_beta_vae_metric():
    found = score_without(("orientation", "scale"))
    # Two factors that leave no trace cannot be told apart: 2/4 + 2/4 / 2.
    assert found.estimate("accuracy without the factor").value == pytest.approx(0.75, abs=0.01)
    assert CLAIM["LOC-KM3"].verdict(found) == "not reproduced"


def test_verdicts_are_those_of_the_contract():
    assert {"reproduced", "not reproduced", "undecided", "not run"} == {*VERDICTS}
