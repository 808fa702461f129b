# SPDX-License-Identifier: Apache-2.0
"""A trained network as the page's `scripts/network.js` takes it: a record and named arrays.

Weights are float16, which halves what is loaded. A weight keeps float32 where float16 cannot hold
it: where a number is too large, or where many are so small that an output would move.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from unbraid.networks.plain_layers import ByChannel, PlainLayer, PlainNetwork

Arrays = dict[str, NDArray]

_LARGEST = 60_000.0
"""Float16 ends at 65,504."""
_OWN_ERROR, _LAYER_ERROR = 1e-3, 1e-6
"""What rounding may do to the weights of one output, in the size of those weights (float16 itself
does up to 0.0005), and in that of the layer's largest output: a dead latent may lose its noise.
"""


def network_record(
    plain: PlainNetwork,
    expected: Literal["sigmoid", "identity"],
    codebook: NDArray | None = None,
) -> tuple[dict[str, Any], Arrays]:
    """The record of a network and the arrays that it names.

    *expected* is how a raw output becomes the expected image; *codebook* `(latents, values)` is
    that of latents which are rounded to learned values.
    """
    arrays: Arrays = {}
    if codebook is not None:
        arrays["codebook"] = np.ascontiguousarray(codebook, dtype=np.float32)
    record = {
        "sample_shape": list(plain.sample_shape),
        "input": _by_channel(plain.input),
        "encoder": _layers(plain.encoder, "encoder", arrays),
        "mean": _layer(plain.mean, "mean", arrays),
        "logvar": _layer(plain.logvar, "logvar", arrays),
        "logvar_rule": plain.logvar_rule,
        "codebook": None if codebook is None else "codebook",
        "decoder": _layers(plain.decoder, "decoder", arrays),
        "output": _by_channel(plain.output),
        "expected": expected,
    }
    return record, arrays


def _layers(layers: Sequence[PlainLayer], name: str, arrays: Arrays) -> list[dict[str, Any]]:
    return [_layer(one, f"{name}.{number}", arrays) for number, one in enumerate(layers)]


def _layer(layer: PlainLayer, name: str, arrays: Arrays) -> dict[str, Any]:
    """The record of one layer; its weight and bias go into *arrays*."""
    weight, bias = f"{name}.weight", f"{name}.bias"
    arrays[weight] = compact(layer.weight.contiguous().numpy())
    arrays[bias] = layer.bias.numpy()
    record: dict[str, Any] = {"kind": layer.kind, "weight": weight, "bias": bias}
    record["activation"] = layer.activation
    if layer.activation == "leaky":
        record["slope"] = layer.slope
    if layer.kind != "dense":
        record["kernel"] = layer.weight.shape[0]
    return record


def compact(weight: NDArray) -> NDArray:
    """A weight `(..., out)` in float16 where that is precise enough for each output."""
    if not np.abs(weight).max(initial=0.0) <= _LARGEST:
        return weight
    half = weight.astype(np.float16)
    size, error = _size(weight), _size(weight - half)
    allowed = np.maximum(_OWN_ERROR * size, _LAYER_ERROR * size.max(initial=0.0))
    return half if np.all(error <= allowed) else weight


def _size(weight: NDArray) -> NDArray:
    """The length of each output's weights."""
    rows = weight.reshape(-1, weight.shape[-1])
    return np.sqrt(np.einsum("io,io->o", rows, rows))


def _by_channel(change: ByChannel | None) -> dict[str, list[float]] | None:
    return change and {"scale": list(change.scale), "shift": list(change.shift)}
