# SPDX-License-Identifier: Apache-2.0
"""Found factors, of models whose every code and image is known: latents that follow x and y."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from unbraid.codes.model import Model
from unbraid.data import load
from unbraid.data.dataset import Dataset
from unbraid.search.discover import find as find_module
from unbraid.search.discover.find import EXAMPLES, FRAMES, ModelFindings, different_latents, find
from unbraid.search.discover.findings import Certainty

from ..pbt.test_search import finished

CPU = torch.device("cpu")
SIDE = 8
DATA = load("sprites", x=SIDE, y=SIDE, scale=1, image_size=16)
X, Y = (DATA.factors(np.arange(len(DATA)))[:, DATA.factor_names.index(name)] for name in "xy")
LATENTS = 4
OF_X, OF_Y = 1, 2
"""Latents of the chosen model; the others are silent."""


def centred(values: NDArray[Any]) -> NDArray[Any]:
    return values - (SIDE - 1) / 2


def codes(**latents: NDArray[Any]) -> NDArray[np.float32]:
    """Codes `(images, latents)`: `_1=X` is a latent that follows x; the others are 0."""
    mean = np.zeros((len(DATA), LATENTS), dtype=np.float32)
    for name, values in latents.items():
        mean[:, int(name[1:])] = values
    return mean


# x says a little more than y.
CHOSEN = codes(_1=1.1 * centred(X), _2=centred(Y))
TURNED = codes(_0=-2.0 * centred(Y), _3=0.5 * centred(X))
"""Another model that has both, in other places, directions and scales."""
ONLY_X = codes(_2=centred(X))


def image_of(x: NDArray[Any], y: NDArray[Any]) -> NDArray[np.uint8]:
    """Images at the nearest places of the grid."""
    at = np.stack([np.clip(np.rint(values), 0, SIDE - 1) for values in (x, y)], axis=1)
    rows = {(int(x), int(y)): row for row, (x, y) in enumerate(zip(X, Y, strict=True))}
    return DATA.images(np.array([rows[int(x), int(y)] for x, y in at]))


@dataclass
class Winner:
    """Models with these means; latents that are not 0 everywhere are sure to a tenth."""

    means: list[NDArray[np.float32]]
    decode: Callable[[NDArray[Any]], NDArray[np.uint8]]

    def encoded(self, places: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        mean = np.stack(self.means)[:, places]
        sure = np.abs(np.stack(self.means)).max(axis=1, keepdims=True) > 0
        logvar = np.broadcast_to(np.where(sure, np.log(0.01), 0.0), mean.shape)
        return mean, logvar.astype(np.float32)


@dataclass
class Search:
    """Stands for a search whose winner is known; *places* are its images in the whole data."""

    run: Winner
    dataset: Any = DATA
    collapsed: bool = False

    def winner(self) -> Winner:
        return self.run

    def winner_record(self) -> dict[str, Any]:
        return {"collapsed": self.collapsed}


def perfect(z: NDArray[Any]) -> NDArray[np.uint8]:
    return image_of(z[:, OF_X] / 1.1 + (SIDE - 1) / 2, z[:, OF_Y] + (SIDE - 1) / 2)


def grey(z: NDArray[Any]) -> NDArray[np.uint8]:
    """What a model gives back that has learned nothing: the mean of all images."""
    mean = DATA.images(np.arange(len(DATA))).mean(axis=0).round().astype(np.uint8)
    return np.broadcast_to(mean, (len(z), *mean.shape))


Find = Callable[..., ModelFindings]


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Find:
    """Finds factors in the first of several known models."""
    monkeypatch.setattr(find_module, "encode_run", lambda run, device, places: run.encoded(places))
    monkeypatch.setattr(find_module, "Model", lambda run, model: run)

    def in_first(
        *means: NDArray[np.float32],
        decode: Callable[[NDArray[Any]], NDArray[np.uint8]] = perfect,
        names: tuple[str, ...] = (),
        confirming: Any = (),
        collapsed: bool = False,
    ) -> ModelFindings:
        search: Any = Search(Winner(list(means), decode), collapsed=collapsed)
        return find(search, 0, CPU, names, confirming)

    return in_first


def test_latents_that_follow_something_are_factors_those_that_say_most_first(found: Find):
    result = found(CHOSEN, TURNED)
    assert [(one.number, one.latent) for one in result.factors] == [(1, OF_X), (2, OF_Y)]
    assert result.doubtful == ()
    for one, values in zip(result.factors, (1.1 * centred(X), centred(Y)), strict=True):
        nats = 0.5 * (values**2 + 0.01 - np.log(0.01) - 1.0).mean()
        assert one.nats == pytest.approx(nats, rel=1e-5)
        assert one.certainty == Certainty(pytest.approx(1.0), 1, 1)
    np.testing.assert_array_equal(result.mean, CHOSEN)


def test_factors_are_named_by_what_changes_in_the_images(found: Find):
    names = [one.name.statistic for one in found(CHOSEN, TURNED).factors]
    assert names == ["centre_x", "centre_y"]


def test_what_too_few_models_confirm_is_doubtful_and_numbered_apart(found: Find):
    result = found(CHOSEN, ONLY_X, ONLY_X, TURNED)
    assert [(one.number, one.latent) for one in result.factors] == [(1, OF_X)]
    (doubtful,) = result.doubtful
    assert (doubtful.number, doubtful.latent) == (1, OF_Y)
    assert (doubtful.certainty.seen_in, doubtful.certainty.others) == (1, 3)


def test_half_of_the_others_is_enough(found: Find):
    result = found(CHOSEN, ONLY_X, TURNED)
    assert [one.latent for one in result.factors] == [OF_X, OF_Y]


def test_another_search_confirms_by_its_own_images(found: Find):
    part = np.flatnonzero(X < 4)  # a part of the images that it was trained on
    other = Search(Winner([codes(_3=Y)[part]], perfect), part)
    result = found(CHOSEN, ONLY_X, confirming=[(other, part)])
    assert [one.latent for one in result.factors] == [OF_X, OF_Y]
    assert result.factors[1].certainty == Certainty(pytest.approx(1.0), 1, 1)
    # x, which that search does not have, keeps what the winner's own models say of it.
    assert result.factors[0].certainty == Certainty(pytest.approx(1.0), 1, 1)


def test_a_latent_that_repeats_another_is_no_factor_of_its_own(found: Find):
    twice = CHOSEN.copy()
    twice[:, 3] = -0.7 * centred(X) ** 3 / 10
    assert [one.latent for one in found(twice, TURNED).factors] == [OF_X, OF_Y]


def test_latents_differ_below_a_rank_correlation_of_four_fifths():
    rising = np.arange(200, dtype=np.float32)
    noise = np.random.default_rng(0).normal(0.0, 1.0, 200)
    near, far = rising + 20 * noise, rising + 90 * noise
    mean = np.stack([rising, near, far], axis=1).astype(np.float32)
    ranks = np.argsort(np.argsort(mean, axis=0), axis=0)
    correlations = np.corrcoef(ranks.T)[0]
    assert correlations[2] < 0.8 < correlations[1]
    assert different_latents(mean, [0, 1, 2]) == [0, 2]
    assert different_latents(mean, [2, 0, 1])[:2] == [2, 0], "the first of two stays"


def test_a_traversal_moves_one_thing_in_the_images_of_the_model(found: Find):
    for one, own, other in zip(found(CHOSEN, TURNED).factors, (X, Y), (Y, X), strict=True):
        assert one.drawn.shape == (FRAMES, 16, 16, 1)
        places = [rows_showing(image) for image in one.drawn]
        assert len({int(other[place]) for place in places}) == 1
        steps = [int(own[place]) for place in places]
        assert steps == sorted(steps)
        assert (steps[0], steps[-1]) == (0, SIDE - 1)


def rows_showing(image: NDArray[np.uint8]) -> int:
    every = DATA.images(np.arange(len(DATA)))
    (place,) = np.flatnonzero((every == image).all(axis=(1, 2, 3)))
    return int(place)


def test_real_images_rise_in_one_thing_and_carry_their_names(found: Find):
    names = tuple(f"image {index}.png" for index in range(len(DATA)))
    named = found(CHOSEN, TURNED, names=names)
    for one, own, other in zip(named.factors, (X, Y), (Y, X), strict=True):
        places = [names.index(name) for name in one.real_names]
        np.testing.assert_array_equal(one.real, DATA.images(np.array(places)))
        assert (np.diff(own[places]) >= 0).all()
        assert set(own[places]) == set(range(SIDE))
        assert np.ptp(other[places]) <= 1
    (first, _), (unnamed, _) = named.factors, found(CHOSEN, TURNED).factors
    assert unnamed.real_names == tuple(str(names.index(name)) for name in first.real_names)


def test_a_perfect_model_explains_everything_and_shares_are_what_is_lost(found: Find):
    result = found(CHOSEN, TURNED)
    assert result.explained == 1.0
    np.testing.assert_array_equal(result.originals, result.remembered)
    assert len(result.originals) == EXAMPLES
    true = DATA.images(np.arange(len(DATA))).astype(np.float64)
    variance = ((true - true.mean(axis=0)) ** 2).mean()
    middle = np.full(len(DATA), (SIDE - 1) / 2)
    for one, without in zip(
        result.factors, (image_of(middle, Y), image_of(X, middle)), strict=True
    ):
        lost = ((without.astype(np.float64) - true) ** 2).mean() / variance
        assert 0.2 < lost, "x and y must matter, or this shows nothing"
        assert one.share == pytest.approx(min(lost, 1.0))


def test_nothing_counts_as_found_in_models_that_have_hardly_learned(found: Find):
    result = found(CHOSEN, TURNED, decode=grey)
    assert abs(result.explained) < 0.01
    assert result.factors == ()
    assert [one.latent for one in result.doubtful] == [OF_X, OF_Y]
    assert [one.share for one in result.doubtful] == [0.0, 0.0]


def test_nothing_counts_as_found_where_every_group_was_collapsed(found: Find):
    """However well the models draw and agree."""
    sound, sunk = found(CHOSEN, TURNED), found(CHOSEN, TURNED, collapsed=True)
    assert (sound.collapsed, sunk.collapsed) == (False, True)
    assert sunk.factors == sound.doubtful == ()
    assert [one.latent for one in sunk.doubtful] == [one.latent for one in sound.factors] != []
    assert sunk.explained == sound.explained > 0.9


def test_the_worst_images_are_those_it_gives_back_worst(found: Find):
    wrong = [5, 40, 17]

    def fails(z: NDArray[Any]) -> NDArray[np.uint8]:
        images = perfect(z).copy()
        for place in wrong:
            images[(np.abs(z - CHOSEN[place]) < 1e-6).all(axis=1)] = 128
        return images

    result = found(CHOSEN, TURNED, decode=fails)
    assert {rows_showing(image) for image in result.worst[:3]} == set(wrong)
    assert (result.worst_remembered[:3] == 128).all()
    assert (result.worst_remembered[3:] == result.worst[3:]).all()
    assert 0.5 < result.explained < 1.0


def test_models_without_active_latents_find_nothing(found: Find):
    result = found(codes(), codes(), decode=grey)
    assert result.factors == result.doubtful == ()
    np.testing.assert_array_equal(result.mean, 0.0)


def test_codes_and_traversals_are_those_of_the_chosen_model_of_a_real_search(tmp_path: Path):
    search = finished(tmp_path / "run", score="udr", models=2, epochs=1, hyper={"beta": "0.2..0.5"})
    data: Dataset = search.dataset
    result = find(search, 1, CPU, ())
    model = Model(search.winner(), 1)
    images = data.images(np.arange(len(data)))
    np.testing.assert_allclose(result.mean, model.encode(images), rtol=1e-4, atol=1e-5)
    errors = (model.reconstruct(images).astype(np.float64) - images) ** 2
    variance = ((images - images.mean(axis=0)) ** 2).mean()
    assert result.explained == pytest.approx(1.0 - errors.mean() / variance, abs=1e-3)
    everything = (*result.factors, *result.doubtful)
    assert everything, "a latent must be active, or this shows nothing"
    for one in everything:
        assert one.drawn.shape == one.real.shape == (FRAMES, *data.image_shape)
