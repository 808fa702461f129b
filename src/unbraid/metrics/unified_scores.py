# SPDX-License-Identifier: Apache-2.0
"""Unified scores (Locatello et al. 2020): matrices and aggregations of DCI, MIG and SAP crossed.

DCI, MIG, SAP and modularity each build a matrix `(latents, factors)` and aggregate it. Taken apart,
three matrices (importance to boosted trees, mutual information in nats, test accuracy of an SVM on
one latent) meet four aggregations:

- DCI: disentanglement, and completeness beside it;
- MIG: `mean over k of (largest - second largest of column k) / H(v_k)`, whatever the matrix;
- SAP: `mean over k of (largest - second largest of column k)`;
- modularity: `mean over j of 1 - sum over k != k* of m_jk^2 / ((K - 1) m_jk*^2)`.

Beside them stands a curve: draw an edge between latent and factor where the entry reaches a
threshold, lower the threshold from the largest entry to the smallest, and count the groups of
connected latents and factors. `max_precision` is the largest count, `area_precision` the area under
the count over thresholds. The `score` is the plain mean of the twelve, DCI by its disentanglement.
It is ours, only to have one number to sort by: nobody has published it and its parts have different
units.

Traps: only four of the twelve are published scores (importance with DCI, information with MIG and
modularity, accuracy with SAP). MIG's division by entropy makes sense for information alone, and SAP
on information is in nats, so values pass 1 (perfect codes: 1.84) and grow with the number of factor
values. Accuracies are far from 0 at chance, so that the disentanglement of the accuracy matrix is
low for any codes (perfect ones: 0.13). The area has the unit of its matrix too.

Departs from disentanglement_lib: constant factors, an error there, are left out and listed; a
single latent, an error there, is compared with 0; the boosted trees are those of `dci`, by default
LightGBM's. The reference has no `score`, and it draws plots and a dendrogram, which are not made
here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.registry import Citation
from unbraid.metrics._aggregation import top_gap
from unbraid.metrics._arrays import check_counts, check_split
from unbraid.metrics._describe import describe
from unbraid.metrics._information import entropy, histogram_bins, mutual_information
from unbraid.metrics._least_samples import Fitted
from unbraid.metrics._standardise import Scale
from unbraid.metrics.dci import (
    Backend,
    check_backend,
    completeness,
    disentanglement,
    fit_trees,
    importance_matrix,
)
from unbraid.metrics.modularity import modularity_per_latent
from unbraid.metrics.sap import svm_accuracies


@dataclass(frozen=True)
class Aggregated:
    """One matrix and everything that is read off it."""

    matrix: NDArray[np.float64]
    """`(latents, factors)`, constant factors left out."""
    disentanglement: float
    disentanglement_per_latent: NDArray[np.float64]
    completeness: float
    completeness_per_factor: NDArray[np.float64]
    mig: float
    mig_per_factor: NDArray[np.float64]
    sap: float
    sap_per_factor: NDArray[np.float64]
    modularity: float
    modularity_per_latent: NDArray[np.float64]
    thresholds: NDArray[np.float64]
    """The distinct entries, falling."""
    groups: NDArray[np.int64]
    """Groups of connected latents and factors at each threshold."""
    area_precision: float
    max_precision: int

    @property
    def four(self) -> NDArray[np.float64]:
        """DCI disentanglement, MIG, SAP, modularity."""
        return np.array([self.disentanglement, self.mig, self.sap, self.modularity])


@dataclass(frozen=True)
class UnifiedScores:
    """The mean of the twelve, and each of the three matrices aggregated."""

    range: ClassVar[tuple[float, float]] = (0.0, float("inf"))
    higher_is_better: ClassVar[bool] = True

    score: float
    importance: Aggregated
    """Shares of latents in boosted trees, the matrix of DCI."""
    information: Aggregated
    """Mutual information in nats, the matrix of MIG and modularity."""
    accuracy: Aggregated
    """Test accuracy of linear SVMs on one latent, the matrix of SAP."""
    constant_factors: tuple[int, ...]
    """Columns left out because they take one value."""

    @property
    def twelve(self) -> NDArray[np.float64]:
        """`(3, 4)`: importance, information, accuracy by DCI, MIG, SAP, modularity."""
        return np.stack([each.four for each in (self.importance, self.information, self.accuracy)])


def aggregate(matrix: NDArray[np.float64], factor_entropy: NDArray[np.float64]) -> Aggregated:
    """All scores of *matrix* `(latents, factors)`; *factor_entropy* is in nats.

    >>> found = aggregate(np.array([[0.9, 0.0], [0.1, 0.6]]), np.log([2.0, 4.0]))
    >>> float(found.sap), found.max_precision
    (0.7, 2)
    """
    disentangled, per_latent = disentanglement(matrix)
    complete, per_factor = completeness(matrix)
    gaps, modular = top_gap(matrix), modularity_per_latent(matrix)
    thresholds, groups = connected_groups(matrix)
    return Aggregated(
        matrix=matrix,
        disentanglement=disentangled,
        disentanglement_per_latent=per_latent,
        completeness=complete,
        completeness_per_factor=per_factor,
        mig=float(np.mean(gaps / factor_entropy)),
        mig_per_factor=gaps / factor_entropy,
        sap=float(gaps.mean()),
        sap_per_factor=gaps,
        modularity=float(modular.mean()),
        modularity_per_latent=modular,
        thresholds=thresholds,
        groups=groups,
        area_precision=float(np.sum((groups[1:] + groups[:-1]) / 2 * -np.diff(thresholds))),
        max_precision=int(groups.max()),
    )


def connected_groups(matrix: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The distinct entries of *matrix*, falling, and the groups that edges of at least each make.

    A group is a connected set of latents and factors with an edge; an entry of 0 never is one.
    """
    latents = len(matrix)
    leader = list(range(sum(matrix.shape)))
    alone = [True] * len(leader)

    def lead(node: int) -> int:
        while leader[node] != node:
            leader[node] = node = leader[leader[node]]
        return node

    thresholds, place = np.unique(matrix, return_inverse=True)
    place = place.reshape(matrix.shape)
    count, groups = 0, []
    for rank in range(len(thresholds) - 1, -1, -1):
        edges = np.argwhere(place == rank) if thresholds[rank] != 0 else []
        for latent, factor in edges:
            left, right = lead(latent), lead(latents + factor)
            if left != right:
                leader[left] = right
                count += alone[left] and alone[right]  # two loose ends make a group ...
                count -= not (alone[left] or alone[right])  # ... and two groups become one
                alone[left] = alone[right] = False
        groups.append(count)
    return thresholds[::-1], np.array(groups, dtype=np.int64)


