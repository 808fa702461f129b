# SPDX-License-Identifier: Apache-2.0
"""What the page is given of a model, and of images of the data."""

from __future__ import annotations

import base64
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import unbraid as ub
from unbraid.codes.codes import CodeStore
from unbraid.codes.model import Model
from unbraid.commands.run import Run
from unbraid.data import load
from unbraid.report.explore.exploration import Exploration
from unbraid.report.explore.models import MOST_POINTS, WeightsAtHand
from unbraid.report.explore.samples import Samples
from unbraid.report.explore.sources import open_population
from unbraid.report.train.member_view import FRAMES, information_shares

from ..conftest import small_train
from .test_server import header_of


def arrays_of(content: bytes) -> dict[str, NDArray[Any]]:
    """The arrays of a packed model, read by other code than what packs them."""
    start = 4 + int.from_bytes(content[:4], "little")
    return {
        name: np.frombuffer(
            content, one["dtype"], int(np.prod(one["shape"])), start + one["at"]
        ).reshape(one["shape"])
        for name, one in header_of(content)["arrays"].items()
    }


def given(run: Run, member: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    content = Exploration(open_population(run.path)).model(str(member))
    return header_of(content)["record"], arrays_of(content)


def test_codes_and_information_are_those_of_the_run(explored: Run):
    record, arrays = given(explored, 4)
    codes = CodeStore(explored.folder).load(4)
    assert np.array_equal(arrays["codes"], codes.mean[: len(arrays["codes"])])
    assert arrays["information"] == pytest.approx(information_shares(codes), abs=1e-6)
    assert record["factors"] == ["scale", "x", "y"]
    assert [one["size"] for one in record["latents"]] == pytest.approx(codes.kl_per_latent())
    for one in record["latents"]:
        assert one["low"] < one["high"]
        if one["active"]:
            span = np.quantile(codes.mean[:, one["number"]], (0.01, 0.99))
            assert [one["low"], one["high"]] == pytest.approx(span.tolist(), abs=1e-6)


def test_curves_are_those_of_the_history(explored: Run):
    record, _ = given(explored, 2)
    rows = explored.history[explored.history["member"] == 2]
    assert record["curves"]["steps"] == rows["step"].tolist()
    loss = next(one for one in record["curves"]["quantities"] if one["name"] == "loss")
    assert loss["values"] == rows["loss"].tolist()


def test_long_curves_are_thinned_to_their_ends(tmp_path: Path):
    run = small_train(tmp_path / "run", steps=400, log_every=1)
    record, _ = given(run, 0)
    steps = run.history["step"].tolist()
    assert len(steps) > MOST_POINTS
    assert len(record["curves"]["steps"]) == MOST_POINTS
    assert record["curves"]["steps"][0] == steps[0]
    assert record["curves"]["steps"][-1] == steps[-1]


def test_weights_of_a_chunk_are_read_once(explored: Run, monkeypatch: pytest.MonkeyPatch):
    from unbraid.population.run_folder import RunFolder

    read: list[int] = []
    trained = RunFolder.trained

    def counted(self: RunFolder, chunk: Any) -> Any:
        read.append(chunk[0].id)
        return trained(self, chunk)

    monkeypatch.setattr(RunFolder, "trained", counted)
    at_hand, run = WeightsAtHand(), explored.folder
    for member in (0, 1, 2, 0, 1, 2):
        found = at_hand.of(run, member)
        monkeypatch.undo()
        for name, tensor in run.member_weights(member).items():
            assert np.array_equal(found[name].numpy(), tensor.numpy()), name
        monkeypatch.setattr(RunFolder, "trained", counted)
    assert len(read) == len(set(read))


def test_points_are_shown_as_stored_traversals(points: Run):
    record, arrays = given(points, 1)
    assert record["network"] is None
    assert arrays["strips"].shape == (2, FRAMES, *points.dataset.image_shape)
    model = Model(points.folder, 1)
    for one in record["latents"]:
        if one["active"]:
            codes = np.repeat(arrays["typical"][None], FRAMES, axis=0)
            codes[:, one["number"]] = np.linspace(one["low"], one["high"], FRAMES)
            shown = arrays["strips"][one["number"]].astype(int)
            assert np.abs(model.decode(codes).astype(int) - shown).max() <= 1


def test_a_network_without_plain_layers_is_shown_as_stored_traversals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    from unbraid.networks.mlp import Mlp
    from unbraid.networks.network import Network

    run = small_train(tmp_path / "run", steps=3)
    monkeypatch.setattr(Mlp, "plain", Network.plain)  # as a network of a user's own has it
    record, arrays = given(run, 0)
    assert record["network"] is None
    assert arrays["strips"].shape[:2] == (4, FRAMES)


def test_samples_are_those_of_the_codes(explored: Run):
    samples = Samples(explored.dataset, explored.folder.plan.code_samples)
    codes = CodeStore(explored.folder).load(0)
    assert np.array_equal(samples.indices, codes.indices[: len(samples.indices)])
    record = samples.record()
    uri = record["sprite"]
    sheet = np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2]))))
    for place, index in enumerate(samples.indices.tolist()):
        row, column = divmod(place, record["columns"])
        found = sheet[28 * row : 28 * (row + 1), 28 * column : 28 * (column + 1)]
        assert np.array_equal(found, explored.dataset.images([index])[0, ..., 0])
        assert record["factors"][place] == explored.dataset.factors([index])[0].tolist()


def test_images_by_factors_that_are_no_grid_are_the_nearest():
    images = np.arange(4, dtype=np.uint8)[:, None, None] * np.ones((1, 8, 8), np.uint8)
    data = load(images, factors=np.array([[0, 0], [0, 1], [1, 0], [2, 1]]))
    samples = Samples(data, 4)
    assert samples.image_of_factors((2, 1)).max() == 3
    assert samples.image_of_factors((1, 0)).max() == 2


def test_large_images_are_fewer():
    data = load(np.zeros((300, 128, 128, 3), np.uint8))
    assert len(Samples(data, 300).indices) == 4_000_000 // (128 * 128 * 3)


def test_unlabelled_data_has_no_factors(tmp_path: Path):
    images = np.random.default_rng(0).integers(0, 256, (60, 16, 16, 3), dtype=np.uint8)
    run = small_train(tmp_path / "run", data=images)
    exploration = Exploration(open_population(run.path, ub.load(images)))
    record = exploration.record("served", ["0"])
    assert record["factors"] == []
    assert record["samples"]["factors"] == []
    assert header_of(exploration.model("0"))["record"]["factors"] == []
