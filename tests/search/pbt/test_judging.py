# SPDX-License-Identifier: Apache-2.0
"""Models are scored the same whether others still train or all are done."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from unbraid.data.dataset import Dataset
from unbraid.scoring.metric_inputs import evaluate
from unbraid.search.pbt import scorer as scorer_module
from unbraid.search.pbt.generation import Chunk, Generation, GenerationModel
from unbraid.search.pbt.judging import Judging
from unbraid.search.pbt.scorer import Scorer

from .test_encode_generation import CPU, UPDATES, population


def begun(batch_sizes: tuple[int, ...] = (16, 8, 4)) -> tuple[Generation, Dataset]:
    plan, dataset = population(seeds=len(batch_sizes))
    models = [
        GenerationModel(member, size)
        for member, size in zip(plan.members, batch_sizes, strict=True)
    ]
    images = UPDATES * plan.batch_size
    sampler = dataset.sampler(CPU)
    return Generation(
        plan, models, dataset, CPU, sampler, epoch=0, epochs=1, epoch_images=images
    ), dataset


@pytest.mark.parametrize(("metric", "models"), [("mig", 1), ("elbo", 1), ("udr", 3)])
def test_a_chunk_judged_while_others_train_scores_as_after_the_epoch(
    metric, models, tmp_path: Path
):
    generation, dataset = begun()
    judging, done = Judging(Scorer(metric, 50, models), generation, dataset, tmp_path), []

    def chunk_done(chunk: Chunk) -> None:
        done.append(chunk.places)
        judging.chunk_done(chunk)

    assert generation.train(threading.Event(), chunk_done=chunk_done)
    assert sorted(done) == sorted(chunk.places for chunk in generation.chunks)
    assert len(judging._found) == (3 if models == 1 else 0), "scores that compare wait for all"
    after = Judging(Scorer(metric, 50, models), generation, dataset, tmp_path).scores()
    assert judging.scores() == after
    assert len(after) == 3 // models


def test_an_interrupt_leaves_the_scores_that_were_not_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    generation, dataset = begun((16,) * 24)
    generation.train(threading.Event())
    begun_scores = []

    def slow(*given: object) -> object:
        begun_scores.append(1)
        time.sleep(0.05)
        return evaluate(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(scorer_module, "evaluate", slow)
    judging = Judging(Scorer("mig", 50), generation, dataset, tmp_path)

    def interrupted() -> None:
        with judging:
            for chunk in generation.chunks:
                judging.chunk_done(chunk)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert len(begun_scores) < 24
    assert not any(thread.name.startswith("ThreadPool") for thread in threading.enumerate())


def test_a_chunk_that_was_done_before_the_search_went_on_is_scored_too(tmp_path: Path):
    generation, dataset = begun()
    for number, chunk in enumerate(generation.chunks):
        if number == 0:
            while not chunk.done:
                chunk.program.step(chunk.state)
    judging, done = Judging(Scorer("mig", 50), generation, dataset, tmp_path), []

    def chunk_done(chunk: Chunk) -> None:
        done.append(chunk.places)
        judging.chunk_done(chunk)

    assert generation.train(threading.Event(), chunk_done=chunk_done)
    assert len(done) == len(generation.chunks) - 1
    assert judging.scores() == Judging(Scorer("mig", 50), generation, dataset, tmp_path).scores()
