# SPDX-License-Identifier: Apache-2.0
"""Scale and offset: the same score where the definition allows it, and else a remark."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid import metrics
from unbraid.scoring.own_codes import score_codes
from unbraid.scoring.scale import ON_SCALE, scale_remark

RNG = np.random.default_rng(0)
FACTORS = RNG.integers([3, 5, 6], size=(900, 3))
CODES = (FACTORS - FACTORS.mean(axis=0)) / FACTORS.std(axis=0) + 0.05 * RNG.normal(size=(900, 3))
QUICK = ("mig", "mig_sup", "jemmig", "dcimig", "modularity", "irs", "infomec", "total_correlation")


@pytest.mark.parametrize("name", QUICK)
def test_most_scores_do_not_see_scale_and_offset(name: str):
    metric = metrics.METRICS.load(name)
    arrays = () if metric.needs == "codes" else (FACTORS,)
    plain = metric(CODES, *arrays).score
    for moved in (CODES * 0.01, CODES + 100.0):
        assert metric(moved, *arrays).score == pytest.approx(plain, abs=1e-3)
    assert name not in ON_SCALE


@pytest.mark.parametrize("name", ["sap", "factor_vae_score:train_votes=200,test_votes=100"])
def test_where_scale_matters_a_remark_says_so(name: str):
    said: list[str] = []
    table = score_codes(CODES * 0.01, FACTORS, name, warn=said.append)
    assert table["value"][0] < 0.01, "as in the reference"
    assert said == table.attrs["remarks"]
    (line,) = said
    assert line.startswith("Scale matters here: latents have standard deviations from 0.01")
    assert name in line
    assert line.endswith("To standardise: (codes - codes.mean(0)) / codes.std(0).")
    said.clear()
    score_codes(CODES, FACTORS, name, warn=said.append)
    assert said == []


def test_an_offset_is_told_for_sap_unless_it_is_free_of_it():
    assert "means up to 1" in scale_remark(["sap"], CODES + 100.0, every_latent=True)
    assert scale_remark(["sap:continuous=true", "mig"], CODES + 100.0, every_latent=True) == ""


def test_a_dead_latent_of_a_vae_is_no_matter_of_scale():
    codes = CODES * [1.0, 1.0, 1e-3]
    assert scale_remark(["factor_vae_score"], codes, every_latent=False) == ""
    assert scale_remark(["factor_vae_score"], codes, every_latent=True)
