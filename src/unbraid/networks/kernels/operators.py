# SPDX-License-Identifier: Apache-2.0
"""The kernels as functions with derivatives, for autograd and CUDA graphs.

A layer's weight enters twice: as it is stored, which is what the gradient belongs to, and as
`low_weight`, its copy in the precision of the products, which is what the kernel reads. Gradients
of weights and biases come back in float32 whatever the precision.

ReLUs are fused with the layer before them, and their derivative with the kernel that reads the
tensor anyway: a function with `after_relu` zeroes the gradient it returns wherever its input is
zero, and one with `masked_later` relies on being handed such a gradient. Both are promises about
neighbours that only a network can give; without them every function masks for itself.

They are plain autograd functions: the first call of a registered operator imports torch's compiler,
which takes seconds.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from unbraid.core.errors import UnbraidError
from unbraid.networks.kernels import launch
from unbraid.networks.kernels.image import BERNOULLI, SIGMOID_SQUARED, SQUARED
from unbraid.networks.weight_gradients import leaves_of, of_layer

LIKELIHOODS = {
    "bernoulli": BERNOULLI.value,
    "sigmoid_squared_error": SIGMOID_SQUARED.value,
    "squared_error": SQUARED.value,
}
"""Likelihoods that the last layer's kernel knows, by the name of their function's distance."""


def _only_once() -> None:
    """Refuse a derivative of a derivative, which the kernels do not have."""
    if torch.is_grad_enabled():
        raise UnbraidError(
            "the kernels have no second derivatives; train an objective that needs them on a CPU,"
            " or call the layers in float64."
        )


def _masked(gradient: Tensor, out: Tensor, masked_later: bool) -> Tensor:
    return gradient if masked_later else torch.where(out > 0, gradient, torch.zeros_like(gradient))


class _Conv(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        low_weight: Tensor,
        bias: Tensor,
        after_relu: bool,
        masked_later: bool,
        relu: bool,
    ) -> Tensor:
        out = launch.conv(x, low_weight, bias, relu=relu)
        ctx.leaves = leaves_of(weight, bias)
        ctx.after_relu, ctx.masked_later = after_relu, masked_later or not relu
        ctx.save_for_backward(x, low_weight, out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:  # type: ignore[override]
        _only_once()
        x, low_weight, out = ctx.saved_tensors
        gradient = _masked(gradient, out, ctx.masked_later)
        to_weight, to_bias = of_layer(
            ctx.leaves,
            partial(launch.weight_gradient, kernel=low_weight.shape[2], bias_of_big=False),
            x,
            gradient,
        )
        to_x = None
        if ctx.needs_input_grad[0]:
            to_x = launch.conv_transpose(
                gradient, low_weight, tuple(x.shape[2:4]), mask=x if ctx.after_relu else None
            )
        return to_x, to_weight, None, to_bias, None, None, None


def conv(
    x: Tensor,
    weight: Tensor,
    low_weight: Tensor,
    bias: Tensor,
    after_relu: bool,
    masked_later: bool,
    relu: bool = True,
) -> Tensor:
    """ReLU of a stride-2 convolution, channels last: x `(members, batch, height, width, in)`.

    Without *relu* the convolution as it is.
    """
    return _Conv.apply(x, weight, low_weight, bias, after_relu, masked_later, relu)  # type: ignore[return-value]


class _ConvImage(Function):
    @staticmethod
    def forward(
        ctx: Any,
        blocks: Tensor,
        weight: Tensor,
        low_weight: Tensor,
        bias: Tensor,
        masked_later: bool,
        relu: bool,
    ) -> Tensor:
        out = launch.first(blocks, low_weight, bias, relu=relu)
        ctx.channels, ctx.masked_later = weight.shape[4], masked_later or not relu
        ctx.save_for_backward(blocks, out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:  # type: ignore[override]
        _only_once()
        blocks, out = ctx.saved_tensors
        gradient = _masked(gradient, out, ctx.masked_later)
        to_weight, to_bias = launch.first_weight_gradient(blocks, gradient, ctx.channels)
        return None, to_weight, None, to_bias, None, None


def conv_image(
    blocks: Tensor,
    weight: Tensor,
    low_weight: Tensor,
    bias: Tensor,
    masked_later: bool,
    relu: bool = True,
) -> Tensor:
    """The same on images by blocks, with a 4x4 kernel; no gradient goes to them."""
    return _ConvImage.apply(blocks, weight, low_weight, bias, masked_later, relu)  # type: ignore[return-value]


class _ConvTranspose(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        low_weight: Tensor,
        bias: Tensor,
        after_relu: bool,
        masked_later: bool,
        relu: bool,
    ) -> Tensor:
        size = (2 * x.shape[2], 2 * x.shape[3])
        out = launch.conv_transpose(x, low_weight, size, bias, relu=relu)
        ctx.leaves = leaves_of(weight, bias)
        ctx.after_relu, ctx.masked_later = after_relu, masked_later or not relu
        ctx.save_for_backward(x, low_weight, out)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:  # type: ignore[override]
        _only_once()
        x, low_weight, out = ctx.saved_tensors
        gradient = _masked(gradient, out, ctx.masked_later)
        to_weight, to_bias = of_layer(
            ctx.leaves, partial(launch.weight_gradient, kernel=4, bias_of_big=True), gradient, x
        )
        to_x = (
            launch.conv(gradient, low_weight, mask=x if ctx.after_relu else None)
            if ctx.needs_input_grad[0]
            else None
        )
        return to_x, to_weight, None, to_bias, None, None, None


def conv_transpose(
    x: Tensor,
    weight: Tensor,
    low_weight: Tensor,
    bias: Tensor,
    after_relu: bool,
    masked_later: bool,
    relu: bool = True,
) -> Tensor:
    """ReLU of a 4x4 stride-2 transposed convolution, channels last, or without *relu* as it is.

    x is `(members, batch, height, width, in)`.
    """
    return _ConvTranspose.apply(x, weight, low_weight, bias, after_relu, masked_later, relu)  # type: ignore[return-value]


class _ConvTransposeToImage(Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, weight: Tensor, low_weight: Tensor, bias: Tensor, after_relu: bool
    ) -> Tensor:
        ctx.after_relu = after_relu
        ctx.save_for_backward(x, low_weight)
        return launch.last(x, low_weight, bias)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:  # type: ignore[override]
        _only_once()
        x, low_weight = ctx.saved_tensors
        ones = x.new_ones(x.shape[:2], dtype=torch.float32)
        slope = launch.by_blocks(gradient.to(x.dtype))
        to_x, to_weight, to_bias = launch.last_backward(
            x, slope, ones, low_weight, mask=ctx.after_relu
        )
        return to_x, to_weight, None, to_bias, None


def conv_transpose_to_image(
    x: Tensor, weight: Tensor, low_weight: Tensor, bias: Tensor, after_relu: bool
) -> Tensor:
    """4x4 stride-2 transposed convolution to images, without ReLU.

    They are `(members, batch, channels, 2 height, 2 width)`.
    """
    return _ConvTransposeToImage.apply(x, weight, low_weight, bias, after_relu)  # type: ignore[return-value]


class _ConvTransposeAndCompare(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        weight: Tensor,
        low_weight: Tensor,
        bias: Tensor,
        true: Tensor,
        likelihood: int,
        after_relu: bool,
    ) -> Tensor:
        distance, slope, sums = launch.last_distance(x, low_weight, bias, true, likelihood)
        ctx.after_relu = after_relu
        ctx.save_for_backward(x, low_weight, slope, sums)
        return distance

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:  # type: ignore[override]
        _only_once()
        x, low_weight, slope, sums = ctx.saved_tensors
        to_x, to_weight, to_bias = launch.last_backward(
            x, slope, gradient, low_weight, mask=ctx.after_relu, sums=sums
        )
        return to_x, to_weight, None, to_bias, None, None, None


def conv_transpose_and_compare(
    x: Tensor,
    weight: Tensor,
    low_weight: Tensor,
    bias: Tensor,
    true: Tensor,
    likelihood: int,
    after_relu: bool,
) -> Tensor:
    """Distance `(members, batch)` of that image from the *true* one, by blocks."""
    return _ConvTransposeAndCompare.apply(x, weight, low_weight, bias, true, likelihood, after_relu)  # type: ignore[return-value]


class _BatchNorm(Function):
    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        scale: Tensor,
        shift: Tensor,
        running: tuple[Tensor, Tensor],
        slope: float,
        momentum: float,
        epsilon: float,
    ) -> Tensor:
        x = x.contiguous()
        out, mean, rate = launch.batch_norm(x, scale, shift, running, slope, momentum, epsilon)
        ctx.slope = slope
        ctx.save_for_backward(x, mean, rate, scale, shift)
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple:  # type: ignore[override]
        _only_once()
        back = launch.batch_norm_backward(gradient.contiguous(), *ctx.saved_tensors, ctx.slope)
        return *back, None, None, None, None


def batch_norm(
    x: Tensor,
    scale: Tensor,
    shift: Tensor,
    running: tuple[Tensor, Tensor],
    slope: float,
    momentum: float,
    epsilon: float,
) -> Tensor:
    """Batch norm of x `(members, rows, channels)`, negative numbers times *slope*.

    *running* means and variances `(members, channels)` move in place.
    """
    return _BatchNorm.apply(x, scale, shift, running, slope, momentum, epsilon)  # type: ignore[return-value]
