# SPDX-License-Identifier: Apache-2.0
"""Scores that depend on the scale or offset of codes, where the codes are on an unusual one.

Most metrics give the same score whatever the scale. For some the published definition does not:
SAP's regularised SVMs, the pruning of the FactorVAE score, raw differences or covariances; they say
so by their `scale`. Their numbers stay those of the reference and of the papers, for the latents of
VAEs, whose prior sets the scale and where a latent next to 0 is a dead one that standardising would
blow up; a remark says where scale matters, and how to be free of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbraid.metrics import METRICS
from unbraid.metrics._standardise import Scale, standard_deviations
from unbraid.scoring.metric_names import base, options

OWN_SPREAD, OWN_OFFSET = (0.8, 5.0), 0.1
"""Standard deviations, and means in standard deviations, of codes of any origin. Within them no
score between 0 and 1 is more than 0.03 from that of the same codes standardised (tests).
"""
VAE_SPREAD, VAE_OFFSET = (0.5, 5.0), 0.5
"""The same for the widest latent of a VAE."""


def depends(name: str) -> Scale | None:
    """On what of the scale *name* depends with its options, if it does."""
    found = getattr(METRICS.load(base(name)), "scale", None) if base(name) in METRICS else None
    given = options(name)
    freed = found is not None and any(given.get(key) == value for key, value in found.free.items())
    return None if freed else found


@dataclass(frozen=True)
class LatentScale:
    """On what scale the latents of one model lie."""

    low: float
    """The smallest standard deviation."""
    high: float
    """The largest."""
    offset: float
    """The largest distance of a mean from 0, in standard deviations."""

    @classmethod
    def of(cls, codes: NDArray[Any], *, every_latent: bool) -> LatentScale | None:
        """That of *codes* `(n, latents)`; None where no latent moves.

        With *every_latent* one that varies little counts too; in a VAE it is a dead one, and the
        widest alone is looked at.
        """
        values = np.asarray(codes, dtype=np.float64)
        spread = standard_deviations(values)
        seen = spread > 0 if every_latent else (spread > 0) & (spread == spread.max())
        if not seen.any():
            return None
        offset = np.abs(values.mean(axis=0))[seen] / spread[seen]
        return cls(float(spread[seen].min()), float(spread[seen].max()), float(offset.max()))


def scale_remark(names: Iterable[str], models: Sequence[LatentScale], *, every_latent: bool) -> str:
    """What is said of scores by *names* of *models* on an unusual scale; nothing of others.

    *every_latent* says of what the scales are (`LatentScale.of`).
    """
    if not models:
        return ""
    low, high = min(one.low for one in models), max(one.high for one in models)
    offset = max(one.offset for one in models)
    narrow, wide = OWN_SPREAD if every_latent else VAE_SPREAD
    unusual = low < narrow or high > wide
    shifted = offset > (OWN_OFFSET if every_latent else VAE_OFFSET)
    uneven = any(one.high / one.low > wide / narrow for one in models)
    about = {
        name: on
        for name in names
        if (on := depends(name)) is not None
        and ((on.common and unusual) or (on.between and uneven) or (on.offset and shifted))
    }
    if not about:
        return ""
    why = "; ".join(f"{name}, since {on.why}" for name, on in about.items())
    free = [
        f"{name}:{key}={str(value).lower()}"
        for name, on in about.items()
        for key, value in list(on.free.items())[:1]
        if name == base(name)
    ]
    return (
        f"Scale matters here: latents have standard deviations from {low:.3g} to {high:.3g} and"
        f" means up to {offset:.3g} of them from 0, and the definition depends on that for {why}."
        + (f" Free of it: {', '.join(free)}." if free else "")
        + " To standardise: (codes - codes.mean(0)) / codes.std(0)."
    )
