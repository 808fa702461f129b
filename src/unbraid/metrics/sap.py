# SPDX-License-Identifier: Apache-2.0
"""SAP, separated attribute predictability (Kumar et al. 2018, section 3): best minus second best.

Each latent alone predicts each factor, which gives a matrix S `(latents, factors)`; `SAP = mean
over k of (largest S_jk - second largest S_jk)`. For classes S is the plain test accuracy of a
class-balanced linear SVM with C = 0.01, disentanglement_lib's, on the one latent. With `continuous`
it is the squared correlation of latent and factor value on the training part, 0 for a latent that
deviates by less than a four-millionth of the widest.

Traps: a linear SVM that sets each class against the rest cannot pick the middle values of an
ordered factor, so perfect codes are far from 1, the further the more values factors have: with unit
variance and 1,000 samples they score 0.34 to 0.42 for sizes 3, 4, 5, 7 and 10, 0.20 to 0.24 for 3,
6, 10, 8 and 8, and 0.18 to 0.20 for 10, 10, 10, 8, 4 and 15. More samples raise it (the second:
0.36 to 0.38 at 10,000). The strong regularisation makes it depend on the scale of a latent: at a
tenth of it the three score 0.19 to 0.22, 0.16 to 0.18 and 0.11 to 0.12, and perfect codes beside
copies at a tenth 0.06 to 0.24 instead of the 0 that copies at the same or a larger scale score. An
offset lowers it too, since the SVM's intercept is regularised (0.38, 0.36, 0.22 and 0.27 for
offsets of 0, 0.5, 1 and 3 deviations): pass `standardise` for codes that do not come from a
standard normal prior. It is not the default, since a latent that a VAE switched off, next to 0,
would count like any other. The SVM weighs classes equally, the accuracy does not. `continuous` is
free of scale but sees linear relations only, and a factor whose values have no order is not for it.

Departs from disentanglement_lib: the lines of the SVMs are its lines to eleven digits, found
without going through the samples (see `_line_svm.py`); with `continuous` it takes a latent for
constant that deviates by 1e-6, whatever the others do; for factors of two values scikit-learn's own
SVM is used. A constant factor is left out of the mean and listed; a single latent, an error there,
is compared with 0; a factor value that training never showed counts as wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.registry import Citation
from unbraid.metrics._aggregation import over_varying, top_gap
from unbraid.metrics._arrays import Labelled, check_split
from unbraid.metrics._describe import describe
from unbraid.metrics._least_samples import Fitted
from unbraid.metrics._line_svm import COST, train_lines
from unbraid.metrics._logistic import accept_unconverged
from unbraid.metrics._resampled import Resampled
from unbraid.metrics._standardise import Scale, standard_deviations, standardised
from unbraid.metrics._standardise import standardise as to_unit

SMALLEST_SHARE = 2.0**-22
"""Below it codes in single precision move by rounding."""


@dataclass(frozen=True)
class SAP:
    """The mean gap, each factor's gap (NaN where constant) and the predictability behind it."""

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
    revision_with={"continuous": 2},
    citation=Citation(
        "Kumar, Sattigeri and Balakrishnan",
        2018,
        "Variational Inference of Disentangled Latent Concepts from Unlabeled Observations",
        "ICLR",
    ),
    result=SAP,
    least_samples=Fitted(),
    scale=Scale(
        "its SVMs are regularised", offset=True, free={"standardise": True, "continuous": True}
    ),
    error=Resampled("cheap", 8, with_replacement=True, decided_by_fitting="continuous"),
)
def sap(
    codes: ArrayLike,
    factors: ArrayLike,
    test_codes: ArrayLike,
    test_factors: ArrayLike,
    *,
    continuous: bool = False,
    standardise: bool = False,
) -> SAP:
    """Gap between the two latents that alone predict a factor best with a linear model.

    *codes* are `(n, latents)`, *factors* whole numbers `(n, factors)`. With *continuous* the values
    of the factors count as numbers, and the test part is checked but not used. *standardise* brings
    each latent to mean 0 and variance 1 by the training part, so that scale and offset are the same
    for all codes.

    >>> import numpy as np
    >>> values = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> sap(values * 2.5, values, values * 2.5, values, continuous=True).score
    1.0
    """
    train, test = check_split(codes, factors, test_codes, test_factors)
    if standardise:
        train, test = standardised(train, test)
    matrix = _squared_correlations(train) if continuous else svm_accuracies(train, test)
    score, per_factor = over_varying(top_gap(matrix), train.varying)
    return SAP(score, per_factor, np.where(train.varying, matrix, np.nan), train.constant_factors)


def _squared_correlations(train: Labelled) -> NDArray[np.float64]:
    deviation = standard_deviations(train.codes)
    known = deviation > SMALLEST_SHARE * deviation.max()
    codes, factors = to_unit(train.codes), to_unit(train.factors.astype(np.float64))
    correlation = np.where(known[:, None], codes.T @ factors / len(codes), 0.0)
    return np.minimum(correlation**2, 1.0)  # rounding can pass 1


def svm_accuracies(train: Labelled, test: Labelled) -> NDArray[np.float64]:
    """Test accuracy `(latents, factors)` of a linear SVM on one latent; 0 for constant factors."""
    accuracy = np.zeros((train.codes.shape[1], len(train.sizes)))
    many = [factor for factor, size in enumerate(train.sizes) if size > 2]
    sizes = [train.sizes[factor] for factor in many]
    for latent in range(len(accuracy)):
        lines = (
            train_lines(train.codes[:, latent], train.levels[:, many], sizes)
            if many
            else np.empty((2, 0))
        )
        for factor, size, end in zip(many, sizes, np.cumsum(sizes), strict=True):
            slope, offset = lines[:, end - size : end, None]
            said = np.argmax(slope * test.codes[:, latent] + offset, axis=0)
            accuracy[latent, factor] = np.mean(said == test.levels[:, factor])
        for factor in (factor for factor, size in enumerate(train.sizes) if size == 2):
            said = _told_apart(
                train.codes[:, [latent]], train.levels[:, factor], test.codes[:, [latent]]
            )
            accuracy[latent, factor] = np.mean(said == test.levels[:, factor])
    return accuracy


def _told_apart(
    codes: NDArray[np.float64], levels: NDArray[np.int64], test_codes: NDArray[np.float64]
) -> NDArray[np.int64]:
    """What scikit-learn's SVM says of two classes.

    On a latent of small scale (1e-3) their line improves the loss by less than its rounding, so
    that whether a last step is taken, and with it the prediction, is up to the order of the sums:
    only the same code gives the same answer.
    """
    from sklearn.svm import LinearSVC

    with accept_unconverged():
        classifier = LinearSVC(C=COST, class_weight="balanced", dual="auto", random_state=0)
        return np.asarray(classifier.fit(np.ascontiguousarray(codes), levels).predict(test_codes))
