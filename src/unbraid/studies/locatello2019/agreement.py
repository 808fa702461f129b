# SPDX-License-Identifier: Apache-2.0
"""Whether metrics rank models alike, and whether scores without labels rank them as metrics do."""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import leave_out_seeds, spearman, spearman_matrix
from unbraid.studies.locatello2019.models import SCORES, models
from unbraid.studies.locatello2019.published import UNSUPERVISED, as_matrix

if TYPE_CHECKING:
    from collections.abc import Mapping

STRONG = (("beta_vae_score", "factor_vae_score"), ("mig", "dci"))
"""The pairs that the paper calls strongly correlated."""
ODD = "modularity"
LESS = "without modularity minus with it"
_UNSUPERVISED_COLUMNS = {
    "reconstruction": "elbo.reconstruction",
    "total_correlation_sampled": "total_correlation_sampled",
    "kl": "elbo.kl",
    "negative_elbo": "elbo",
}


def metric_agreement(table: pd.DataFrame) -> Finding | None:
    """LOC-K2: rank correlations of the six metrics over all models of Noisy-dSprites."""
    found = models(table, SCORES, data=["noisy_dsprites"])
    if found is None:
        return None
    matrix = spearman_matrix(found.rows[[*SCORES]].to_numpy(dtype=float))
    return Finding(
        leave_out_seeds(found.rows, _agreement, within=(-1.0, 1.0), differences=[LESS]),
        Exhibit(
            "matrix",
            pd.DataFrame(matrix, index=[*SCORES], columns=[*SCORES]),
            "metric",
            "metric",
            f"Rank correlation of metrics over all models of {found.data[0]}.",
        ),
        found.remark,
    )


def _agreement(rows: pd.DataFrame) -> Mapping[str, float]:
    matrix = spearman_matrix(rows[[*SCORES]].to_numpy(dtype=float))
    pair = {
        (one, other): matrix[SCORES.index(one), SCORES.index(other)]
        for one, other in combinations(SCORES, 2)
    }
    odd = [value for names, value in pair.items() if ODD in names]
    mild = [v for names, v in pair.items() if ODD not in names and names not in STRONG]
    return {
        **{f"{one} with {other}": float(pair[one, other]) for one, other in STRONG},
        "the other pairs without modularity, mean": float(np.mean(mild)),
        LESS: float(np.mean(mild) - np.mean(odd)),
        "pairs with modularity, mean": float(np.mean(odd)),
    }


def unsupervised_scores(table: pd.DataFrame) -> Finding | None:
    """LOC-K4b: rank correlations of scores that need no labels with the six metrics."""
    columns = [*SCORES, *_UNSUPERVISED_COLUMNS.values()]
    found = models(table, columns, data=["shapes3d", "shapes3d_drawn"])
    if found is None:
        return None
    matrix = _correlations(found.rows)
    if "udr" in found.rows and np.isfinite(found.rows["udr"].to_numpy(dtype=float)).any():
        matrix["udr"] = [spearman(found.rows["udr"], found.rows[name]) for name in SCORES]
    shown = matrix.T
    paper = {f"{row} with {column}": value for (row, column), value in UNSUPERVISED.items()}
    return Finding(
        leave_out_seeds(found.rows, _unsupervised, paper=paper, within=(-1.0, 1.0)),
        Exhibit(
            "matrix",
            shown,
            "metric",
            "score without labels",
            "Rank correlation of scores that need no labels with metrics; UDR is not in the paper.",
            paper=as_matrix(UNSUPERVISED),
        ),
        found.remark,
    )


def _correlations(rows: pd.DataFrame) -> pd.DataFrame:
    """A row for each metric, a column for each score without labels."""
    sign = {"negative_elbo": -1.0}
    return pd.DataFrame(
        {
            name: [spearman(sign.get(name, 1.0) * rows[column], rows[metric]) for metric in SCORES]
            for name, column in _UNSUPERVISED_COLUMNS.items()
        },
        index=[*SCORES],
    )


def _unsupervised(rows: pd.DataFrame) -> Mapping[str, float]:
    matrix = _correlations(rows)
    ours = {
        (str(name), metric): float(value)
        for name, column in zip(matrix.columns, matrix.to_numpy().T, strict=True)
        for metric, value in zip(SCORES, column, strict=True)
    }
    return {
        "largest mean over metrics, in size": float(matrix.mean().abs().max()),
        "rank correlation with the paper's table": spearman(
            [*ours.values()], [UNSUPERVISED[cell] for cell in ours]
        ),
        **{f"{name} with {metric}": value for (name, metric), value in ours.items()},
    }
