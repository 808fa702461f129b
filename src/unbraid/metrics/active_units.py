# SPDX-License-Identifier: Apache-2.0
"""Active units (Burda et al. 2016; Zietlow et al. 2021): how many latents a model uses.

A VAE switches latents off: their posterior becomes the prior, whatever the image. Three published
rules say which are on:

- `posterior_variance`: the mean posterior variance is below 0.8 (Zietlow et al. 2021);
- `kl`: the mean KL divergence to the prior is above 1 nat (Estermann et al. 2020, for choosing
  latents to label; UDR takes 0.01);
- `code_std`: the standard deviation of the posterior mean is at least 0.05 (disentanglement_lib's
  FactorVAE score). Burda et al. ask for a variance of the mean above 0.01, which is
  `rule="code_std", threshold=0.1`.

`score` counts the latents that are active by `rule`; the masks and counts of all three at their
usual thresholds come with it.

Traps: the rules disagree where it matters, for latents that carry little: a latent with `mean = 0.5
x` and variance 0.75 is active by variance and by standard deviation but not by KL (0.14 nats).
`code_std` looks at the scale of the means only, and `posterior_variance` at the noise only: a
latent of variance 0.5 whose mean never moves is active by the latter and knows nothing. An
autoencoder without noise has no posterior to judge. It is a count that a threshold decides, and so
has no standard error. More active units are not better in themselves.

Departs from disentanglement_lib: its scores report `num_active_dims`, which is the number of all
latents for the FactorVAE score and the sum of all codes for IRS; here active latents are counted.
The standard deviation of the means divides by n, not n - 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import Problems, unknown
from unbraid.core.registry import Citation
from unbraid.metrics._describe import describe
from unbraid.metrics._least_samples import Averaged
from unbraid.metrics._posterior import check_gaussian, kl_per_latent
from unbraid.metrics._standardise import Scale, standard_deviations

Rule = Literal["posterior_variance", "kl", "code_std"]
USUAL_THRESHOLD = {"posterior_variance": 0.8, "kl": 1.0, "code_std": 0.05}


@dataclass(frozen=True)
class ActiveUnits:
    """The number of active latents, which they are, and what each rule judged by and said."""

    range: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    higher_is_better: ClassVar[bool] = True

    active: NDArray[np.bool_]
    """`(latents,)`, by the rule and threshold asked for."""
    posterior_variance: NDArray[np.float64]
    """Mean of each latent's posterior variance."""
    kl: NDArray[np.float64]
    """Mean KL divergence of each latent to N(0, 1), nats."""
    code_std: NDArray[np.float64]
    """Standard deviation of each latent's posterior mean."""
    active_by_posterior_variance: NDArray[np.bool_]
    """At the usual threshold, as in the next two."""
    active_by_kl: NDArray[np.bool_]
    active_by_code_std: NDArray[np.bool_]
    count_by_posterior_variance: int
    count_by_kl: int
    count_by_code_std: int

    @property
    def score(self) -> float:
        """How many latents are active by the rule asked for."""
        return float(np.count_nonzero(self.active))


@describe(
    label="Active units",
    needs="posterior",
    family="unsupervised",
    citation=Citation(
        "Burda, Grosse and Salakhutdinov", 2016, "Importance Weighted Autoencoders", "ICLR"
    ),
    result=ActiveUnits,
    least_samples=Averaged(),
    scale=Scale("it is measured from a standard normal prior", offset=True),
    error=None,
)
def active_units(
    mean: ArrayLike,
    logvar: ArrayLike,
    *,
    rule: Rule = "posterior_variance",
    threshold: float | None = None,
) -> ActiveUnits:
    """How many latents the model uses, by posterior variance, KL or spread of the means.

    *mean* and *logvar* are those of the posteriors, `(n, latents)`. *threshold* is the rule's usual
    one unless given.

    >>> import numpy as np
    >>> mean = np.array([[-1.0, 0.0], [1.0, 0.0]])
    >>> active_units(mean, np.log([[0.1, 1.0], [0.1, 1.0]])).active
    array([ True, False])
    """
    problems = Problems()
    if not isinstance(rule, str) or rule not in USUAL_THRESHOLD:
        problems.say(unknown("rule", str(rule), USUAL_THRESHOLD))
    if threshold is not None and not (isinstance(threshold, Real) and 0.0 <= threshold < np.inf):
        problems.add("threshold", "must be a finite number of at least 0", threshold)
    problems.raise_if_any()
    means, logvars = check_gaussian(mean, logvar)
    judged = {
        "posterior_variance": np.exp(logvars).mean(axis=0),
        "kl": kl_per_latent(means, logvars),
        "code_std": standard_deviations(means),
    }
    usual = {name: _active(name, judged[name], limit) for name, limit in USUAL_THRESHOLD.items()}
    by_variance, by_kl, by_std = usual.values()
    return ActiveUnits(
        active=usual[rule] if threshold is None else _active(rule, judged[rule], threshold),
        **judged,
        active_by_posterior_variance=by_variance,
        active_by_kl=by_kl,
        active_by_code_std=by_std,
        count_by_posterior_variance=int(by_variance.sum()),
        count_by_kl=int(by_kl.sum()),
        count_by_code_std=int(by_std.sum()),
    )


def _active(rule: str, judged: NDArray[np.float64], threshold: float) -> NDArray[np.bool_]:
    """Which latents the rule calls active; each compares as published."""
    if rule == "posterior_variance":
        return judged < threshold
    return judged > threshold if rule == "kl" else judged >= threshold
