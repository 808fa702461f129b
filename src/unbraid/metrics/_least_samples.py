# SPDX-License-Identifier: Apache-2.0
"""The least number of samples a metric needs, from what it counts or fits.

A rule is given how many values each factor that varies takes, the number of latents and the options
of the call. Below the least number noise can score like a good code, or by chance; at it, noise
scores at most 0.1 more than with 10,000 samples, ratios of chance values aside (tests, over factors
of 2 to 40 values). A whole grid makes no difference: its codes are all there are, but a code that
knows nothing of a factor matches it by chance as often as in a sample of as many rows. Measured on
grids of 48 to 2,048 images, codes shuffled among them have the counted information of noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

BIAS_SHARE = 0.05
"""Of a factor's entropy: the most by which counted information may be too high."""
BIAS_NATS = 0.05
TEST_ROWS = 100
"""An accuracy of so many rows is off by at most 0.05, one standard deviation."""
ROWS_OF_A_VALUE = 30
"""Of these a third is for testing."""


class LeastSamples(Protocol):
    """How many samples are enough, and why in words."""

    @property
    def why(self) -> str:
        """What so many samples are good for."""
        ...

    def __call__(self, sizes: Sequence[int], latents: int, options: Mapping[str, Any]) -> int:
        """The least number, for factors of *sizes* values, those with one value left out."""
        ...


@dataclass(frozen=True)
class Counted:
    """Information from a table of bins and values, which is too high by `(b - 1)(v - 1) / 2n`.

    That is the first term of its bias (Miller 1955); the most allowed is a twentieth of the
    factor's entropy. Where latents are counted against each other, bins take the place of values.
    """

    why: str = "so that counted information is too high by a twentieth at most"
    bins: int = 20
    among_latents: bool = False

    def __call__(self, sizes: Sequence[int], latents: int, options: Mapping[str, Any]) -> int:
        """`10 (b - 1)(v - 1) / ln v`, for the factor of most values, and a hundred at least."""
        bins = int(options.get("bins", self.bins))
        values = bins if self.among_latents else max(sizes, default=bins)
        least = (bins - 1) * (values - 1) / (2 * BIAS_SHARE * math.log(max(values, 2)))
        return max(TEST_ROWS, math.ceil(least))


@dataclass(frozen=True)
class Fitted:
    """A predictor that is fitted on two thirds of the samples and tested on the others."""

    why: str = "so that a predictor sees every value twenty times and is tested on a hundred rows"

    def __call__(self, sizes: Sequence[int], latents: int, options: Mapping[str, Any]) -> int:
        """Three times the test rows, and thirty of each value."""
        return max(3 * TEST_ROWS, ROWS_OF_A_VALUE * max(sizes, default=1))


@dataclass(frozen=True)
class Drawn:
    """Batches of rows that share a value; drawn from few, they always hold the same rows."""

    batch: int
    least: int = 500
    why: str = "so that batches of one value differ more by chance than by which rows there are"

    def __call__(self, sizes: Sequence[int], latents: int, options: Mapping[str, Any]) -> int:
        """Twice a batch of each value."""
        batch = int(options.get("batch", self.batch))
        return max(self.least, 2 * batch * max(sizes, default=1))


@dataclass(frozen=True)
class OfValues:
    """Something measured among the rows of each value."""

    rows: int
    why: str = "so that every value has rows enough"

    def __call__(self, sizes: Sequence[int], latents: int, options: Mapping[str, Any]) -> int:
        """So many rows of each value."""
        return max(3 * TEST_ROWS, self.rows * max(sizes, default=1))


@dataclass(frozen=True)
class Correlated:
    """A Gaussian total correlation, which is too high by `L(L - 1) / 4n` nats."""

    why: str = "so that chance correlations add 0.05 nats at most"

    def __call__(self, sizes: Sequence[int], latents: int, options: Mapping[str, Any]) -> int:
        """`5 L (L - 1)`."""
        return max(TEST_ROWS, math.ceil(latents * (latents - 1) / (4 * BIAS_NATS)))


@dataclass(frozen=True)
class Regressed:
    """Coefficients of a Lasso: chance correlations, `1 / sqrt(n)`, must stay below its penalty."""

    why: str = "so that chance correlations stay below the penalty three times over"

    def __call__(self, sizes: Sequence[int], latents: int, options: Mapping[str, Any]) -> int:
        """`9 / alpha^2`, and a hundred at least."""
        alpha = float(options.get("alpha", 0.1))
        return max(TEST_ROWS, math.ceil(9 / alpha**2)) if alpha > 0.03 else 10_000


@dataclass(frozen=True)
class Averaged:
    """A mean over samples, whatever the factors."""

    rows: int = TEST_ROWS
    why: str = "so that a mean over samples is steady"

    def __call__(self, sizes: Sequence[int], latents: int, options: Mapping[str, Any]) -> int:
        """The same for all."""
        return self.rows
