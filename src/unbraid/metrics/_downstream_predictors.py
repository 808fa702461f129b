# SPDX-License-Identifier: Apache-2.0
"""The two predictors of the downstream tasks, with an answer for every sample, however small.

A sample of one value has nothing to learn: that value is predicted everywhere. Codes without a
latent say nothing: the most frequent value is predicted, the lowest of several. Fewer rows than
folds make as many folds as there are rows. Levels may have gaps, as those of a small part of a
sample do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import InputError, Shown, invalid, unknown
from unbraid.metrics._arrays import Labelled
from unbraid.metrics._logistic import accept_unconverged
from unbraid.metrics._trees import Fit, fit_lightgbm, fit_sklearn

Backend = Literal["lightgbm", "sklearn"]
FOLDS = 5
PENALTIES = 10
"""Inverse strengths from 1e-4 to 1e4 that are tried."""


@dataclass(frozen=True)
class Trees:
    """Boosted trees of one backend; scikit-learn's draw from one stream for all fits."""

    backend: Backend
    seed: int
    draws: np.random.RandomState

    @classmethod
    def of(cls, backend: Backend, seed: int) -> Trees:
        """Trees of *backend*, refused where there is none of that name."""
        if backend not in get_args(Backend):
            raise InputError(unknown("backend", str(backend), get_args(Backend)))
        return cls(backend, seed, np.random.RandomState(seed % 2**32))

    def fit(
        self, codes: NDArray[np.float64], levels: NDArray[np.int64], test_codes: NDArray[np.float64]
    ) -> Fit:
        """Importances and predicted levels of both parts."""
        if codes.shape[1] == 0:
            values, counts = np.unique(levels, return_counts=True)
            most = values[counts.argmax()]
            return Fit(np.zeros(0), np.full(len(codes), most), np.full(len(test_codes), most))
        if self.backend == "lightgbm":
            return fit_lightgbm(codes, levels, test_codes, self.seed)
        return fit_sklearn(codes, levels, test_codes, self.draws)

    def predict(
        self, codes: NDArray[np.float64], levels: NDArray[np.int64], test_codes: NDArray[np.float64]
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Predicted levels of both parts."""
        fit = self.fit(codes, levels, test_codes)
        return fit.train_prediction, fit.test_prediction


def fit_logistic(
    codes: NDArray[np.float64], levels: NDArray[np.int64], test_codes: NDArray[np.float64]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Levels of both parts by logistic regression with a cross-validated penalty.

    scikit-learn's own loop over penalties and folds is used, not a faster one: at weak penalties it
    stops after 100 iterations without having converged, so that only the same arithmetic chooses
    the same penalty.
    """
    from sklearn.linear_model import LogisticRegressionCV
    from sklearn.model_selection import KFold

    if np.all(levels == levels[0]):
        return np.full(len(codes), levels[0]), np.full(len(test_codes), levels[0])
    model = LogisticRegressionCV(Cs=PENALTIES, cv=KFold(min(FOLDS, len(codes))), scoring="accuracy")
    with accept_unconverged():
        model.fit(codes, levels)
        return np.asarray(model.predict(codes)), np.asarray(model.predict(test_codes))


def accuracy(prediction: NDArray[np.int64], levels: NDArray[np.int64]) -> float:
    """Share of rows predicted right; a level of -1, unknown in training, counts as wrong."""
    return float(np.mean(prediction == levels))


def check_two_vary(rows: Labelled) -> NDArray[np.int64]:
    """Columns of the factors that vary; fewer than two are refused."""
    varying = np.flatnonzero(rows.varying)
    if len(varying) < 2:
        raise invalid("factors", "must vary in at least two columns", Shown(f"{len(varying)}"))
    return varying
