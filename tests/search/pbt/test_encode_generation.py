# SPDX-License-Identifier: Apache-2.0
"""What models of a population say in the middle of training is what an ordinary run stores."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch

from unbraid.codes.codes import CodeStore
from unbraid.codes.reconstructions import ReconstructionStore
from unbraid.data.dataset import Dataset
from unbraid.population.plan import Plan, make_plan
from unbraid.population.run_folder import RunFolder
from unbraid.population.train import train_run
from unbraid.search.pbt.encode_generation import (
    encode_chunk,
    encode_generation,
    reconstruction_nats,
)
from unbraid.search.pbt.generation import Generation, GenerationModel

from .test_plan import SPRITES

CPU = torch.device("cpu")
UPDATES = 12


def trained(plan: Plan, dataset: Dataset, batch_sizes: list[int]) -> Generation:
    """One epoch of a population with these members, each with its batch size."""
    models = [
        GenerationModel(member, size)
        for member, size in zip(plan.members, batch_sizes, strict=True)
    ]
    images = UPDATES * plan.batch_size
    made = Generation(
        plan, models, dataset, CPU, dataset.sampler(CPU), epoch=0, epochs=1, epoch_images=images
    )
    assert made.train(threading.Event())
    return made


def population(objective: str = "beta_vae", **options: Any) -> tuple[Plan, Dataset]:
    usual: dict[str, Any] = {
        "network": "mlp",
        "network_options": {"hidden": 16},
        "latents": 3,
        "learning_rate": 5e-3,
        "seeds": 3,
    }
    usual |= {"batch_size": 16, "steps": UPDATES, "log_every": UPDATES, "data_options": SPRITES}
    return make_plan("sprites", objective, **{**usual, **options})


@pytest.fixture(scope="module", params=["beta_vae", "ae", "qlae"])
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Generation, RunFolder]:
    """A population after its first epoch, and a run of the same members with as many steps."""
    plan, dataset = population(request.param)
    folder = tmp_path_factory.mktemp(request.param) / "run"
    run = RunFolder.create(folder, plan, 1, dataset)
    assert train_run(run, CPU).finished
    CodeStore(run).encode(CPU)
    ReconstructionStore(CodeStore(run)).measure(CPU)
    return trained(plan, dataset, [16] * 3), run


def test_codes_of_a_population_are_those_of_a_run_of_the_same_members(
    pair: tuple[Generation, RunFolder],
):
    generation, run = pair
    stored = [CodeStore(run).load(member) for member in range(3)]
    mean, logvar = encode_generation(generation, stored[0].indices)
    assert mean.shape == logvar.shape == (3, 24, 3)
    for member, codes in enumerate(stored):
        np.testing.assert_array_equal(mean[member].numpy(), codes.mean)
        np.testing.assert_array_equal(logvar[member].numpy(), codes.logvar)


def test_reconstructions_of_a_population_are_those_of_a_run_of_the_same_members(
    pair: tuple[Generation, RunFolder],
):
    generation, run = pair
    indices = CodeStore(run).load(0).indices
    for chunk in generation.chunks:
        codes = encode_chunk(chunk, indices, CPU)
        nats = reconstruction_nats(chunk, indices, *codes, CPU)
        assert nats.shape == (len(chunk.places), 24)
        for row, member in enumerate(chunk.places):
            np.testing.assert_allclose(
                nats[row].numpy(), ReconstructionStore(CodeStore(run)).load(member), rtol=1e-6
            )


def test_models_come_back_in_their_places_whatever_chunks_they_trained_in():
    plan, dataset = population(seeds=4, learning_rate=[1e-3, 1e-2])
    sizes = [16, 8, 16, 8, 4, 16, 8, 4]
    generation = trained(plan, dataset, sizes)
    order = [place for chunk in generation.chunks for place in chunk.places]
    assert order != sorted(order), (
        "batch sizes must have reordered the models, or this test shows nothing"
    )
    indices = np.array([7, 3, 20])
    mean, logvar = encode_generation(generation, indices)
    for chunk in generation.chunks:
        for row, place in enumerate(chunk.places):
            weights = chunk.program.layout.views(chunk.state.model.weights[row : row + 1])
            images = dataset.sampler(CPU)(torch.from_numpy(indices)).unsqueeze(0)
            own_mean, own_logvar = chunk.program.network.encode(weights, images, torch.float32)
            np.testing.assert_allclose(
                mean[place].numpy(), own_mean[0].detach().numpy(), rtol=1e-5, atol=1e-6
            )
            np.testing.assert_allclose(
                logvar[place].numpy(), own_logvar[0].detach().numpy(), rtol=1e-5, atol=1e-6
            )
    assert len({tuple(row.flatten().tolist()) for row in mean}) == 8
