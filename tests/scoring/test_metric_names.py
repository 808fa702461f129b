# SPDX-License-Identifier: Apache-2.0
"""Which metrics a request means: names and groups, with and without factors."""

from __future__ import annotations

from unbraid.core.errors import Problems
from unbraid.metrics import METRICS
from unbraid.scoring.metric_names import (
    FAMILIES,
    USUAL,
    WITHOUT_FACTORS,
    known_words,
    metric_names,
    needs,
    options,
    revision,
)


def names(*words: str, labelled: bool = True, possible: list[str] | None = None) -> list[str]:
    problems = Problems()
    found = metric_names(words, problems, labelled=labelled, possible=possible)
    assert [str(one) for one in problems.found] == []
    return found


def test_groups_are_spelled_out_and_nothing_comes_twice() -> None:
    assert names("usual") == list(USUAL)
    assert names("sap", "usual", "sap") == ["sap", *(name for name in USUAL if name != "sap")]
    assert names("all") == sorted(METRICS)


def test_families_share_out_all_metrics() -> None:
    parts = [names(family) for family in FAMILIES]
    assert sorted(name for part in parts for name in part) == sorted(METRICS)
    assert all(parts)
    assert "mig" in parts[0]
    assert "total_correlation" in parts[1]
    assert "downstream" in parts[2]


def test_without_factors_groups_mean_what_can_be_computed() -> None:
    needing_factors = names("all", labelled=False)
    assert needing_factors == sorted(name for name in METRICS if needs(name) in WITHOUT_FACTORS)
    assert "udr" in needing_factors
    assert names("unsupervised", "all", labelled=False, possible=["codes"]) == [
        name for name in needing_factors if needs(name) == "codes"
    ]


def test_a_group_with_nothing_to_compute_is_said() -> None:
    problems = Problems()
    assert metric_names(["supervised"], problems, labelled=False) == []
    (problem,) = problems.found
    assert (problem.name, problem.value) == ("metrics", ["supervised"])
    assert "{metrics=unsupervised}" in problem.remedy
    assert names("usual", labelled=False) == names("unsupervised", labelled=False)


def test_unknown_words_are_told_with_the_nearest() -> None:
    problems = Problems()
    metric_names(["mgi", "unsuperwised", "mig"], problems, labelled=True)
    assert [(one.name, one.rule, one.value) for one in problems.found] == [
        ("metric", "is unknown", "mgi"),
        ("metric", "is unknown", "unsuperwised"),
    ]
    assert all(", ".join(sorted(known_words())) in one.remedy for one in problems.found)


def test_options_are_read_as_everywhere() -> None:
    name = "some:bins=1e3,alpha=0.5,exact=True,compat=null,method=lasso,train_sizes=10,100"
    assert options(name) == {
        "bins": 1000,
        "alpha": 0.5,
        "exact": True,
        "compat": None,
        "method": "lasso",
        "train_sizes": [10, 100],
    }
    assert options("mig:") == options("mig") == {}


def test_a_revision_follows_the_options_whose_numbers_changed() -> None:
    assert revision("dci_es") == revision("dci_es:trees=3") == 2
    assert revision("sap") == revision("sap:standardise=true") == 1
    assert revision("sap:continuous=true") == 2
