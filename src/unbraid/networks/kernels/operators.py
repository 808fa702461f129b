# SPDX-License-Identifier: Apache-2.0
"""The kernels as torch operators with derivatives, for autograd, tracing and CUDA graphs.

A layer's weight enters twice: as it is stored, which is what the gradient belongs to, and as
`low_weight`, its copy in the precision of the products, which is what the kernel reads. Gradients
of weights and biases come back in float32 whatever the precision.

ReLUs are fused with the layer before them, and their derivative with the kernel that reads the
tensor anyway: an operator with `after_relu` zeroes the gradient it returns wherever its input is
zero, and one with `masked_later` relies on being handed such a gradient. Both are promises about
neighbours that only a network can give; without them every operator masks for itself.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unbraid.core.errors import UnbraidError
from unbraid.networks.kernels import launch
from unbraid.networks.kernels.image import BERNOULLI, SIGMOID_SQUARED, SQUARED

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


@torch.library.custom_op("unbraid::conv", mutates_args=())
def conv(
    x: Tensor,
    weight: Tensor,
    low_weight: Tensor,
    bias: Tensor,
    after_relu: bool,
    masked_later: bool,
) -> Tensor:
    """ReLU of a stride-2 convolution, channels last: x `(members, batch, height, width, in)`."""
    return launch.conv(x, low_weight, bias, relu=True)


@conv.register_fake
def _(
    x: Tensor,
    weight: Tensor,
    low_weight: Tensor,
    bias: Tensor,
    after_relu: bool,
    masked_later: bool,
) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[1], x.shape[2] // 2, x.shape[3] // 2, weight.shape[1])


def _conv_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
    x, _, low_weight, _, ctx.after_relu, ctx.masked_later = inputs
    ctx.save_for_backward(x, low_weight, output)


def _conv_backward(ctx: Any, gradient: Tensor) -> tuple:
    _only_once()
    x, low_weight, out = ctx.saved_tensors
    gradient = _masked(gradient, out, ctx.masked_later)
    to_x = None
    if ctx.needs_input_grad[0]:
        to_x = launch.conv_transpose(
            gradient, low_weight, tuple(x.shape[2:4]), mask=x if ctx.after_relu else None
        )
    to_weight, to_bias = launch.weight_gradient(x, gradient, low_weight.shape[2], bias_of_big=False)
    return to_x, to_weight, None, to_bias, None, None


conv.register_autograd(_conv_backward, setup_context=_conv_context)


@torch.library.custom_op("unbraid::conv_image", mutates_args=())
def conv_image(
    blocks: Tensor, weight: Tensor, low_weight: Tensor, bias: Tensor, masked_later: bool
) -> Tensor:
    """The same on images by blocks, with a 4x4 kernel; no gradient goes to them."""
    return launch.first(blocks, low_weight, bias, relu=True)


@conv_image.register_fake
def _(
    blocks: Tensor, weight: Tensor, low_weight: Tensor, bias: Tensor, masked_later: bool
) -> Tensor:
    members, batch, rows, columns, _ = blocks.shape
    return low_weight.new_empty(members, batch, rows - 1, columns - 1, weight.shape[1])


def _conv_image_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
    blocks, weight, _, _, ctx.masked_later = inputs
    ctx.channels = weight.shape[4]
    ctx.save_for_backward(blocks, output)


def _conv_image_backward(ctx: Any, gradient: Tensor) -> tuple:
    _only_once()
    blocks, out = ctx.saved_tensors
    gradient = _masked(gradient, out, ctx.masked_later)
    to_weight, to_bias = launch.first_weight_gradient(blocks, gradient, ctx.channels)
    return None, to_weight, None, to_bias, None


conv_image.register_autograd(_conv_image_backward, setup_context=_conv_image_context)


@torch.library.custom_op("unbraid::conv_transpose", mutates_args=())
def conv_transpose(
    x: Tensor,
    weight: Tensor,
    low_weight: Tensor,
    bias: Tensor,
    after_relu: bool,
    masked_later: bool,
) -> Tensor:
    """ReLU of a 4x4 stride-2 transposed convolution, channels last.

    x is `(members, batch, height, width, in)`.
    """
    return launch.conv_transpose(x, low_weight, (2 * x.shape[2], 2 * x.shape[3]), bias, relu=True)


@conv_transpose.register_fake
def _(
    x: Tensor,
    weight: Tensor,
    low_weight: Tensor,
    bias: Tensor,
    after_relu: bool,
    masked_later: bool,
) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[1], 2 * x.shape[2], 2 * x.shape[3], weight.shape[4])


def _conv_transpose_backward(ctx: Any, gradient: Tensor) -> tuple:
    _only_once()
    x, low_weight, out = ctx.saved_tensors
    gradient = _masked(gradient, out, ctx.masked_later)
    to_x = (
        launch.conv(gradient, low_weight, mask=x if ctx.after_relu else None)
        if ctx.needs_input_grad[0]
        else None
    )
    to_weight, to_bias = launch.weight_gradient(gradient, x, 4, bias_of_big=True)
    return to_x, to_weight, None, to_bias, None, None


conv_transpose.register_autograd(_conv_transpose_backward, setup_context=_conv_context)


@torch.library.custom_op("unbraid::conv_transpose_to_image", mutates_args=())
def conv_transpose_to_image(
    x: Tensor, weight: Tensor, low_weight: Tensor, bias: Tensor, after_relu: bool
) -> Tensor:
    """4x4 stride-2 transposed convolution to images, without ReLU.

    They are `(members, batch, channels, 2 height, 2 width)`.
    """
    return launch.last(x, low_weight, bias)


@conv_transpose_to_image.register_fake
def _(x: Tensor, weight: Tensor, low_weight: Tensor, bias: Tensor, after_relu: bool) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[1], weight.shape[4], 2 * x.shape[2], 2 * x.shape[3])


def _to_image_context(ctx: Any, inputs: tuple, output: Tensor) -> None:
    x, _, low_weight, _, ctx.after_relu = inputs
    ctx.save_for_backward(x, low_weight)


def _to_image_backward(ctx: Any, gradient: Tensor) -> tuple:
    _only_once()
    x, low_weight = ctx.saved_tensors
    ones = x.new_ones(x.shape[:2], dtype=torch.float32)
    slope = launch.by_blocks(gradient.to(x.dtype))
    to_x, to_weight, to_bias = launch.last_backward(x, slope, ones, low_weight, mask=ctx.after_relu)
    return to_x, to_weight, None, to_bias, None


conv_transpose_to_image.register_autograd(_to_image_backward, setup_context=_to_image_context)


@torch.library.custom_op("unbraid::conv_transpose_and_compare", mutates_args=())
def conv_transpose_and_compare(
    x: Tensor,
    weight: Tensor,
    low_weight: Tensor,
    bias: Tensor,
    true: Tensor,
    likelihood: int,
    after_relu: bool,
) -> tuple[Tensor, Tensor]:
    """Distance `(members, batch)` of that image from the *true* one, by blocks, and its slope."""
    return launch.last_distance(x, low_weight, bias, true, likelihood)


@conv_transpose_and_compare.register_fake
def _(
    x: Tensor,
    weight: Tensor,
    low_weight: Tensor,
    bias: Tensor,
    true: Tensor,
    likelihood: int,
    after_relu: bool,
) -> tuple[Tensor, Tensor]:
    slope = x.new_empty(
        x.shape[0], x.shape[1], x.shape[2] + 1, x.shape[3] + 1, launch.pixels_of(weight.shape[4])
    )
    return x.new_empty(x.shape[:2], dtype=torch.float32), slope


def _compare_context(ctx: Any, inputs: tuple, output: tuple[Tensor, Tensor]) -> None:
    x, _, low_weight, _, _, _, ctx.after_relu = inputs
    ctx.save_for_backward(x, low_weight, output[1])
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)


def _compare_backward(ctx: Any, gradient: Tensor, _: Tensor | None) -> tuple:
    _only_once()
    x, low_weight, slope = ctx.saved_tensors
    to_x, to_weight, to_bias = launch.last_backward(
        x, slope, gradient, low_weight, mask=ctx.after_relu
    )
    return to_x, to_weight, None, to_bias, None, None, None


conv_transpose_and_compare.register_autograd(_compare_backward, setup_context=_compare_context)
