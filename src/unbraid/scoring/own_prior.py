# SPDX-License-Identifier: Apache-2.0
"""The prior that a model was trained with, for metrics that ask how far its posteriors are from it.

Metrics know arrays and no torch; processes that score get it by its name and numbers.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unbraid.metrics import METRICS
from unbraid.scoring.metric_names import base, options

if TYPE_CHECKING:
    from unbraid.objectives.priors.prior import Prior
    from unbraid.population.run_folder import RunFolder

Array = NDArray[np.float64]
OPTION, WORD = "student_t_df", "prior"
"""The option of a metric that takes a model's own degrees of freedom, and the word for them."""


@dataclass(frozen=True)
class OwnPrior:
    """A prior other than the standard normal, after training."""

    key: str
    hyper: Mapping[str, Any]
    steps: int
    weights: Mapping[str, NDArray[Any]]
    """Its learned numbers, each with a member axis of one."""

    @classmethod
    def of(cls, run: RunFolder, member: int) -> OwnPrior | None:
        """That of a *member*; None for the standard normal."""
        chosen = run.plan.members[member]
        prior = chosen.build_prior()
        if prior.standard:
            return None
        learned = [weight.name for weight in prior.weights(run.plan.latents)]
        trained = run.member_weights(member) if learned else {}
        weights = {name: trained[name].numpy() for name in learned}
        return cls(chosen.prior, chosen.prior_hyper, run.plan.steps, weights)

    @property
    def degrees_of_freedom(self) -> float | None:
        """Those of a Student-t prior; None for another."""
        return float(self._built().df) if self.key == "student_t" else None  # pyright: ignore

    def kl(self, mean: Array, logvar: Array, z: Array) -> Array:
        """KL divergence of each posterior from it: in closed form, or at its draw *z*."""
        return self._called(lambda prior, *parts: prior.kl(*parts), mean, logvar, z)

    def log_density(self, z: Array) -> Array:
        """Log p(z) in nats."""
        return self._called(lambda prior, part: prior.log_density(part), z)

    def _called(self, what: Callable[..., Any], *arrays: Array) -> Array:
        import torch

        parts = [torch.from_numpy(np.ascontiguousarray(one)).unsqueeze(0) for one in arrays]
        with torch.no_grad():
            return what(self._built(), *parts)[0].numpy()

    def _built(self) -> Prior:
        import torch

        from unbraid.objectives.hyper import stack
        from unbraid.objectives.priors import PRIORS

        weights = {name: torch.from_numpy(part).double() for name, part in self.weights.items()}
        prior = stack([PRIORS.recall(self.key)(**self.hyper)], "cpu", torch.float64)
        return prior.at(torch.tensor(float(self.steps))).bound(weights)


def takes_prior(name: str) -> bool:
    """Whether metric *name* can measure from a model's own prior."""
    return "prior" in inspect.signature(METRICS.load(base(name))).parameters


def of_prior(name: str, prior: OwnPrior | None) -> dict[str, Any]:
    """What metric *name* is given of a model's own *prior*."""
    found: dict[str, Any] = {}
    if prior is not None and takes_prior(name):
        found["prior"] = prior
    if options(name).get(OPTION) == WORD:
        found[OPTION] = None if prior is None else prior.degrees_of_freedom
    return found
