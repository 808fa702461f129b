# SPDX-License-Identifier: Apache-2.0
"""What the study of Mathieu et al. 2019 trains at each scale, and its page from whole tables."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tests.studies import mathieu2019_tables as tables
from tests.studies.locatello2019_world import PROVENANCE
from tests.studies.mathieu2019_tables import WORLDS
from tests.studies.worlds import SCALES

import unbraid as ub
from unbraid.data import load
from unbraid.data.official.add import add
from unbraid.population.plan import make_plan
from unbraid.report.study.context import write_study
from unbraid.studies.definition import definition, model_steps, models
from unbraid.studies.mathieu2019 import STUDY
from unbraid.studies.mathieu2019.pools import KIM_MNIH, PILOT, PRIORS, SPARSITY
from unbraid.studies.results import Results
from unbraid.studies.verdicts import judge

plan_of, slices = WORLDS.plan, WORLDS.slices


def test_the_reduced_study_is_as_large_as_planned():
    by_pool = Counter()
    for pool, one in slices("gpu"):
        by_pool[pool.name] += model_steps(definition(one))
    assert by_pool["independence"] == 4 * 4 * 8 * 60_000
    assert by_pool["sparsity"] == 2 * 5 * 5 * 9_600
    assert by_pool["pinwheel"] == 8 * 10 * 500
    assert sum(by_pool.values()) < 11e6


def test_the_paper_trained_a_hundred_networks_a_setting():
    found = [one for pool, one in slices("paper") if pool.name == "independence"]
    assert {models(definition(one)) for one in found} == {100}
    assert {one.plan["steps"] for one in found} == {230_400}
    assert len(found) == 16


def test_members_have_the_priors_of_figure_1():
    one = next(one for pool, one in slices("gpu") if pool.name == "independence")
    plan = plan_of(one)
    found = Counter((each.prior, each.prior_hyper.get("learned")) for each in plan.members)
    assert found == {
        **dict.fromkeys([("isotropic", None), ("anisotropic", "no")], 8),
        **dict.fromkeys([("anisotropic", "yes"), ("student_t", None)], 8),
    }
    assert {each.prior_hyper.get("df") for each in plan.members} == {None, 9.0}
    assert (plan.amsgrad, plan.network, plan.latents) == (True, "conv_mathieu", 10)
    assert plan.code_samples == len(load("dsprites"))
    assert KIM_MNIH in one.metrics
    assert len(PRIORS) == 4


def test_the_pinwheel_is_trained_as_its_authors_did():
    (one,) = [one for pool, one in slices("gpu") if pool.name == "pinwheel"]
    plan = plan_of(one)
    assert (plan.full_batch, plan.batch_size, plan.steps, plan.amsgrad) == (True, 400, 500, True)
    assert (plan.likelihood, plan.precision) == ("gaussian:scale=decoded", "float32")
    assert plan.network_options["start"] == "torch"
    pairs = {(each.hyper["alpha"], each.hyper["beta"]) for each in plan.members}
    wanted = {(alpha, 0.0) for alpha in (1.0, 3.0, 5.0, 8.0)}
    assert pairs == wanted | {(0.0, beta) for beta in (0.01, 0.5, 1.0, 1.2)}


def test_reasons_change_one_thing_each():
    found = {
        one.name.removeprefix("pinwheel-").split("-seeds")[0]: plan_of(one)
        for pool, one in slices("gpu")
        if pool.name == "reasons"
    }
    assert found["fixed-scale"].likelihood == "gaussian:scale=0.1"
    assert found["one-scale"].likelihood == "gaussian:scale=learned"
    assert found["many-points"].batch_size == 4_000
    assert {each.hyper["divergence"] for each in found["mmd"].members} == {"mmd_joint"}
    assert found["long"].steps == 5_000
    for name, plan in found.items():
        assert plan.full_batch, name
        assert len(plan.members) == 40


def test_clothes_are_scored_on_the_real_test_images(shared, tmp_path, monkeypatch):
    monkeypatch.setenv("UNBRAID_DATA", str(tmp_path))
    add("fashion_mnist", shared / "data" / "fashion_mnist", quiet=True)
    pool = WORLDS.pool("gpu", SPARSITY)
    assert pool.needs == ("fashion_mnist",)
    plan, dataset = make_plan(**pool.slices[2].plan)
    assert dataset.image_shape == (32, 32, 1)
    assert (len(dataset.training_indices), len(dataset.scoring_indices)) == (60_000, 10_000)
    assert plan.batch_size * plan.steps == 80 * 60_000
    gammas = {one.prior_hyper["gamma"] for one in plan.members}
    assert (gammas, {one.hyper["alpha"] for one in plan.members}) == ({0.0, 0.8}, {100.0})


def test_seeds_begin_where_they_are_told_and_the_pilots_are_its_own():
    for scale in SCALES:
        seeds = {seed for pool, one in slices(scale, 500) for seed in one.plan["seeds"]
                 if pool.name != PILOT}  # fmt: skip
        assert min(seeds) == 500
        assert max(seeds) < 1_500
    pilot = [one for pool, one in slices("gpu") if pool.name == PILOT]
    assert [one.plan["seeds"] for one in pilot] == [[1_000]]
    assert not any(PILOT in claim.pools for claim in STUDY.claims)


def test_claims_are_about_all_data_of_their_pools():
    for claim in STUDY.claims:
        for name in claim.pools:
            assert {one.plan["data"] for one in WORLDS.pool("gpu", name).slices} == {*claim.data}


def write_world(results: Results) -> None:
    """The tables of every slice but the pilot's, in which all claims are true."""
    made = {
        "independence": tables.independence(True, ""),
        "sparsity": tables.sparsity(True, ""),
        "pinwheel": tables.pinwheel(True, ""),
        "overlap": tables.overlap(True),
        "species": tables.species(True),
    }
    for pool, one in results.slices():
        if pool.name not in made:
            continue
        rows = made[pool.name].query("seed in @one.plan['seeds']")
        apart = rows["slice"].nunique() > 1
        if apart:
            own = one.name.split("-seeds")[0]
            rows = rows[rows["slice"] == own]
        elif pool.name == "species":
            matched = rows["objective"] == "decomposition"
            rows = rows[matched if "matched" in one.name else ~matched]
        assert len(rows) == models(definition(one)), one.name
        kept = rows.assign(slice=one.name, steps=one.plan["steps"]).reset_index(drop=True)
        results.write(pool, one, kept, PROVENANCE)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    found = Results(STUDY, "gpu", tmp_path_factory.mktemp("world"))
    write_world(found)
    return found


