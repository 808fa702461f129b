# SPDX-License-Identifier: Apache-2.0
"""InfoMEC (Hsu et al. 2023): modularity, explicitness and compactness from information alone.

All is read from `N(z_j, s_k) = I(z_j; s_k) / H(s_k)`. Information of continuous latents is
estimated by 10 nearest neighbours on standardised codes (Ross 2014), that of `discrete` latents by
counting their values. Latents that hardly vary are pruned: `qlae` keeps those whose range is more
than 1/20 of the largest (discrete: more than 0), `tripod` those whose inter-quartile range is more
than 1/10 of the largest (discrete: more than 0.1, for quantised codes between -1 and 1). InfoM: for
each active latent the largest `N` divided by the sum over factors, averaged, rescaled from
[1/factors, 1] to [0, 1]. InfoC: for each factor the largest `N` divided by the sum over active
latents, averaged, rescaled from [1/active, 1]. InfoE: for each factor `(null - fit) / null`,
averaged, where `fit` is the log-loss on the same samples of an unpenalised logistic regression
(balanced classes, 100 steps of L-BFGS) on all latents, standardised or one-hot, and `null` that of
the same without inputs, `ln(values of the factor)`. With `explicitness="regression"` it is the R^2
of a linear regression on the factor's values, which is what the same ratio gives under a Gaussian.
The score is InfoM.

Traps: numbers of the QLAE and the Tripod paper are on two scales, because pruning differs. A barely
active latent counts as much as a strong one: a faint mixture beside two perfect latents takes InfoM
from 1.00 to 0.66. The information of noise is estimated as 0 or a little more, and InfoM divides
these small numbers by each other: over 500, 2,000 and 10,000 samples of four or five factors pure
noise has an InfoM of 0.3 to 0.95 with 10 latents, 0.1 to 1 with three or five and anything from 0
to 1 with fewer. No number of samples is enough to lower it: look at InfoE beside it. InfoE is
measured on the samples it was fitted to (30 latents of noise: 0.66 to 0.95 for 100 samples, 0.04 to
0.06 for 1,000), and where classes are separable it says how far 100 steps went. Balanced classes
make the null loss ln(values), so InfoE of a lopsided factor is no share of its entropy. `discrete`
is not guessed: quantised codes passed without it have nearly the same InfoM and InfoC, since noise
parts equal codes, unless a latent holds nothing (beside one of noise InfoM was 0.80 with it and
0.84 to 0.99 without, by seed), and InfoE then reads them as numbers instead of value by value (0.29
for 0.58 where the values of two factors, 4 and 6, are shuffled and a fifth of the codes wrong).

Not in disentanglement_lib: it follows the authors' two programs. Departs from them where they
divide by zero: an active latent or a factor without any estimated information scores 0, with one
active latent every informed factor is compact, with one varying factor every informed latent
modular, without active latents InfoM and InfoC are 0 (InfoE, which reads pruned latents too, need
not be, though it is in Tripod's program); a constant factor is left out and listed. The noise that
parts equal codes is drawn from `seed`. The null loss is not fitted, being known.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import Problems, unknown
from unbraid.core.grid import relabel
from unbraid.core.registry import Citation
from unbraid.metrics._arrays import Labelled, check_codes_factors, check_counts
from unbraid.metrics._describe import describe
from unbraid.metrics._information import entropy, mutual_information
from unbraid.metrics._least_samples import OfValues
from unbraid.metrics._logistic import accept_unconverged
from unbraid.metrics._neighbours import neighbour_information
from unbraid.metrics._standardise import Scale, standardise

Pruning = Literal["qlae", "tripod"]
Explicitness = Literal["classification", "regression"]


@dataclass(frozen=True)
class InfoMEC:
    """The three scores, each latent's and factor's own, and the information behind them."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    infom: float
    infoe: float
    infoc: float
    normalised_information: NDArray[np.float64]
    """`(latents, factors)`: share of the factor's entropy; NaN for a constant factor; the estimate
    can pass 1 by a little.
    """
    active: NDArray[np.bool_]
    """Latents that were not pruned."""
    modularity_per_latent: NDArray[np.float64]
    """Rescaled to [0, 1]; NaN for a pruned latent."""
    explicitness_per_factor: NDArray[np.float64]
    """NaN for a constant factor, as in the next."""
    compactness_per_factor: NDArray[np.float64]
    constant_factors: tuple[int, ...]
    """Columns left out because they take one value."""

    @property
    def score(self) -> float:
        """InfoM, the part that says whether latents mix factors."""
        return self.infom


