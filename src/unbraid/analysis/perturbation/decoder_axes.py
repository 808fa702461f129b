# SPDX-License-Identifier: Apache-2.0
"""How the local axes of a trained decoder lie (Rolinek et al. 2019; Zietlow et al. 2021, fig. 1a).

The columns of the decoder's Jacobian at a code say where the image moves when one latent does. A
VAE aligns its latents with local principal directions, so that its columns are orthogonal; an
autoencoder has no reason to. Measured at some images of the recorded sample, over active latents:

- `between`: mean |cosine| between the columns of two latents; 0 where they are orthogonal;
- `local_pca`: mean |cosine| between each column and the local principal direction of the data that
  fits it best, each direction once. They are the left singular vectors of the data's own Jacobian:
  the change of the image by a step of each factor, in deviations of the factor.

Columns are derivatives of expected images, by forward mode, in float32. Departs: the papers show
the toy; the local directions of real data are taken from the factor grid instead of near images,
of which a sample has none near enough.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from unbraid.analysis.perturbation.expansiveness import step_length
from unbraid.codes.codes import CodeStore
from unbraid.core.checks import read_whole
from unbraid.core.errors import Shown, invalid
from unbraid.data.dataset import Dataset
from unbraid.networks.plain_decoder import decode_plain
from unbraid.population.run_folder import RunFolder
from unbraid.scoring.collapse import which_active

AXES = ("between", "local_pca")
PROBES = 64
"""Images at which columns are measured."""
_SHORT = 1e-9
"""Of the longest column: a shorter one moves nothing and has no direction."""


@dataclass(frozen=True)
class DecoderAxes:
    """Where the columns of a decoder's Jacobian point, mean over images."""

    between: float
    """NaN with fewer than two active latents."""
    local_pca: float
    """NaN without active latents, or without a factor grid to take the data's directions from."""
    active: NDArray[np.bool_]
    columns: NDArray[np.float32]
    """Derivatives of the first probe's image by each latent, `(latents, *sample_shape)`."""

    def numbers(self) -> dict[str, float]:
        """The two cosines by name."""
        return {name: getattr(self, name) for name in AXES}


def decoder_axes(
    run: RunFolder, member: int, device: torch.device | str = "cpu", *, probes: int = PROBES
) -> DecoderAxes:
    """The axes of a *member* whose codes are stored, at *probes* images of the recorded sample."""
    codes = CodeStore(run).load(member)
    count = min(read_whole("probes", probes, 1), len(codes.indices))
    noisy = run.plan.members[member].build().samples_latents
    active = which_active(codes.mean, codes.mean_variances() if noisy else None)
    columns = decoder_jacobian(run, member, torch.from_numpy(codes.mean[:count]).to(device))
    used = columns[:, torch.from_numpy(active).to(columns.device)]
    local = math.nan
    if on_a_grid(run.dataset) and used.shape[1]:
        steps = data_jacobian(run.dataset, codes.indices[:count], columns.device)
        local = _matched(_directions(used), torch.linalg.svd(steps.mT, full_matrices=False).U)
    shape = run.dataset.sample_shape
    first = columns[0].reshape(-1, *shape).cpu().numpy()
    return DecoderAxes(_between(_directions(used)), local, active, first)


def decoder_jacobian(run: RunFolder, member: int, codes: Tensor) -> Tensor:
    """Derivatives `(n, latents, values)` of the expected images at *codes* `(n, latents)`."""
    weights, shape = run.member_weights(member), run.dataset.sample_shape
    plain = run.plan.build_network().plain(weights, shape)
    if plain is None:
        rule = "must be one whose layers are known, for images"
        raise invalid("network", rule, Shown(str(run.plan.network)), "Choose a built-in network.")
    expected = run.plan.build_likelihood(run.dataset).bound(weights).expected

    raw, slopes = decode_plain(plain, codes)
    raw = raw.detach().requires_grad_()
    # Number by number, so that this is what each output is multiplied by.
    steep = torch.autograd.grad(expected(raw).sum(), raw)[0]
    return (slopes * steep.unsqueeze(1)).flatten(2)


def on_a_grid(dataset: Dataset) -> bool:
    """Whether every combination of the factors' values is an image."""
    return dataset.labelled and dataset.grid.names == dataset.factor_names


def data_jacobian(
    dataset: Dataset, indices: NDArray[np.int64], device: torch.device | str
) -> Tensor:
    """Change `(n, factors, values)` of images by a deviation of each factor that varies: the
    difference of the neighbours on both sides, or at an end, to the one.
    """
    draw = dataset.sampler(device)
    factors, found = dataset.grid.to_factors(indices), []
    for axis, size in enumerate(dataset.grid.sizes):
        if size == 1:
            continue
        sides = []
        for step in (-1, 1):
            moved = factors.copy()
            moved[:, axis] = np.clip(moved[:, axis] + step, 0, size - 1)
            sides.append((moved[:, axis], dataset.grid.to_index(moved)))
        (low, before), (high, after) = sides
        images = [draw(torch.from_numpy(one).to(device)).flatten(1) for one in (before, after)]
        width = torch.from_numpy((high - low) * step_length(size)).to(images[0])
        found.append((images[1] - images[0]) / width[:, None])
    return torch.stack(found, dim=1)


def _directions(columns: Tensor) -> Tensor:
    """*columns* `(n, active, values)` of length 1, as `(n, values, active)`; NaN for short ones."""
    lengths = columns.norm(dim=2, keepdim=True)
    if not columns.shape[1]:
        return columns.mT
    fine = lengths > _SHORT * lengths.amax(dim=1, keepdim=True)
    return torch.where(fine, columns / lengths, torch.nan).mT


def _between(directions: Tensor) -> float:
    """Mean |cosine| over pairs of latents, then over images."""
    active = directions.shape[2]
    if active < 2:
        return math.nan
    cosines = (directions.mT @ directions).abs()
    pairs = torch.triu_indices(active, active, offset=1)
    return float(cosines[:, pairs[0], pairs[1]].nanmean())


def _matched(directions: Tensor, axes: Tensor) -> float:
    """Mean |cosine| between each of *directions* and the one of *axes* that is its own."""
    overlap = torch.nan_to_num((axes.mT @ directions).abs()).cpu().numpy()
    each = []
    for one in overlap:
        rows, columns = linear_sum_assignment(one, maximize=True)
        each.append(one[rows, columns].mean())
    return float(np.mean(each))
