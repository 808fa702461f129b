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
    loss_at_equal_strength,
    noise_at_equal_strength,
    noise_at_its_best,
    original_at_its_best,
    seeds_figure,
)
from unbraid.studies.zietlow2021.models import ON_DSPRITES, Models, models, split_remark
from unbraid.studies.zietlow2021.pools import SCALED_METHODS
from unbraid.studies.zietlow2021.settings import MODIFIED, NOISE, ORIGINAL, VERSIONS

NAMES = {"beta_vae": "β-VAE", "beta_tcvae": "β-TCVAE", "factor_vae": "FactorVAE"}


def answer(table: pd.DataFrame) -> Finding | None:
    """Three sentences and the figure, once the stated strengths are trained on all versions."""
    found = models(table, ON_DSPRITES, VERSIONS, SCALED_METHODS)
    falls, equal = loss_at_equal_strength(table), noise_at_equal_strength(table)
    if found is None or falls is None or equal is None:
        return None
    told = [
        _asked("Is the effect real?", falls, original_at_its_best(table), "the pattern takes"),
        _asked(
            "Is it more than noise of the same size?",
            equal,
            noise_at_its_best(table),
            "noise leaves",
            " more than the pattern",
        ),
        _each(found),
    ]
    stated = found.rows.loc[found.rows["scale"] == 1.0]
    return Finding(
        (), _figure(stated), " ".join(filter(None, [*told, split_remark(found), found.remark]))
    )


def _asked(question: str, stated: Finding, best: Finding | None, what: str, than: str = "") -> str:
    """A question, whether it is so at the stated strengths and at the best ones, and how large."""
    own = _mean(stated)
    told = (
        f"{question} {_yes_or_no(own)} at the stated strengths: over three methods {what}"
        f" {_size(own)} of MIG{than}."
    )
    if best is None:
        return told
    other = _mean(best)
    return f"{told} {_yes_or_no(other)} with every version at its best strength: {_size(other)}."


def _mean(found: Finding) -> Estimate:
    """The difference that is told of all methods together."""
    return next(
        one
        for one in found.estimates
        if one.name.startswith(OVER_METHODS) and one.name.endswith("less pattern")
    )


def _yes_or_no(one: Estimate) -> str:
    return "Yes" if one.low > 0 else "No, the opposite" if one.high < 0 else "Not clear"


def _size(one: Estimate) -> str:
    return f"{one.value:.2f} [{one.low:.2f} to {one.high:.2f}]"


def _each(found: Models) -> str:
    """Mean MIG of each method on all versions, at the stated strengths."""
    each = []
    for one in SCALED_METHODS:
        means = [found.of(version, one, 1.0)["mig"].mean() for version in VERSIONS]
        each.append(f"{NAMES[one]} {', '.join(f'{mean:.2f}' for mean in means)}")
    return f"Mean MIG on original, patterned and noisy data: {'; '.join(each)}."


def _figure(rows: pd.DataFrame) -> Exhibit:
    return seeds_figure(
        rows,
        f"MIG of every restart on {ORIGINAL}, {MODIFIED} and {NOISE} data at equal strengths.",
    )
