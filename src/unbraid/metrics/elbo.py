# SPDX-License-Identifier: Apache-2.0
"""ELBO, evidence lower bound (Kingma and Welling 2014), its KL in parts (Chen et al. 2018, eq. 2).

`ELBO = -(reconstruction + KL)` in nats for an average sample: `reconstruction` is the mean of the
given negative log-likelihoods, `KL` the mean divergence of the posteriors `q(z|x) = N(mean,
exp(logvar))` from the prior N(0, I), exact. With the aggregate posterior q(z), the mean of q(z|x)
over samples, the KL is the sum of three parts (Hoffman and Johnson 2016): what the codes tell about
which sample they come from (index-code mutual information, `E[log q(z|x) - log q(z)]`), the total
correlation of the latents (`E[log q(z) - sum log q(z_d)]`), and how far each latent alone is from
the prior (dimension-wise KL, `sum E[log q(z_d) - log p(z_d)]`).

The parts are estimated with one draw of z from each posterior of at most `samples` rows, and with
q(z) as the mean of the posteriors of the same rows, that of the draw's own row among them. They sum
to `sampled_kl`, the estimate of the KL from the same draws.

With another prior than N(0, I), which must then be given, the KL is measured from that: exactly
where it knows how, else at one draw from each posterior. The third part is then how far the product
of the latents' own laws is from the prior, and no KL of a latent by itself is told.

Traps: the parts describe those rows, not all data. The own posterior weighs 1/rows, so the mutual
information cannot exceed log(rows), 7.6 nats for 2,000. It comes out too low once posteriors hardly
overlap, and the other two, mostly the total correlation, too high by as much: ten independent
latents of 2.3 nats each (23 and 0 and 0 nats in truth) read 7.6, 15.4 and 0.1 with 2,000 rows. So
compare parts at equal rows, and take them for the truth only where the mutual information is well
below log(rows). ELBOs of different likelihoods cannot be compared, and a higher one says nothing
about disentanglement.

Not in disentanglement_lib: it logs ELBO, reconstruction and KL while it trains, which are the same
here, but none of the parts. These follow the papers, but q(z) is taken over the rows given instead
of all data, and all terms of the parts at the draws, so that they sum to `sampled_kl`; the code of
Chen et al. has the expectations of log q(z|x) and log p(z) in closed form, from which the draws
moved the mutual information by 0.04 to 0.17 nats.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import Problems, Shown, invalid
from unbraid.core.registry import Citation
from unbraid.metrics._arrays import LARGEST_CODE, check_counts, to_numpy
from unbraid.metrics._describe import describe
from unbraid.metrics._least_samples import Averaged
from unbraid.metrics._posterior import check_gaussian, kl_per_latent
from unbraid.metrics._resampled import Resampled
from unbraid.metrics._standardise import Scale

ROWS_AT_ONCE = 256
"""Draws compared with all posteriors in one piece; bounds the memory."""
NOISE_STREAM = 2016
"""Drawn with the bare seed, the noise would equal codes that somebody made up with the same seed.
"""
LOG_2PI = float(np.log(2.0 * np.pi))


class LatentPrior(Protocol):
    """A prior of the latents, for arrays `(n, latents)`; numbers in nats, `(n,)`."""

    def kl(
        self, mean: NDArray[np.float64], logvar: NDArray[np.float64], z: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """KL divergence of each posterior from it, exactly or at its draw *z*."""
        ...

    def log_density(self, z: NDArray[np.float64]) -> NDArray[np.float64]:
        """Its logarithm at each *z*."""
        ...


@dataclass(frozen=True)
class ELBO:
    """The bound and its parts, all in nats for an average sample."""

    range: ClassVar[tuple[float, float]] = (-float("inf"), float("inf"))
    higher_is_better: ClassVar[bool] = True

    score: float
    reconstruction: float
    """Mean negative log-likelihood."""
    kl: float
    """Over all rows; exact, but for a prior that knows no closed form."""
    kl_per_latent: NDArray[np.float64]
    """NaN for another prior than N(0, I)."""
    mutual_information: float
    """Between the code and the index of its sample; estimated, as are the next three."""
    total_correlation: float
    dimension_wise_kl: float
    sampled_kl: float
    """The sum of the three parts."""
    rows: int
    """How many rows the parts were estimated on; the mutual information cannot exceed the logarithm
    of it.
    """


@describe(
    label="ELBO",
    needs="elbo",
    family="unsupervised",
    citation=Citation(
        "Hoffman and Johnson",
        2016,
        "ELBO Surgery",
        "NIPS Workshop on Advances in Approximate Bayesian Inference",
    ),
    result=ELBO,
    least_samples=Averaged(500),
    scale=Scale("it is measured from a standard normal prior", offset=True),
    error=Resampled("cheap", 32, quick={"samples": 1}),
)
def elbo(
    mean: ArrayLike,
    logvar: ArrayLike,
    reconstruction: ArrayLike,
    *,
    prior: LatentPrior | None = None,
    samples: int = 2000,
    seed: int = 0,
) -> ELBO:
    """Evidence lower bound in nats, with its reconstruction, its KL and the three parts of the KL.

    *mean* and *logvar* are those of the posteriors, `(n, latents)`, *reconstruction* `(n,)` the
    negative log-likelihood of each sample in nats. *prior* is N(0, I) unless given. The parts are
    estimated on at most *samples* rows, chosen and drawn from by *seed*.

    >>> import numpy as np
    >>> result = elbo(np.array([[1.0], [-1.0]]), np.zeros((2, 1)), np.array([10.0, 12.0]))
    >>> result.score, result.kl
    (-11.5, 0.5)
    """
    check_counts(samples=(samples, 1), seed=(seed, 0))
    if prior is not None and not (hasattr(prior, "kl") and hasattr(prior, "log_density")):
        rule = "must have the methods kl and log_density, or be left out for N(0, I)"
        raise invalid("prior", rule, Shown(repr(prior)))
    problems = Problems()
    posterior = problems.collect(lambda: check_gaussian(mean, logvar))
    nats = _read_reconstruction(reconstruction, len(posterior[0]) if posterior else None, problems)
    problems.raise_if_any()
    assert posterior is not None
    means, logvars = posterior
    per_latent = kl_per_latent(means, logvars)
    error, divergence = float(nats.mean()), float(per_latent.sum())
    if prior is not None:
        noise = np.random.default_rng([seed, NOISE_STREAM, 1]).normal(size=means.shape)
        z = means + np.exp(0.5 * logvars) * noise
        per_latent = np.full(means.shape[1], np.nan)
        divergence = float(prior.kl(means, logvars, z).mean())
    generator = np.random.default_rng([seed, NOISE_STREAM])
    if len(means) > samples:
        chosen = np.sort(generator.choice(len(means), samples, replace=False))
        means, logvars = means[chosen], logvars[chosen]
    noise = generator.normal(size=means.shape)
    own, joint, apart, log_prior = _log_densities(means, logvars, noise)
    if prior is not None:
        log_prior = prior.log_density(means + np.exp(0.5 * logvars) * noise)
    return ELBO(
        score=-(error + divergence),
        reconstruction=error,
        kl=divergence,
        kl_per_latent=per_latent,
        mutual_information=float((own - joint).mean()),
        total_correlation=float((joint - apart).mean()),
        dimension_wise_kl=float((apart - log_prior).mean()),
        sampled_kl=float((own - log_prior).mean()),
        rows=len(means),
    )


def _log_densities(
    mean: NDArray[np.float64], logvar: NDArray[np.float64], noise: NDArray[np.float64]
) -> tuple[NDArray[np.float64], ...]:
    """At one draw per posterior: log q(z|x), log q(z), sum of log q(z_d), log p(z), each `(n,)`."""
    z = mean + np.exp(0.5 * logvar) * noise
    own_each = -0.5 * (noise**2 + logvar + LOG_2PI)
    precision = np.exp(-logvar)
    joint, apart = np.empty(len(z)), np.zeros(len(z))
    for start in range(0, len(z), ROWS_AT_ONCE):
        rows = slice(start, min(start + ROWS_AT_ONCE, len(z)))
        together = np.zeros((rows.stop - start, len(z)))
        for latent in range(z.shape[1]):
            away = z[rows, latent, None] - mean[:, latent]
            # Seen from a posterior narrow enough, a draw of a wide one is infinitely far, and its
            # density 0.
            with np.errstate(over="ignore"):
                density = -0.5 * (away**2 * precision[:, latent] + (logvar[:, latent] + LOG_2PI))
            # Of a narrow posterior far from 0 the draw cannot be told from the mean by then; the
            # noise still can.
            density[np.arange(len(density)), np.arange(start, rows.stop)] = own_each[rows, latent]
            apart[rows] += _log_mean_exp(density)
            together += density
        joint[rows] = _log_mean_exp(together)
    return own_each.sum(axis=1), joint, apart, -0.5 * (z**2 + LOG_2PI).sum(axis=1)


def _log_mean_exp(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    highest = rows.max(axis=1)
    return highest + np.log(np.exp(rows - highest[:, None]).mean(axis=1))


def _read_reconstruction(
    values: ArrayLike, samples: int | None, problems: Problems
) -> NDArray[np.float64]:
    nats = to_numpy(values)
    if nats.dtype.kind not in "fiub":
        problems.add("reconstruction", "must be numbers", Shown(f"dtype {nats.dtype}"))
        return np.zeros(0)
    nats = nats.astype(np.float64)
    if nats.ndim != 1 or (samples is not None and len(nats) != samples):
        rule = (
            "must have the shape (n,), one number for each row of"
            f" mean{f', here {samples}' if samples else ''}"
        )
        problems.add("reconstruction", rule, Shown(f"shape {nats.shape}"))
    elif not (fine := np.abs(nats) <= LARGEST_CODE).all():  # false for NaN and infinity too
        row = int(np.flatnonzero(~fine)[0])
        rule = f"must be finite and at most {LARGEST_CODE:g} in size"
        problems.add(
            "reconstruction",
            rule,
            Shown(f"{nats[row]} at row {row}"),
            "Leave out such rows, or models that diverged.",
        )
    return nats
