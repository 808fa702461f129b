# SPDX-License-Identifier: Apache-2.0
"""Reconstruction losses of stored codes: those of the decoder, measured once, measured again where
damaged.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

import unbraid as ub
from unbraid.codes.codes import CodeStore
from unbraid.codes.reconstructions import ReconstructionStore
from unbraid.commands.run import Run

SETTINGS: dict[str, Any] = {
    "data_options": {"x": 6, "y": 4, "scale": 2, "image_size": 28},
    "network": "mlp",
    "network_options": {"hidden": 16},
    "latents": 3,
    "batch_size": 8,
    "steps": 20,
    "quiet": True,
    "device": "cpu",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return ub.train(
        "sprites",
        ["ae", "vae"],
        seeds=2,
        out=tmp_path_factory.mktemp("reconstructions") / "run",
        **SETTINGS,
    )


@pytest.fixture
def store(run: Run) -> ReconstructionStore:
    return ReconstructionStore(CodeStore(run.folder))


def decoded_nats(run: Run, member: int, kind: str) -> np.ndarray:
    """Cross-entropy of the images given the decoder's logits, summed over pixels."""
    codes, model = CodeStore(run.folder).load(member), run.model(member)
    z = torch.from_numpy(np.ascontiguousarray(codes.representation(kind)))
    logits = model._network.decode(model._weights, z[None], run.dataset.sample_shape)[0]
    x = torch.from_numpy(run.dataset.images(codes.indices).astype(np.float32) / 255.0).permute(
        0, 3, 1, 2
    )
    return (
        binary_cross_entropy_with_logits(logits, x, reduction="none")
        .sum(dim=(1, 2, 3))
        .detach()
        .numpy()
    )


def test_losses_are_those_of_the_decoder(run: Run, store: ReconstructionStore) -> None:
    told: list[int] = []
    left = len(store.missing())
    store.measure(torch.device("cpu"), told.append)
    assert told == [48] * left
    for member, objective in enumerate(run.members["objective"]):
        kind, other = ("mean", "sampled") if objective == "ae" else ("sampled", "mean")
        assert store.load(member) == pytest.approx(decoded_nats(run, member, kind), rel=1e-4)
        assert store.load(member) != pytest.approx(decoded_nats(run, member, other), rel=1e-4)


def test_they_are_measured_once_and_again_where_damaged(
    run: Run, store: ReconstructionStore
) -> None:
    store.measure(torch.device("cpu"))
    assert store.missing() == []
    before = store.load(2).copy()
    file = run.path / "codes" / "reconstruction-00002.safetensors"
    file.write_bytes(file.read_bytes()[:-8])
    assert [member.id for member in store.missing()] == [2]
    told: list[int] = []
    store.measure(torch.device("cpu"), told.append)
    assert told == [48]
    assert np.array_equal(store.load(2), before)


def test_elbo_of_a_run_is_that_of_its_codes_and_losses(
    run: Run, store: ReconstructionStore
) -> None:
    table = run.score("elbo", quiet=True)
    member = table.index.get_level_values("member")[-1]  # the last with a posterior
    codes = CodeStore(run.folder).load(member)
    assert (
        table["elbo"].iloc[-1]
        == ub.metrics.elbo(codes.mean, codes.logvar, store.load(member)).score
    )


@pytest.mark.gpu
def test_losses_on_a_gpu_are_those_on_a_cpu(tmp_path_factory: pytest.TempPathFactory) -> None:
    out = tmp_path_factory.mktemp("gpu") / "run"
    settings = {
        "seeds": 3,
        "steps": 20,
        "batch_size": 16,
        "code_samples": 5000,
        "precision": "float32",
        "quiet": True,
    }
    made = ub.train("dsprites", ["beta_vae", "ae"], out=out, device="cuda", **settings)
    made.score(["elbo", "active_units", "udr"], quiet=True)
    measured = ReconstructionStore(CodeStore(made.folder))
    on_gpu = [measured.load(member) for member in range(6)]
    for file in (out / "codes").glob("reconstruction-*"):
        file.unlink()
    measured.measure(torch.device("cpu"))
    for member, nats in enumerate(on_gpu):
        assert nats == pytest.approx(measured.load(member), rel=2e-3)
