# SPDX-License-Identifier: Apache-2.0
"""Axes of decoders: closed forms of linear ones, and the data's own directions."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import unbraid as ub
from unbraid.analysis.perturbation import decoder_axes as module
from unbraid.analysis.perturbation.decoder_axes import (
    data_jacobian,
    decoder_axes,
    decoder_jacobian,
)
from unbraid.codes.model import Model

SPRITES = {"image_size": 16, "x": 5, "y": 4, "scale": 1}
LINEAR = {"network": "mlp", "network_options": {"decoder_layers": 0, "hidden": 8}}
SMALL = {"latents": 2, "batch_size": 8, "steps": 20, "quiet": True, "device": "cpu"}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    return ub.train(
        "sprites", ["vae", "ae"], data_options=SPRITES, out=tmp_path_factory.mktemp("r") / "run",
        likelihood="gaussian:output=raw", **LINEAR, **SMALL,
    )  # fmt: skip


def test_columns_of_a_linear_decoder_are_its_weights(run):
    weight = run.folder.member_weights(0)["decoder.out.weight"][0]
    found = decoder_jacobian(run.folder, 0, torch.zeros(3, 2))
    assert torch.allclose(found, weight.expand(3, 2, -1), atol=1e-6)


def test_cosines_of_a_linear_decoder_are_those_of_its_columns(run, monkeypatch: pytest.MonkeyPatch):
    run.score("mig", quiet=True)
    monkeypatch.setattr(module, "which_active", lambda mean, noise: np.ones(2, dtype=bool))
    for member in (0, 1):
        columns = run.folder.member_weights(member)["decoder.out.weight"][0].double().numpy()
        cosine = abs(columns[0] @ columns[1]) / np.prod(np.linalg.norm(columns, axis=1))
        found = decoder_axes(run.folder, member, probes=7)
        assert found.between == pytest.approx(cosine, abs=1e-5)
        assert 0 < found.local_pca <= 1
        assert found.columns.shape == (2, 1, 16, 16)


def test_latents_that_are_not_active_are_left_out(run, monkeypatch: pytest.MonkeyPatch):
    run.score("mig", quiet=True)
    monkeypatch.setattr(module, "which_active", lambda mean, noise: np.array([True, False]))
    found = decoder_axes(run.folder, 0, probes=5)
    assert math.isnan(found.between)
    assert 0 < found.local_pca <= 1
    monkeypatch.setattr(module, "which_active", lambda mean, noise: np.zeros(2, dtype=bool))
    assert all(math.isnan(one) for one in decoder_axes(run.folder, 0, probes=5).numbers().values())


def test_a_decoder_along_the_datas_directions_has_cosine_1(run, monkeypatch: pytest.MonkeyPatch):
    """Left singular vectors of the data's Jacobian as columns, at any length, in any order."""
    run.score("mig", quiet=True)
    monkeypatch.setattr(module, "which_active", lambda mean, noise: np.ones(2, dtype=bool))

    def along(folder, member, codes):
        steps = data_jacobian(run.dataset, order[: len(codes)], "cpu")
        axes = torch.linalg.svd(steps.mT, full_matrices=False).U
        return torch.stack([-3.0 * axes[..., 1], 0.5 * axes[..., 0]], dim=1)

    order = module.CodeStore(run.folder).load(0).indices
    monkeypatch.setattr(module, "decoder_jacobian", along)
    found = decoder_axes(run.folder, 0, probes=6)
    assert found.local_pca == pytest.approx(1.0, abs=1e-5)
    assert found.between == pytest.approx(0.0, abs=1e-5)


def test_the_datas_jacobian_is_the_difference_of_neighbours():
    data = ub.load("sprites", **SPRITES)
    middle = data.grid.to_index([[2, 1]])
    found = data_jacobian(data, np.asarray(middle), "cpu")
    draw = data.sampler("cpu")
    below, above = (draw(torch.tensor(data.grid.to_index([[at, 1]]))).flatten() for at in (1, 3))
    step = math.sqrt(12 / 24)  # of five values, in their deviations
    assert torch.allclose(found[0, 0], (above - below) / (2 * step), atol=1e-6)
    corner = data_jacobian(data, np.asarray([0]), "cpu")
    first, second = (draw(torch.tensor(data.grid.to_index([[at, 0]]))).flatten() for at in (0, 1))
    assert torch.allclose(corner[0, 0], (second - first) / step, atol=1e-6)


def test_a_column_that_moves_nothing_has_no_direction():
    columns = torch.tensor([[[3.0, 0.0, 0.0], [0.0, 0.0, 0.0], [1.0, 1.0, 0.0]]])
    directions = module._directions(columns)
    assert module._between(directions) == pytest.approx(math.sqrt(0.5))
    assert math.isnan(module._between(directions[..., :1]))


def test_slopes_are_those_of_expected_images(tmp_path):
    """Through the sigmoid of a Bernoulli likelihood, against differences of decoded images."""
    run = ub.train("sprites", "vae", data_options=SPRITES, network="mlp",
                   network_options={"hidden": 16}, out=tmp_path / "run", **SMALL)  # fmt: skip
    z = torch.tensor([[0.3, -0.2]])
    found = decoder_jacobian(run.folder, 0, z)[0].numpy()
    model = Model(run.folder, 0)
    weights = run.folder.member_weights(0)
    network = run.folder.plan.build_network()
    step = 1e-2
    for latent in range(2):
        moved = torch.zeros(1, 1, 2)
        moved[..., latent] = step
        ends = [
            torch.sigmoid(network.decode(weights, z[None] + sign * moved, (1, 16, 16)))
            for sign in (1, -1)
        ]
        by_differences = ((ends[0] - ends[1]) / (2 * step)).detach().numpy().ravel()
        assert found[latent] == pytest.approx(by_differences, abs=1e-4)
    assert np.abs(found).max() > 1e-3
    assert model.decode(z.numpy()).shape == (1, 16, 16, 1)
