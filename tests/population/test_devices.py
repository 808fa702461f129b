# SPDX-License-Identifier: Apache-2.0
"""Devices by name, and how many members go together."""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unbraid.core.errors import InputError
from unbraid.data import load
from unbraid.networks.conv import ConvBurgess
from unbraid.population import devices
from unbraid.population.kind import equal_share


def test_devices_by_name(monkeypatch: pytest.MonkeyPatch):
    assert devices.choose_device("cpu") == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert devices.choose_device() == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert devices.choose_device() == torch.device("cuda")
    assert devices.choose_device("cuda") == torch.device("cuda")
    assert devices.choose_device("cuda:1") == torch.device("cuda:1")
    with pytest.raises(InputError) as caught:
        devices.choose_device("cuda:2")
    assert (
        str(caught.value)
        == "device must name one of the CUDA devices, counted from 0, and this machine has 2; got"
        " 'cuda:2'."
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "cuda",
            "device needs a CUDA device and this machine has none; got 'cuda'. Use device=cpu.",
        ),
        (
            "cuda:0",
            "device needs a CUDA device and this machine has none; got 'cuda:0'. Use device=cpu.",
        ),
        *(
            (name, f"device must be auto, cpu, cuda or cuda:NUMBER; got '{name}'.")
            for name in ("gpu", "cuda:", "cuda:one", "cuda:-1")
        ),
    ],
)
def test_devices_that_are_not_there(monkeypatch: pytest.MonkeyPatch, name: str, message: str):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(InputError) as caught:
        devices.choose_device(name)
    assert str(caught.value) == message


@pytest.mark.parametrize("kernels", [True, False])
def test_one_member_a_core_on_a_cpu_and_what_fits_on_a_gpu(
    small_plan, monkeypatch: pytest.MonkeyPatch, kernels
):
    monkeypatch.setattr(devices, "uses_kernels", lambda device: kernels)
    plan, dataset = small_plan(seeds=9)
    assert devices.chunk_size(plan, dataset, torch.device("cpu")) == 1
    cuda = torch.device("cuda")
    each = devices.bytes_of_member(plan, dataset, plan.members[0], kernels=kernels)
    for fits, expected in ((0, 1), (1, 1), (4, 4), (5, 5), (8, 8), (10**6, 9)):
        free = int((fits * each + devices.dataset_bytes(dataset)) / 0.8) + 2
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device, free=free: (free, 0))
        assert devices.chunk_size(plan, dataset, cuda) == expected, fits
    with monkeypatch.context() as few:
        few.setattr(devices, "_MOST_MEMBERS", 4)
        assert devices.chunk_size(plan, dataset, cuda) == 4, "no more than pays, however much fits"
    # A checkpoint holds the weights and two running means, 4 bytes each.
    weights = plan.build_network().layout(dataset.sample_shape, plan.latents).size
    monkeypatch.setattr(devices, "_MOST_CHECKPOINT_BYTES", 5 * 12 * weights + 1)
    assert devices.chunk_size(plan, dataset, cuda) == 5
    monkeypatch.setattr(devices, "_MOST_CHECKPOINT_BYTES", 1)
    assert devices.chunk_size(plan, dataset, cuda) == 1


def test_the_data_counts_a_byte_a_value(small_plan):
    _, dataset = small_plan()
    assert devices.dataset_bytes(dataset) == len(dataset) * 28 * 28 == 48 * 784


@pytest.mark.parametrize("kernels", [True, False])
def test_the_estimate_grows_with_what_a_member_holds(small_plan, kernels: bool):
    def estimate(*objective, **options):
        plan, dataset = small_plan(*objective, **options)
        return devices.bytes_of_member(plan, dataset, plan.members[-1], kernels=kernels)

    small = estimate()
    weights = ConvBurgess().layout((1, 28, 28), 3).size
    assert estimate(network="conv_burgess", network_options={}) - small > 4 * 3 * weights
    # FactorVAE's discriminator: about five million weights with gradient and two running means each
    assert estimate(["vae", "factor_vae"]) - small > 4 * 4 * 5_000_000
    assert estimate(batch_size=64) > small
    # Pairs decode twice the images, labels encode twice, importance samples decode each image as
    # often as they are many.
    images = 4 * 8 * 784 * 64
    assert estimate("ada_gvae") - small >= images
    assert estimate(supervision="labels") - small >= images
    assert estimate("iwae", hyper={"importance_samples": 5}) - small >= 4 * images
    # The MMD holds distances of all pairs of a batch, latent by latent: four numbers for its
    # gradient and three results.
    assert (
        estimate("decomposition", batch_size=512) - estimate(batch_size=512) >= 4 * 5 * 512**2 * 3
    )
    plan, dataset = small_plan()
    without, with_kernels = (
        devices.bytes_of_member(plan, dataset, plan.members[0], kernels=one)
        for one in (False, True)
    )
    assert without > with_kernels


def test_cores_are_those_this_process_may_use():
    assert 1 <= devices.cores() <= (os.cpu_count() or 1)


def test_keeping_freed_memory_is_harmless():
    devices.keep_freed_memory()
    assert torch.ones(2_000_000).sum() == 2_000_000


@pytest.mark.parametrize(
    ("instructions", "usual"),
    [
        ({"avx512_bf16": True}, "bfloat16"),
        ({"amx_bf16": True, "avx512_bf16": False}, "bfloat16"),
        ({"avx512_bf16": False, "avx2": True}, "float32"),
        ({}, "float32"),
    ],
)
def test_the_usual_precision_of_a_cpu_is_that_of_its_instructions(
    monkeypatch: pytest.MonkeyPatch, instructions: dict[str, bool], usual: str
):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: instructions, raising=False)
    assert devices.usual_precision(torch.device("cpu")) == usual


