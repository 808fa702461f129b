# SPDX-License-Identifier: Apache-2.0
"""Rows of the lineage, and the best score of each epoch."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from unbraid.search.pbt.exploit import Individual
from unbraid.search.pbt.lineage import best_by_epoch, epoch_rows


def rows(*scores: tuple[int, float | None], **more: list[Any]) -> list[dict[str, Any]]:
    return [
        {"epoch": epoch, "score": score, **{name: column[at] for name, column in more.items()}}
        for at, (epoch, score) in enumerate(scores)
    ]


def best_scores(lineage: list[dict[str, Any]], sign: int = 1) -> list[float]:
    return [one.score for one in best_by_epoch(lineage, lambda score: sign * score)]


def test_the_best_is_the_highest_or_the_lowest_as_the_metric_has_it():
    lineage = rows((0, 0.2), (0, 0.5), (0, None), (1, 0.4), (1, 0.1))
    assert best_scores(lineage) == [0.5, 0.4]
    assert best_scores(lineage, -1) == [0.2, 0.1]


def test_an_epoch_without_scores_has_no_best():
    best = best_scores(rows((0, None), (1, 0.3)))
    assert best == pytest.approx([math.nan, 0.3], nan_ok=True)


@pytest.mark.parametrize("sign", [1, -1])
def test_a_collapsed_individual_is_the_best_of_an_epoch_only_among_its_like(sign: int):
    scores = [(0, 0.9), (0, 0.2), (0, None), (1, 0.1), (1, 0.3), (2, None)]
    sunk = [True, False, False, True, True, True]
    best = best_by_epoch(
        rows(*((epoch, one and sign * one) for epoch, one in scores), collapsed=sunk),
        lambda score: sign * score,
    )
    assert best[:2] == [(sign * 0.2, False), (sign * 0.3, True)]
    assert math.isnan(best[2].score)


def test_a_row_says_where_an_individual_came_from_and_how_it_did():
    search: Any = SimpleNamespace(models=2, epoch_images=100)
    copy = Individual(3, {"beta": 2.4}, True, {"beta": 1.2})
    state: Any = SimpleNamespace(
        epoch=2,
        individuals=[Individual(0, {"beta": 1.0}), copy],
        generation=SimpleNamespace(diverged=lambda: [False, False, False, True]),
    )
    first, second = epoch_rows(search, state, [0.5, math.nan], [1, 0], 2)
    assert first == {
        **{"epoch": 2, "individual": 0, "parent": 0, "copied": False, "change": "", "score": 0.5},
        **{"diverged": False, "active_latents": 1, "collapsed": True, "images": 300, "beta": 1.0},
    }
    assert second == {
        **{"epoch": 2, "individual": 1, "parent": 3, "copied": True, "change": "beta ×1.2"},
        **{"score": None, "diverged": True, "active_latents": 0, "collapsed": False},
        **{"images": 300, "beta": 2.4},
    }
