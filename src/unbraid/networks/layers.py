# SPDX-License-Identifier: Apache-2.0
"""Dense and convolutional layers with a member axis: member k's samples meet member k's weights.

This is the seam under which kernels are chosen; the callers never learn how a product is computed.
Measured, the fastest are

- on CUDA, our own Triton kernels (`kernels/`), where Triton is installed and the channels suit
  them;
- for one member on a CPU, the library's convolutions in channels-last layout (`cpu_conv`), since
  there members run side by side on the cores;
- else one batched matrix product over explicit columns (`im2col`), the plain form that runs
  anywhere.

Hidden activations have their channels last, `(members, batch, height, width, channels)`; images
have them first, as the data does. The precision of a product is that of the activations; weights
and biases keep their own, and so do their gradients.

Two promises about neighbours save the kernels a pass over memory: `after_relu` says that the input
is the output of a ReLU, so that its gradient may come back already zeroed where the input is zero,
and `masked_later` that the next layer does so for this one's output. They change no value.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from unbraid.core import triton_support
from unbraid.networks import cpu_conv, im2col
from unbraid.networks.weight_gradients import leaves_of, of_layer

_MOST_NUMBERS = 2**31
"""Kernels count the numbers of a member's tensor in 32 bits."""
_SHARED_MEMORY = 160 * 1024
"""Bytes a block of threads must be able to take: data-centre GPUs since the A100 offer them, most
others about 100,000.
"""


def uses_kernels(device: torch.device) -> bool:
    """Whether layers on *device* run on our own kernels."""
    return triton_support.usable(device) and _roomy(device)


@functools.cache
def _roomy(device: torch.device) -> bool:
    """Whether the blocks of the kernels, which were cut on an H200, fit on *device*."""
    properties = torch.cuda.get_device_properties(device)
    room = getattr(properties, "shared_memory_per_block_optin", None)  # torch 2.7 and newer
    return (
        room >= _SHARED_MEMORY
        if room is not None
        else (properties.major, properties.minor) in ((8, 0), (9, 0), (10, 0))
    )


def _kernels(x: Tensor, channels: tuple[int, ...], numbers: int) -> ModuleType | None:
    """The operators, if they can take *x*, so many channels and so large a tensor."""
    suits = x.dtype in (torch.float32, torch.bfloat16) and all(
        count in (16, 32, 64, 128) for count in channels
    )
    if not (suits and numbers < _MOST_NUMBERS and uses_kernels(x.device)):
        return None
    from unbraid.networks.kernels import operators

    return operators


def norm_kernels(x: Tensor) -> ModuleType | None:
    """The operators, if their batch norm can take *x* `(members, ..., channels)`."""
    return _kernels(x, (), _numbers(x)) if x.shape[-1] % 16 == 0 else None


def _reference(x: Tensor) -> ModuleType:
    return cpu_conv if x.shape[0] == 1 and x.device.type == "cpu" else im2col


def dense(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`x @ weight + bias` for each member.

    Shapes: `(members, batch, in)`, `(members, in, out)`, `(members, out)`.
    """
    if x.device.type == "cuda" and x.dtype != weight.dtype:
        return _MixedDense.apply(x, weight, _low_precision_copy(weight, x.dtype), bias)  # type: ignore[return-value]
    weight, bias = weight.to(x.dtype), bias.to(x.dtype)
    if x.shape[0] == 1:
        return torch.addmm(bias.squeeze(0), x.squeeze(0), weight.squeeze(0)).unsqueeze(0)
    return torch.baddbmm(bias.unsqueeze(1), x, weight)


_unwanted: set[int] = set()
"""Where the weights lie whose gradients nobody asks for."""


@contextlib.contextmanager
def no_gradients_of(rows: Tensor) -> Iterator[None]:
    """Spare the products for gradients of weights that are views of *rows*.

    The library asks its own functions for no more than is wanted, but not those of others.
    """
    _unwanted.add(rows.untyped_storage().data_ptr())
    try:
        yield
    finally:
        _unwanted.discard(rows.untyped_storage().data_ptr())


class _MixedDense(torch.autograd.Function):
    """A dense layer in mixed precision: the weight's gradient stays in full precision."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, low_weight: Tensor, bias: Tensor) -> Tensor:
        ctx.rows, ctx.leaves = weight.untyped_storage().data_ptr(), leaves_of(weight, bias)
        ctx.save_for_backward(x, low_weight)
        return torch.baddbmm(bias.to(x.dtype).unsqueeze(1), x, low_weight)

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor | None, Tensor | None, None, Tensor | None]:  # type: ignore[override]
        x, low_weight = ctx.saved_tensors
        to_weight = to_bias = None
        if (ctx.needs_input_grad[1] or ctx.needs_input_grad[3]) and ctx.rows not in _unwanted:
            to_weight, to_bias = of_layer(ctx.leaves, _dense_gradients, x, gradient)
        to_x = torch.bmm(gradient, low_weight.mT) if ctx.needs_input_grad[0] else None
        return to_x, to_weight, None, to_bias


