# SPDX-License-Identifier: Apache-2.0
"""Too little overlap, the right one and too much (Mathieu et al. 2019, figure of the overlaps).

Points on a cross in the plane, and a prior that is a cross (`objectives/priors/cross.py`). With a
weight β near 0 posteriors are narrow and share nothing: q(z) is a set of dots that no prior forms,
and latents are a lookup table. With a large one every posterior is nearly the prior, and the point
is forgotten. Between them neighbours share latents, q(z) takes the prior's form and points are
still told apart.

The figure in the paper is a drawing; these are models trained for it. α is 0: β alone sets the
overlap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.analysis.theory.aggregate_posterior import (
    density_on_grid,
    log_density,
    prior_points,
)
from unbraid.codes.encode import encode_images
from unbraid.core import random
from unbraid.core.checks import read_whole
from unbraid.core.random import Stream
from unbraid.data.drawn.pinwheel import Pinwheel
from unbraid.metrics import posterior_overlap
from unbraid.objectives.decomposition import Decomposition
from unbraid.objectives.priors.cross import Cross
from unbraid.population.devices import keep_freed_memory
from unbraid.population.plan import make_plan
from unbraid.population.training_step import TrainingStep

BETAS = (1e-3, 1.0, 30.0)
DATA: dict[str, Any] = {"points": 50, "rate": 0.0, "tangential_std": 0.4, "radial_std": 0.05}
"""A pinwheel without turn: four straight arms."""
SETTINGS: dict[str, Any] = {
    "network": "mlp",
    "network_options": {
        "hidden": 64,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "activation": "relu",
        "scale": "softplus",
    },
    "likelihood": "gaussian:scale=0.1",
    "latents": 2,
    "batch_size": "all",
    "learning_rate": 3e-3,
}
STEPS = 800
REACH, CELLS = 2.5, 61

Array = NDArray[np.float64]


@dataclass(frozen=True)
class OverlapModel:
    """One model and what its overlap costs."""

    beta: float
    overlap: float
    """Mean over pairs of posteriors (`metrics.posterior_overlap`)."""
    covered: float
    """Share of the prior's points at which q(z) has a tenth of the prior's density or more."""
    error: float
    """Root mean squared distance of decoded points from the data's."""
    density: Array
    """q(z) on the grid."""


@dataclass(frozen=True)
class ThreeOverlaps:
    """The models by β, and the prior they should follow."""

    models: tuple[OverlapModel, ...]
    prior: Array
    line: Array

    @property
    def overlap_rises(self) -> bool:
        """Whether a larger β means more overlap."""
        found = [one.overlap for one in self.models]
        return found == sorted(found)


def three_overlaps(
    *, seed: int = 0, betas: Sequence[float] = BETAS, steps: int = STEPS
) -> ThreeOverlaps:
    """Train a model for each β; about 3 s each on one core."""
    first, dataset = read_whole("seed", seed, 0, 2**31 - 1), Pinwheel(**DATA)
    wanted = [Decomposition(beta=beta, alpha=0.0) for beta in betas]
    plan, _ = make_plan(dataset, wanted, prior=Cross(), seeds=[first], steps=steps, **SETTINGS)
    line = np.linspace(-REACH, REACH, CELLS)
    keep_freed_memory()
    training = TrainingStep(plan, plan.members, dataset, torch.device("cpu"))
    state, threads = training.start(), torch.get_num_threads()
    torch.set_num_threads(1)  # of such small products each other thread only costs
    try:
        while not training.finished(state):
            training.step(state)
    finally:
        torch.set_num_threads(threads)
    weights = training.kinds[0].layout.views(state.model.weights)
    every = torch.arange(len(dataset))
    mean, logvar = encode_images(training.network, weights, training.sampler, every)
    noise = random.normal(torch.tensor([first]), 0, Stream.CODE_NOISE, tuple(mean.shape[1:]))
    with torch.no_grad():
        z = mean + torch.exp(0.5 * logvar) * noise
        decoded = training.network.decode(weights, z, dataset.sample_shape).numpy()
    error = np.sqrt(np.square(decoded - dataset.points(every.numpy())).sum(axis=2).mean(axis=1))
    models = [
        OverlapModel(
            beta,
            posterior_overlap(own_mean, own_logvar).pairwise,
            _covered(own_mean, own_logvar),
            float(own_error),
            density_on_grid(own_mean, own_logvar, line),
        )
        for beta, own_mean, own_logvar, own_error in zip(
            betas, mean.numpy(), logvar.numpy(), error, strict=True
        )
    ]
    return ThreeOverlaps(tuple(models), _prior_on(line), line)


def _covered(mean: Array, logvar: Array) -> float:
    points = prior_points(Cross(), 2_000, mean.shape[1])
    log_p = Cross().log_density(torch.from_numpy(points)[None])[0].numpy()
    return float((log_density(points, mean, logvar) > log_p - math.log(10.0)).mean())


def _prior_on(line: Array) -> Array:
    """The cross on the grid, rows along the second latent."""
    second, first = np.meshgrid(line, line, indexing="ij")
    points = torch.from_numpy(np.stack([first.ravel(), second.ravel()], axis=1))[None]
    return torch.exp(Cross().log_density(points))[0].numpy().reshape(len(line), len(line))
