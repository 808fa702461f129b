# SPDX-License-Identifier: Apache-2.0
"""Few-shot classification: accuracy with a few labelled samples of each class (Snell et al. 2017).

For each factor, `shots` samples of each of its values are drawn from the first part of the rows; a
sample of the rest belongs to the value whose samples' mean code is nearest. The accuracy is
that of an average class, averaged over `draws` of the labelled samples and over factors.

Traps: chance is 1 over the number of values, so factors with many values pull the score down.
Distances are between codes as they are: a latent of large scale decides. A value with fewer than
`shots` samples to draw from gives those it has; one without any in either part is left out.

Not in disentanglement_lib: its downstream tasks fit predictors to 10 samples or more. Departs from
Snell et al.: codes are given, not learned for this end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.registry import Citation
from unbraid.metrics._arrays import check_counts, check_split
from unbraid.metrics._describe import describe
from unbraid.metrics._least_samples import Averaged
from unbraid.metrics._standardise import Scale


@dataclass(frozen=True)
class FewShot:
    """The mean accuracy, and that of each factor."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    per_factor: NDArray[np.float64]
    """NaN for a factor with less than two values in both parts."""
    chance: float
    """What guessing would have."""


@describe(
    label="Few-shot classification",
    needs="split",
    family="usefulness",
    citation=Citation("Snell et al.", 2017, "Prototypical networks for few-shot learning", "NIPS"),
    result=FewShot,
    least_samples=Averaged(500),
    scale=Scale("it measures distances between codes as they are", common=False),
)
def few_shot(
    codes: ArrayLike,
    factors: ArrayLike,
    test_codes: ArrayLike,
    test_factors: ArrayLike,
    *,
    shots: int = 1,
    draws: int = 50,
    seed: int = 0,
) -> FewShot:
    """Accuracy of an average class when *shots* samples of each are labelled.

    Labelled samples are drawn *draws* times from *codes* `(n, latents)` with *factors* `(n,
    factors)`, by *seed*; accuracy is that on the test part. Where both parts have no two values in
    common the score is 0.

    >>> import numpy as np
    >>> codes, values = np.array([[0.0], [0.1], [5.0], [5.1]]), np.array([[0], [0], [1], [1]])
    >>> few_shot(codes, values, codes, values).score
    1.0
    """
    check_counts(shots=(shots, 1), draws=(draws, 1), seed=(seed, 0))
    train, test = check_split(codes, factors, test_codes, test_factors)
    centre = train.codes.mean(axis=0)
    widest = float(max(np.abs(part.codes - centre).max() for part in (train, test))) or 1.0
    known, asked = ((part.codes - centre) / widest for part in (train, test))
    found, chances = np.full(train.factors.shape[1], np.nan), []
    for place in range(len(found)):
        labels, wanted = train.factors[:, place], test.factors[:, place]
        classes = np.intersect1d(labels, wanted)
        if len(classes) < 2:
            continue
        generator = np.random.default_rng([seed, place])
        groups = [np.flatnonzero(labels == value) for value in classes]
        here = np.isin(wanted, classes)
        truth = np.searchsorted(classes, wanted[here])
        each = [
            _accuracy(_prototypes(known, groups, shots, generator), asked[here], truth)
            for _ in range(draws)
        ]
        found[place] = np.mean(each)
        chances.append(1.0 / len(classes))
    if not chances:
        return FewShot(0.0, found, float("nan"))
    return FewShot(float(np.nanmean(found)), found, float(np.mean(chances)))


def _prototypes(
    codes: NDArray[np.float64],
    groups: list[NDArray[np.int64]],
    shots: int,
    generator: np.random.Generator,
) -> NDArray[np.float64]:
    """The mean code of a few samples of each group."""
    return np.stack(
        [
            codes[generator.choice(group, min(shots, len(group)), replace=False)].mean(axis=0)
            for group in groups
        ]
    )


def _accuracy(
    prototypes: NDArray[np.float64], codes: NDArray[np.float64], truth: NDArray[np.int64]
) -> float:
    """Mean over classes of the share whose nearest prototype is their own."""
    distance = (
        np.square(prototypes).sum(axis=1) - 2.0 * codes @ prototypes.T
    )  # but for the codes' own size
    right = distance.argmin(axis=1) == truth
    counts = np.bincount(truth, minlength=len(prototypes))
    hits = np.bincount(truth, weights=right, minlength=len(prototypes))
    return float((hits / counts).mean())