def _dense_gradients(x: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of weight and bias."""
    return _bmm_float32(x.mT, gradient), gradient.sum(dim=1, dtype=torch.float32)


def _bmm_float32(left: Tensor, right: Tensor) -> Tensor:
    """Batched product of low-precision factors, summed and kept in float32."""
    if _BMM_HAS_OUT_DTYPE:
        return torch.bmm(left, right, out_dtype=torch.float32)
    return torch.bmm(left, right).float()


_BMM_HAS_OUT_DTYPE = "dtype" in torch.ops.aten.bmm.overloads()  # torch 2.8 and newer


def conv_image(
    image: Tensor,
    weight: Tensor,
    bias: Tensor,
    precision: torch.dtype,
    *,
    masked_later: bool = False,
    relu: bool = True,
) -> Tensor:
    """First layer: ReLU of a stride-2 convolution of images, in *precision*.

    Images are `(members, batch, channels, height, width)`.

    Kernels are 4x4 padded by one, or 2x2: weight `(members, out, kernel, kernel, channels)`.
    """
    if image.shape[2] <= 4 and weight.shape[2] == 4 and not image.requires_grad and _even(image):
        # By blocks an image takes up to 16 numbers for four pixels.
        operators = _kernels(
            image, (weight.shape[1],), _pixels(image) // 4 * max(32, weight.shape[1])
        )
        if operators is not None and precision in (torch.float32, torch.bfloat16):
            return operators.conv_image(
                _blocks(image),
                weight,
                _low_precision_copy(weight, precision),
                bias,
                masked_later,
                relu,
            )
    return conv(
        image.to(precision).movedim(2, -1), weight, bias, masked_later=masked_later, relu=relu
    )


def conv(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    after_relu: bool = False,
    masked_later: bool = False,
    relu: bool = True,
) -> Tensor:
    """ReLU of a stride-2 convolution, kernel 4 or 2, that halves height and width.

    Shapes: x `(members, batch, height, width, in)`, weight `(members, out, kernel, kernel, in)`,
    bias `(members, out)`.
    """
    operators = _kernels(x, (weight.shape[1], weight.shape[4]), _numbers(x))
    if operators is not None:
        return operators.conv(
            x, weight, _low_precision_copy(weight, x.dtype), bias, after_relu, masked_later, relu
        )
    return _reference(x).conv(x, weight.to(x.dtype), bias.to(x.dtype), relu=relu)


def conv_transpose(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    after_relu: bool = False,
    masked_later: bool = False,
    relu: bool = True,
) -> Tensor:
    """ReLU of a 4x4 stride-2 transposed convolution that doubles height and width.

    Shapes: x `(members, batch, height, width, in)`, weight `(members, in, 4, 4, out)`, bias
    `(members, out)`.
    """
    numbers = 4 * _numbers(x) // weight.shape[1] * weight.shape[4]
    operators = _kernels(x, (weight.shape[1], weight.shape[4]), numbers)
    if operators is not None:
        return operators.conv_transpose(
            x, weight, _low_precision_copy(weight, x.dtype), bias, after_relu, masked_later, relu
        )
    return _reference(x).conv_transpose(x, weight.to(x.dtype), bias.to(x.dtype), relu=relu)


def conv_transpose_to_image(
    x: Tensor, weight: Tensor, bias: Tensor, *, after_relu: bool = False
) -> Tensor:
    """Last layer: the same without ReLU, to images.

    They are `(members, batch, channels, 2 height, 2 width)`.
    """
    operators = _kernels(x, (weight.shape[1],), _numbers(x)) if weight.shape[4] <= 4 else None
    if operators is not None:
        return operators.conv_transpose_to_image(
            x, weight, _low_precision_copy(weight, x.dtype), bias, after_relu
        )
    return (
        _reference(x)
        .conv_transpose(x, weight.to(x.dtype), bias.to(x.dtype), relu=False)
        .movedim(-1, 2)
    )


def conv_transpose_and_compare(
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    image: Tensor,
    distance: str,
    *,
    after_relu: bool = False,
) -> Tensor | None:
    """Last layer and likelihood in one: the *distance* `(members, batch)` from *image*.

    None where no kernel does that.
    """
    suits = weight.shape[4] <= 4 and image.dtype == torch.float32 and not image.requires_grad
    operators = _kernels(x, (weight.shape[1],), _numbers(x)) if suits else None
    if operators is None or distance not in operators.LIKELIHOODS:
        return None
    kind = operators.LIKELIHOODS[distance]
    return operators.conv_transpose_and_compare(
        x, weight, _low_precision_copy(weight, x.dtype), bias, _blocks(image), kind, after_relu
    )


def _numbers(x: Tensor) -> int:
    """Numbers a member has in *x*."""
    return x.numel() // x.shape[0]


def _pixels(image: Tensor) -> int:
    """Pixels of all images of a member, those included by which blocks reach over the edge."""
    return image.shape[1] * (image.shape[3] + 2) * (image.shape[4] + 2)


def _even(image: Tensor) -> bool:
    return image.shape[-1] % 2 == 0 and image.shape[-2] % 2 == 0


def _blocks(image: Tensor) -> Tensor:
    """*image* by blocks, as the first and last layer's kernels take it; made once for both."""
    from unbraid.networks.kernels.launch import by_blocks

    if image.is_inference():
        return by_blocks(image)
    made = getattr(image, "unbraid_blocks", None)
    if made is None or made[0] != image._version:  # not made yet, or the image has changed since
        made = (image._version, by_blocks(image))
        image.unbraid_blocks = made  # type: ignore[attr-defined]
    return made[1]


def carry_low_precision_copy(weight: Tensor, low_precision_copy: Tensor) -> None:
    """Let *weight* carry a copy of itself in lower precision, for layers to take."""
    weight.unbraid_low_precision_copy = low_precision_copy  # type: ignore[attr-defined]


def _low_precision_copy(weight: Tensor, precision: torch.dtype) -> Tensor:
    carried = getattr(weight, "unbraid_low_precision_copy", None)
    return (
        carried
        if carried is not None and carried.dtype == precision
        else weight.detach().to(precision)
    )
