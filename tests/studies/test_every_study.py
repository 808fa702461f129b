# SPDX-License-Identifier: Apache-2.0
"""Verdicts of all studies: each claim on tables where it is true and where it is not."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import pandas as pd
import pytest
from tests.studies.worlds import Worlds, every_study

from unbraid.report.study.figures import draw
from unbraid.studies.pool import ABOUT_THE_MODEL

EVERY = every_study()
CLAIMS = {claim: worlds for worlds in EVERY.values() for claim in worlds.claims}
TRAINED = [claim for claim, worlds in CLAIMS.items() if worlds.claims[claim].pools]
WITHOUT_TRAINING = [claim for claim in CLAIMS if claim not in TRAINED]
WITH_DIVERGED = [claim for claim in TRAINED if CLAIMS[claim].diverging]


@pytest.fixture
def worlds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Worlds:
    """Of the study that the test's claim belongs to."""
    found = CLAIMS[request.getfixturevalue("claim")]
    for place, instead in found.patches.items():
        monkeypatch.setattr(place, instead)
    return found


@pytest.mark.parametrize("name", EVERY)
def test_every_claim_has_an_analysis_and_a_test(name: str):
    worlds = EVERY[name]
    assert len(worlds.claims) == worlds.size
    assert {*worlds.claims} == {*worlds.study.analyses}
    assert {*worlds.tables} == {one.id for one in worlds.claims.values() if one.pools}


def test_no_two_claims_have_the_same_id():
    assert len(CLAIMS) == sum(worlds.size for worlds in EVERY.values())


@pytest.mark.parametrize("claim", TRAINED)
def test_a_claim_that_is_true_is_reproduced(claim: str, worlds: Worlds):
    finding = worlds.true_finding(claim)
    judged = worlds.judged(claim, finding)
    assert worlds.claims[claim].verdict(finding) == "reproduced", judged
    assert all(math.isfinite(one.low) and math.isfinite(one.high) for one in judged)
    assert all(one.low <= one.value <= one.high for one in judged)
    wide = any(one.low < one.high for one in judged)
    assert wide == (claim not in worlds.without_interval)


@pytest.mark.parametrize("claim", TRAINED)
def test_a_claim_that_is_false_is_not_reproduced(claim: str, worlds: Worlds):
    finding = worlds.finding(claim, worlds.table(claim, False))
    assert worlds.claims[claim].verdict(finding) == "not reproduced", finding


@pytest.mark.parametrize("claim", WITHOUT_TRAINING)
def test_what_needs_no_models_is_said_without_any(claim: str, worlds: Worlds):
    verdict = worlds.claims[claim].verdict(worlds.true_finding(claim))
    assert verdict == worlds.untrained.get(claim, "reproduced")


@pytest.mark.parametrize("claim", WITH_DIVERGED)
def test_diverged_models_do_not_decide(claim: str, worlds: Worlds):
    table = worlds.spoiled(worlds.table(claim))
    assert (table["status"] == "diverged").any()
    finding = worlds.found(claim, table)
    assert worlds.claims[claim].verdict(finding) == "reproduced"
    assert all(math.isfinite(one.low) for one in worlds.judged(claim, finding))


@pytest.mark.parametrize("claim", TRAINED)
def test_the_order_of_rows_does_not_matter(claim: str, worlds: Worlds):
    shuffled = worlds.table(claim).sample(frac=1.0, random_state=0)
    judged = worlds.judged(claim, worlds.true_finding(claim))
    again = worlds.judged(claim, worlds.found(claim, shuffled))
    for one, other in zip(judged, again, strict=True):
        assert (one.value, one.low, one.high) == pytest.approx((other.value, other.low, other.high))


def lacking(claim: str, worlds: Worlds) -> Iterator[pd.DataFrame]:
    """Tables without the models that a claim is about, or without what was measured of them."""
    table = worlds.table(claim)
    yield pd.DataFrame()
    yield table.iloc[:0]
    yield table[[name for name in ABOUT_THE_MODEL if name in table]]
    yield table.assign(pool="elsewhere")
    if worlds.diverging and claim not in worlds.counts_diverged:
        yield table.assign(status="diverged")


@pytest.mark.parametrize("claim", TRAINED)
def test_without_its_models_a_claim_is_not_run(claim: str, worlds: Worlds):
    for table in lacking(claim, worlds):
        assert worlds.verdict(claim, table) == "not run"


@pytest.mark.parametrize("claim", TRAINED)
def test_one_seed_decides_nothing(claim: str, worlds: Worlds):
    table = worlds.table(claim)
    verdict = worlds.verdict(claim, table[table["seed"] == 0])
    assert verdict == worlds.one_seed.get(claim, "undecided")


@pytest.mark.parametrize("claim", CLAIMS)
def test_findings_can_be_shown(claim: str, worlds: Worlds):
    finding = worlds.true_finding(claim)
    if finding is None:
        assert worlds.untrained[claim] == "not run"
        return
    assert len({one.name for one in finding.estimates}) == len(finding.estimates)
    exhibit = finding.exhibit
    assert (exhibit is None) == (claim in worlds.without_exhibit)
    if exhibit is None:
        return
    assert exhibit.caption.endswith(".")
    assert len(exhibit.table)
    if exhibit.form == "matrix":
        assert np.issubdtype(exhibit.table.to_numpy().dtype, np.number)
    elif exhibit.form != "images":
        assert {"x", "y", "group"} <= {*exhibit.table}
        assert exhibit.table[["x", "y"]].notna().all(axis=None)
    drawn = draw(exhibit)
    assert drawn.startswith("<svg")
    assert "nothing to draw" not in drawn
