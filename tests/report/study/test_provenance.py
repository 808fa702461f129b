# SPDX-License-Identifier: Apache-2.0
"""What a page tells of the models of a study."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd

from unbraid.report.study.provenance import provenance
from unbraid.studies.pool import Pool, Slice
from unbraid.studies.results import Results

from ...studies import toy_study

PLAN = toy_study.SMALL | {
    "objective": "beta_vae:beta=1,4",
    "prior": ["isotropic", "student_t:df=5", "student_t:df=9"],
    "seeds": [0, 1],
    "steps": 20,
}


def test_models_that_differ_by_their_prior_alone_are_as_many(tmp_path: Path):
    """At each of two stages, one of them diverged before the first."""
    one = Slice("priors", PLAN, ("mig",), stages=(10,))
    study = replace(
        toy_study.make_study(tmp_path), pools=lambda scale, seed: (Pool("main", "all", (one,)),)
    )
    results = Results(study, "small", tmp_path / "results")
    known = {"pool": "main", "slice": "priors", "data": "sprites", "strength_name": "beta"}
    known |= {"objective": "beta_vae", "learning_rate": 1e-3}
    rows = [
        known | {"strength": beta, "seed": seed, "steps": 4 if lost else steps}
        | {"status": "diverged" if lost else "trained"}
        for steps in (10, 20)
        for beta in (1.0, 4.0)
        for prior in range(3)
        for seed in (0, 1)
        for lost in [(beta, prior, seed) == (4.0, 2, 1)]
    ]  # fmt: skip
    results.write(*results.part("main/priors"), pd.DataFrame(rows), {"date": "2026-01-01"})
    made = provenance(results, results.table())
    assert dict(made.facts)["Models"] == "12, 1 of them diverged"
    assert [one.models for one in made.pools] == [12]
    assert dict(made.facts)["Training steps"] == "20"
