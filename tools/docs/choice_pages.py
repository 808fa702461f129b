# SPDX-License-Identifier: Apache-2.0
"""How good models are that are chosen without labels, from the tables of locatello2019."""

from __future__ import annotations

from tools.docs.study_pages import found
from tools.docs.tables import table
from tools.docs.wrap import wrap
from unbraid.metrics import METRICS
from unbraid.studies.finding import Estimate
from unbraid.studies.locatello2019 import choosing
from unbraid.studies.locatello2019.models import SCORES


def table_of_choices() -> str:
    """A row for each way to choose and data set with its quantiles, and what they come to."""
    _, models, _ = found("locatello2019")
    rows = choosing.choosable(models)
    if rows is None:
        return "No data set has all its models yet."
    known = choosing.estimates(rows)
    data = list(dict.fromkeys(rows["data"]))
    metrics = [METRICS.load(name).label for name in SCORES]
    head = " | ".join(["data", "chosen by", *metrics, "mean but Modularity"])
    cells = [
        (
            name,
            way,
            *(f"{known[f'{name}: {metric}: {way}'].value:.2f}" for metric in SCORES),
            _with_interval(known[f"{name}: {way}"]),
        )
        for name in data
        for way in choosing.WAYS
    ]
    if len(data) > 1:
        cells += [
            ("mean", way, *[""] * len(SCORES), _with_interval(known[way])) for way in choosing.WAYS
        ]
    counts = rows.groupby("data", sort=False)["seed"].nunique().to_dict()
    seeds = ", ".join(f"{name} {count}" for name, count in counts.items())
    return "\n\n".join([table(head, cells), f"Seeds: {seeds}.", wrap(_outcome(models))])


def _outcome(models: object) -> str:
    known = choosing.best_choice(models)
    if known is None:
        return (
            "Nothing is decided yet: the rule asks for whole grids on"
            f" {choosing.LEAST_DATA} data sets besides {choosing.SEEN}, so `run.best()` asks for a"
            " metric."
        )
    if known.trusted:
        return f"`run.best()` without a metric chooses {known.expectation()}."
    return (
        "No way passes the rule, which asks for an interval wholly above"
        f" {choosing.LEAST_QUANTILE:.0%} on data besides {choosing.SEEN}, and for more than half on"
        f" each: `run.best()` asks for a metric. Best did a choice {known.expectation()}."
    )


def _with_interval(one: Estimate) -> str:
    return f"**{one.value:.2f}** [{one.low:.2f}, {one.high:.2f}]"
