# SPDX-License-Identifier: Apache-2.0
"""Priors that latents cannot be turned under, and what β does (figure 1, theorem 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import leave_out_seeds, spearman
from unbraid.studies.mathieu2019.pools import INDEPENDENCE
from unbraid.studies.mathieu2019.rows import Rows, paired, rows_of, seed_means, stand_in

if TYPE_CHECKING:
    from collections.abc import Mapping

SCORE, RECONSTRUCTION = "kim_mnih_score", "elbo.reconstruction"
ISOTROPIC, STUDENT = "isotropic", "student_t"
ANISOTROPIC = ("pca", "pca_learned")
_SETTINGS = ("beta", "prior", "prior_learned")
OVERLAP, WIDTH = "posterior_overlap", "posterior_overlap.width"
INFORMATION, CORRELATION = "elbo.mutual_information", "elbo.total_correlation"


def _found(table: pd.DataFrame, columns: tuple[str, ...], priors: tuple[str, ...]) -> Rows | None:
    """Models with the priors' own names in `kind`, where all of *priors* are there."""
    found = rows_of(table, INDEPENDENCE, columns, _SETTINGS)
    if found is None:
        return None
    learned = found.rows["prior_learned"] == "yes"
    kind = found.rows["prior"].where(found.rows["prior"] != "anisotropic", "pca")
    kind = kind.where(~learned, "pca_learned")
    rows = found.rows.assign(kind=kind)
    if not {*priors} <= {*rows["kind"]}:
        return None
    return Rows(rows, stand_in(found, "dsprites"))


def anisotropic(table: pd.DataFrame) -> Finding | None:
    """MAT-F1a: the Kim-Mnih score of N(0, σ*) beside that of the isotropic prior."""
    return _gains(table, ANISOTROPIC)


def student_t(table: pd.DataFrame) -> Finding | None:
    """MAT-F1b: the same of Student's t."""
    return _gains(table, (STUDENT,))


def _gains(table: pd.DataFrame, priors: tuple[str, ...]) -> Finding | None:
    found = _found(table, (SCORE, RECONSTRUCTION), (ISOTROPIC, *priors))
    if found is None:
        return None
    rows = found.rows
    usual = rows.loc[rows["kind"] == ISOTROPIC]
    estimates = [
        paired(f"{prior} less isotropic", rows.loc[rows["kind"] == prior], usual, SCORE, ["beta"])
        for prior in priors
    ]
    levels = [
        seed_means(f"score of {prior}", part, SCORE)
        for prior, part in rows.groupby("kind", sort=True)
    ]
    return Finding((*estimates, *levels), _trade_off(rows), found.remark)


def cost(table: pd.DataFrame) -> Finding | None:
    """MAT-F1c: how much worse images are decoded, as a share of the isotropic prior's nats."""
    priors = (*ANISOTROPIC, STUDENT)
    found = _found(table, (SCORE, RECONSTRUCTION), (ISOTROPIC, *priors))
    if found is None:
        return None
    rows = found.rows
    usual = rows.loc[rows["kind"] == ISOTROPIC]
    estimates = [
        paired(
            f"cost of {prior}",
            rows.loc[rows["kind"] == prior],
            usual,
            RECONSTRUCTION,
            ["beta"],
            share=True,
        )
        for prior in priors
    ]
    return Finding(tuple(estimates), _trade_off(rows), found.remark)


def _trade_off(rows: pd.DataFrame) -> Exhibit:
    """Figure 1: score against reconstruction, a line a prior along β, ± 2 standard errors."""
    lines = []
    for _, part in rows.groupby(["kind", "beta"], sort=True):
        kind = str(part["kind"].iloc[0])
        error = 2.0 * part[SCORE].std(ddof=1) / len(part) ** 0.5 if len(part) > 1 else float("nan")
        middle = part[SCORE].mean()
        x = part[RECONSTRUCTION].mean()
        lines.append((x, middle, kind, middle - error, middle + error))
    table = pd.DataFrame(lines, columns=["x", "y", "group", "low", "high"])
    return Exhibit(
        "lines",
        table.sort_values(["group", "x"], ignore_index=True),
        "reconstruction error, nats (smaller is better)",
        "Kim-Mnih score",
        "Disentanglement against reconstruction along beta, by prior, with two standard errors.",
    )


def overlap_by_beta(table: pd.DataFrame) -> Finding | None:
    """MAT-TH1b: what a larger β does to overlap, width and information of β-VAEs."""
    columns = (OVERLAP, WIDTH, INFORMATION, CORRELATION)
    found = _found(table, columns, (ISOTROPIC,))
    if found is None:
        return None
    rows = found.rows.loc[found.rows["kind"] == ISOTROPIC]
    shown = pd.DataFrame({"x": rows["beta"], "y": rows[OVERLAP], "group": "isotropic"})
    return Finding(
        leave_out_seeds(rows, _trends, within=(-1.0, 1.0)),
        Exhibit("violins", shown.reset_index(drop=True), "beta", "overlap with the neighbour",
                "Overlap of posteriors by beta."),
        found.remark,
    )  # fmt: skip


def _trends(rows: pd.DataFrame) -> Mapping[str, float]:
    named = {
        "overlap": OVERLAP,
        "width of posteriors": WIDTH,
        "mutual information": INFORMATION,
        "total correlation": CORRELATION,
    }
    return {
        f"trend of {name} with beta": spearman(rows["beta"], rows[column])
        for name, column in named.items()
    }
