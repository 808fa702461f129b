# SPDX-License-Identifier: Apache-2.0
"""What the study's page opens with: whether models without labels beat the six methods (figure 4).

The numbers are those of EST-F4a; no verdict is repeated.
"""

from __future__ import annotations

from unbraid.studies.estermann2020 import baselines
from unbraid.studies.estermann2020.models import LABELS, SCORES, Frame
from unbraid.studies.finding import Estimate, Finding


def answer(table: Frame) -> Finding | None:
    """Three sentences and the figure, once two recursions on dSprites are whole."""
    found = baselines.against_six_methods(table, "dsprites")
    if found is None:
        return None
    best = {LABELS[name]: f"{LABELS[name]} less the best method's mean" for name in SCORES}
    gains = [f"{name} {_signed(found.estimate(told))}" for name, told in best.items()]
    above = found.estimate("share of seeds with MIG above the best median")
    spread = found.estimate("spread of MIG over that of the methods")
    told = (
        "Are good models found without labels? Mean scores of rPU-VAE on dSprites less those of the"
        f" best of six methods: {', '.join(gains)}. {round(above.value * above.count)} of"
        f" {above.count} seeds have a MIG above the best method's median. Their spread is"
        f" {_ends(spread, '.2f')} times that within the methods."
    )
    return Finding((), found.exhibit, f"{told} {found.remark}")


def _signed(one: Estimate) -> str:
    """A difference, and whether it is clear."""
    unclear = "" if one.low > 0 or one.high < 0 else ", not clear"
    return _ends(one, "+.2f", unclear)


def _ends(one: Estimate, spelling: str, more: str = "") -> str:
    value, low, high = (f"{number:{spelling}}" for number in (one.value, one.low, one.high))
    return f"{value} [{low} to {high}{more}]"
