# SPDX-License-Identifier: Apache-2.0
"""What is counted of the codes of every member that is scored, and what must be known of its scores
for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unbraid.codes.codes import CodeStore
from unbraid.metrics import METRICS
from unbraid.population.run_folder import RunFolder
from unbraid.scoring.collapse import ACTIVE, count_active, least_active
from unbraid.scoring.few_samples import few_samples, few_samples_remark
from unbraid.scoring.metric_names import base, needs
from unbraid.scoring.scale import LatentScale, depends, scale_remark
from unbraid.scoring.score_table import stored_scores

if TYPE_CHECKING:
    import pandas as pd

COUNT, DEVIATION, OFFSET = _COUNTED = ("count", "widest_deviation", "widest_offset")
"""What is counted of the codes of each member when it is scored: active latents; of the widest one
the standard deviation, and the distance of its mean from 0 in standard deviations.
"""


def active_latents(run: RunFolder, members: Sequence[int]) -> dict[int, int]:
    """How many latents each of *members* uses, as stored with its scores or else by its codes."""
    return {one: int(own[COUNT]) for one, own in _all_counted(run, members, COUNT).items()}


def varying_factors(run: RunFolder) -> int:
    """How many factors of the run's data take more than one value; 0 where none are known."""
    dataset = run.dataset
    return sum(size > 1 for size in dataset.factor_sizes) if dataset.labelled else 0


def collapsed_members(run: RunFolder, members: Sequence[int]) -> dict[int, int]:
    """Those of *members* that are collapsed, with their numbers of active latents."""
    least = least_active(run.plan.latents, varying_factors(run))
    return {one: count for one, count in active_latents(run, members).items() if count < least}


def few_samples_lines(run: RunFolder, metrics: Sequence[str], members: Sequence[int]) -> list[str]:
    """What must be known of scores of *members* by *metrics* that need more samples, if any do."""
    if not members:
        return []
    codes = CodeStore(run).load(members[0])  # all members see the same images
    rows, latents = codes.mean.shape
    factors = codes.factors if run.dataset.labelled else None
    few = few_samples([name for name in metrics if base(name) in METRICS], rows, latents, factors)
    return [few_samples_remark(few, rows, factors)] if few else []


def scale_lines(run: RunFolder, metrics: Sequence[str], members: Sequence[int]) -> list[str]:
    """What must be known of scores by *metrics* of *members* on an unusual scale, if any are.

    By the means of their posteriors, for samples too: in the widest latent noise is least. Metrics
    that measure from the prior are left out: it is these models' own.
    """
    of_prior = ("posterior", "elbo", "population")
    metrics = [name for name in metrics if depends(name) and needs(name) not in of_prior]
    if not metrics:
        return []
    scales = [
        LatentScale(one[DEVIATION], one[DEVIATION], one[OFFSET])
        for one in _all_counted(run, members, DEVIATION, OFFSET).values()
        if one[DEVIATION] > 0
    ]
    told = scale_remark(metrics, scales, every_latent=False)
    return [told] if told else []


def _counted(stored: pd.DataFrame) -> dict[int, dict[str, float]]:
    """What is *stored* of members; earlier versions counted active latents alone."""
    rows = stored.loc[stored["metric"] == ACTIVE]
    found: dict[int, dict[str, float]] = {}
    for member, name, value in zip(rows["member"], rows["quantity"], rows["value"], strict=True):
        found.setdefault(int(member), {})[name] = float(value)
    return found


def not_counted(members: Sequence[int], stored: pd.DataFrame) -> list[int]:
    """Those of *members* whose active latents are not *stored*."""
    known = _counted(stored)
    return [member for member in members if not known.get(member, {}).keys() >= set(_COUNTED)]


def _all_counted(
    run: RunFolder, members: Sequence[int], *wanted: str
) -> dict[int, dict[str, float]]:
    """What is *wanted* of *members*, as stored with their scores, or else counted now."""
    known = {
        one: own for one, own in _counted(stored_scores(run)).items() if own.keys() >= {*wanted}
    }
    return {one: known[one] if one in known else count_codes(run, one) for one in members}


def count_codes(run: RunFolder, member: int) -> dict[str, float]:
    """What is counted of the codes of *member*."""
    codes, noisy = CodeStore(run).load(member), run.plan.members[member].build().samples_latents
    noise = codes.mean_variances() if noisy else None
    scale = LatentScale.of(codes.representation("mean"), every_latent=False)
    deviation, offset = (scale.high, scale.offset) if scale else (0.0, 0.0)
    return {COUNT: float(count_active(codes.mean, noise)), DEVIATION: deviation, OFFSET: offset}
