# SPDX-License-Identifier: Apache-2.0
"""Boosted trees that predict a factor from codes, and how much each latent contributed to them.

Both backends grow 100 rounds of depth-3 trees with learning rate 0.1 from the class frequencies, and measure a latent by
the variance of the residuals that its splits remove, summed over all trees, as scikit-learn does. They differ in which
split they choose: LightGBM weighs samples by the curvature of the loss and looks at 255 cuts a latent; of two equally
good latents it takes the first, where scikit-learn draws lots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import lightgbm

ROUNDS = 100
LEARNING_RATE = 0.1
DEPTH = 3


@dataclass(frozen=True)
class Fit:
    """What boosted trees say: the share of each latent, and predicted levels of both parts."""

    importance: NDArray[np.float64]
    train_prediction: NDArray[np.int64]
    test_prediction: NDArray[np.int64]


def fit_sklearn(
    codes: NDArray[np.float64], levels: NDArray[np.int64], test_codes: NDArray[np.float64], draws: np.random.RandomState
) -> Fit:
    """scikit-learn's `GradientBoostingClassifier` with its defaults, ties broken by *draws*."""
    from sklearn.ensemble import GradientBoostingClassifier

    model = GradientBoostingClassifier(n_estimators=ROUNDS, learning_rate=LEARNING_RATE, max_depth=DEPTH, random_state=draws)
    model.fit(codes, levels)
    return Fit(np.abs(model.feature_importances_), np.asarray(model.predict(codes)), np.asarray(model.predict(test_codes)))


def fit_lightgbm(codes: NDArray[np.float64], levels: NDArray[np.int64], test_codes: NDArray[np.float64], seed: int) -> Fit:
    """LightGBM grown like scikit-learn's trees: full depth-3 trees, single samples allowed in a leaf, no regularisation."""
    import lightgbm

    share = np.bincount(levels) / len(levels)
    classes = len(share)
    # Two classes are one column of log-odds, more are one column each; starting there keeps leaf values free of an offset.
    start = np.log(share) if classes > 2 else np.log(share[1:] / share[:1])
    parameters = {
        "objective": "multiclass" if classes > 2 else "binary",
        "num_class": classes if classes > 2 else 1,
        "learning_rate": LEARNING_RATE,
        "max_depth": DEPTH,
        "num_leaves": 2**DEPTH,
        "min_data_in_leaf": 1,
        "min_data_in_bin": 1,
        "max_bin": 255,
        "boost_from_average": False,
        "metric": "None",
        "feature_pre_filter": False,
        "enable_bundle": False,
        "force_col_wise": True,
        "deterministic": True,
        "num_threads": 1,  # sums in one order: the same bits everywhere
        "seed": seed % 2**31,
        "verbosity": -1,
    }
    initial = np.tile(start, (len(codes), 1)) if classes > 2 else np.full(len(codes), start[0])
    booster = lightgbm.Booster(parameters, lightgbm.Dataset(codes, levels, init_score=initial, params=parameters))
    for _ in range(ROUNDS):
        booster.update()

    # The booster holds what it says of its training rows; asking through an evaluation spares running all trees again.
    seen: list[NDArray[np.float64]] = []

    def keep(said: NDArray[np.float64], _: object) -> tuple[str, float, bool]:
        seen.append(np.array(said).reshape(len(codes), -1))
        return ("kept", 0.0, True)

    booster.eval_train(keep)
    raw = np.asarray(booster.predict(test_codes, raw_score=True)).reshape(len(test_codes), -1) + start
    if classes > 2:
        train_prediction, test_prediction = seen[0].argmax(axis=1), raw.argmax(axis=1)
    else:  # one column: the probability of the second class, and its log-odds
        train_prediction, test_prediction = (seen[0][:, 0] > 0.5).astype(np.int64), (raw[:, 0] > 0.0).astype(np.int64)
    return Fit(_variance_importance(booster, codes.shape[1]), train_prediction, test_prediction)


def _variance_importance(booster: lightgbm.Booster, latents: int) -> NDArray[np.float64]:
    """Share of each latent in the residual variance that splits remove.

    A node's value is `-rate * G / H` with G the sum of gradients (residuals) and H its weight, so `G / n` and with it the
    variance removed by a split, `n_left n_right / n * (mean_left - mean_right)^2`, follow from the stored trees.
    """
    total = np.zeros(latents)
    for tree in booster.model_to_string().split("\nTree=")[1:]:
        fields = dict(line.split("=", 1) for line in tree.splitlines() if "=" in line)
        if int(fields["num_leaves"]) < 2:
            continue
        split_latent = np.array(fields["split_feature"].split(), dtype=np.int64)
        inner, leaf = (
            [np.array(fields[f"{kind}_{name}"].split(), dtype=np.float64) for name in ("value", "weight", "count")]
            for kind in ("internal", "leaf")
        )
        # Children count inner nodes from 0 upwards and leaves from -1 downwards: leaves reversed fit behind the inner nodes.
        value, weight, count = (np.concatenate([mine, other[::-1]]) for mine, other in zip(inner, leaf, strict=True))
        mean_residual = value * weight / count
        left, right = (np.array(fields[side].split(), dtype=np.int64) for side in ("left_child", "right_child"))
        removed = count[left] * count[right] / count[: len(left)] * (mean_residual[left] - mean_residual[right]) ** 2
        np.add.at(total, split_latent, removed)
    return total / total.sum() if total.sum() > 0 else total