@pytest.mark.slow
def test_from_files_every_claim_is_reproduced_and_the_page_shows_three_figures(results, tmp_path):
    judged = {one.claim.id: one for one in judge(results)}
    assert {one.verdict for one in judged.values()} == {"reproduced"}
    page = write_study(tmp_path / "page.html", results).read_text("utf-8")
    assert "15 claims: 15 reproduced" in page
    forms = {name: one.finding.exhibit.form for name, one in judged.items() if one.finding.exhibit}
    assert (forms["MAT-F1a"], forms["MAT-F2a"], forms["MAT-F3b"]) == ("lines", "images", "images")
    assert (forms["MAT-F3a"], forms["MAT-F3c"]) == ("matrix", "lines")
    assert page.count("data:image/png;base64") >= 2 * (2 * 2 * 4 + 6 * 9)
    assert "trouser" in page
    pictures = judged["MAT-F3b"].finding.exhibit.table
    assert [*pictures.index][:2] == ["latent 49", "latent 30"]
    assert pictures.iat[0, 8][5, 5] == 190


def test_a_part_of_a_pool_is_not_judged(results, tmp_path):
    part = Results(STUDY, "gpu", tmp_path)
    for pool, one in results.slices():
        if pool.name == "independence" and "beta-8" not in one.name:
            part.write(pool, one, results.read(pool, one), PROVENANCE)
    judged = {one.claim.id: one for one in judge(part)}
    assert judged["MAT-F1a"].verdict == "not run"
    assert "3 of 4 slices are made" in judged["MAT-F1a"].why


@pytest.mark.slow
def test_the_small_pinwheel_from_end_to_end(tmp_path: Path):
    done = ub.study.run("mathieu2019", scale="small", pool="pinwheel,overlap", results=tmp_path,
                        device="cpu", quiet=True)  # fmt: skip
    assert len(done.ended.made) == 2
    table = Results(STUDY, "small", tmp_path).table()
    assert len(table) == 33
    assert np.isfinite(table[["aggregate.kl", "aggregate.width"]].to_numpy()).all()
    assert isinstance(table, pd.DataFrame)
    verdicts = {one.claim.id: one.verdict for one in ub.study.check("mathieu2019", scale="small",
                                                                    results=tmp_path)}  # fmt: skip
    assert verdicts["MAT-F2a"] != "not run"
    assert verdicts["MAT-D"] != "not run"
    assert verdicts["MAT-F1a"] == "not run"
