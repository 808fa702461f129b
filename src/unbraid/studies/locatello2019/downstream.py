# SPDX-License-Identifier: Apache-2.0
"""Whether disentangled codes make a downstream task easier (slides 50 and 51)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pandas as pd

from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import leave_out_seeds, spearman
from unbraid.studies.locatello2019.agreement import ODD
from unbraid.studies.locatello2019.models import SCORES, models
from unbraid.studies.locatello2019.published import DOWNSTREAM, as_matrix

TASKS = tuple(dict.fromkeys(task for _, task in DOWNSTREAM))
EFFICIENCY = "downstream.trees_efficiency_100"
MOST = "trees_10000"
LESS = "five metrics less modularity, trees after 10,000 samples"
PARTS: Mapping[str, Callable[[str], bool]] = {
    "accuracy of trees": lambda task: task.startswith("trees") and "efficiency" not in task,
    "accuracy of logistic regression": lambda task: (
        task.startswith("logistic") and "efficiency" not in task
    ),
    "efficiency": lambda task: "efficiency" in task,
}
"""Of the paper's table, each compared by itself too: they need not agree alike."""


def downstream_accuracy(table: pd.DataFrame) -> Finding | None:
    """LOC-F5: rank correlations of metrics with accuracies and efficiencies on dSprites."""
    measured = [task for task in TASKS if f"downstream.{task}" in table]
    if f"downstream.{MOST}" not in table:
        return None
    found = models(
        table, [*SCORES, *(f"downstream.{task}" for task in measured)], data=["dsprites"]
    )
    if found is None:
        return None
    paper = {f"{metric} with {task}": value for (metric, task), value in DOWNSTREAM.items()}
    five = [value for (metric, task), value in DOWNSTREAM.items() if task == MOST and metric != ODD]
    paper |= {
        "trees after 10,000 samples, mean of five metrics": float(np.mean(five)),
        LESS: float(np.mean(five) - DOWNSTREAM[ODD, MOST]),
    }
    return Finding(
        leave_out_seeds(
            found.rows, _correlations, paper=paper, within=(-1.0, 1.0), differences=[LESS]
        ),
        Exhibit(
            "matrix",
            _matrix(found.rows),
            "predictor and training samples, or efficiency",
            "metric",
            "Rank correlation of metrics with downstream accuracy.",
            paper=as_matrix(DOWNSTREAM),
        ),
        found.remark,
    )


def _matrix(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each metric, a column for each task."""
    return pd.DataFrame(
        {
            task: [spearman(rows[metric], rows[f"downstream.{task}"]) for metric in SCORES]
            for task in TASKS
            if f"downstream.{task}" in rows
        },
        index=[*SCORES],
    )


def _correlations(rows: pd.DataFrame) -> Mapping[str, float]:
    matrix = _matrix(rows)
    cells = {
        (metric, str(task)): float(value)
        for metric, row in zip(SCORES, matrix.to_numpy(), strict=True)
        for task, value in zip(matrix.columns, row, strict=True)
    }
    five = float(np.mean([cells[metric, MOST] for metric in SCORES if metric != ODD]))
    return {
        "rank correlation with the paper's table": _with_paper(cells),
        "trees after 10,000 samples, mean of five metrics": five,
        LESS: five - cells[ODD, MOST],
        **{
            f"the same, {what}": _with_paper({c: v for c, v in cells.items() if is_one(c[1])})
            for what, is_one in PARTS.items()
        },
        **{f"{metric} with {task}": value for (metric, task), value in cells.items()},
    }


def _with_paper(cells: Mapping[tuple[str, str], float]) -> float:
    return spearman([*cells.values()], [DOWNSTREAM[cell] for cell in cells])


def downstream_efficiency(table: pd.DataFrame) -> Finding | None:
    """LOC-F6: of two models, how often the one with the better score is also the more efficient."""
    found = models(table, [*SCORES, EFFICIENCY], data=["dsprites"])
    if found is None:
        return None
    paper = {
        f"{metric} with efficiency": DOWNSTREAM[metric, "trees_efficiency_100"] for metric in SCORES
    }
    points = pd.DataFrame(
        {
            "x": found.rows["factor_vae_score"],
            "y": found.rows[EFFICIENCY],
            "group": found.rows["objective"],
        }
    )
    return Finding(
        leave_out_seeds(found.rows, _efficiencies, paper=paper, within=(-1.0, 1.0)),
        Exhibit(
            "points",
            points,
            "factor_vae_score",
            "accuracy after 100 over accuracy after 10,000 samples",
            "Statistical efficiency of boosted trees against the FactorVAE score.",
        ),
        found.remark,
    )


def _efficiencies(rows: pd.DataFrame) -> Mapping[str, float]:
    score = rows["factor_vae_score"].to_numpy(dtype=float)
    efficiency = rows[EFFICIENCY].to_numpy(dtype=float)
    above = np.triu_indices(len(rows), 1)
    orders = [np.sign(values[:, None] - values)[above] for values in (score, efficiency)]
    differ = orders[0] != 0  # of equal scores none is the better
    agree = (orders[0] * orders[1])[differ]
    return {
        "better FactorVAE score, higher efficiency": (
            float((agree + 1).mean() / 2) if differ.any() else np.nan
        ),
        **{f"{metric} with efficiency": spearman(rows[metric], efficiency) for metric in SCORES},
    }
