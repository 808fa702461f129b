# SPDX-License-Identifier: Apache-2.0
"""A nonlinear VAE follows the local axes of its data, not PCA's (Rolinek et al. 2019).

See also Zietlow et al. 2021, fig. 1.

Toy: two factors `w ~ N(0, diag(1, 0.36))` and four pixels `x = (w1, w2, ε cos(K s), ε sin(K s))`
with `s = (w1 + w2)/√2`. The ripple adds almost nothing to the global covariance, so PCA keeps `w1`
as its first axis. Locally a step along `s` is longer by `sqrt(1 + ε² K²)`. With `u` the factors at
unit variance, which a VAE's latents are up to a rotation, the data's Jacobian is `dx/du`, and
`optimal_rotation` of it says which rotation is best: for εK = 1.8 the least noisy latent is the
function of `w` whose gradient stands at 37.4°, wherever one looks. Trained networks are asked the
same: the angle of the mean gradient of the least noisy latent in the plane of the factors, and how
far the columns of the decoder's Jacobian are from orthogonal.

A deterministic autoencoder of the same network has no posterior, hence no reason for any axes; its
columns lie anyhow.

Departs: the ripple is ε = 0.45 at K = 4; with 0.3 at 6, of the same slope εK, networks this small
turn less far in the same number of steps. Sine units, which learn ripples sooner.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbraid.analysis.theory.optimal_rotation import optimal_rotation
from unbraid.core.checks import above_zero, is_real, read_whole
from unbraid.core.errors import invalid

DEVIATIONS = (1.0, 0.6)
"""Of the two factors."""
NOISE = 0.2
"""Deviation of the Gaussian likelihood."""
_HIDDEN, _BATCH, _LEARNING_RATE = 48, 128, 7e-3
_FREQUENCY = 3.0
"""How much wider than usual the first layer's weights start, so that ripples can be found."""
_PROBES = 1000


@dataclass(frozen=True)
class TrainedNetwork:
    """What one trained network does with the factors."""

    kind: str
    """`vae` or `autoencoder`."""
    ripple: float
    degrees: float
    """Of the mean gradient of its least noisy latent in the plane of the factors, in (-90, 90]; 0
    is along the first factor.
    """
    variances: NDArray[np.float64]
    """Mean posterior variances, the least noisy latent first."""
    column_cosine: float
    """Mean |cosine| between the two columns of the decoder's Jacobian, points weighted by how much
    the posterior knows.
    """
    local_cosine: float
    """Mean |cosine| between the columns and the local principal directions of the data, in data
    space.
    """
    global_cosine: float
    """The same with PCA's axes, pixels by pixels the same everywhere."""
    codes: NDArray[np.float64]
    """The least noisy latent at each of the probes."""


@dataclass(frozen=True)
class LocalAxes:
    """Restarts of VAEs and autoencoders on the toy, beside PCA and the closed form.

    VAEs with and without the ripple, autoencoders with it.
    """

    ripple: float
    frequency: float
    factors: NDArray[np.float64]
    """Probes `(n, 2)` at which everything is measured."""
    rippled: tuple[TrainedNetwork, ...]
    flat: tuple[TrainedNetwork, ...]
    autoencoders: tuple[TrainedNetwork, ...]
    predicted_degrees: float
    """Of the least noisy latent with the ripple, by the closed form."""
    pca_degrees: float
    """Of the first principal component with the ripple."""

    def median(self, kind: str, quantity: str) -> float:
        """The median of a quantity over the restarts of `rippled`, `flat` or `autoencoders`."""
        return float(np.median([getattr(one, quantity) for one in getattr(self, kind)]))


