# SPDX-License-Identifier: Apache-2.0
"""Scores of a population in training: those that the metrics themselves give for the same codes,
and NaN for what diverged.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unbraid.codes.codes import recorded_sample
from unbraid.core.errors import InputError, Problems
from unbraid.data.dataset import Dataset
from unbraid.metrics._posterior import kl_per_latent
from unbraid.metrics.elbo import elbo
from unbraid.metrics.mig import mig
from unbraid.metrics.sap import sap
from unbraid.metrics.total_correlation import total_correlation
from unbraid.metrics.udr import udr
from unbraid.search.pbt import scorer as scorer_module
from unbraid.search.pbt.encode_generation import (
    encode_chunk,
    encode_generation,
    reconstruction_nats,
)
from unbraid.search.pbt.generation import Generation
from unbraid.search.pbt.judging import Judging
from unbraid.search.pbt.scorer import SURROGATES, Scorer, read_scorer
from unbraid.search.rpu.surrogate_labels import SurrogateLabels, write_surrogates

from .test_encode_generation import population, trained
from .test_plan import small_search, unlabelled

ROOM = {"x": 6, "y": 5, "scale": 4, "image_size": 16}


@pytest.fixture(scope="module")
def six() -> tuple[Generation, Dataset]:
    """Six healthy models in three batch sizes."""
    plan, dataset = population(seeds=3, learning_rate=[5e-3, 2e-2], data_options=ROOM)
    return trained(plan, dataset, [16, 8, 4, 16, 8, 4]), dataset


@pytest.fixture(scope="module")
def broken() -> tuple[Generation, Dataset]:
    """Six models, of which the last three diverged."""
    plan, dataset = population(seeds=3, learning_rate=[5e-3, 1e18], data_options=ROOM)
    generation = trained(plan, dataset, [16] * 6)
    assert generation.diverged() == [False] * 3 + [True] * 3
    return generation, dataset


def scores(scorer: Scorer, generation: Generation, dataset: Dataset, folder: Path) -> list[float]:
    return Judging(scorer, generation, dataset, folder).scores()


def nats_of(generation: Generation, indices: np.ndarray) -> np.ndarray:
    found = np.empty((len(generation.models), len(indices)))
    for chunk in generation.chunks:
        mean, logvar = encode_chunk(chunk, indices, generation.device)
        nats = reconstruction_nats(chunk, indices, mean, logvar, generation.device)
        found[list(chunk.places)] = nats.numpy()
    return found


def codes_of(generation: Generation, indices: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    mean, logvar = encode_generation(generation, indices)
    return mean.numpy().astype(np.float64), logvar.numpy().astype(np.float64)


@pytest.mark.parametrize(
    "options", [{}, {"method": "spearman"}, {"alpha": 0.05, "kl_threshold": 0.02}]
)
@pytest.mark.parametrize("models", [2, 3])
def test_agreement_is_the_mean_udr_of_each_group(
    six: tuple[Generation, Dataset], models: int, options: dict[str, Any], tmp_path: Path
):
    generation, dataset = six
    name = "udr" + (
        ":" + ",".join(f"{key}={value}" for key, value in options.items()) if options else ""
    )
    scorer = Scorer(name, 60, models, seed=4)
    indices = recorded_sample(len(dataset), 60, 4)
    np.testing.assert_array_equal(scorer.sample(dataset), indices)
    mean, logvar = codes_of(generation, indices)
    expected = []
    for first in range(0, 6, models):
        group = slice(first, first + models)
        kl = np.stack(
            [kl_per_latent(*model) for model in zip(mean[group], logvar[group], strict=True)]
        )
        expected.append(udr(mean[group], kl, **options).score)
    found = scores(scorer, generation, dataset, tmp_path)
    assert len(found) == 6 // models
    assert max(found) > 0.1, "groups that agree on nothing would show nothing"
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("points", [50_000, 50])
def test_mig_of_each_model_on_the_images_of_the_sample(
    six: tuple[Generation, Dataset], points: int, tmp_path: Path
):
    generation, dataset = six
    scorer = Scorer("mig:bins=8", points)
    indices = scorer.sample(dataset)
    assert len(indices) == min(points, 120)
    mean, _ = codes_of(generation, indices)
    expected = [mig(codes, dataset.factors(indices), bins=8).score for codes in mean]
    np.testing.assert_allclose(scores(scorer, generation, dataset, tmp_path), expected, atol=1e-12)


def test_the_score_of_several_models_is_their_mean(six: tuple[Generation, Dataset], tmp_path: Path):
    generation, dataset = six
    alone = scores(Scorer("mig", 50_000), generation, dataset, tmp_path)
    together = scores(Scorer("mig", 50_000, 3), generation, dataset, tmp_path)
    np.testing.assert_allclose(together, np.reshape(alone, (2, 3)).mean(axis=1), atol=1e-12)


def test_predictors_are_fitted_on_two_thirds_of_the_sample(
    six: tuple[Generation, Dataset], tmp_path: Path
):
    generation, dataset = six
    scorer = Scorer("sap", 50_000)
    indices = scorer.sample(dataset)
    factors = dataset.factors(indices)
    mean, _ = codes_of(generation, indices)
    expected = [sap(codes[:80], factors[:80], codes[80:], factors[80:]).score for codes in mean]
    np.testing.assert_allclose(scores(scorer, generation, dataset, tmp_path), expected, atol=1e-6)


def test_elbo_of_each_model(six: tuple[Generation, Dataset], tmp_path: Path):
    generation, dataset = six
    scorer = Scorer("elbo", 50_000)
    indices = scorer.sample(dataset)
    codes = zip(*codes_of(generation, indices), nats_of(generation, indices), strict=True)
    expected = [elbo(mean, logvar, loss).score for mean, logvar, loss in codes]
    assert max(expected) < 0
    np.testing.assert_allclose(scores(scorer, generation, dataset, tmp_path), expected, rtol=1e-6)


def test_lower_is_better_for_some(six: tuple[Generation, Dataset], tmp_path: Path):
    generation, dataset = six
    scorer = Scorer("total_correlation", 50_000)
    mean, _ = codes_of(generation, scorer.sample(dataset))
    expected = [total_correlation(codes).score for codes in mean]
    np.testing.assert_allclose(scores(scorer, generation, dataset, tmp_path), expected, rtol=1e-5)
    assert (scorer.higher_is_better, scorer.better(0.3)) == (False, -0.3)
    assert (Scorer("mig", 10).higher_is_better, Scorer("mig", 10).better(0.3)) == (True, 0.3)
    assert Scorer(SURROGATES, 0).higher_is_better


def test_surrogates_come_from_the_file_beside_the_search(
    six: tuple[Generation, Dataset], tmp_path: Path
):
    generation, dataset = six
    factors = dataset.factors(np.arange(120))
    part = np.arange(10, 60, dtype=np.int64)
    root = SurrogateLabels(np.arange(120, dtype=np.int64), factors.astype(np.float32))
    level = SurrogateLabels(part, factors[part][:, 1:].astype(np.float32))
    write_surrogates(tmp_path / "own.safetensors", [(root, level)])
    found = scores(Scorer(SURROGATES, 0, 1, 0, "own.safetensors"), generation, dataset, tmp_path)
    mean, _ = codes_of(generation, np.arange(120))
    for score, codes in zip(found, mean, strict=True):
        gaps = [*mig(codes, factors).per_factor, *mig(codes[part], factors[part][:, 1:]).per_factor]
        assert score == pytest.approx(np.mean(gaps), abs=1e-12)


@pytest.mark.parametrize("metric", ["mig", "elbo", "hoyer", "active_units", "dci"])
def test_models_that_diverged_have_no_score(
    broken: tuple[Generation, Dataset], metric: str, tmp_path: Path
):
    generation, dataset = broken
    found = scores(Scorer(metric, 50_000), generation, dataset, tmp_path)
    assert [math.isnan(score) for score in found] == [False] * 3 + [True] * 3


def test_a_model_that_diverged_has_no_score_even_where_its_last_codes_are_numbers(tmp_path: Path):
    plan, dataset = population()
    generation = trained(plan, dataset, [16] * 3)
    assert not any(
        math.isnan(score) for score in scores(Scorer("mig", 50), generation, dataset, tmp_path)
    )
    generation.chunks[1].state.diverged_at.fill_(3)
    (place,) = generation.chunks[1].places
    found = scores(Scorer("mig", 50), generation, dataset, tmp_path)
    assert [math.isnan(score) for score in found] == [other == place for other in range(3)]


def test_one_model_that_diverged_takes_the_score_of_its_group(
    broken: tuple[Generation, Dataset], tmp_path: Path
):
    generation, dataset = broken
    found = scores(Scorer("udr", 1_000, 2), generation, dataset, tmp_path)
    assert [math.isnan(score) for score in found] == [False, True, True]
    found = scores(Scorer("udr", 1_000, 3), generation, dataset, tmp_path)
    assert [math.isnan(score) for score in found] == [False, True]


def test_models_that_diverged_have_no_gap_with_surrogates(
    broken: tuple[Generation, Dataset], tmp_path: Path
):
    generation, dataset = broken
    every = np.arange(120, dtype=np.int64)
    mean, _ = encode_generation(generation, every)
    assert not mean[3:].isfinite().all(), (
        "codes must have left the numbers, or this test shows nothing"
    )
    write_surrogates(
        tmp_path / "s.safetensors",
        [(SurrogateLabels(every, dataset.factors(every).astype(np.float32)),)],
    )
    found = scores(Scorer(SURROGATES, 0, 1, 0, "s.safetensors"), generation, dataset, tmp_path)
    assert [math.isnan(score) for score in found] == [False] * 3 + [True] * 3


def test_a_metric_without_a_value_is_nan_and_other_failures_are_not_hidden(
    six: tuple[Generation, Dataset], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    generation, dataset = six

    def fails(name: str, material: Any) -> Any:
        raise error

    monkeypatch.setattr(scorer_module, "evaluate", fails)
    error: Exception = InputError("codes must vary; got none.")
    assert all(
        math.isnan(score) for score in scores(Scorer("mig", 50), generation, dataset, tmp_path)
    )
    error = ZeroDivisionError("a bug")
    with pytest.raises(ZeroDivisionError, match="a bug"):
        scores(Scorer("mig", 50), generation, dataset, tmp_path)


def test_only_the_labels_that_were_paid_for_are_looked_at(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    search, dataset = small_search(score="mig", labels=12)
    generation = trained(*population(), [16] * 3)
    seen: list[np.ndarray] = []
    known = type(dataset).factors

    def watched(self: Dataset, indices: Any) -> Any:
        seen.append(np.asarray(indices))
        return known(self, indices)

    monkeypatch.setattr(type(dataset), "factors", watched)
    for _ in range(2):
        scores(search.scorer, generation, dataset, tmp_path)
    assert len(seen) == 2
    assert len(np.unique(seen[0])) == len(seen[0]) == 12
    np.testing.assert_array_equal(seen[0], seen[1])


def test_judges_survive_their_record():
    scorer = Scorer("udr:method=spearman", 100, 3, 9, "s.safetensors")
    assert Scorer(**scorer.record()) == scorer
    assert scorer.compares
    assert not Scorer("mig", 10).compares
    assert not Scorer(SURROGATES, 0).compares


def test_reading_a_judge_adds_to_problems_and_is_not_misled_by_them():
    problems = Problems()
    problems.say("something else is wrong.")
    read_scorer("mig", "all", None, unlabelled(), 0, problems)
    assert [str(one) for one in problems.found] == [
        "something else is wrong.",
        (
            "score cannot be mig, since the data has no factors to compare codes with; got 'mig'. "
            "Use udr, which needs none, or load the data with factors."
        ),
    ]
