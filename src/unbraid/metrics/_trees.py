# SPDX-License-Identifier: Apache-2.0
"""Boosted trees that predict a factor from codes, and how much each latent contributed to them.

Both backends are scikit-learn's gradient boosting: 100 rounds of depth-3 trees with learning rate
0.1 from the class frequencies, splits by the variance of the residuals, leaves by one Newton step
of the deviance, and a latent counts by the variance that its splits remove. The second has its
trees grown by LightGBM, which differs in three things: a latent of more than 1,000 values is cut at
254 places, ties between latents are settled by turns, and latents that order the samples alike,
forwards or backwards, are one latent whose importance is shared equally (scikit-learn draws lots,
the same in the mean).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unbraid.metrics._tree_growth import DEPTH, LEAVES, ORDERS, Binned, Grower, as_datasets

ROUNDS = 100
LEARNING_RATE = 0.1
SMALLEST_CURVATURE = 1e-150
"""A leaf of less curvature stays as it is, as in scikit-learn."""


@dataclass(frozen=True)
class Fit:
    """What boosted trees say: the share of each latent, and predicted levels of both parts."""

    importance: NDArray[np.float64]
    train_prediction: NDArray[np.int64]
    test_prediction: NDArray[np.int64]


def fit_sklearn(
    codes: NDArray[np.float64],
    levels: NDArray[np.int64],
    test_codes: NDArray[np.float64],
    draws: np.random.RandomState,
) -> Fit:
    """scikit-learn's `GradientBoostingClassifier` with its defaults, ties broken by *draws*."""
    from sklearn.ensemble import GradientBoostingClassifier

    if np.ptp(levels) == 0:
        return always(levels[0], codes, test_codes)
    model = GradientBoostingClassifier(
        n_estimators=ROUNDS, learning_rate=LEARNING_RATE, max_depth=DEPTH, random_state=draws
    )
    model.fit(codes, levels)
    return Fit(
        np.abs(model.feature_importances_),
        np.asarray(model.predict(codes)),
        np.asarray(model.predict(test_codes)),
    )


def fit_lightgbm(
    codes: NDArray[np.float64],
    levels: NDArray[np.int64],
    test_codes: NDArray[np.float64],
    seed: int,
) -> Fit:
    """The same boosting with trees grown by LightGBM; *seed* orders the latents."""
    return lightgbm_fitter(codes, test_codes, seed)(levels)


def lightgbm_fitter(
    codes: NDArray[np.float64], test_codes: NDArray[np.float64], seed: int
) -> Callable[[NDArray[np.int64]], Fit]:
    """`fit_lightgbm` for many factors of the same codes, which are prepared once."""
    alike = latents_ordered_alike(codes)
    first = [group[0] for group in alike]
    bins = Binned.of(codes[:, first], test_codes[:, first])
    orders = turns(len(first), seed)
    datasets = as_datasets(bins.train, orders) if first else []

    def fit(levels: NDArray[np.int64]) -> Fit:
        values, classes = np.unique(levels, return_inverse=True)
        if len(values) == 1:
            return always(values[0], codes, test_codes)
        boosting = _Boosting(classes, bins)
        importance = np.zeros(codes.shape[1])
        if datasets:
            grower = Grower(datasets, orders, boosting.columns)
            boosting.run(grower)
            removed = grower.removed_variance()
            for group, variance in zip(alike, removed, strict=True):
                importance[group] = variance / len(group)
        share = importance / importance.sum() if importance.any() else importance
        return Fit(
            share,
            values[boosting.choice(boosting.score)],
            values[boosting.choice(boosting.test_score)],
        )

    return fit


def turns(latents: int, seed: int) -> list[NDArray[np.int64]]:
    """Orders of so many latents that take turns, round by round, in settling ties."""
    draws = np.random.default_rng(seed)
    return [draws.permutation(latents) for _ in range(min(ORDERS, latents))]


def latents_ordered_alike(codes: NDArray[np.float64]) -> list[NDArray[np.int64]]:
    """Groups of latents that order the samples alike or in reverse: trees cannot tell them apart.

    Constant latents, which no tree can use, are in no group.

    >>> codes = np.array([[1.0, 9.0, 5.0, 4.0], [2.0, 3.0, 5.0, 6.0], [3.0, 0.0, 5.0, 5.0]])
    >>> latents_ordered_alike(codes)
    [array([0, 1]), array([3])]
    """
    groups: dict[bytes, list[int]] = {}
    for latent, values in enumerate(codes.T):
        distinct, rank = np.unique(values, return_inverse=True)
        if len(distinct) > 1:
            forwards, backwards = rank.tobytes(), (len(distinct) - 1 - rank).tobytes()
            groups.setdefault(min(forwards, backwards), []).append(latent)
    return [np.array(group) for group in groups.values()]


def always(level: Any, codes: NDArray[np.float64], test_codes: NDArray[np.float64]) -> Fit:
    """A single level needs no trees."""
    return Fit(
        np.zeros(codes.shape[1]), np.full(len(codes), level), np.full(len(test_codes), level)
    )


class _Boosting:
    """Scores `(columns, n)` of both parts: a column per class, or one of log-odds for two."""

    def __init__(self, classes: NDArray[np.int64], bins: Binned) -> None:
        share = np.bincount(classes) / len(classes)
        start = np.log(share) if len(share) > 2 else np.log(share[1:] / share[:1])
        self.columns = len(start)
        self._classes, self._bins, self._rows = classes, bins, np.arange(len(classes))
        self.score, self.test_score = (
            np.repeat(start[:, None], part.shape[1], axis=1) for part in (bins.train, bins.test)
        )

    def run(self, grower: Grower) -> None:
        """All rounds, or as many as find something to split."""
        first_leaf = LEAVES * np.arange(self.columns)[:, None]
        for _ in range(ROUNDS):
            probability = self._probability()
            residual = -probability
            if self.columns > 1:
                residual[self._classes, self._rows] += 1.0
            else:
                residual[0] += self._classes
            trees = grower.grow(residual)
            if trees is None:
                return
            leaf = trees.leaf(self._bins.train) + first_leaf
            step = self._newton_step(leaf, residual, probability)
            self.score += step[leaf]
            self.test_score += step[trees.leaf(self._bins.test) + first_leaf]

    def _probability(self) -> NDArray[np.float64]:
        if self.columns == 1:
            return 0.5 + 0.5 * np.tanh(self.score / 2)  # the logistic function, without overflow
        weight = np.exp(self.score - self.score.max(axis=0))
        return weight / weight.sum(axis=0)

    def _newton_step(
        self,
        leaf: NDArray[np.int64],
        residual: NDArray[np.float64],
        probability: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """What each leaf adds to the score: residuals over curvature, times the learning rate."""
        slots = LEAVES * self.columns
        slope = np.bincount(leaf.ravel(), residual.ravel(), slots)
        curvature = np.bincount(leaf.ravel(), (probability * (1.0 - probability)).ravel(), slots)
        # Friedman 2001, algorithm 6.
        redundant = (self.columns - 1) / self.columns if self.columns > 1 else 1.0
        step = np.divide(
            slope, curvature, where=curvature > SMALLEST_CURVATURE, out=np.zeros(slots)
        )
        return LEARNING_RATE * redundant * step

    def choice(self, score: NDArray[np.float64]) -> NDArray[np.int64]:
        """The class that *score* favours for each sample."""
        return score.argmax(axis=0) if self.columns > 1 else (score[0] > 0.0).astype(np.int64)