@describe(
    label="Unified scores",
    needs="split",
    compares_factors=True,
    citation=Citation(
        "Locatello et al.",
        2020,
        "A Sober Look at the Unsupervised Learning of Disentangled Representations and their"
        " Evaluation",
        "JMLR",
    ),
    result=UnifiedScores,
    least_samples=Fitted(),
    scale=Scale("SAP is a part of it", offset=True),
)
def unified_scores(
    codes: ArrayLike,
    factors: ArrayLike,
    test_codes: ArrayLike,
    test_factors: ArrayLike,
    *,
    bins: int = 20,
    backend: Backend = "lightgbm",
    seed: int = 0,
) -> UnifiedScores:
    """Importances, information and accuracies, each aggregated as DCI, MIG, SAP and modularity do.

    *codes* are `(n, latents)`, *factors* whole numbers `(n, factors)`; *bins* are those of MIG,
    *backend* and *seed* those of DCI.

    >>> import numpy as np
    >>> values = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 5)
    >>> round(unified_scores(values * 2.5, values, values * 2.5, values).information.mig, 6)
    1.0
    """
    check_counts(bins=(bins, 2), seed=(seed, 0))
    check_backend(backend)
    train, test = check_split(codes, factors, test_codes, test_factors)
    information = mutual_information(
        histogram_bins(train.codes, bins), bins, train.levels, train.sizes
    )
    importance = importance_matrix(fit_trees(train, test, backend, seed), train)
    nats = entropy(train.levels, train.sizes)[train.varying]
    parts = [
        aggregate(each[:, train.varying], nats)
        for each in (importance, information, svm_accuracies(train, test))
    ]
    score = float(np.mean([part.four for part in parts]))
    return UnifiedScores(score, *parts, constant_factors=train.constant_factors)
