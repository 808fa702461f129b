# SPDX-License-Identifier: Apache-2.0
"""The tables of a run are read right, and the best member is the best."""

import math

import pandas as pd
import pytest

from unbraid.codes.codes import CodeStore
from unbraid.commands.run import Run
from unbraid.metrics.mig import mig
from unbraid.report.train.run_summary import Metric, choose_best, final_values, summarise

FREE = (-math.inf, math.inf)


def test_final_values_are_the_last_finite_records_of_healthy_members() -> None:
    history = pd.DataFrame(
        {
            "member": [0, 0, 1, 1, 2],
            "step": [1, 2, 1, 2, 1],
            "kl": [1.0, 2.0, 3.0, math.nan, 9.0],
            "total_correlation": [math.nan] * 5,
            "loss": [5.0, 4.0, 3.0, math.inf, 9.0],
        }
    )
    found = final_values(history, [0, 1])
    assert list(found) == ["loss", "kl", "total_correlation"]
    assert found == {"loss": {0: 4.0}, "kl": {0: 2.0, 1: 3.0}, "total_correlation": {}}


def test_choice_by_mig_then_by_loss_then_by_order() -> None:
    scored = Metric("mig", "MIG", "", FREE, {0: 0.1, 2: 0.5, 1: 0.5})
    assert choose_best([scored], {"loss": {0: 1.0}}, [0, 1, 2], labelled=True) == (
        1,
        0.5,
        "the highest MIG",
    )
    best, score, rule = choose_best([], {"loss": {0: 2.0, 3: 1.0}}, [0, 3], labelled=False)
    assert (best, score) == (3, None)
    assert (
        rule
        == "the lowest final loss (without factors, UDR of several seeds would be a better judge; "
        "losses of different settings weigh their terms differently)"
    )
    others = [
        Metric("hoyer", "Hoyer", "", FREE, {0: 0.9, 3: 0.1}),
        Metric("udr", "UDR", "", FREE, {0: 0.2, 3: 0.2, 5: 0.1}),
    ]
    best, score, rule = choose_best(others, {"loss": {0: 2.0, 3: 1.0}}, [0, 3, 5], labelled=False)
    assert (best, score, rule) == (0, None, "the highest UDR, agreement with models of other seeds")
    assert choose_best([], {"loss": {}}, [4, 5], labelled=True) == (
        4,
        None,
        "the first trained (no loss was recorded)",
    )
    assert choose_best([], {}, [], labelled=True) == (None, None, "")


def test_stored_scores_are_used(runs: dict[str, Run]) -> None:
    run = runs["sweep"]
    found = summarise(run.folder)
    table = run.score(["mig", "sap"], quiet=True)
    assert found.stored_metrics == ["mig", "sap"]
    assert [metric.label for metric in found.metrics] == ["MIG", "SAP"]
    for metric in found.metrics:
        assert metric.scores == pytest.approx(
            {index[0]: value for index, value in table[metric.name].items()}
        )
    assert found.best == table["mig"].idxmax()[0]
    assert found.best_metric == pytest.approx(table["mig"].max())


def test_mig_is_computed_where_it_is_not_stored(runs: dict[str, Run]) -> None:
    found = summarise(runs["diverged"].folder)
    codes = CodeStore(runs["diverged"].folder).load(1)
    assert not found.scores_stored
    assert found.metrics[0].scores[1] == pytest.approx(mig(codes.mean, codes.factors).score)
    assert set(found.metrics[0].scores) == {0, 1}
    assert found.diverged == {2, 3}
    assert found.trained == 2


def test_members_looked_at_are_the_best_of_each_setting(runs: dict[str, Run]) -> None:
    found = summarise(runs["sweep"].folder)
    shown = found.shown(6)
    assert len(shown) == 3
    assert shown[0] == (found.best, "best of the run")
    for member, why in shown[1:]:
        own = next(setting.members for setting in found.settings if member in setting.members)
        assert found.metrics[0].scores[member] == max(found.metrics[0].scores[one] for one in own)
        assert why == "best of its setting"
    assert len(found.shown(2)) == 2


def test_settings_whose_members_all_diverged_are_not_looked_at(runs: dict[str, Run]) -> None:
    found = summarise(runs["diverged"].folder)
    assert [member for member, _ in found.shown(6)] == [found.best]
    assert summarise(runs["all_diverged"].folder).shown(6) == []
