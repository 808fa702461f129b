# SPDX-License-Identifier: Apache-2.0
"""What the study's page opens with: whether the effect is real, how large, and whether it is noise.

Read off dSprites at the stated strengths and at the best of each version; of models of the study
alone, no claim's verdict is repeated.
"""

from __future__ import annotations

import pandas as pd

from unbraid.studies.finding import Estimate, Exhibit, Finding
from unbraid.studies.zietlow2021.effect import (
    OVER_METHODS,
    noise_at_equal_strength,
    noise_at_its_best,
    original_at_its_best,
    seeds_figure,
)
from unbraid.studies.zietlow2021.models import ON_DSPRITES, Models, models, split_remark
from unbraid.studies.zietlow2021.pools import SCALED_METHODS
from unbraid.studies.zietlow2021.settings import MODIFIED, NOISE, ORIGINAL, VERSIONS

NAMES = {"beta_vae": "β-VAE", "beta_tcvae": "β-TCVAE", "factor_vae": "FactorVAE"}
NAMES |= {OVER_METHODS: "mean"}


def answer(table: pd.DataFrame) -> Finding | None:
    """Three sentences and the figure, once the stated strengths are trained on all versions."""
    found = models(table, ON_DSPRITES, VERSIONS, SCALED_METHODS)
    if found is None:
        return None
    told = [_effect(found, table), _noise(table)]
    stated = found.rows.loc[found.rows["scale"] == 1.0]
    return Finding(
        (), _figure(stated), " ".join(filter(None, [*told, split_remark(found), found.remark]))
    )


def _effect(found: Models, table: pd.DataFrame) -> str:
    """How large the effect is, at the stated strengths and at the best of each version."""
    each = []
    for one in SCALED_METHODS:
        means = [found.of(version, one, 1.0)["mig"].mean() for version in (ORIGINAL, MODIFIED)]
        each.append(f"{NAMES[one]} {means[0]:.2f} → {means[1]:.2f}")
    told = (
        "Is the effect real, and how large? Mean MIG from original to modified data at the stated"
        f" strengths: {', '.join(each)}."
    )
    best = original_at_its_best(table)
    if best is None:
        return told
    return f"{told} The original less the modified, each at its best strength: {_each(best)}."


def _noise(table: pd.DataFrame) -> str:
    """Whether noise of the same size takes as much, at equal strengths and at the best ones."""
    equal, best = noise_at_equal_strength(table), noise_at_its_best(table)
    if equal is None:
        return ""
    told = (
        "Does noise explain it? MIG with noise of the same size less MIG with the pattern, at equal"
        f" strengths: {_each(equal)}"
    )
    return f"{told}; each at its best strength: {_each(best)}." if best else f"{told}."


def _each(found: Finding) -> str:
    """Each method's difference with its interval, and whether it is clear."""
    each = [one for one in found.estimates if one.name.endswith("less pattern")]
    return ", ".join(f"{NAMES[one.name.partition(':')[0]]} {_difference(one)}" for one in each)


def _difference(one: Estimate) -> str:
    clear = one.low > 0 or one.high < 0
    unclear = "" if clear else ", not clear"
    return f"{one.value:+.2f} [{one.low:+.2f} to {one.high:+.2f}{unclear}]"


def _figure(rows: pd.DataFrame) -> Exhibit:
    return seeds_figure(
        rows,
        f"MIG of every restart on {ORIGINAL}, {MODIFIED} and {NOISE} data at equal strengths.",
    )
