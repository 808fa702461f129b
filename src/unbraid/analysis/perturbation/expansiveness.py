# SPDX-License-Identifier: Apache-2.0
"""How much a step of each factor changes an image (Zietlow et al. 2021, eqs. 7 and 9).

Near: the local expansiveness of a map f, `α_δ(s) = inf over 0 < |d| < δ of ||f(s) - f(s + d)|| /
|d|`. A VAE's least noisy latents follow what changes images most near by, so a direction with a
large α takes them over. Overall: the explained global variance of a factor, `Var over w of E[x |
w]` summed over pixels, which is what PCA would follow.

Departs: on a grid d is a step of the factor, since nothing lies between. The sliding pattern is a
step function, whose α of eq. 7 is 0 for any δ; it too is judged by steps (`perturbation`). Steps
are counted in deviations of a uniform factor, so that factors with many values and with few
compare. Kinds, such as shape, have no deviation: their values count as evenly spaced too, in the
order in which they stand.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import invalid
from unbraid.data import load
from unbraid.data.dataset import Dataset
from unbraid.data.drawn.dsprites import DSprites

if TYPE_CHECKING:
    import pandas as pd

    from unbraid.data.dataset import Sampler

_EXACT_VALUES = 2**27
"""Sets of no more pixel values than this are examined whole."""
_AT_ONCE = 512


@dataclass(frozen=True)
class Expansiveness:
    """Change and explained variance of each factor."""

    factors: tuple[str, ...]
    values: tuple[int, ...]
    change: NDArray[np.float64]
    """Mean L2 distance of two images one step of the factor apart; NaN where there are no such two.
    """
    least_change: NDArray[np.float64]
    explained_variance: NDArray[np.float64]
    """Variance of the mean image over the factor's values, summed over pixels."""
    images: int
    """How many images, and pairs of them for each factor, were examined at most."""
    exact: bool
    """Whether that was all of them; otherwise the variance is corrected for the size of the sample.
    """

    @property
    def expansiveness(self) -> NDArray[np.float64]:
        """The change per deviation of each factor; NaN where there is no change to tell."""
        return self.change / np.array([step_length(size) for size in self.values])

    def table(self) -> pd.DataFrame:
        """One row a factor; `expansiveness` is the change per deviation of the factor."""
        import pandas as pd

        columns = {"values": self.values, "change": self.change, "least_change": self.least_change}
        rows = columns | {
            "expansiveness": self.expansiveness,
            "explained_variance": self.explained_variance,
        }
        return pd.DataFrame(rows, index=pd.Index(self.factors, name="factor"))


def expansiveness(dataset: Dataset | str, *, images: int = 4096, seed: int = 0) -> Expansiveness:
    """Change and explained variance of every factor of *dataset*.

    Of all images where that is quick, else of a random sample.

    *dataset* may be a name. Data without factors has an empty table.
    """
    dataset = dataset if isinstance(dataset, Dataset) else load(dataset)
    if images < 2:
        raise invalid("images", "must be at least 2", images)
    if isinstance(dataset, DSprites):
        from unbraid.analysis.perturbation.expansiveness_dsprites import examine

        change, least, variance = examine(dataset.packed_rows().reshape(*dataset.grid.sizes, -1))
        return Expansiveness(
            dataset.factor_names, dataset.factor_sizes, change, least, variance, len(dataset), True
        )
    exact = (
        len(dataset) * math.prod(dataset.sample_shape) <= _EXACT_VALUES or len(dataset) <= images
    )
    most = len(dataset) if exact else images
    chance = np.random.default_rng(seed)
    chosen = np.sort(chance.choice(len(dataset), most, replace=False))
    rows, draw = dataset.factors(np.arange(len(dataset))), dataset.sampler("cpu")
    found = np.full((3, rows.shape[1]), np.nan)
    for factor in range(rows.shape[1]):
        lower, upper = neighbours(rows, dataset.factor_sizes, factor)
        kept = chance.permutation(len(lower))[:most]
        distances = _distances(draw, lower[kept], upper[kept])
        if len(distances):
            found[:2, factor] = distances.mean(), distances.min()
        found[2, factor] = _explained_variance(
            draw, chosen, rows[chosen, factor], sampled=not exact
        )
    change, least, variance = found
    return Expansiveness(
        dataset.factor_names, dataset.factor_sizes, change, least, variance, most, exact
    )


