# SPDX-License-Identifier: Apache-2.0
"""Samples by the kernel have the bits of the plain samplers: by Triton's interpreter on a CPU, and
on CUDA.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unbraid as ub
from unbraid.data import dataset as dataset_module
from unbraid.data.drawn import dsprites as dsprites_module

pytest.importorskip("triton")

from unbraid.data.gather_kernel import gather

DEVICES = [
    pytest.param(
        "cpu",
        marks=pytest.mark.skipif(
            torch.cuda.is_available(), reason="kernels run on the device here"
        ),
    ),
    pytest.param("cuda", marks=pytest.mark.gpu),
]


def every_byte(channels: int):
    """Nine images that hold every byte, of a size that is no multiple of a kernel's stretch."""
    values = np.arange(9 * 28 * 28 * channels, dtype=np.int64) * 7 % 256
    return ub.load(values.astype(np.uint8).reshape(9, 28, 28, channels))


DATASETS = {
    "one channel": lambda: every_byte(1),
    "three channels": lambda: every_byte(3),
    "sprites": lambda: ub.load("sprites", x=6, y=4, image_size=64),
    "dsprites": lambda: ub.load("dsprites"),
}


@pytest.fixture(params=DEVICES)
def device(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.mark.parametrize("name", DATASETS)
def test_samples_have_the_bits_of_the_plain_sampler(name, device, monkeypatch: pytest.MonkeyPatch):
    data = DATASETS[name]()
    plain = data.sampler("cpu")
    if device == "cpu":
        for module in (dataset_module, dsprites_module):
            monkeypatch.setattr(module, "gather_on", lambda device: gather)
    by_kernel = data.sampler(device)
    ends = torch.tensor([[0, len(data) - 1, 3], [5, 5, len(data) // 2]])
    # A step takes its indices out of many steps', so they lie apart.
    apart = torch.stack([ends, ends], dim=1)[:, 1]
    for indices in (ends, apart, ends[0], ends[0, 1], ends[:, :0]):
        found, expected = by_kernel(indices.to(device)), plain(indices)
        assert found.dtype == torch.float32
        assert found.shape == (*indices.shape, *data.sample_shape)
        assert torch.equal(found.cpu(), expected)


def test_a_cpu_takes_the_plain_sampler():
    assert dataset_module.gather_on(torch.device("cpu")) is None
