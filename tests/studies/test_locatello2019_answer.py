# SPDX-License-Identifier: Apache-2.0
"""What the page of locatello2019 opens with: the paper's numbers against ours."""

from __future__ import annotations

import pandas as pd
import pytest

from unbraid.studies import table
from unbraid.studies.finding import Finding
from unbraid.studies.locatello2019.answer import answer
from unbraid.studies.locatello2019.published import BY_OBJECTIVE, DOWNSTREAM
from unbraid.studies.locatello2019.variance import OBJECTIVE, shares


@pytest.fixture(scope="module")
def models() -> pd.DataFrame:
    return table("locatello2019")


@pytest.fixture(scope="module")
def found(models: pd.DataFrame) -> Finding:
    one = answer(models)
    assert one is not None
    return one


def test_it_has_every_number_that_the_paper_prints_of_the_data_that_are_there(found: Finding):
    assert found.exhibit is not None
    points = found.exhibit.table
    count = points.groupby("group").size().to_dict()
    assert count == {
        "variance by objective": 5 * 6,
        "variance by setting": 5 * 6,
        "settings on other data": 10,
        "scores without labels": 4 * 6,
        "accuracy of trees": 4 * 6,
        "accuracy of logistic regression": 4 * 6,
        "efficiency": 2 * 6,
        "paper": 2,
    }
    line = points.loc[points["group"] == "paper"]
    assert line["x"].tolist() == line["y"].tolist()


def test_its_numbers_are_those_of_the_tables(models: pd.DataFrame, found: Finding):
    assert found.exhibit is not None
    points = found.exhibit.table.set_index("group")
    main = models.loc[models["pool"] == "main"]
    own = shares(main, OBJECTIVE)
    expected = [
        (BY_OBJECTIVE[str(data), metric], own.loc[data, metric])
        for data in own.index
        for metric in own
    ]
    told = points.loc["variance by objective"]
    assert [*zip(told["x"], told["y"], strict=True)] == expected
    trees = points.loc["accuracy of trees", "x"]
    assert sorted(trees) == sorted(
        value for (_, task), value in DOWNSTREAM.items() if task.startswith("trees_1")
    )
    assert f"the objective {own.to_numpy().mean():.0%} (34%)" in found.remark


def test_what_has_no_number_is_neither_drawn_nor_counted(models: pd.DataFrame):
    dsprites = models["data"] == "dsprites"
    found = answer(models.assign(sap=models["sap"].mask(dsprites, 0.5)))
    assert found is not None
    assert found.exhibit is not None
    drawn = found.exhibit.table.query("group != 'paper'")
    assert drawn.notna().all(axis=None)
    assert len(drawn) < 154
    assert f"All {len(drawn)} numbers" in found.exhibit.caption
    two_seeds = answer(models.loc[models["seed"] < 2])
    assert two_seeds is not None
    assert "nan" not in two_seeds.remark
    assert answer(models.loc[models["seed"] < 1]) is None


def test_it_waits_for_all_of_its_tables(models: pd.DataFrame):
    assert answer(models.iloc[:0]) is None
    assert answer(models.loc[models["data"] != "color_dsprites"]) is None
