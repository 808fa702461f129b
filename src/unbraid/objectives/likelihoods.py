# SPDX-License-Identifier: Apache-2.0
"""How far a decoded sample is from the true one: negative log-likelihoods, summed over a sample's
values, in nats.

Each maps raw decoder outputs and samples `(members, batch, ...)` to `(members, batch)`, and raw
outputs to what a person sees. Chosen independently of the objective; `likelihood_spelling` says how
one is written.

- `bernoulli`: cross-entropy of the sigmoid, -x log m - (1 - x) log(1 - m).
- `gaussian`: (x - m)^2, a density of variance 1/2 with its constants dropped (disentanglement_lib's
  l2). `gaussian:scale=s` is the full negative log-density (x - m)^2 / (2 s^2) + log s + log(2 pi) /
  2.
- `laplace`: |x - m| / s + log(2 s), s = 1 unless given. Mathieu et al. (2019) take 0.1 for
  Fashion-MNIST.
- `scale=learned`: one weight a member, log s, trained with the network; for a Gaussian s^2 ends at
  the mean squared error.
- `scale=decoded`: a scale for each value, which a second head of the decoder gives (a network that
  has one: `mlp:decoder_scale=softplus`), as Mathieu et al. (2019) have for the pinwheel.
- `+boxR`, `+gaussR`: the overlap term, see `overlap`. Around a full density the second term is the
  density of the blurred values with the same scale, constants included. The constants are large
  (kappa log s for every value) and reach no gradient but that of a learned scale.

The mean m is the sigmoid of the raw output where samples lie in [0, 1], and the raw output
elsewhere or with `output=raw`.

Departs: the authors of the Laplace and of the overlap experiments have no output activation;
`output=raw` is theirs. A sigmoid is the default here as in disentanglement_lib, so that a
reconstruction is always an image.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from unbraid.core.errors import Problem, invalid
from unbraid.networks.layout import Weight
from unbraid.objectives.likelihood_spelling import (
    DECODED,
    LEARNED,
    LIKELIHOODS,
    Spelling,
    read_likelihood,
)
from unbraid.objectives.overlap import (
    Distance,
    overlap_of_errors,
    overlap_of_probabilities,
    sum_of_values,
)

__all__ = ["LIKELIHOODS", "LOG_SCALE", "Likelihood", "likelihood"]

LOG_SCALE = "likelihood.log_scale"
"""Name of the weight of a learned scale."""


@dataclass(frozen=True)
class Likelihood:
    """A distribution of a sample given the decoder's raw output."""

    name: str
    """The canonical spelling, which a plan stores."""
    distance: str
    """Name of the distance, by which a network may find a kernel that computes it with its last
    layer.
    """
    negative_log: Distance
    expected: Callable[[Tensor], Tensor]
    """The mean of the distribution, what a reconstruction shows."""
    weights: tuple[Weight, ...] = ()
    """What it learns beside the network."""
    blurs: bool = False
    given_log_scale: Callable[[Tensor], Distance] | None = None
    """`negative_log` for log-scales `(members, 1)`, where the scale is learned."""
    by_scale: Callable[[Tensor, Tensor, Tensor], Tensor] | None = None
    """Of raw outputs, scales and samples, all of one shape, where scales are decoded."""

    def bound(self, weights: Mapping[str, Tensor]) -> Likelihood:
        """The same with its own weights out of *weights*, each `(members, *shape)`; itself where it
        has none.
        """
        if self.given_log_scale is None:
            return self
        if LOG_SCALE not in weights:
            raise invalid("weights", f"must hold {LOG_SCALE} for this likelihood", self.name, _BIND)
        return replace(self, negative_log=self.given_log_scale(weights[LOG_SCALE]))

    def problems(self, sample_shape: tuple[int, ...]) -> list[Problem]:
        """Why samples of this shape cannot be compared; empty when they can."""
        if self.blurs and len(sample_shape) != 3:
            rule = "can blur images only, and this dataset has points"
            return [Problem("likelihood", rule, self.name, "Leave the blur out.")]
        return []


def likelihood(name: str, *, bounded: bool) -> Likelihood:
    """The likelihood spelled *name* for samples in [0, 1] (*bounded*) or anywhere on the line. A
    Bernoulli needs bounded ones.

    >>> likelihood("mse+box31:kappa=100", bounded=True).name
    'gaussian+box31:kappa=100'
    """
    spelling = read_likelihood(name)
    if spelling.base == "bernoulli" and not bounded:
        rule = "needs samples between 0 and 1, and these are real-valued or standardised"
        raise invalid("likelihood", rule, spelling.name, "Use the likelihood gaussian.")
    if not bounded:
        # Raw output is what real-valued samples get anyway.
        spelling = replace(spelling, raw_output=False)
    squashed = bounded and not spelling.raw_output
    expected = torch.sigmoid if squashed else _unchanged
    distance_name, distance = _distance(spelling, squashed)
    made = Likelihood(spelling.name, distance_name, distance, expected, blurs=bool(spelling.window))
    scale = 1.0 if spelling.base == "laplace" and spelling.scale is None else spelling.scale
    if scale is None:
        return made
    # No kernel knows a density: its name is not that of the distance inside.
    made = replace(made, distance=spelling.name)
    density = _DENSITIES[spelling.base]
    if scale == DECODED:
        by_scale = density.by_scale(expected, _ERRORS[spelling.base])
        return replace(made, negative_log=_without_scales(spelling.name), by_scale=by_scale)
    copies = 1.0 + spelling.weight
    if scale == LEARNED:
        # Values in [0, 1] deviate from their mean by at most 1/2.
        start = math.log(0.5) if bounded else 0.0
        return replace(
            made,
            negative_log=_unbound(spelling.name),
            weights=(Weight(LOG_SCALE, (1,), start=start),),
            given_log_scale=lambda log_scale: density.negative_log(distance, log_scale, copies),
        )
    return replace(
        made, negative_log=density.negative_log(distance, math.log(float(scale)), copies)
    )


