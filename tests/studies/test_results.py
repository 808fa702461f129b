# SPDX-License-Identifier: Apache-2.0
"""Tables of a study: kept with their provenance, refused where they are not of today's slices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

import unbraid as ub
from unbraid.core.errors import DamagedFileError, InputError
from unbraid.core.store import read_about_table
from unbraid.studies.results import ABOUT_THE_MODEL, Results, ordered, stacked
from unbraid.studies.study import Study


def rows(pool: str, name: str, **more: object) -> pd.DataFrame:
    lead = (pool, name, "sprites", "beta_vae", 4.0, "beta", 0, 20, 1e-3, "trained")
    return pd.DataFrame([dict(zip(ABOUT_THE_MODEL, lead, strict=True)) | more])


def fill(results: Results, *names: str, **provenance: object) -> None:
    for pool, one in results.slices():
        if one.name in names:
            results.write(pool, one, rows(pool.name, one.name, mig=0.5), provenance)


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_table_says_what_it_was_made_from(results: Results):
    fill(results, "beta-4", device="a machine", training_seconds=3.5)
    pool, one = results.slices()[1]
    assert results.done(pool, one)
    assert results.path(pool, one) == results.folder / "small" / "main" / "beta-4.parquet"
    about = read_about_table(results.path(pool, one))
    assert (about["study"], about["scale"], about["first_seed"]) == ("toy", "small", 0)
    assert about["definition"]["objective"] == [["beta_vae", {"beta": 4.0}]]
    assert (about["device"], about["training_seconds"]) == ("a machine", 3.5)
    assert results.read(pool, one).equals(rows("main", "beta-4", mig=0.5))


def test_all_tables_are_one_in_the_order_of_the_slices(results: Results):
    fill(results, "annealed", "beta-4", "beta-1")
    table = results.table()
    assert table["slice"].tolist() == ["beta-1", "beta-4", "annealed"]
    assert table.equals(ub.studies.table("toy", scale="small"))


def test_without_tables_there_are_no_models(toy: Study):
    table = ub.studies.table("toy")
    assert list(table.columns) == list(ABOUT_THE_MODEL)
    assert len(table) == 0


def test_columns_have_one_order_whoever_comes_first():
    names = ["factors", "dci", "mig_sampled", "mig", "seed", "pool", "elbo.kl", "elbo", "other"]
    expected = ["pool", "seed", "mig", "mig_sampled", "dci", "elbo", "elbo.kl", "other", "factors"]
    assert ordered(names) == expected
    assert ordered(reversed(names)) == expected


def test_what_a_table_does_not_have_is_missing():
    one, other = rows("a", "x", mig=0.5), rows("b", "y", sap=0.25, kl_by_latent=[1.0])
    table = stacked([one, other])
    assert list(table.columns)[10:] == ["mig", "sap", "kl_by_latent"]
    assert table["mig"].tolist()[0] == 0.5
    assert table["mig"].isna().tolist() == [False, True]
    assert table["kl_by_latent"][0] is None
    assert table["seed"].dtype == int


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_a_damaged_table_is_named_with_a_remedy(results: Results, place: float):
    fill(results, "beta-1", "beta-4")
    path = results.path(*results.slices()[1])
    content = bytearray(path.read_bytes())
    content[int(place * len(content))] ^= 1
    path.write_bytes(content)
    before = contents(results.folder)
    for call in (results.table, results.check):
        with pytest.raises(DamagedFileError) as caught:
            call()
        told = str(caught.value)
        assert str(path) in told
        assert told.endswith("make it again: unbraid study run toy --scale small")
    assert contents(results.folder) == before


def test_a_table_of_another_version_of_the_study_is_refused(toy: Study, refused, monkeypatch):
    fill(Results(toy, "small"), "beta-1", versions={"unbraid": "0.0.7"})
    monkeypatch.setenv("TOY_STEPS", "24")
    results = Results(toy, "small")
    before = contents(results.folder)
    with pytest.raises(InputError) as caught:
        results.table()
    (problem,) = caught.value.problems
    assert problem.name == str(results.path(*results.slices()[0]))
    assert (problem.rule, problem.value) == (
        "must be of study toy as it is today",
        "another steps",
    )
    assert "unbraid 0.0.7" in problem.remedy
    assert contents(results.folder) == before


def test_a_table_of_a_slice_that_is_gone_is_refused(results: Results, refused):
    pool, one = results.slices()[0]
    results.write(pool, replace(one, name="gone"), rows("main", "gone"), {})
    ((name, _, value),) = refused(results.table)
    assert name.endswith("gone.parquet")
    assert value == "a slice that it no longer has"


def test_tables_of_other_seeds_are_refused(toy: Study, tmp_path: Path, refused):
    fresh = tmp_path / "fresh"
    fill(Results(toy, "small", fresh, 100), "beta-1")
    for first in (0, 50):
        ((name, rule, value),) = refused(Results(toy, "small", fresh, first).check)
        assert (name, rule) == ("results", f"must hold tables of seeds from {first} on")
        assert value.endswith("beta-1.parquet with seeds from 100 on")


def test_seeds_in_the_names_of_slices_are_told_as_seeds(toy: Study, tmp_path: Path, refused):
    from unbraid.studies import STUDIES

    study, fresh = STUDIES.load("locatello2019"), tmp_path / "fresh"
    made = Results(study, "small", fresh, 1000)
    pool, one = made.slices()[0]
    made.write(pool, one, rows(pool.name, one.name), {})
    ((name, rule, value),) = refused(Results(study, "small", fresh, 0).check)
    assert (name, rule) == ("results", "must hold tables of seeds from 0 on")
    assert value.endswith(f"{one.name}.parquet with seeds from 1000 on")


def test_fresh_seeds_are_read_as_they_are(toy: Study, tmp_path: Path):
    fresh = tmp_path / "fresh"
    fill(Results(toy, "small", fresh, 100), "beta-1")
    assert Results(toy, "small", fresh).first_seed == 100
    assert len(ub.studies.table("toy", scale="small", results=fresh)) == 1


def test_unknown_studies_and_scales_are_refused(toy: Study, refused):
    assert refused(ub.studies.table, "toi")[0] == ("study", "is unknown", "toi")
    assert refused(ub.studies.table, "toy", scale="big")[0] == ("scale", "is unknown", "big")
