# SPDX-License-Identifier: Apache-2.0
"""Functions of posteriors that several objectives share; all with members first and nothing
averaged that need not be.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def gaussian_kl_per_latent(mean: Tensor, logvar: Tensor) -> Tensor:
    """KL(N(mean, exp logvar) || N(0, 1)) of each latent in nats; same shape as its arguments."""
    return 0.5 * (mean.square() + logvar.exp() - logvar - 1.0)


def gaussian_kl(mean: Tensor, logvar: Tensor) -> Tensor:
    """The same summed over latents (the last axis)."""
    return gaussian_kl_per_latent(mean, logvar).sum(dim=-1)


def gaussian_log_density(z: Tensor, mean: Tensor, logvar: Tensor) -> Tensor:
    """Log N(z; mean, exp logvar) of each latent, broadcasting."""
    return -0.5 * ((z - mean).square() * torch.exp(-logvar) + logvar + math.log(2.0 * math.pi))


def minibatch_total_correlation(z: Tensor, mean: Tensor, logvar: Tensor) -> Tensor:
    """Total correlation of the batch's aggregate posterior at each z_j, up to a constant:
    `(members, batch)`.

    logsumexp_i Σ_d log q(z_jd|x_i) − Σ_d logsumexp_i log q(z_jd|x_i). The importance weights of
    minibatch-weighted sampling would add (latents − 1) log(batch · dataset size): it is left out,
    as in disentanglement_lib, so values are shifted downwards and often negative while gradients
    are the same.
    """
    pairs = gaussian_log_density(z.unsqueeze(2), mean.unsqueeze(1), logvar.unsqueeze(1))
    joint = pairs.sum(dim=-1).logsumexp(dim=2)
    product = pairs.logsumexp(dim=2).sum(dim=-1)
    return joint - product


def batch_covariance(mean: Tensor) -> Tensor:
    """Covariance of the batch with 1/batch: `(members, batch, latents) -> (members, latents,
    latents)`.
    """
    centred = mean - mean.mean(dim=1, keepdim=True)
    return centred.mT @ centred / mean.shape[1]


def dip_penalty(
    covariance: Tensor, off_diagonal: float | Tensor, diagonal: float | Tensor
) -> Tensor:
    """off_diagonal · Σ_{i≠j} C_ij² + diagonal · Σ_i (C_ii − 1)²: `(members,)`."""
    variances = covariance.diagonal(dim1=-2, dim2=-1)
    # The diagonal is taken out before squaring: large variances would drown small covariances in
    # the difference of sums.
    mixed = (covariance - torch.diag_embed(variances)).square().sum(dim=(-2, -1))
    return off_diagonal * mixed + diagonal * (variances - 1.0).square().sum(dim=-1)