def bernoulli_negative_log(raw: Tensor, x: Tensor) -> Tensor:
    """Sigmoid cross-entropy with real-valued targets: `(members, batch)` nats."""
    return sum_of_values(F.binary_cross_entropy_with_logits(raw, x, reduction="none"))


def sigmoid_squared_error(raw: Tensor, x: Tensor) -> Tensor:
    """Squared error of the sigmoid: a Gaussian of variance 1/2, constants dropped
    (disentanglement_lib's l2).
    """
    return sum_of_values((torch.sigmoid(raw) - x).square())


def squared_error(raw: Tensor, x: Tensor) -> Tensor:
    """Squared error of the raw output: a Gaussian of variance 1/2, constants dropped."""
    return sum_of_values((raw - x).square())


def sigmoid_absolute_error(raw: Tensor, x: Tensor) -> Tensor:
    """Absolute error of the sigmoid."""
    return sum_of_values((torch.sigmoid(raw) - x).abs())


def absolute_error(raw: Tensor, x: Tensor) -> Tensor:
    """Absolute error of the raw output."""
    return sum_of_values((raw - x).abs())


@dataclass(frozen=True)
class _Density:
    """exp(-error / (power s^power) - log s - constant), the error being |x - m|^power."""

    power: int
    constant: float

    def negative_log(
        self, distance: Distance, log_scale: float | Tensor, copies: float
    ) -> Distance:
        """Nats of a sum of errors; *copies* is how often a value stands in it, by weight."""
        if isinstance(log_scale, Tensor):
            per_error = torch.exp(-self.power * log_scale) / self.power
        else:
            per_error = math.exp(-self.power * log_scale) / self.power
        per_value = copies * (log_scale + self.constant)

        def negative_log(raw: Tensor, x: Tensor) -> Tensor:
            return per_error * distance(raw, x) + math.prod(x.shape[2:]) * per_value

        return negative_log

    def by_scale(
        self, mean: Callable[[Tensor], Tensor], error: Callable[[Tensor], Tensor]
    ) -> Callable[[Tensor, Tensor, Tensor], Tensor]:
        """Nats of samples by raw outputs and a scale for each value."""

        def negative_log(raw: Tensor, scale: Tensor, x: Tensor) -> Tensor:
            in_scales = error((x - mean(raw)) / scale) / self.power
            return sum_of_values(in_scales + torch.log(scale) + self.constant)

        return negative_log


_DENSITIES = {
    "gaussian": _Density(2, 0.5 * math.log(2.0 * math.pi)),
    "laplace": _Density(1, math.log(2.0)),
}
_PLAIN: dict[tuple[str, bool], Distance] = {
    ("bernoulli", True): bernoulli_negative_log,
    ("gaussian", True): sigmoid_squared_error,
    ("gaussian", False): squared_error,
    ("laplace", True): sigmoid_absolute_error,
    ("laplace", False): absolute_error,
}
_KERNELS: dict[Distance, str] = {
    bernoulli_negative_log: "bernoulli",
    sigmoid_squared_error: "sigmoid_squared_error",
    squared_error: "squared_error",
}
_ERRORS = {"gaussian": torch.square, "laplace": torch.abs}
_BIND = "Call bound() with the weights of the members."


def _distance(spelling: Spelling, squashed: bool) -> tuple[str, Distance]:
    """What is summed over a sample's values, before any scale, with the name by which a kernel is
    found.
    """
    plain = _PLAIN[spelling.base, squashed]
    if not spelling.window:
        return _KERNELS.get(plain, spelling.name), plain
    window, radius, kappa = spelling.window, spelling.radius, spelling.weight
    if spelling.base == "bernoulli":
        return spelling.name, overlap_of_probabilities(plain, window, radius, kappa)
    mean = torch.sigmoid if squashed else _unchanged
    return spelling.name, overlap_of_errors(mean, _ERRORS[spelling.base], window, radius, kappa)


def _unbound(name: str) -> Distance:
    """Stands where weights are needed that nobody has given."""

    def negative_log(raw: Tensor, x: Tensor) -> Tensor:
        raise invalid("likelihood", f"needs its weight {LOG_SCALE}", name, _BIND)

    return negative_log


def _without_scales(name: str) -> Distance:
    """Stands where a network has no scale for each value."""

    def negative_log(raw: Tensor, x: Tensor) -> Tensor:
        rule = "must have a scale for each value with this likelihood"
        raise invalid("network", rule, name, "Use the network mlp:decoder_scale=softplus.")

    return negative_log


def _unchanged(raw: Tensor) -> Tensor:
    return raw
