# SPDX-License-Identifier: Apache-2.0
"""Published datasets at another size, and their training and test parts."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from unbraid.codes.codes import CodeStore, scored_sample
from unbraid.commands.train import train
from unbraid.core.errors import InputError
from unbraid.data import load
from unbraid.data.few_labels import LabelRequest
from unbraid.data.official.add import add
from unbraid.data.official.fashion_mnist import FashionMNIST
from unbraid.population.draws import rule_on
from unbraid.population.plan import make_plan
from unbraid.population.training_step import TrainingStep

TINY = {"network": "mlp:hidden=4", "latents": 2, "batch_size": 8}


@pytest.fixture
def clothes(small, monkeypatch):
    monkeypatch.setattr(FashionMNIST, "training_images", 10)
    added = small("fashion_mnist")
    added.add()
    return added


@pytest.mark.slow
def test_the_real_files_at_32_pixels(shared, tmp_path, monkeypatch):
    monkeypatch.setenv("UNBRAID_DATA", str(tmp_path))
    add("fashion_mnist", shared / "data" / "fashion_mnist", quiet=True)
    whole = load("fashion_mnist")
    dataset = load("fashion_mnist", resize="32", split="train")
    assert (len(dataset), dataset.image_shape) == (70_000, (32, 32, 1))
    assert dataset.options == {"resize": 32, "split": "train"}
    assert dataset.training_indices.tolist() == list(range(60_000))
    assert dataset.scoring_indices.tolist() == list(range(60_000, 70_000))
    assert (
        dict(dataset.about)["Split"] == "trains on the 60,000 of train, scores the 10,000 of test"
    )
    for index in (0, 60_000, 69_999):
        image = Image.fromarray(whole.images([index])[0, ..., 0])
        scaled = np.asarray(image.resize((32, 32), Image.Resampling.LANCZOS))
        assert np.array_equal(dataset.images([index])[0, ..., 0], scaled)
        drawn = dataset.sampler("cpu")(torch.tensor([index]))
        assert drawn.shape == (1, 1, 32, 32)
        assert np.array_equal((drawn[0, 0].numpy() * 255).round(), scaled)
    again = load(dataset.name, **dataset.options)
    assert again.fingerprint() == dataset.fingerprint() != whole.fingerprint()
    assert load("fashion_mnist", split="train").fingerprint() != whole.fingerprint()
    assert np.array_equal(dataset.factors([0, 60_001]), whole.factors([0, 60_001]))
    assert np.isin(scored_sample(dataset, 500), dataset.scoring_indices).all()
    assert len(np.unique(scored_sample(dataset, 10**6))) == 10_000


def test_a_split_trains_on_its_own_images_and_is_scored_on_the_test_images(clothes, tmp_path):
    run = train("fashion_mnist:split=train", steps=20, out=tmp_path / "run", quiet=True, **TINY)
    run.score(["elbo"], quiet=True)
    assert sorted(CodeStore(run.folder).load(0).indices) == [10, 11, 12, 13]
    program = TrainingStep(
        run.folder.plan, run.folder.plan.members, run.dataset, torch.device("cpu")
    )
    drawn = program.draw(torch.arange(200)).indices
    assert {*drawn.unique().tolist()} == {*range(10)}


def test_without_a_split_training_draws_as_it_did(clothes):
    plan, dataset = make_plan("fashion_mnist", **TINY)
    assert rule_on(plan, dataset, torch.device("cpu")) is None
    assert dataset.training_indices is dataset.scoring_indices is None
    assert dataset.options == plan.data_options == {}


def test_a_rule_applies_within_the_split(clothes):
    options = {"split": "train"}
    seen = load("fashion_mnist", **options).factors(np.arange(10))[:, 0]
    category = int(seen[0])
    rule = f"category == {category}"
    plan, dataset = make_plan("fashion_mnist", data_options=options, where=rule, **TINY)
    drawn = TrainingStep(plan, plan.members, dataset, torch.device("cpu")).draw(torch.arange(50))
    assert {*drawn.indices.unique().tolist()} == {*np.flatnonzero(seen == category).tolist()}
    absent = next(value for value in range(10) if value not in seen)
    with pytest.raises(InputError, match="where must leave some images to train on"):
        make_plan("fashion_mnist", data_options=options, where=f"category == {absent}", **TINY)


def test_labelled_images_are_training_images(clothes):
    request = LabelRequest(count=64, seed=0)
    labelled = request.draw(load("fashion_mnist", split="train"))
    assert {*labelled.indices.tolist()} == {*range(10)}


def test_smallnorb_keeps_its_toys_apart(small):
    small("smallnorb").add()
    dataset = load("smallnorb", split="train", resize=16, instance="hidden")
    assert dataset.image_shape == (16, 16, 1)
    assert dataset.options == {"resize": 16, "split": "train", "instance": "hidden"}
    instance = load("smallnorb").grid.names.index("instance")
    toys = dataset.grid.to_factors(np.arange(len(dataset)))[:, instance]
    assert {*toys[dataset.training_indices]} <= {4, 6, 7, 8, 9}
    both = np.concatenate([dataset.training_indices, dataset.scoring_indices])
    assert np.array_equal(np.sort(both), np.arange(len(dataset)))
    assert load("smallnorb", split="test").training_indices.tolist() == (
        dataset.scoring_indices.tolist()
    )


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("fashion_mnist", {"split": "training"}, "did you mean 'train'"),
        ("fashion_mnist", {"resize": 4}, "resize must be a whole number in 8..512; got 4"),
        ("fashion_mnist", {"resize": "big"}, "resize must be a whole number"),
        ("cars3d", {"split": "train"}, "must be left out, since it was published in one part"),
    ],
)
def test_bad_options_are_refused(clothes, name, options, told):
    with pytest.raises(InputError) as caught:
        load(name, **options)
    assert told in str(caught.value)
