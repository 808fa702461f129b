# SPDX-License-Identifier: Apache-2.0
"""Learnt distances: members made by hand whose codes, reconstructions and posteriors are known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import spearmanr

import unbraid as ub
from unbraid.analysis.distances import learnt
from unbraid.analysis.distances.learnt import COLUMNS, learnt_distances
from unbraid.analysis.distances.levels import TrainedMember
from unbraid.analysis.distances.perceived_distances import perceived_distances
from unbraid.core.errors import InputError
from unbraid.population.plan import make_plan
from unbraid.population.run_folder import RunFolder

from .conftest import SMALL


def by_hand(data: str, tmp_path: Path, monkeypatch, make, **plan: Any) -> dict[str, float]:
    """The columns of a member whose encoder and decoder are *make(dataset)*."""
    made, dataset = make_plan(data, network="mlp", likelihood="gaussian", latents=6, **plan)
    run = RunFolder.create(tmp_path / "run", made, 1, dataset)
    member = make(dataset)
    monkeypatch.setattr(learnt, "trained_member", lambda *given: member)
    return learnt_distances(run, members=[0], images=160).loc[0].to_dict()


def knowing(dataset: ub.data.dataset.Dataset, deviation: float) -> TrainedMember:
    """Means are the factors and decoding is exact: an image drawn of the rounded latents."""
    every = torch.from_numpy(np.arange(len(dataset)))
    draw = dataset.sampler("cpu")
    sizes = torch.tensor(dataset.factor_sizes)
    strides = torch.tensor([math.prod(dataset.factor_sizes[at + 1 :]) for at in range(len(sizes))])
    known = draw(every[:]).flatten(1) if len(dataset) < 5000 else None

    def encode(samples: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        assert known is not None
        place = torch.cdist(samples.flatten(1), known).argmin(dim=1)
        mean = (place[:, None] // strides % sizes).float()
        return mean, torch.full_like(mean, 2 * math.log(deviation))

    def decode(z: torch.Tensor) -> torch.Tensor:
        values = torch.minimum(z.round().clamp(min=0).long(), sizes - 1)
        return draw((values * strides).sum(dim=1))

    return TrainedMember(encode, decode, True)


def blind(dataset: ub.data.dataset.Dataset) -> TrainedMember:
    """It sees nothing and always decodes one grey image."""

    def encode(samples: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        zeros = torch.zeros(len(samples), 6)
        return zeros, zeros

    def decode(z: torch.Tensor) -> torch.Tensor:
        return torch.full((len(z), *dataset.sample_shape), 0.25)

    return TrainedMember(encode, decode, True)


def test_a_member_that_knows_the_factors(tmp_path: Path, monkeypatch) -> None:
    found = by_hand(
        "sprites", tmp_path, monkeypatch, lambda d: knowing(d, 1e-3), data_options=SMALL
    )
    assert found["means_with_truth"] == pytest.approx(1.0)
    assert found["posteriors_with_truth"] == pytest.approx(1.0)  # a square of the means' distance
    assert found["reconstructions_with_inputs"] == pytest.approx(1.0)
    assert found["reconstructions_with_inputs_random"] == pytest.approx(1.0)
    assert found["means_with_inputs"] == pytest.approx(found["inputs_with_truth"])
    assert found["overlap"] == 0.0


def test_wide_posteriors_decode_to_neighbours(tmp_path: Path, monkeypatch) -> None:
    """Of a draw with deviation s a value leaves its place with probability 2 (1 - Phi(1/2s)) inside
    and half of that at the ends; any factor that moves makes another image, but not one nearer to
    a neighbour.
    """
    wide = by_hand("sprites", tmp_path, monkeypatch, lambda d: knowing(d, 0.6), data_options=SMALL)
    assert 0.2 < wide["overlap"] < 0.6


def test_a_blind_member_guesses(tmp_path: Path, monkeypatch) -> None:
    """All images of XYSquares at spacing 8 are as far from a grey one: every draw is a tie."""
    found = by_hand("xysquares", tmp_path, monkeypatch, blind)
    assert found["overlap"] == 0.5
    undefined = set(COLUMNS) - {"overlap"}
    assert all(math.isnan(found[name]) for name in undefined)


def test_correlations_are_scipys(run: ub.Run) -> None:
    """Along one traversal, by the numbers that `perceived_distances` makes of it."""
    options = {"image_size": 16, "x": 7, "y": 1, "scale": 1}
    own = ub.train(
        "sprites", "beta_vae", out=run.folder.path.parent / "one", data_options=options,
        network="mlp", network_options={"hidden": 16}, steps=30, latents=3, learning_rate=1e-2,
        device="cpu", quiet=True,
    )  # fmt: skip
    (row,) = learnt_distances(own.folder).to_dict("records")
    matrices = {
        level.key: level.factors[0].matrix
        for level in perceived_distances(own.dataset, run=own.folder).levels
    }
    matrices["posteriors"] = (matrices["posteriors"] + matrices["posteriors"].T) / 2
    off = np.triu_indices(7, 1)  # of a symmetric matrix both halves say the same
    for level in ("means", "posteriors", "reconstructions"):
        pair = [matrices[key][off] for key in (level, "inputs")]
        theirs = spearmanr(*((one / one.max()).round(7) for one in pair)).statistic
        assert row[f"{level}_with_inputs"] == pytest.approx(theirs, abs=1e-6)


def test_all_members_in_one_table(run: ub.Run) -> None:
    told: list[tuple[int, int]] = []
    table = learnt_distances(run.folder, progress=lambda *at: told.append(at))
    assert list(table.columns) == ["member", *COLUMNS]
    assert table["member"].tolist() == [0, 1]
    assert told == [(1, 2), (2, 2)]
    assert table["inputs_with_truth"].nunique() == 1
    vae, plain = table.to_dict("records")
    assert -1 <= vae["means_with_inputs"] <= 1
    assert 0 <= vae["overlap"] <= 1
    assert math.isnan(plain["posteriors_with_truth"])
    assert math.isnan(plain["overlap"])
    again = learnt_distances(run.folder, members=[1])
    assert again.loc[0, "means_with_inputs"] == plain["means_with_inputs"]


def test_a_run_without_factors_is_refused(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 255, (12, 28, 28, 1), dtype=np.uint8)
    plan, dataset = make_plan(images, network="mlp")
    run = RunFolder.create(tmp_path / "run", plan, 1, dataset)
    with pytest.raises(InputError) as error:
        learnt_distances(run, members=[0])
    (problem,) = error.value.problems
    assert problem.name == "data"
