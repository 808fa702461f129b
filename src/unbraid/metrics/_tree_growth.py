# SPDX-License-Identifier: Apache-2.0
"""Depth-3 regression trees grown by LightGBM on residuals, and the leaves in which samples end.

With the residuals as gradients and 1 as every curvature, the gain that LightGBM maximises is the
variance that a split removes, which is scikit-learn's criterion too. LightGBM sees the bins of the
latents only; which leaf a sample is in is found here, for all trees of a round at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import lightgbm

DEPTH = 3
LEAVES = 2**DEPTH
INNER_NODES = LEAVES - 1

EXACT_VALUES = 1_000
"""A latent of at most so many values can be cut between any two of them, as scikit-learn does."""
COARSE_BINS = 254
"""Bins of equal counts for a latent of more values; what LightGBM keeps in one byte."""

ORDERS = 4
"""Orders of the latents that take turns: of equally good latents LightGBM takes the first,
scikit-learn draws lots.
"""


@dataclass(frozen=True)
class Binned:
    """Bins `(latents, n)` of training and test codes."""

    train: NDArray[np.unsignedinteger]
    test: NDArray[np.unsignedinteger]

    @classmethod
    def of(cls, codes: NDArray[np.float64], test_codes: NDArray[np.float64]) -> Binned:
        """Bin every latent of both parts; cuts are halfway between training values."""
        train, test = (np.empty(part.shape[::-1], dtype=np.uint16) for part in (codes, test_codes))
        for latent, (values, asked) in enumerate(zip(codes.T, test_codes.T, strict=True)):
            distinct, place, counts = np.unique(values, return_inverse=True, return_counts=True)
            bin_of_value = np.arange(len(distinct))
            if len(distinct) > EXACT_VALUES:
                middle = np.cumsum(counts) - counts / 2
                bin_of_value = np.unique(
                    (COARSE_BINS * middle / len(values)).astype(np.int64), return_inverse=True
                )[1]
            last = np.flatnonzero(np.diff(bin_of_value))
            below, above = distinct[last], distinct[last + 1]
            halfway = (below + above) / 2
            train[latent] = bin_of_value[place]
            # Of neighbours it rounds to one.
            test[latent] = np.searchsorted(np.where(halfway < above, halfway, below), asked)
        widest = train.max(initial=0)
        narrow = np.uint8 if widest < 256 else np.uint16
        return cls(train.astype(narrow), test.astype(narrow))


@dataclass(frozen=True)
class Trees:
    """Splits of a round of trees `(trees, 7)`, parents first; a sample goes right above the cut."""

    latent: NDArray[np.int64]
    cut: NDArray[np.uint16]

    def leaf(self, bins: NDArray[np.unsignedinteger]) -> NDArray[np.uint8]:
        """Leaf 0..7 `(trees, n)` of each sample of *bins* `(latents, n)`."""
        # Bytes compare fastest with bytes.
        cut = np.minimum(self.cut, np.iinfo(bins.dtype).max).astype(bins.dtype)
        right = [bins[self.latent[:, node]] > cut[:, node, None] for node in range(INNER_NODES)]
        second = _choose(right[0], right[2], right[1])
        third = _choose(
            right[0], _choose(second, right[6], right[5]), _choose(second, right[4], right[3])
        )
        first, second, third = (side.view(np.uint8) for side in (right[0], second, third))
        return np.bitwise_or(np.bitwise_or(first << 2, second << 1), third, dtype=np.uint8)


def _choose(
    condition: NDArray[np.bool_], then: NDArray[np.bool_], otherwise: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """`np.where` of truth values, several times faster."""
    return otherwise ^ (condition & (then ^ otherwise))


class Grower:
    """Grows trees on residuals, round after round, and adds up the variance each latent removes."""

    def __init__(
        self, data: list[lightgbm.Dataset], orders: list[NDArray[np.int64]], columns: int
    ) -> None:
        import lightgbm

        self._orders = orders
        self._boosters = [
            lightgbm.Booster({**PARAMETERS, "num_class": columns}, each) for each in data
        ]
        self._curvature = np.ones(columns * data[0].num_data(), dtype=np.float32)
        self._rounds = 0

    def grow(self, residual: NDArray[np.float64]) -> Trees | None:
        """Trees that predict *residual* `(columns, n)`; None when no split removes variance."""
        earlier, turn = divmod(self._rounds, len(self._boosters))
        booster = self._boosters[turn]
        gradient = np.negative(residual, dtype=np.float32, casting="same_kind").ravel()
        if booster.update(fobj=lambda *_: (gradient, self._curvature)):
            return None
        self._rounds += 1
        return _read_trees(
            booster.model_to_string(num_iteration=1, start_iteration=earlier), self._orders[turn]
        )

    def removed_variance(self) -> NDArray[np.float64]:
        """Variance removed by the splits of each latent, over all trees grown."""
        total = np.zeros(len(self._orders[0]))
        for booster, order in zip(self._boosters, self._orders, strict=True):
            total[order] += booster.feature_importance("gain")
        return total


PARAMETERS: dict[str, Any] = {
    "objective": "none",
    "learning_rate": 1.0,
    "max_depth": DEPTH,
    "num_leaves": LEAVES,
    "min_data_in_leaf": 1,
    "min_sum_hessian_in_leaf": 0.0,
    "min_data_in_bin": 1,
    "max_bin": EXACT_VALUES + 1,
    "bin_construct_sample_cnt": 2**31 - 1,
    "use_missing": False,
    "feature_pre_filter": False,
    "enable_bundle": False,
    "force_col_wise": True,
    "deterministic": True,
    "num_threads": 1,  # sums in one order: the same bits everywhere
    "metric": "None",
    "verbosity": -1,
}


def as_datasets(
    bins: NDArray[np.unsignedinteger], orders: list[NDArray[np.int64]]
) -> list[lightgbm.Dataset]:
    """LightGBM's form of *bins* `(latents, n)`, once for each order of the latents."""
    import lightgbm

    rows = np.ascontiguousarray(bins.T, dtype=np.float32)
    unused = np.zeros(len(rows))  # residuals come round by round, but LightGBM insists on a target
    return [
        lightgbm.Dataset(rows[:, order], unused, params=PARAMETERS).construct() for order in orders
    ]


def _read_trees(text: str, order: NDArray[np.int64]) -> Trees:
    """The trees in LightGBM's *text*, latents in *order*; a missing split sends samples left."""
    written = text.split("\nTree=")[1:]
    latent = np.zeros((len(written), INNER_NODES), dtype=np.int64)
    cut = np.full((len(written), INNER_NODES), np.iinfo(np.uint16).max, dtype=np.uint16)
    for tree, lines in enumerate(written):
        fields = dict(line.split("=", 1) for line in lines.splitlines() if "=" in line)
        if fields["num_leaves"] == "1":
            continue
        chosen, threshold, left, right = (
            fields[name].split()
            for name in ("split_feature", "threshold", "left_child", "right_child")
        )
        waiting = [(0, 0)]
        while waiting:
            node, place = waiting.pop()
            latent[tree, place] = order[int(chosen[node])]
            # Halfway between the numbers of two bins.
            cut[tree, place] = int(float(threshold[node]))
            for child, below in (
                (int(left[node]), 2 * place + 1),
                (int(right[node]), 2 * place + 2),
            ):
                if child >= 0:  # leaves count downwards from -1
                    waiting.append((child, below))
    return Trees(latent, cut)