def test_the_usual_precision_is_float32_where_nothing_can_be_asked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(torch.cpu, "get_capabilities", raising=False)
    assert devices.usual_precision(torch.device("cpu")) == "float32"


def test_the_usual_precision_follows_the_kernels(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(devices, "uses_kernels", lambda device: True)
    assert devices.usual_precision(torch.device("cuda")) == "bfloat16"


def test_data_is_counted_as_it_lies_on_the_device():
    bits = 737_280 * 512
    assert devices.dataset_bytes(load("dsprites")) == bits
    assert devices.dataset_bytes(load("noisy_dsprites")) == bits
    assert devices.dataset_bytes(load("sprites", x=4, y=3, scale=1, image_size=28)) == 12 * 28 * 28
    assert devices.dataset_bytes(load("xysquares")) == 2**20
    assert devices.dataset_bytes(load("shapes3d_drawn")) == load("shapes3d_drawn").map_rows().nbytes


def test_chunks_train_on_every_core_every_gpu_or_the_one_that_was_named(
    small_plan, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(devices, "cores", lambda: 3)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert devices.workers(torch.device("cpu")) == [torch.device("cpu")] * 3
    rooms, kernels = {0: 10**12, 1: 10**12}, {0: True, 1: True}
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (rooms[device.index], 0))
    monkeypatch.setattr(devices, "uses_kernels", lambda device: kernels[device.index])
    first, second = torch.device("cuda", 0), torch.device("cuda", 1)
    assert devices.workers(torch.device("cuda")) == [first, second]
    assert devices.workers(second) == [second]
    # No GPU is left without a chunk, and the one with the least room decides.
    plan, dataset = small_plan(seeds=9)
    assert devices.chunk_size(plan, dataset, torch.device("cuda")) == 5
    each = devices.bytes_of_member(plan, dataset, plan.members[0], kernels=True)
    rooms[1] = int((4 * each + devices.dataset_bytes(dataset)) / 0.8) + 2
    rooms[0] = 2 * rooms[1]
    assert devices.chunk_size(plan, dataset, torch.device("cuda")) == 4
    # One that others fill, and one without our kernels, are left alone.
    rooms[0] = 2 * rooms[1] + 2
    assert devices.workers(torch.device("cuda")) == [first]
    rooms[1], kernels[0] = 10**9, False
    assert devices.workers(torch.device("cuda")) == [second]
    assert devices.one_of(torch.device("cpu")) == torch.device("cpu")
    assert devices.one_of(second) == second
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 1)
    assert devices.one_of(torch.device("cuda")) == second
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert devices.workers(torch.device("cuda")) == [torch.device("cuda")]


def test_heavy_members_count_by_what_they_take(small_plan, monkeypatch: pytest.MonkeyPatch):
    """A chunk may hold all of the heaviest, but not more of them than there are."""
    monkeypatch.setattr(devices, "uses_kernels", lambda device: True)
    plan, dataset = small_plan(["vae", "factor_vae"], seeds=3)
    light, heavy = (
        devices.bytes_of_member(plan, dataset, plan.members[place], kernels=True)
        for place in (0, 3)
    )
    assert heavy > 10 * light
    room = 3 * heavy + 2 * light + devices.dataset_bytes(dataset)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (int(room / 0.8) + 2, 0))
    assert devices.chunk_size(plan, dataset, torch.device("cuda")) == 5


def test_some_gpus_are_named_by_their_numbers(monkeypatch: pytest.MonkeyPatch, refused):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    first, third = torch.device("cuda:0"), torch.device("cuda:2")
    assert devices.choose_devices("cuda:0,2") == (first, [first, third])
    assert devices.choose_devices("cuda:2") == (third, None)
    assert devices.choose_devices("cpu") == (torch.device("cpu"), None)
    rule = "must name CUDA devices by their numbers, each once, as in cuda:0,2"
    assert devices.choose_devices("cuda:02") == (third, None), "torch knows no such spelling"
    for name in ("cuda:0,0", "cuda:0,00", "cpu,1", "cuda,1", "cuda:1,2,1"):
        assert refused(devices.choose_devices, name) == [("device", rule, name)]
    for name in ("cuda:0,4", "cuda:0,x", "cuda:0,"):
        with pytest.raises(InputError, match=r"^device must"):
            devices.choose_devices(name)


@given(st.integers(1, 5000), st.integers(1, 256), st.integers(1, 64))
def test_chunks_are_planned_for_their_workers(members: int, fits: int, count: int):
    """Nobody waits longer for the last chunk than with chunks as large as memory allows, and small
    ones are not cut further.
    """
    size = devices.equal_work(members, fits, count)
    assert 1 <= size <= min(fits, members)
    most = equal_share(members, min(fits, members))

    def steps(size: int) -> int:
        """Members that the busiest worker trains, one after the other."""
        share = equal_share(members, size)
        chunks = -(-members // share)
        return -(-chunks // count) * share

    assert steps(size) <= max(steps(most), devices._LEAST_MEMBERS)
    if members >= devices._LEAST_MEMBERS * count and fits >= devices._LEAST_MEMBERS:
        chunks = -(-members // equal_share(members, size))
        assert chunks * 2 > count, "most workers have something to do"
