# SPDX-License-Identifier: Apache-2.0
"""How an independent factor s compares with the factors of data as ε grows (Zietlow et al. 2021,
figures 4a and 4b).

Near, by the change of an image that a step makes, in deviations of the factor (eq. 7), and overall,
by the variance of the mean image (eq. 9). What a factor does is the same at every ε; what s does
grows with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from unbraid.analysis.perturbation.effect import Crossings, crossings, uniform_s
from unbraid.analysis.perturbation.expansiveness import Expansiveness, expansiveness, step_length
from unbraid.core.checks import is_real
from unbraid.core.errors import Shown, invalid
from unbraid.data.dataset import Dataset
from unbraid.data.perturbed.pattern import ROWS_PER_STEP
from unbraid.data.perturbed.with_s import STEPS

if TYPE_CHECKING:
    import pandas as pd

EPSILONS = tuple(round(0.025 * place, 3) for place in range(1, 13))


@dataclass(frozen=True)
class EpsilonSweep:
    """s beside the factors of data, over ε."""

    epsilons: tuple[float, ...]
    steps: int
    """Values of s."""
    rows_per_step: float
    clip: bool
    change: NDArray[np.float64]
    """Mean L2 change of images by a step of s, at each ε."""
    explained_variance: NDArray[np.float64]
    """Of s, summed over pixels, at each ε."""
    crossings: Crossings

    @property
    def factors(self) -> Expansiveness:
        """What the factors of the data do."""
        return self.crossings.factors

    @property
    def expansiveness(self) -> NDArray[np.float64]:
        """That change per deviation of s, at each ε."""
        return self.change / step_length(self.steps)

    def lines(self, quantity: str) -> pd.DataFrame:
        """`local`, the expansiveness, or `overall`, the variance, of s and of every factor over ε:
        columns x, y, group.
        """
        import pandas as pd

        if quantity == "local":
            own, others = self.expansiveness, self.factors.expansiveness
        else:
            own, others = self.explained_variance, self.factors.explained_variance
        parts = [("s", own)]
        for name, value in zip(self.factors.factors, others, strict=True):
            if np.isfinite(value):
                parts.append((name, np.full(len(self.epsilons), value)))
        return pd.concat(
            [
                pd.DataFrame({"x": self.epsilons, "y": values, "group": name})
                for name, values in parts
            ],
            ignore_index=True,
        )


def epsilon_sweep(
    dataset: Dataset,
    epsilons: Sequence[float] = EPSILONS,
    *,
    steps: int = STEPS,
    rows_per_step: float = ROWS_PER_STEP,
    clip: bool = True,
    seed: int = 0,
    factors: Expansiveness | None = None,
) -> EpsilonSweep:
    """An s of so many *steps* beside the factors of *dataset*; nothing is trained.

    *factors* may be given where they were examined before.
    """
    if not dataset.labelled:
        remedy = "Give labels: a factors.csv beside the images, or factors= in Python."
        raise invalid("data", "must have factors that s can be compared with", dataset.name, remedy)
    wrong = [one for one in epsilons if not is_real(one) or not 0 < one <= 1]
    if wrong or not len(epsilons):
        value = Shown(", ".join(map(str, wrong)) or "none")
        raise invalid("epsilons", "must be numbers above 0 and at most 1", value)
    s = uniform_s(dataset, steps=steps, rows_per_step=rows_per_step, clip=clip, seed=seed)
    return EpsilonSweep(
        tuple(float(one) for one in epsilons),
        steps,
        rows_per_step,
        clip,
        np.array([float(s.changes(one).mean()) for one in epsilons]),
        np.array([s.explained_variance(one) for one in epsilons]),
        crossings(dataset, s, factors or expansiveness(dataset)),
    )
