# SPDX-License-Identifier: Apache-2.0
"""Advice is given exactly where the run calls for it."""

from dataclasses import replace

import numpy as np
import pytest

from unbraid.report.train.advice import AdviceInputs, advice, still_falling

FINE = AdviceInputs(
    path="runs/a",
    labelled=True,
    missing_metrics=(),
    seeds=3,
    diverged=0,
    best_loss=[1.0] * 100,
    active_latents=4,
    latents=10,
)
SWEPT = replace(FINE, swept_strength="β", strengths=[1.0, 4.0, 16.0])


def test_nothing_to_say() -> None:
    assert advice(FINE) == []
    assert advice(replace(SWEPT, best_strength=4.0)) == []


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (replace(FINE, diverged=2), "Some models diverged: try a smaller learning rate."),
        (
            replace(FINE, best_loss=np.linspace(100, 10, 100)),
            "The best model's loss is still falling: train for more steps.",
        ),
        (
            replace(FINE, active_latents=0),
            "No latent of the best model is active: weaken the objective, or train for more steps.",
        ),
        (
            replace(FINE, active_latents=10),
            "Every latent of the best model is active: try more latents, or a stronger objective.",
        ),
        (
            replace(SWEPT, best_strength=16.0, lost_factors=("scale",)),
            (
                "scale is not clearly in any active latent: train for more steps, or weaken the"
                " objective."
            ),
        ),
        (
            replace(FINE, lost_factors=("x", "y")),
            (
                "x, y are not clearly in any active latent: train for more steps, or weaken the"
                " objective."
            ),
        ),
        (
            replace(FINE, unscored=4, models=6),
            "4 of 6 models have no score yet. Run: unbraid score runs/a",
        ),
        (
            replace(SWEPT, best_strength=16.0),
            "The best model has the largest β of the sweep: try larger ones.",
        ),
        (
            replace(SWEPT, best_strength=1.0),
            "The best model has the smallest β of the sweep: try smaller ones.",
        ),
        (replace(FINE, seeds=1), "One seed cannot tell luck from method: train at least three."),
        (replace(FINE, seeds=2), "Two seeds cannot tell luck from method: train at least three."),
        (
            replace(FINE, missing_metrics=("dci", "sap")),
            "Not scored yet: dci, sap. Run: unbraid score runs/a",
        ),
        (
            replace(FINE, labelled=False),
            (
                "If you know factors of the images, give them when loading the data (factors=...)"
                " to score the models."
            ),
        ),
    ],
)
def test_one_line_each(found: AdviceInputs, line: str) -> None:
    assert advice(found) == [line]


def test_a_loss_is_still_falling_only_when_the_end_falls() -> None:
    assert still_falling(np.linspace(2, 1, 100))
    assert not still_falling(np.concatenate([np.linspace(2, 1, 50), np.ones(50)]))
    assert not still_falling(np.linspace(1, 2, 100))
    assert not still_falling([5.0, 1.0])
