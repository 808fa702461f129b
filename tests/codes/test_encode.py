# SPDX-License-Identifier: Apache-2.0
"""Codes of a run are those it stores, for all members and for one; unfinished runs have none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unbraid.codes import encode
from unbraid.codes.codes import CodeStore
from unbraid.codes.encode import encode_images, encode_run, represent
from unbraid.core.errors import InputError
from unbraid.population.kind import kinds_of
from unbraid.population.plan import make_plan
from unbraid.population.run_folder import RunFolder
from unbraid.population.train import train_run

CPU = torch.device("cpu")
SMALL: dict[str, Any] = {
    "network": "mlp",
    "network_options": {"hidden": 16},
    "latents": 3,
    "learning_rate": 5e-3,
    "seeds": 3,
    "batch_size": 16,
    "steps": 12,
    "data_options": {"x": 4, "y": 3, "scale": 2, "image_size": 16},
}


def created(folder: Path, objective: str) -> RunFolder:
    plan, dataset = make_plan("sprites", objective, **SMALL)
    return RunFolder.create(folder, plan, 2, dataset)  # chunks of two members and of one


@pytest.fixture(scope="module", params=["beta_vae", "ae", "qlae"])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    made = created(tmp_path_factory.mktemp(request.param) / "run", request.param)
    assert train_run(made, CPU).finished
    CodeStore(made).encode(CPU)
    return made


def test_codes_of_a_run_are_those_it_stores(run: RunFolder) -> None:
    stored = [CodeStore(run).load(member) for member in range(3)]
    mean, logvar = encode_run(run, CPU, stored[0].indices)
    assert mean.shape == (3, 24, 3)
    for member, codes in enumerate(stored):
        np.testing.assert_array_equal(mean[member], codes.mean)
        np.testing.assert_array_equal(logvar[member], codes.logvar)


def test_codes_of_one_member_are_its_own(run: RunFolder) -> None:
    stored = CodeStore(run).load(1)
    alone, _ = encode_run(run, CPU, stored.indices[:5], member=1)
    assert alone.shape == (1, 5, 3)
    np.testing.assert_allclose(alone[0], stored.mean[:5], rtol=1e-5, atol=1e-6)


def test_codes_are_what_the_objective_makes_of_what_the_encoder_says(run: RunFolder) -> None:
    indices = np.arange(6)
    mean, _ = encode_run(run, CPU, indices, member=0)
    weights = run.member_weights(0)
    network, sampler = run.plan.build_network(), run.dataset.sampler(CPU)
    raw, _ = encode_images(network, weights, sampler, torch.from_numpy(indices), run.plan.dtype)
    same = np.allclose(raw.numpy(), mean, rtol=1e-5, atol=1e-6)
    assert same == (run.plan.members[0].objective != "qlae")


def test_a_batch_on_a_gpu_is_as_large_as_its_memory_is_meant_to_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for kernels, bytes_a_value in ((True, 64), (False, 1024)):
        monkeypatch.setattr(encode, "uses_kernels", lambda device, kernels=kernels: kernels)
        for values, members in ((4096, 1), (4096, 128), (3 * 128 * 128, 16), (10**9, 10**6)):
            size = encode.images_at_once(values, members, torch.device("cuda"))
            assert size == 1 or size * values * members * bytes_a_value <= 2**32
            assert 1 <= size <= 8192
            with_columns = encode.images_at_once(
                values, members, torch.device("cuda"), columns=True
            )
            assert with_columns == 1 or with_columns * values * members * 1024 <= 2**32
    assert encode.images_at_once(4096, 1, torch.device("cpu")) == 256


def test_an_unfinished_run_has_no_codes(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        encode_run(created(tmp_path / "run", "beta_vae"), CPU, np.arange(3))
    (problem,) = caught.value.problems
    assert (problem.name, problem.rule) == ("run", "must be trained to the end")


def test_a_chunk_of_several_kinds_is_encoded_as_kind_by_kind(tmp_path: Path) -> None:
    plan, dataset = make_plan(
        "sprites",
        ["beta_vae", "qlae", "ae", "qlae:values=4"],
        data_options={"x": 6, "y": 4, "scale": 1, "image_size": 16},
        network="mlp",
        network_options={"hidden": 16},
        latents=3,
        seeds=2,
        steps=6,
        batch_size=8,
    )
    run = RunFolder.create(tmp_path / "run", plan, 8, dataset)
    train_run(run, torch.device("cpu"))
    (chunk,) = run.chunks()
    indices = np.arange(20)
    mean, logvar = encode_run(run, torch.device("cpu"), indices)
    rows, sampler = run.trained(chunk).weights, dataset.sampler(torch.device("cpu"))
    assert len(kinds_of(chunk)) == 4
    for kind in kinds_of(chunk):
        own = run.layout(kind[0]).views(rows[[chunk.index(one) for one in kind]])
        network, objective = plan.build_network(), kind[0].build()
        wanted = torch.from_numpy(indices)
        codes = represent(network, objective, own, sampler, wanted, plan.dtype)
        for one, mine, wide in zip(kind, *codes, strict=True):
            np.testing.assert_array_equal(mean[one.id], mine.numpy())
            np.testing.assert_array_equal(logvar[one.id], wide.numpy())
