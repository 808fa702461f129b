# SPDX-License-Identifier: Apache-2.0
"""Batch norm (Ioffe and Szegedy 2015) with a member axis, as torch's BatchNorm2d computes it.

In training a channel is brought to mean 0 and variance 1 over batch, height and width, each member
by itself, and running means of both are noted for the member (`TrainedWeights.notes`): a tenth of
the new, nine tenths of the old, the variance with the n - 1 divisor. Elsewhere the running means
take their place. Then comes a learned scale and shift.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from unbraid.networks.layers import norm_kernels
from unbraid.networks.layout import Weight
from unbraid.networks.network import TrainedWeights, Weights

MOMENTUM = 0.1
EPSILON = 1e-5


def batch_norm_weights(name: str, channels: int) -> list[Weight]:
    """Scale, shift and running means of a batch norm."""
    return [
        Weight(f"{name}.scale", (channels,), start=1.0),
        Weight(f"{name}.shift", (channels,)),
        Weight(f"{name}.running_mean", (channels,)),
        Weight(f"{name}.running_var", (channels,), start=1.0),
    ]


def batch_norm(x: Tensor, weights: Weights, name: str, *, slope: float = 1.0) -> Tensor:
    """*x* `(members, batch, ..., channels)` normalised by the batch norm called *name*.

    Negative numbers of the result are multiplied by *slope*: 0 is a ReLU. Called twice in a pass,
    it notes what two passes leave.
    """
    means = [f"{name}.running_mean", f"{name}.running_var"]
    if isinstance(weights, TrainedWeights):
        running = [
            weights.notes.get(one, weights[one])
            .detach()
            .clone(memory_format=torch.contiguous_format)
            for one in means
        ]
        weights.notes.update(zip(means, running, strict=True))
    else:
        running = [weights[one].detach() for one in means]
    members, channels = x.shape[0], x.shape[-1]
    scale, shift = weights[f"{name}.scale"], weights[f"{name}.shift"]
    operators = norm_kernels(x) if isinstance(weights, TrainedWeights) else None
    if operators is not None:
        out = operators.batch_norm(
            x.flatten(1, -2), scale, shift, tuple(running), slope, MOMENTUM, EPSILON
        )
        return out.view(x.shape)
    # To the library every channel of every member is one of its channels, and it never mixes those.
    side_by_side = x.movedim(0, -2).flatten(-2).movedim(-1, 1)
    flat = [tensor.reshape(-1) for tensor in (*running, scale, shift)]
    out = F.batch_norm(
        side_by_side,
        *flat,
        training=isinstance(weights, TrainedWeights),
        momentum=MOMENTUM,
        eps=EPSILON,
    )
    out = out.movedim(1, -1).unflatten(-1, (members, channels)).movedim(-2, 0)
    if slope == 1.0:
        return out
    return F.leaky_relu(out, slope) if slope else out.relu()