def local_expansiveness(
    positions: ArrayLike, values: ArrayLike, delta: float
) -> NDArray[np.float64]:
    """α_δ of eq. 7 at each of *positions* `(n,)`, by the *values* `(n, ...)` of f there.

    NaN with no other nearer than *delta*.

    >>> local_expansiveness([0.0, 1.0, 2.0], [[0.0, 0.0], [3.0, 4.0], [6.0, 8.0]], 1.5)
    array([5., 5., 5.])
    """
    where = np.asarray(positions, dtype=np.float64)
    images = np.asarray(values, dtype=np.float64).reshape(len(where), -1)
    found = np.full(len(where), np.nan)
    for at, place in enumerate(where):
        apart = np.abs(where - place)
        near = (apart > 0) & (apart < delta)
        if near.any():
            found[at] = (np.linalg.norm(images[near] - images[at], axis=1) / apart[near]).min()
    return found


def step_length(values: int) -> float:
    """One step of a uniform factor of so many values, in its standard deviations."""
    return math.sqrt(12.0 / (values**2 - 1)) if values > 1 else math.nan


def neighbours(
    rows: NDArray[np.int64], sizes: tuple[int, ...], factor: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices of all pairs of images that differ by one in *factor* alone: lower, upper."""
    none = np.empty(0, dtype=np.int64)
    if (
        math.prod(sizes) >= 2**62
    ):  # so many combinations that images which differ in one factor alone would be a wonder
        return none, none
    keys = np.asarray(np.ravel_multi_index(tuple(rows.T), sizes))
    order = np.argsort(keys, kind="stable")
    lower = np.flatnonzero(rows[:, factor] < sizes[factor] - 1)
    wanted = keys[lower] + math.prod(sizes[factor + 1 :])
    place = np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)
    upper = order[place]
    found = keys[upper] == wanted
    return lower[found], upper[found]


def _batches(draw: Sampler, indices: NDArray[np.int64]) -> Any:
    """Samples of *indices* `(n, values)`, some at a time."""
    import torch

    for start in range(0, len(indices), _AT_ONCE):
        yield draw(torch.from_numpy(indices[start : start + _AT_ONCE])).flatten(1)


def _distances(
    draw: Sampler, lower: NDArray[np.int64], upper: NDArray[np.int64]
) -> NDArray[np.float64]:
    pairs = zip(_batches(draw, lower), _batches(draw, upper), strict=True)
    parts = [(b - a).norm(dim=1).numpy().astype(np.float64) for a, b in pairs]
    return np.concatenate(parts) if parts else np.empty(0)


def _explained_variance(
    draw: Sampler, indices: NDArray[np.int64], levels: NDArray[np.int64], *, sampled: bool
) -> float:
    """Eq. 9 over *indices* with the factor's *levels*, without what chance adds to means."""
    groups = [indices[levels == level] for level in np.unique(levels)]
    whole: Any = 0.0
    between = squares = 0.0
    for group in groups:
        total: Any = 0.0
        for batch in _batches(draw, group):
            values = batch.double()
            total = total + values.sum(dim=0)
            squares += float(values.square().sum())
        whole = whole + total
        between += float(total.square().sum()) / len(group)
    overall = float(whole.square().sum()) / len(indices)
    explained = (between - overall) / len(indices)
    if sampled and len(indices) > len(groups):
        within = (squares - between) / (len(indices) - len(groups))
        explained -= within * (len(groups) - 1) / len(indices)
    return explained
