# SPDX-License-Identifier: Apache-2.0
"""Devices by name, and how many members go together."""

from __future__ import annotations

import os

import pytest
import torch

from unbraid.errors import InputError
from unbraid.networks.conv import ConvBurgess
from unbraid.population import devices


def test_devices_by_name(monkeypatch: pytest.MonkeyPatch):
    assert devices.choose_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert devices.choose_device() == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert devices.choose_device() == torch.device("cuda")
    assert devices.choose_device("cuda:1") == torch.device("cuda:1")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("cuda", "device needs a CUDA device and this machine has none; got 'cuda'. Use --device cpu."),
        ("cuda:0", "device needs a CUDA device and this machine has none; got 'cuda:0'. Use --device cpu."),
        ("gpu", "device must be auto, cpu or cuda; got 'gpu'."),
    ],
)
def test_devices_that_are_not_there(monkeypatch: pytest.MonkeyPatch, name: str, message: str):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError) as caught:
        devices.choose_device(name)
    assert str(caught.value) == message


def test_one_member_a_core_on_a_cpu_and_what_fits_on_a_gpu(small_plan, monkeypatch: pytest.MonkeyPatch):
    plan, dataset = small_plan(seeds=9)
    assert devices.chunk_size(plan, dataset, torch.device("cpu")) == 1
    each = devices.bytes_per_member(plan, dataset)
    for free, expected in ((0, 1), (5 * each, 4), (10**15, 9)):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free, 0))
        assert devices.chunk_size(plan, dataset, torch.device("cuda")) == expected


def test_the_estimate_grows_with_what_a_member_holds(small_plan):
    small = devices.bytes_per_member(*small_plan())
    weights = ConvBurgess().layout((1, 28, 28), 3).size
    assert devices.bytes_per_member(*small_plan(network="conv_burgess", network_options={})) - small > 4 * 3 * weights
    # FactorVAE's discriminator: about five million weights with gradient and two running means each
    assert devices.bytes_per_member(*small_plan(["vae", "factor_vae"])) - small > 4 * 4 * 5_000_000
    assert devices.bytes_per_member(*small_plan(batch_size=64)) > small


def test_cores_are_those_this_process_may_use():
    assert 1 <= devices.cores() <= (os.cpu_count() or 1)


def test_keeping_freed_memory_is_harmless():
    devices.keep_freed_memory()
    assert torch.ones(2_000_000).sum() == 2_000_000
