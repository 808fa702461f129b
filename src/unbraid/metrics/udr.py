# SPDX-License-Identifier: Apache-2.0
"""UDR, unsupervised disentanglement ranking (Duan et al. 2020): good models agree with each other.

Models of one kind, trained from different seeds, encode the same samples. Disentangled codes differ
by order, sign and scale of the latents only; entangled ones differ in countless ways. So for each
ordered pair of models a matrix R says how much each latent of the first has to do with each latent
of the second: the sizes of the coefficients of a Lasso (`alpha = 0.1`) that predicts the second
from the first on standardised codes, or absolute rank correlations (`method="spearman"`). The pair
scores high where every row and every column of R has one large entry: `1/2 (mean over columns of
max^2 / sum + mean over rows of max^2 / sum)`. A model's score is the median over the others of the
pairs in which it is the one predicted.

Latents that the model does not use must not count: only those with a mean KL above `kl_threshold`
(0.01 nats) do. At or below 0.01 they are not shown to the regression either; those between 0.01 and
a higher threshold help to predict without being counted. A model without any such latent scores 0.

Traps: the ceiling is not 1. The Lasso shrinks: equal independent codes reach 1 - alpha = 0.90. With
rank correlations every chance correlation costs: equal codes of 5 independent latents reach 0.91
with 1,000 samples and 0.97 with 10,000, those of 10 latents 0.82 and 0.93; only exactly
uncorrelated ones reach 1. Models related by random rotations still score 0.61, 0.31 and 0.16 on
average for 2, 5 and 10 latents, a single pair with 2 latents anything from 0.30 to 0.90; so few
live latents score high by themselves, and models that all found the same single factor agree
perfectly. Agreement is no proof: models that share a wrong bias agree too. It has no standard error
over samples: what makes it uncertain is which models were trained. The mean over a mixed set says
little; compare the models of a set. Like the reference's, the Lasso stops at `tolerance`, before
its minimum, and the score then depends on the order of the latents. Where latents share sources but
have noise of their own, scores in simulated sets were off by up to 1e-3 (noise a twentieth of their
size) or 0.009 (a seventieth); where some were exact linear functions of the others, by 0.009 in the
median set and by up to 0.18. `tolerance=0` goes to the minimum; of copied latents it is left open
which gets the weight. With an alpha well below 0.1, scores can pass 1.

Departs from disentanglement_lib: a model without informative latents scores 0, where it is an
error; a threshold below 0.01 is honoured, where latents up to 0.01 are always blanked; with
`filter_low_kl=False` a blanked or constant latent has rank correlation 0, where theirs is NaN and
turns whole rows and columns to 0. `compat` gives their numbers in the last two. As in the reference
and unlike the paper, which divides by the number of informative latents of both models together,
rows and columns weigh the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import Problems, Shown, invalid
from unbraid.core.registry import Citation
from unbraid.metrics._arrays import check_codes, to_numpy
from unbraid.metrics._compat import Compat, as_reference
from unbraid.metrics._describe import describe
from unbraid.metrics._least_samples import Regressed
from unbraid.metrics._standardise import Scale

if TYPE_CHECKING:
    from unbraid.metrics._agreement import Method


@dataclass(frozen=True)
class UDR:
    """The mean over models, each model's score, every pair's agreement and its matrices."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    per_model: NDArray[np.float64]
    """`(models,)`: the median over the others of the column below; take the model with the largest.
    """
    pairwise: NDArray[np.float64]
    """`(models, models)`: how well the first predicts the second, latent by latent; 0 on the
    diagonal.
    """
    similarity: NDArray[np.float64]
    """`(models, models, latents, latents)`: the matrices R before latents are left out; 0 for a
    model with itself.
    """
    informative: NDArray[np.bool_]
    """`(models, latents)`: latents with a KL above the threshold."""


@describe(
    label="UDR",
    needs="population",
    family="unsupervised",
    citation=Citation(
        "Duan et al.",
        2020,
        "Unsupervised Model Selection for Variational Disentangled Representation Learning",
        "ICLR",
    ),
    result=UDR,
    least_samples=Regressed(),
    scale=Scale("latents count by their KL divergence to a standard normal prior", offset=True),
)
def udr(
    codes: ArrayLike,
    kl: ArrayLike,
    *,
    method: Method = "lasso",
    kl_threshold: float = 0.01,
    filter_low_kl: bool = True,
    alpha: float = 0.1,
    tolerance: float = 1e-4,
    compat: Compat | None = None,
) -> UDR:
    """How far each model agrees with the others on its latents, up to their order, sign and scale.

    *codes* `(models, n, latents)` are those of the same n samples by at least two models, *kl*
    `(models, latents)` the mean KL of each latent in nats. With *filter_low_kl* off, uninformative
    latents count as latents that agree with nothing. *alpha* is the weight of the Lasso's penalty
    and *tolerance* the duality gap at which it stops, scikit-learn's default; 0 for the minimum.

    >>> import numpy as np
    >>> code = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> result = udr(np.stack([code, 3.0 - code[:, ::-1]]), np.ones((2, 2)))
    >>> result.per_model.round(12)
    array([0.9, 0.9])
    """
    # Imported when called: torch takes longer to load than all metrics together.
    import torch

    from unbraid.metrics._agreement import agreement, check_options

    exactly = as_reference(compat)
    check_options(method, kl_threshold, alpha, tolerance)
    rows, nats = (torch.from_numpy(array)[None] for array in _check_population(codes, kl))
    found = agreement(
        rows,
        nats,
        method=method,
        kl_threshold=kl_threshold,
        filter_low_kl=filter_low_kl,
        alpha=alpha,
        tolerance=tolerance,
        as_reference=exactly,
    )
    per_model = found.per_model[0].numpy()
    evidence = (found.pairwise, found.similarity, found.informative)
    return UDR(float(per_model.mean()), per_model, *(part[0].numpy() for part in evidence))


def _check_population(
    codes: ArrayLike, kl: ArrayLike
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
        rule = f"must have the shape (models, latents), here {(len(rows), rows.shape[2])}"
        problems.add("kl", rule, Shown(f"shape {nats.shape}"))
    elif nats.dtype.kind not in "fiub":
        problems.add("kl", "must be numbers", Shown(f"dtype {nats.dtype}"))
    elif not np.isfinite(nats).all():
        model, latent = np.argwhere(~np.isfinite(nats))[0]
        shown = Shown(f"{nats[model, latent]} at model {model}, latent {latent}")
        problems.add("kl", "must be finite numbers", shown, "Leave out models that diverged.")
    problems.raise_if_any()
    return np.stack([model for model in checked if model is not None]), nats.astype(np.float64)
