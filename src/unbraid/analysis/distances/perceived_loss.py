# SPDX-License-Identifier: Apache-2.0
"""How far apart a reconstruction loss sees two images (Michlo et al. 2023).

The losses are `mse`, `bce`, and either with a blurred copy added.

`mse` is the mean of (x - y)^2 over all pixels and channels, `bce` the mean of -x log y - (1 - x)
log(1 - y) in nats with y clipped to [1e-6, 1 - 1e-6]. `LOSS+boxR` is the overlap loss LOSS(x, y) +
kappa LOSS(blur x, blur y): each channel blurred by a square window of radius R beyond whose edge
pixels count as black, weights that sum to 1, and kappa = (2R + 1)^2; the paper's is `mse+box31`.
`LOSS+gaussR` has a Gaussian window of standard deviation R/4, cut off at R, as in the authors'
code.

Departs: the paper blurs by FFT, and here it is always done by products (see `objectives.blur`),
whatever the size of the images: where distances tie, an FFT's rounding would part them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch
from torch import Tensor

from unbraid.core.errors import Problem, Shown, invalid
from unbraid.data.dataset import Dataset
from unbraid.objectives.blur import LARGEST_RADIUS, WINDOWS, blur
from unbraid.objectives.likelihood_spelling import read_likelihood
from unbraid.objectives.overlap import SMALLEST_PROBABILITY, usual_kappa

BASES = ("mse", "bce")
_SPELLING = re.compile(rf"({'|'.join(BASES)})(?:\+({'|'.join(WINDOWS)})([0-9]{{1,4}}))?")


@dataclass(frozen=True)
class PerceivedLoss:
    """A reconstruction loss as a distance between images; every distance is float64.

    >>> parse_loss("mse+box31").weight
    3969
    """

    base: str
    window: str = ""
    radius: int = 0

    @property
    def name(self) -> str:
        """As `parse_loss` reads it."""
        return f"{self.base}+{self.window}{self.radius}" if self.window else self.base

    @property
    def weight(self) -> int:
        """What the distance of the blurred images is multiplied by: the pixels in the window."""
        return usual_kappa(self.radius) if self.window else 0

    def problems(self, dataset: Dataset) -> list[Problem]:
        """Why the samples of *dataset* cannot be compared by this loss."""
        found = []
        if self.base == "bce" and not dataset.bounded:
            rule = "needs samples between 0 and 1, and this dataset has real-valued ones"
            found.append(Problem("loss", rule, self.name, "Use the loss mse."))
        if self.window and len(dataset.sample_shape) != 3:
            found.append(
                Problem(
                    "loss",
                    "can blur images only, and this dataset has points",
                    self.name,
                    "Leave the blur out.",
                )
            )
        return found

    def pairs(self, x: Tensor, y: Tensor) -> Tensor:
        """Distance `(n,)` of each of *x*, the true one, to its fellow in *y*."""
        x, y = x.to(torch.float64), y.to(torch.float64)
        if self.base == "mse":
            difference = x - y
            total = difference.square().flatten(1).mean(dim=1)
            return (
                total + self.weight * self.blurred(difference).square().flatten(1).mean(dim=1)
                if self.window
                else total
            )
        total = _cross_entropy(x, y)
        return (
            total + self.weight * _cross_entropy(self.blurred(x), self.blurred(y))
            if self.window
            else total
        )

    def matrix(self, x: Tensor) -> Tensor:
        """Distances `(groups, n, n)` within each group of *x*, the row the true one."""
        x = x.to(torch.float64, copy=True)
        if self.base == "mse":
            # Distances do not move with the origin; taken from the first, equal images are zeros
            # and nothing cancels.
            x -= x[:, :1].clone()
            total = _squared_differences(x)
            return (
                total + self.weight * _squared_differences(self.blurred(x))
                if self.window
                else total
            )
        return self.between(x, x)

    def between(self, x: Tensor, y: Tensor) -> Tensor:
        """Distances `(groups, n, m)` from each of *x* `(groups, n, ...)`, the true ones, to each of
        *y* `(groups, m, ...)`, by products, and so exact to rounding of the largest norm only.
        """
        x, y = x.to(torch.float64), y.to(torch.float64)
        compare = _cross_squares if self.base == "mse" else _cross_entropies
        total = compare(x, y)
        if not self.window:
            return total
        return total + self.weight * compare(self.blurred(x), self.blurred(y))

    def blurred(self, x: Tensor) -> Tensor:
        """*x* `(..., height, width)`, float64, under the window."""
        return blur(x, self.window, self.radius, method="products")


def parse_loss(text: str) -> PerceivedLoss:
    """The loss spelled *text*: mse, bce, and either with +boxR or +gaussR."""
    found = _SPELLING.fullmatch(text.strip().lower()) if isinstance(text, str) else None
    radius = int(found[3]) if found and found[3] else 0
    if found is None or (found[2] and not 1 <= radius <= LARGEST_RADIUS):
        rule = (
            "must be mse or bce, alone or with +boxR or +gaussR for a blur of radius R in"
            f" 1..{LARGEST_RADIUS}"
        )
        shown = text if isinstance(text, str) else Shown(repr(text))
        raise invalid("loss", rule, shown, "The overlap loss of Michlo et al. is mse+box31.")
    return PerceivedLoss(found[1], found[2] or "", radius)


def loss_of(likelihood: str) -> PerceivedLoss:
    """The loss by which a model trained with *likelihood* compares images: squared error, which
    stands for any error of single pixels, with the blur of the likelihood.

    >>> loss_of("gaussian+box31").name, loss_of("bernoulli").name
    ('mse+box31', 'mse')
    """
    spelled = read_likelihood(likelihood)
    return PerceivedLoss("mse", spelled.window, spelled.radius)


def _squared_differences(x: Tensor) -> Tensor:
    """Mean squared differences `(groups, n, n)` by one product; exact for whole numbers."""
    flat = x.flatten(2)
    products = flat @ flat.transpose(1, 2)
    norms = products.diagonal(dim1=1, dim2=2)
    apart = (norms[:, :, None] + norms[:, None, :] - 2.0 * products).clamp(min=0.0)
    apart.diagonal(dim1=1, dim2=2).zero_()
    return apart / flat.shape[2]


def _cross_entropy(x: Tensor, y: Tensor) -> Tensor:
    y = y.clamp(SMALLEST_PROBABILITY, 1.0 - SMALLEST_PROBABILITY)
    return -(x * y.log() + (1.0 - x) * (1.0 - y).log()).flatten(1).mean(dim=1)


def _cross_squares(x: Tensor, y: Tensor) -> Tensor:
    x, y = x.flatten(2), y.flatten(2)
    norms = x.square().sum(dim=2)[:, :, None] + y.square().sum(dim=2)[:, None, :]
    return (norms - 2.0 * (x @ y.transpose(1, 2))).clamp(min=0.0) / x.shape[2]


def _cross_entropies(x: Tensor, y: Tensor) -> Tensor:
    flat = x.flatten(2)
    y = y.flatten(2).clamp(SMALLEST_PROBABILITY, 1.0 - SMALLEST_PROBABILITY)
    log_one, log_zero = y.log(), (1.0 - y).log()
    return (
        -(flat @ (log_one - log_zero).transpose(1, 2) + log_zero.sum(dim=2)[:, None, :])
        / flat.shape[2]
    )