@describe(
    label="InfoMEC",
    needs="sample",
    compares_factors=True,
    citation=Citation(
        "Hsu, Dorrell, Whittington, Wu and Finn",
        2023,
        "Disentanglement via Latent Quantization",
        "NeurIPS",
    ),
    result=InfoMEC,
    likes_dead_codes=True,
    least_samples=OfValues(100),
    scale=Scale("latents that vary little beside the widest are pruned", common=False),
)
def infomec(
    codes: ArrayLike,
    factors: ArrayLike,
    *,
    pruning: Pruning = "qlae",
    discrete: bool = False,
    explicitness: Explicitness = "classification",
    neighbours: int = 10,
    seed: int = 0,
) -> InfoMEC:
    """How modular (InfoM), linearly explicit (InfoE) and compact (InfoC) the latents are.

    *codes* are `(n, latents)`, *factors* whole numbers `(n, factors)`. *discrete* says that each
    latent takes few values, which then count as they are; *neighbours* serves the others.

    >>> import numpy as np
    >>> values = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> result = infomec(values * 2.5, values, discrete=True)
    >>> result.infom, result.infoc, round(result.infoe, 2)
    (1.0, 1.0, 1.0)
    """
    check_counts(neighbours=(neighbours, 1), seed=(seed, 0))
    problems = Problems()
    for name, word, known in (
        ("pruning", pruning, Pruning),
        ("explicitness", explicitness, Explicitness),
    ):
        if word not in get_args(known):
            problems.say(unknown(name, str(word), get_args(known)))
    problems.raise_if_any()
    sample = check_codes_factors(codes, factors)
    seen, active = sample.varying, _active(sample.codes, pruning, discrete)
    information = _information(sample, discrete, neighbours, seed)
    shares = information / np.where(seen, entropy(sample.levels, sample.sizes), np.nan)
    kept = shares[active][:, seen]
    modular, compact = np.full(len(active), np.nan), np.full(len(seen), np.nan)
    modular[active], compact[seen] = concentration(kept), concentration(kept.T)
    explicit = _explicitness(sample, discrete, explicitness)
    return InfoMEC(
        infom=float(modular[active].mean()) if active.any() else 0.0,
        infoe=float(explicit[seen].mean()),
        infoc=float(compact[seen].mean()),
        normalised_information=shares,
        active=active,
        modularity_per_latent=modular,
        explicitness_per_factor=explicit,
        compactness_per_factor=compact,
        constant_factors=sample.constant_factors,
    )


def concentration(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    """Largest share of each row's sum, rescaled so that an even row is 0 and a single share 1."""
    if rows.shape[1] == 0:
        return np.zeros(len(rows))
    total, least = rows.sum(axis=1), 1.0 / rows.shape[1]
    informed = total > 0
    if least == 1.0:
        return informed.astype(np.float64)
    share = rows.max(axis=1) / np.where(informed, total, 1.0)
    return np.where(informed, np.clip((share - least) / (1.0 - least), 0.0, 1.0), 0.0)


def _information(
    sample: Labelled, discrete: bool, neighbours: int, seed: int
) -> NDArray[np.float64]:
    if not discrete:
        return neighbour_information(sample.codes, sample.levels, neighbours=neighbours, seed=seed)
    values, sizes = relabel(sample.codes)
    return mutual_information(values, max(sizes), sample.levels, sample.sizes)


def _active(codes: NDArray[np.float64], pruning: Pruning, discrete: bool) -> NDArray[np.bool_]:
    if pruning == "qlae":
        spread = np.ptp(codes, axis=0)
        return spread > (0.0 if discrete else spread.max() / 20)
    low, high = np.quantile(codes, [0.25, 0.75], axis=0)
    spread = high - low
    return spread > (0.1 if discrete else spread.max() / 10)


def _explicitness(
    sample: Labelled, discrete: bool, explicitness: Explicitness
) -> NDArray[np.float64]:
    """Of each factor; NaN where it is constant."""
    inputs = _one_hot(sample.codes) if discrete else standardise(sample.codes)
    explained = np.full(len(sample.sizes), np.nan)
    for factor in np.flatnonzero(sample.varying):
        if explicitness == "classification":
            explained[factor] = _classified(inputs, sample.levels[:, factor], sample.sizes[factor])
        else:
            explained[factor] = _regressed(inputs, sample.factors[:, factor])
    return explained


def _one_hot(codes: NDArray[np.float64]) -> Any:
    """A sparse 0/1 matrix with a column for each value of each latent."""
    from scipy.sparse import csr_array

    values, sizes = relabel(codes)
    columns = values + np.cumsum([0, *sizes[:-1]])
    rows = np.repeat(np.arange(len(codes)), codes.shape[1])
    return csr_array(
        (np.ones(columns.size), (rows, columns.ravel())), shape=(len(codes), sum(sizes))
    )


def _classified(inputs: Any, levels: NDArray[np.int64], size: int) -> float:
    """How much of the null loss an unpenalised logistic regression saves."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    classifier = LogisticRegression(C=np.inf, class_weight="balanced", solver="lbfgs", max_iter=100)
    with accept_unconverged():
        classifier.fit(inputs, levels)
        # A probability of 0 costs 36 nats there, not infinity.
        loss = log_loss(levels, classifier.predict_proba(inputs))
    return float(1.0 - loss / np.log(size))


def _regressed(inputs: Any, values: NDArray[np.int64]) -> float:
    """R^2 of a linear regression."""
    dense = inputs.toarray() if hasattr(inputs, "toarray") else inputs
    target, centred = values - values.mean(), dense - dense.mean(axis=0)
    missed = target - centred @ np.linalg.lstsq(centred, target, rcond=None)[0]
    return float(np.clip(1.0 - (missed @ missed) / (target @ target), 0.0, 1.0))
