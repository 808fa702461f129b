# SPDX-License-Identifier: Apache-2.0
"""How sure a found factor is: whether models that began from other seeds came upon the same thing.

For latent j of the chosen model and every other model m, `r_m = max over latents i that m uses of
|Spearman(z_j, z_i)|`. Agreement is the median of r_m over the other models, and a model has seen
the factor where r_m is at least `SEEN`. The ranks make both blind to sign, scale and order of
latents, as UDR's rank variant is (Duan et al. 2020). Unlike UDR this is a number for one
latent. One that two latents of another model share scores low there: it was found, but not as one
thing.

A latent is used where its mean KL is above 0.01 nats, UDR's threshold. Those below are noise, whose
largest correlation with anything grows with their number.

What agreement does not show: models that share a wrong bias agree too. And around a circle (hues,
angles) every model must cut somewhere; two that cut at different places may see the same thing and
yet have ranks that disagree, so a low number is no proof against such a factor.
"""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import Problems, Shown, invalid
from unbraid.metrics._arrays import check_codes, to_numpy
from unbraid.metrics._ranks import average_ranks
from unbraid.metrics._standardise import standardise, varying_latents
from unbraid.search.discover.findings import Certainty

USED_NATS = 0.01
"""Mean KL above which a latent is used; the default threshold of UDR."""
SEEN = 0.8
"""Absolute rank correlation from which another model is said to have seen the same factor."""


def certainties(
    codes: ArrayLike, kl: ArrayLike, chosen: int, *, kl_threshold: float = USED_NATS
) -> list[Certainty]:
    """How far the other models confirm each latent of model *chosen*, in the order of its latents.

    *codes* `(models, n, latents)` are those of the same n images by at least two models, *kl*
    `(models, latents)` the mean KL of each latent in nats.

    >>> code = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> certainties(np.stack([code, 3.0 - code[:, ::-1]]), np.ones((2, 2)), 0)[1]
    Certainty(agreement=1.0, seen_in=1, others=1)
    """
    rows, nats = _check(codes, kl, chosen, kl_threshold)
    closest = _closest(rows, nats > kl_threshold, int(chosen))
    # Ranks in exact agreement may come out a rounding error below 1, and so may a correlation of
    # exactly SEEN.
    return [
        Certainty(float(np.median(column)), int((column >= SEEN - 1e-12).sum()), len(column))
        for column in closest.T
    ]


def confirmed(certainty: Certainty) -> bool:
    """Whether at least half of the other models have seen the factor.

    >>> confirmed(Certainty(agreement=0.8, seen_in=2, others=4))
    True
    >>> confirmed(Certainty(agreement=0.7, seen_in=1, others=4))
    False
    """
    return certainty.others > 0 and 2 * certainty.seen_in >= certainty.others


def _closest(
    codes: NDArray[np.float64], used: NDArray[np.bool_], chosen: int
) -> NDArray[np.float64]:
    """The r_m of every latent of the chosen model: `(other models, latents)`.

    It is 0 for constant latents and for models that use none.
    """
    own, found = _ranks(codes[chosen]), []
    # One model after another: of 200,000 images the ranks of all together would fill memory for
    # nothing.
    for model in range(len(codes)):
        if model != chosen:
            correlations = own.T @ _ranks(codes[model][:, used[model]]) / len(own)
            found.append(
                np.minimum(np.abs(correlations), 1.0).max(axis=1, initial=0.0)
            )  # rounding can pass 1
    return np.stack(found)


def _ranks(codes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranks `(n, latents)` with mean 0 and variance 1; all 0 where only rounding moves codes."""
    return standardise(average_ranks(codes)) * varying_latents(codes)


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _check(
    codes: ArrayLike, kl: ArrayLike, chosen: int, kl_threshold: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    rows, nats = to_numpy(codes), to_numpy(kl)
    if rows.ndim != 3 or len(rows) < 2:
        rule = "must have the shape (models, n, latents) with at least two models"
        raise invalid(
            "codes", rule, Shown(f"shape {rows.shape}"), "A model alone has nothing to agree with."
        )
    problems = Problems()
    checked = [
        problems.collect(lambda m=m: check_codes(rows[m], name=f"codes[{m}]"))
        for m in range(len(rows))
    ]
    if nats.shape != (len(rows), rows.shape[2]):
        problems.add(
            "kl",
            f"must have the shape (models, latents), here {(len(rows), rows.shape[2])}",
            Shown(f"shape {nats.shape}"),
        )
    elif nats.dtype.kind not in "fiu" or not np.isfinite(nats).all():
        problems.add(
            "kl",
            "must be finite numbers",
            Shown(str(nats.tolist())),
            "Leave out models that diverged.",
        )
    if not _is_whole(chosen) or not 0 <= chosen < len(rows):
        problems.add(
            "chosen",
            f"must be a whole number in 0..{len(rows) - 1}, the place of a model in codes",
            chosen,
        )
    if not (isinstance(kl_threshold, Real) and 0.0 <= kl_threshold < np.inf):
        problems.add("kl_threshold", "must be a finite number of at least 0", kl_threshold)
    problems.raise_if_any()
    return np.stack([model for model in checked if model is not None]), nats.astype(np.float64)