def local_axes(
    *,
    ripple: float = 0.45,
    frequency: float = 4.0,
    steps: int = 2000,
    restarts: int = 3,
    seed: int = 0,
) -> LocalAxes:
    """Train small networks on the toy and measure their axes; a dozen seconds on one core."""
    if not is_real(ripple) or not 0.0 < ripple <= 1.0:
        rule = "must be a number above 0 and at most 1"
        raise invalid("ripple", rule, ripple, "The same without a ripple is trained beside it.")
    above_zero("frequency", frequency)
    read_whole("steps", steps, 1)
    read_whole("restarts", restarts, 1)
    chance = torch.Generator().manual_seed(read_whole("seed", seed, 0))
    kinds = [("vae", float(ripple)), ("vae", 0.0), ("autoencoder", float(ripple))]
    members = [kind for kind in kinds for _ in range(restarts)]
    ripples = torch.tensor([size for _, size in members], dtype=torch.float64)[:, None]
    noisy = torch.tensor([float(kind == "vae") for kind, _ in members], dtype=torch.float64)[
        :, None, None
    ]
    encoder, decoder = _network(len(members), 4, 4, chance), _network(len(members), 2, 4, chance)
    _train(encoder, decoder, ripples, float(frequency), noisy, steps, chance)
    factors = _factors(_PROBES, chance)
    found = [
        _measured(members[at], encoder, decoder, at, factors, ripples, float(frequency))
        for at in range(len(members))
    ]
    slopes = data_jacobian(factors, ripple, frequency)
    rotation = optimal_rotation(
        (slopes * np.array(DEVIATIONS))[0], noise_variance=NOISE**2
    ).rotation
    component = _principal_axes(factors, ripple, frequency)[:, 0]
    return LocalAxes(
        float(ripple),
        float(frequency),
        factors.numpy(),
        tuple(found[:restarts]),
        tuple(found[restarts : 2 * restarts]),
        tuple(found[2 * restarts :]),
        _degrees(rotation[:, 0] / np.array(DEVIATIONS)),
        _degrees(np.einsum("p,npf->f", component, slopes)),
    )


def data_jacobian(factors: Tensor, ripple: float, frequency: float) -> NDArray[np.float64]:
    """Derivatives `(n, 4, 2)` of the pixels by the factors."""
    phase = frequency * factors.numpy().sum(axis=1) / math.sqrt(2.0)
    slope = ripple * frequency / math.sqrt(2.0)
    rows = np.zeros((len(phase), 4, 2))
    rows[:, 0, 0] = rows[:, 1, 1] = 1.0
    rows[:, 2] = -slope * np.sin(phase)[:, None]
    rows[:, 3] = slope * np.cos(phase)[:, None]
    return rows


def _pixels(factors: Tensor, ripples: Tensor, frequency: float) -> Tensor:
    """`(members, n, 4)` for ripples `(members, 1)`."""
    phase = frequency * factors.sum(dim=1) / math.sqrt(2.0)
    plain = factors.expand(len(ripples), -1, -1)
    return torch.cat(
        [plain, torch.stack([ripples * phase.cos(), ripples * phase.sin()], dim=2)], dim=2
    )


def _factors(count: int, chance: torch.Generator) -> Tensor:
    return torch.randn(count, 2, generator=chance, dtype=torch.float64) * torch.tensor(
        DEVIATIONS, dtype=torch.float64
    )


Layers = list[tuple[Tensor, Tensor]]


def _network(members: int, inputs: int, outputs: int, chance: torch.Generator) -> Layers:
    """Two hidden layers, weights with a leading member axis."""
    sizes = [(inputs, _HIDDEN, _FREQUENCY), (_HIDDEN, _HIDDEN, 1.0), (_HIDDEN, outputs, 0.5)]
    layers = []
    for before, after, scale in sizes:
        weight, bias = (
            (2.0 * torch.rand(members, rows, after, generator=chance, dtype=torch.float64) - 1.0)
            * scale
            for rows in (before, 1)
        )
        layers.append(((weight / math.sqrt(before)).requires_grad_(), bias.requires_grad_()))
    return layers


def _run(layers: Layers, h: Tensor) -> Tensor:
    for number, (weight, bias) in enumerate(layers):
        h = torch.baddbmm(bias, h, weight)
        if number < len(layers) - 1:
            h = h.sin()
    return h


