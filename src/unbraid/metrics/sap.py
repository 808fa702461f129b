# SPDX-License-Identifier: Apache-2.0
"""SAP, the separated attribute predictability (Kumar et al. 2018, section 3): one latent predicts a factor, best minus second best.

The score of a latent for a factor is, for classes, the plain test accuracy of a class-balanced linear SVM (C = 0.01) on
that latent alone, as in disentanglement_lib; with `continuous`, the squared correlation on the training part, 0 for a
latent whose variance is at most 1e-12. Departs: a constant factor is left out of the mean and listed; a single latent, an
error in the reference, is compared with 0. Traps: the strongly regularised SVM depends on the scale of the codes, and
perfect codes score only about 0.2.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.metrics._aggregation import over_varying, top_gap
from unbraid.metrics._arrays import Labelled, check_counts, check_split
from unbraid.metrics._describe import describe
from unbraid.registry import Citation

SMALLEST_VARIANCE = 1e-12


@dataclass(frozen=True)
class SAP:
    """The mean gap, the gap of each factor (NaN where constant) and the predictability it was taken from."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    per_factor: NDArray[np.float64]
    score_matrix: NDArray[np.float64]
    """`(latents, factors)`: test accuracy, or squared correlation; NaN for a constant factor."""
    constant_factors: tuple[int, ...]
    """Columns left out of the mean because they take one value."""


@describe(
    label="SAP",
    needs="split",
    citation=Citation(
        "Kumar, Sattigeri and Balakrishnan",
        2018,
        "Variational Inference of Disentangled Latent Concepts from Unlabeled Observations",
        "ICLR",
    ),
    result=SAP,
)
def sap(
    codes: ArrayLike,
    factors: ArrayLike,
    test_codes: ArrayLike,
    test_factors: ArrayLike,
    *,
    continuous: bool = False,
    seed: int = 0,
) -> SAP:
    """Gap between the two latents that alone predict a factor best with a linear model.

    *codes* are `(n, latents)`, *factors* whole numbers `(n, factors)`. With *continuous* the values of the factors count as
    numbers, and the test part is checked but not used.

    >>> import numpy as np
    >>> values = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> sap(values * 2.5, values, values * 2.5, values, continuous=True).score
    1.0
    """
    check_counts(seed=(seed, 0))
    train, test = check_split(codes, factors, test_codes, test_factors)
    matrix = _squared_correlations(train) if continuous else _svm_accuracies(train, test, seed)
    score, per_factor = over_varying(top_gap(matrix), train.varying)
    return SAP(score, per_factor, np.where(train.varying, matrix, np.nan), train.constant_factors)


def _squared_correlations(train: Labelled) -> NDArray[np.float64]:
    codes = train.codes - train.codes.mean(axis=0)
    factors = train.factors - train.factors.mean(axis=0)
    free = len(codes) - 1
    code_variance, factor_variance = (codes**2).sum(axis=0) / free, (factors**2).sum(axis=0) / free
    covariance = codes.T @ factors / free
    known = (code_variance > SMALLEST_VARIANCE)[:, None] & train.varying
    squares = np.divide(covariance**2, np.outer(code_variance, factor_variance), where=known, out=np.zeros_like(covariance))
    return np.minimum(squares, 1.0)  # rounding can pass 1


def _svm_accuracies(train: Labelled, test: Labelled, seed: int) -> NDArray[np.float64]:
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.svm import LinearSVC

    accuracy = np.zeros((train.codes.shape[1], len(train.sizes)))
    with warnings.catch_warnings():
        # The reference stops after 1,000 iterations too, and takes what it has.
        warnings.simplefilter("ignore", ConvergenceWarning)
        for latent in range(accuracy.shape[0]):
            train_code, test_code = np.ascontiguousarray(train.codes[:, [latent]]), test.codes[:, [latent]]
            for factor in np.flatnonzero(train.varying):
                classifier = LinearSVC(C=0.01, class_weight="balanced", dual="auto", random_state=seed % 2**32)
                classifier.fit(train_code, train.levels[:, factor])
                accuracy[latent, factor] = np.mean(classifier.predict(test_code) == test.levels[:, factor])
    return accuracy
