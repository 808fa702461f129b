# SPDX-License-Identifier: Apache-2.0
"""How far a decoded sample is from the true one: negative log-likelihoods, summed over a sample's values, in nats.

Each maps raw decoder outputs and samples `(members, batch, ...)` to `(members, batch)`, and raw outputs to what a person
sees. Chosen independently of the objective.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from unbraid.errors import InputError, problem, unknown


@dataclass(frozen=True)
class Likelihood:
    """A distribution of a sample given the decoder's raw output."""

    name: str
    distance: str
    """Name of the distance, by which a network may find a kernel that computes it with its last layer."""
    negative_log: Callable[[Tensor, Tensor], Tensor]
    expected: Callable[[Tensor], Tensor]
    """The mean of the distribution, what a reconstruction shows."""


def bernoulli_negative_log(raw: Tensor, x: Tensor) -> Tensor:
    """Sigmoid cross-entropy with real-valued targets: `(members, batch)` nats."""
    return F.binary_cross_entropy_with_logits(raw, x, reduction="none").flatten(2).sum(dim=2)


def sigmoid_squared_error(raw: Tensor, x: Tensor) -> Tensor:
    """Squared error of the sigmoid: a Gaussian of variance 1/2, constants dropped (disentanglement_lib's l2)."""
    return (torch.sigmoid(raw) - x).square().flatten(2).sum(dim=2)


def squared_error(raw: Tensor, x: Tensor) -> Tensor:
    """Squared error of the raw output: a Gaussian of variance 1/2, constants dropped."""
    return (raw - x).square().flatten(2).sum(dim=2)


LIKELIHOODS = ("bernoulli", "gaussian")


def likelihood(name: str, *, bounded: bool) -> Likelihood:
    """The likelihood called *name* for samples in [0, 1] (*bounded*) or anywhere on the line.

    Gaussian means pass through a sigmoid where samples are bounded. A Bernoulli needs bounded samples.
    """
    if name not in LIKELIHOODS:
        raise InputError(unknown("likelihood", name, LIKELIHOODS))
    if name == "bernoulli":
        if not bounded:
            rule = "needs samples between 0 and 1, and this dataset has real-valued ones"
            raise InputError(problem("likelihood", rule, name, "Use the likelihood gaussian."))
        return Likelihood(name, "bernoulli", bernoulli_negative_log, torch.sigmoid)
    if bounded:
        return Likelihood(name, "sigmoid_squared_error", sigmoid_squared_error, torch.sigmoid)
    return Likelihood(name, "squared_error", squared_error, lambda raw: raw)
