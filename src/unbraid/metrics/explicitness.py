# SPDX-License-Identifier: Apache-2.0
"""Explicitness (Ridgeway and Mozer 2018): how well a linear classifier reads off the factors.

Codes are standardised by mean and standard deviation of the training part. For each factor a
logistic regression with scikit-learn's defaults (L2, C = 1, all classes at once) learns its values;
a value's probabilities on the test part are rated by the area under the ROC curve (AUC), the chance
that a sample of the value gets more of it than one of another value, ties half. The score is the
mean over the values of a factor, then over factors. Chance is 0.5; `above_chance = 2 score - 1`
puts it at 0.

Traps: explicit is not disentangled: a rotation of perfect codes scores what the perfect codes score
(0.998). It saturates, since ranking a value's samples first is easier than naming it: codes from
which 84 % of values are predicted right score 0.97. The middle values of an ordered factor are
hardest for a linear classifier, so perfect codes of a factor of 15 values score 0.94 on it. With
one of five factors missing the score is still 0.90.

Departs from disentanglement_lib: nothing with scikit-learn 0.22 or newer, where it, too, learns all
values at once; older versions, and probably the paper, learn each value against the rest, which
gave 0.806 to 0.989 for perfect codes that have 1.000 here. A constant latent, an error there, is
left at 0. A value absent from the test part, an error there, is left out of the factor's mean; a
value that only the test part has gets the same probability everywhere and counts 0.5. A factor that
is constant in training or takes one value in the test part is left out and listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import Shown, invalid
from unbraid.core.registry import Citation
from unbraid.metrics._arrays import Labelled, check_split
from unbraid.metrics._describe import describe
from unbraid.metrics._least_samples import Fitted
from unbraid.metrics._logistic import accept_unconverged
from unbraid.metrics._standardise import standardised

AUC_OF_CHANCE = 0.5


@dataclass(frozen=True)
class Explicitness:
    """Mean AUC on the test part and on the training part, and the AUC of each factor."""

    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True

    score: float
    train_score: float
    per_factor: NDArray[np.float64]
    """Test AUC; NaN for a factor left out, as in the next."""
    train_per_factor: NDArray[np.float64]
    constant_factors: tuple[int, ...]
    """Columns left out because they take one value in the training part."""
    untested_factors: tuple[int, ...]
    """Columns left out because they take one value in the test part only."""

    @property
    def above_chance(self) -> float:
        """The score with chance at 0 and perfection at 1."""
        return 2.0 * self.score - 1.0


@describe(
    label="Explicitness",
    needs="split",
    citation=Citation(
        "Ridgeway and Mozer",
        2018,
        "Learning Deep Disentangled Embeddings with the F-Statistic Loss",
        "NeurIPS",
    ),
    result=Explicitness,
    least_samples=Fitted(),
)
def explicitness(
    codes: ArrayLike, factors: ArrayLike, test_codes: ArrayLike, test_factors: ArrayLike
) -> Explicitness:
    """How well logistic regression on all latents ranks the factors' values (area under the ROC).

    *codes* are `(n, latents)`, *factors* whole numbers `(n, factors)`.

    >>> import numpy as np
    >>> values = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> explicitness(values * 2.5, values, values * 2.5, values).score
    1.0
    """
    train, test = check_split(codes, factors, test_codes, test_factors)
    tested = test.factors.min(axis=0) != test.factors.max(axis=0)
    counted = np.flatnonzero(train.varying & tested)
    if len(counted) == 0:
        rule = "must take at least two values in some column that varies in factors"
        raise invalid("test_factors", rule, Shown("one value in each of them"))
    standard, test_standard = (part.codes for part in standardised(train, test))
    area, train_area = (np.full(len(train.sizes), np.nan) for _ in range(2))
    for factor in counted:
        said, test_said = _probabilities(standard, train.levels[:, factor], test_standard)
        train_area[factor] = _mean_area(said, train.levels[:, factor], 0)
        area[factor] = _mean_area(
            test_said, test.levels[:, factor], _unseen_values(test, int(factor))
        )
    return Explicitness(
        score=float(area[counted].mean()),
        train_score=float(train_area[counted].mean()),
        per_factor=area,
        train_per_factor=train_area,
        constant_factors=train.constant_factors,
        untested_factors=tuple(int(factor) for factor in np.flatnonzero(train.varying & ~tested)),
    )


def _probabilities(
    codes: NDArray[np.float64], levels: NDArray[np.int64], test_codes: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    from sklearn.linear_model import LogisticRegression

    with accept_unconverged():
        model = LogisticRegression().fit(codes, levels)
        return model.predict_proba(codes), model.predict_proba(test_codes)


def _unseen_values(test: Labelled, factor: int) -> int:
    """How many values of *factor* the test part has and the training part has not."""
    return len(np.unique(test.factors[test.levels[:, factor] < 0, factor]))


def _mean_area(probability: NDArray[np.float64], levels: NDArray[np.int64], unseen: int) -> float:
    """Mean AUC over the values that occur, *unseen* ones without a column among them."""
    areas = [
        area_under_roc(column, levels == level)
        for level, column in enumerate(probability.T)
        if np.any(levels == level)
    ]
    return float(np.mean(areas + unseen * [AUC_OF_CHANCE]))


def area_under_roc(rating: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """How often a positive sample is rated above another, ties half; both kinds must occur.

    >>> area_under_roc(np.array([0.1, 0.4, 0.4, 0.9]), np.array([False, True, False, True]))
    0.875
    """
    ordered, mine = np.sort(rating), rating[positive]
    below, up_to = (np.searchsorted(ordered, mine, side) for side in ("left", "right"))
    wins_among_all = (below + up_to).sum() / 2  # half of each tie, the sample's own included
    return float((wins_among_all - len(mine) ** 2 / 2) / (len(mine) * (len(rating) - len(mine))))
