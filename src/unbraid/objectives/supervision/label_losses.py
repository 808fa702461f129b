# SPDX-License-Identifier: Apache-2.0
"""How far posterior means are from labels, after Locatello et al. (2020) and disentanglement_lib.

Labelled factor k goes with latent k; μ are the posterior means of the labelled images, y their
labels, n_k the number of values of factor k, K the number of labelled factors. Sums run over the
labelled images of the batch and over factors:

    l2          Σ (b μ_k − y_k)²                     b one learned number, 1 at first
    l2_sigmoid  Σ (sigmoid μ_k − y_k / n_k)²
    xent        Σ cross-entropy of sigmoid μ_k against y_k / n_k
    cov         Σ_{d ≠ k} cov(μ_d, y_k)²             over all latents d, with 1/batch
    embed       Σ_k mean of −log softmax_v(−((μ_k − e_kv) σ)²) at v = y_k,
                e_kv learned, σ given or learned

As in disentanglement_lib, and unlike every other term of Unbraid's losses, l2, l2_sigmoid and xent
are sums over the labelled batch, so that their weight grows with the batch size; and labels are
divided by n_k, so that the highest target is 1 − 1/n_k. Departs: there l2_sigmoid compares every
image with the labels of every image, by a slip of broadcasting; here with its own.

All take means `(members, labelled, latents)` and labels `(members, labelled, factors)` and return
`(members,)`.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

LABEL_LOSSES = ("xent", "l2", "l2_sigmoid", "cov", "embed")


def first_latents(mean: Tensor, labels: Tensor) -> Tensor:
    """The latents that have a factor: the first ones, `(members, labelled, factors)`."""
    return mean[..., : labels.shape[-1]]


def scaled_squared_error(mean: Tensor, labels: Tensor, scale: Tensor) -> Tensor:
    """`l2`: squared distance of the latents times *scale* `(members, 1)` from the labels."""
    return (first_latents(mean, labels) * scale.unsqueeze(-1) - labels).square().sum(dim=(1, 2))


def sigmoid_squared_error(mean: Tensor, labels: Tensor, sizes: Tensor) -> Tensor:
    """`l2_sigmoid`: squared distance of squashed latents from labels between 0 and 1."""
    return (
        (torch.sigmoid(first_latents(mean, labels)) - labels / sizes.unsqueeze(1))
        .square()
        .sum(dim=(1, 2))
    )


def sigmoid_cross_entropy(mean: Tensor, labels: Tensor, sizes: Tensor) -> Tensor:
    """`xent`: cross-entropy of squashed latents against labels between 0 and 1, in nats."""
    targets = labels / sizes.unsqueeze(1)
    return F.binary_cross_entropy_with_logits(
        first_latents(mean, labels), targets, reduction="none"
    ).sum(dim=(1, 2))


def covariance_with_others(mean: Tensor, labels: Tensor) -> Tensor:
    """`cov`: squared covariances of every latent with every factor but its own."""
    centred = mean - mean.mean(dim=1, keepdim=True)
    covariance = centred.mT @ (labels - labels.mean(dim=1, keepdim=True)) / mean.shape[1]
    # Above and below the diagonal; a mask would have to be made on the device.
    return (covariance.tril(-1) + covariance.triu(1)).square().sum(dim=(1, 2))


def embedding_cross_entropy(
    mean: Tensor, labels: Tensor, sizes: Tensor, embedding: Tensor, sigma: Tensor
) -> Tensor:
    """`embed`: cross-entropy of guessing the label from which embedded value lies nearest, in nats.

    *embedding* `(members, factors, values)` holds a number for each value of a factor; those beyond
    a factor's size are not used. *sigma* `(members, factors)` multiplies distances.
    """
    value = torch.arange(embedding.shape[-1], device=mean.device)
    distance = (first_latents(mean, labels).unsqueeze(-1) - embedding.unsqueeze(1)) * sigma[
        :, None, :, None
    ]
    missing = value >= sizes[:, None, :, None]
    logits = (-distance.square()).masked_fill(missing, -math.inf)
    right = logits.gather(-1, labels.to(torch.int64).unsqueeze(-1)).squeeze(-1)
    return (logits.logsumexp(dim=-1) - right).mean(dim=1).sum(dim=1)


def ordered_embedding(slope: Tensor, bias: Tensor, values: int) -> Tensor:
    """Embedded values on a line, slope · v + bias: `(members, factors, values)`."""
    return slope.unsqueeze(-1) * torch.arange(values, device=slope.device) + bias.unsqueeze(-1)
