# SPDX-License-Identifier: Apache-2.0
"""Scores that depend on the scale or offset of codes, where the codes are on an unusual one.

Most metrics give the same score whatever the scale. For some the published definition does not:
SAP's regularised SVMs, the pruning of the FactorVAE score, raw differences or covariances. Their
numbers stay those of the reference; a remark says where that matters, and how to standardise.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from unbraid.metrics._standardise import standard_deviations
from unbraid.scoring.metric_names import base, options

USUAL_SPREAD = (0.2, 5.0)
"""Standard deviations around the 1 of a standard normal prior."""
USUAL_OFFSET = 3.0
"""Means in standard deviations."""
ON_SCALE = {
    "sap": "its SVMs are regularised",
    "unified_scores": "SAP is a part of it",
    "beta_vae_score": "its classifier is regularised",
    "factor_vae_score": "latents with a standard deviation below 0.05 have no vote",
    "wasserstein_correlation": "it is a distance between codes",
    "hoyer": "it asks how near to 0 codes are",
}
"""Metrics by whose definition scale or offset matter, and why."""


def scale_remark(names: Iterable[str], codes: NDArray, *, every_latent: bool) -> str:
    """What is said of scores by *names* of *codes* on an unusual scale; nothing of others.

    With *every_latent* one that varies little counts too; in a VAE it is a dead one, and left so.
    """
    asked = [n for n in names if base(n) in ON_SCALE and not options(n).get("continuous", False)]
    values = np.asarray(codes, dtype=np.float64)
    spread = standard_deviations(values)
    varying = spread > 0
    if not asked or not varying.any():
        return ""
    seen = varying if every_latent else spread == spread.max()
    low, high = float(spread[seen].min()), float(spread[seen].max())
    offset = float((np.abs(values.mean(axis=0))[seen] / spread[seen]).max())
    if USUAL_SPREAD[0] <= low and high <= USUAL_SPREAD[1] and offset <= USUAL_OFFSET:
        return ""
    why = "; ".join(f"{name}, since {ON_SCALE[base(name)]}" for name in asked)
    return (
        f"Scale matters here: latents have standard deviations from {low:.3g} to {high:.3g} and"
        f" means up to {offset:.3g} of them from 0, and the definition depends on that for {why}."
        " To standardise: (codes - codes.mean(0)) / codes.std(0)."
    )