def _train(
    encoder: Layers,
    decoder: Layers,
    ripples: Tensor,
    frequency: float,
    noisy: Tensor,
    steps: int,
    chance: torch.Generator,
) -> None:
    """Adam with a cosine schedule; all members see the same factors and noise."""
    optimiser = torch.optim.Adam(
        [part for layer in (*encoder, *decoder) for part in layer], lr=_LEARNING_RATE
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
    for _ in range(steps):
        x = _pixels(_factors(_BATCH, chance), ripples, frequency)
        mean, log_variance = _run(encoder, x).chunk(2, dim=2)
        noise = torch.randn(_BATCH, 2, generator=chance, dtype=torch.float64)
        z = mean + noisy * (0.5 * log_variance).exp() * noise
        squared = (_run(decoder, z) - x).square().sum(dim=2) / (2.0 * NOISE**2)
        kl = (
            0.5
            * (mean.square() + log_variance.exp() - log_variance - 1.0).sum(dim=2)
            * noisy[:, :, 0]
        )
        optimiser.zero_grad()
        (squared + kl).mean(dim=1).sum().backward()
        optimiser.step()
        schedule.step()


def _measured(
    member: tuple[str, float],
    encoder: Layers,
    decoder: Layers,
    at: int,
    factors: Tensor,
    ripples: Tensor,
    frequency: float,
) -> TrainedNetwork:
    """Read one member's axes from its Jacobians at *factors*."""
    kind, ripple = member
    own = [
        [(weight[at : at + 1].detach(), bias[at : at + 1].detach()) for weight, bias in net]
        for net in (encoder, decoder)
    ]

    def encoded(w: Tensor) -> Tensor:
        return _run(own[0], _pixels(w, ripples[at : at + 1], frequency))[0]

    posterior = encoded(factors)
    mean, variances = posterior[:, :2], posterior[:, 2:].exp()
    if kind == "autoencoder":
        variances = torch.zeros_like(variances)
    order = variances.mean(dim=0).argsort(stable=True)
    gradients = _jacobian(encoded, factors)[:, :2][:, order]
    columns = _jacobian(lambda z: _run(own[1], z[None])[0], mean)[:, :, order].numpy()
    columns = columns / np.linalg.norm(columns, axis=1, keepdims=True)
    knows = (1.0 - variances).clamp(min=0.0).prod(dim=1).numpy()
    slopes = data_jacobian(factors, ripple, frequency) * np.array(DEVIATIONS)
    # The metric of this toy is the same everywhere, so one rotation serves all points.
    local = slopes @ optimal_rotation(slopes[0], noise_variance=NOISE**2).rotation
    local /= np.linalg.norm(local, axis=1, keepdims=True)
    return TrainedNetwork(
        kind,
        ripple,
        _degrees(gradients.mean(dim=0)[0].numpy()),
        variances.mean(dim=0)[order].numpy(),
        float(np.average(np.abs((columns[:, :, 0] * columns[:, :, 1]).sum(axis=1)), weights=knows)),
        float(np.abs((columns * local).sum(axis=1)).mean()),
        float(
            np.abs(
                (columns * _principal_axes(factors, ripple, frequency)[:, :2]).sum(axis=1)
            ).mean()
        ),
        mean[:, order[0]].numpy(),
    )


def _jacobian(function: Callable[[Tensor], Tensor], points: Tensor) -> Tensor:
    """Derivatives `(n, outputs, inputs)` of a function that treats every row alone."""
    points = points.detach().clone().requires_grad_()
    values = function(points)
    rows = [
        torch.autograd.grad(values[:, output].sum(), points, retain_graph=True)[0]
        for output in range(values.shape[1])
    ]
    return torch.stack(rows, dim=1).detach()


def _principal_axes(factors: Tensor, ripple: float, frequency: float) -> NDArray[np.float64]:
    """PCA of the pixels at *factors*, a column each, largest first."""
    pixels = _pixels(factors, torch.tensor([[ripple]], dtype=torch.float64), frequency)[0].numpy()
    return np.linalg.eigh(np.cov(pixels, rowvar=False))[1][:, ::-1]


def _degrees(direction: NDArray[np.float64]) -> float:
    """Angle of an axis in the plane, in (-90, 90]: an axis has no sign."""
    angle = math.degrees(math.atan2(float(direction[1]), float(direction[0]))) % 180.0
    return angle - 180.0 if angle > 90.0 else angle
