# SPDX-License-Identifier: Apache-2.0
"""Every claim gets a verdict, and what was not run says why."""

from __future__ import annotations

import dataclasses

import pandas as pd

from unbraid.report.study.words import command
from unbraid.studies.results import Results, stacked
from unbraid.studies.study import Study
from unbraid.studies.verdicts import judge, within_reach

from .test_results import rows

RUN = "unbraid study run toy --scale small --pool"


def both(kl: float) -> pd.DataFrame:
    """Models of both slices of the pool `main`."""
    return stacked([rows("main", name, **{"elbo.kl": kl}) for name in ("beta-1", "beta-4")])


def verdicts(results: Results, *tables: pd.DataFrame) -> dict[str, tuple[str, str]]:
    return {one.claim.id: (one.verdict, one.why) for one in judge(results, stacked(list(tables)))}


def test_nothing_was_run(results: Results):
    assert verdicts(results) == {
        "TOY-1": ("not run", f"No models of main on sprites yet: {RUN} main"),
        "TOY-2": ("not run", "Needs the published file of cars3d."),
        "TOY-3": ("not run", f"No models of stages yet: {RUN} stages"),
    }


def test_a_scale_can_speak_of_claims_whose_pools_it_has(toy: Study):
    assert [one.id for one in within_reach(Results(toy, "small"))] == ["TOY-1", "TOY-2", "TOY-3"]
    claims = tuple(
        dataclasses.replace(one, pools=(), data=("faces",)) if one.id == "TOY-1" else one
        for one in toy.claims
    )
    toy.__dict__["claims"] = claims
    fewer = dataclasses.replace(toy, pools=lambda scale, seed: toy.pools(scale, seed)[:2])
    fewer.__dict__["claims"] = claims
    assert [one.id for one in within_reach(Results(fewer, "small"))] == ["TOY-3"]


def test_both_verdicts_are_reached(results: Results):
    good, bad = both(2.0), both(-1.0)
    assert verdicts(results, good)["TOY-1"] == ("reproduced", "")
    assert verdicts(results, bad)["TOY-1"] == ("not reproduced", "")
    assert verdicts(results, good, bad)["TOY-1"] == ("undecided", "")
    (first, *_) = judge(results, stacked([good, bad]))
    assert first.finding is not None
    assert first.finding.estimate("kl").value == 0.5


def test_an_analysis_without_its_models_says_that_they_are_missing(results: Results):
    found = verdicts(results, both(float("nan")))
    assert found["TOY-1"] == ("not run", "The models it needs are not in pool main.")


def test_models_that_another_study_lacks_are_named_with_it(results: Results):
    claims = tuple(
        dataclasses.replace(claim, beside=("locatello2019",)) for claim in results.study.claims
    )
    results.study.__dict__["claims"] = claims  # as if the file had said so
    why = (
        "The models it needs on sprites are not in pool main or not in the tables of locatello2019."
    )
    assert verdicts(results, both(float("nan")))["TOY-1"] == ("not run", why)


def test_a_part_of_a_pool_is_not_judged(results: Results):
    found = verdicts(results, rows("main", "beta-1", **{"elbo.kl": 2.0}))
    assert found["TOY-1"] == ("not run", f"1 of 2 slices are made: {RUN} main")


def test_a_part_of_a_pool_names_the_data_that_are_still_without_models(results: Results):
    (main, *_) = results.pools
    first, second = main.slices
    second.plan["data"] = "scream_dsprites"
    data = ("sprites", "scream_dsprites")
    claims = tuple(dataclasses.replace(claim, data=data) for claim in results.study.claims)
    results.study.__dict__["claims"] = claims  # as if the file had said so
    found = verdicts(results, rows("main", first.name, **{"elbo.kl": 2.0}))
    told = f"1 of 2 slices are made, none on scream_dsprites: {RUN} main"
    assert found["TOY-1"] == ("not run", told)


def test_data_that_is_lacking_is_named_beside_a_verdict(results: Results):
    claims = tuple(
        dataclasses.replace(claim, data=("sprites", "cars3d", "dsprites"))
        for claim in results.study.claims
    )
    results.study.__dict__["claims"] = claims  # as if the file had said so
    found = verdicts(results, both(2.0))
    assert found["TOY-1"] == (
        "reproduced",
        "The scale small trains none on dsprites. Needs the published file of cars3d.",
    )


def test_commands_are_for_the_folder_and_the_seeds_at_hand(results: Results, tmp_path):
    other = Results(results.study, "small", tmp_path / "fresh", 100)
    told = verdicts(other)["TOY-1"][1]
    assert told.endswith(f"{RUN} main --results {tmp_path / 'fresh'} --first-seed 100")


def test_a_claim_of_another_scale_says_which(results: Results):
    claims = tuple(dataclasses.replace(claim, scale="paper") for claim in results.study.claims)
    results.study.__dict__["claims"] = claims  # as if the file had said so
    found = verdicts(results, both(2.0))
    why = "Only the scale `paper` trains what it asks for."
    assert found["TOY-1"] == ("not run", why)
    assert found["TOY-2"] == ("not run", f"{why} Needs the published file of cars3d.")
    assert command(results, claims[0]) == "unbraid study run toy --scale paper --pool main"
    assert within_reach(results) == ()
    there = Results(results.study, "paper", results.folder)
    assert {one.claim.id: one.verdict for one in judge(there, both(2.0))}["TOY-1"] == "reproduced"


def test_a_claim_without_an_analysis_is_not_run(results: Results):
    results.study.__dict__["analyses"] = {}
    assert {verdict for verdict, _ in verdicts(results).values()} == {"not run"}
    assert verdicts(results)["TOY-1"][1] == "It has no analysis yet."
