# SPDX-License-Identifier: Apache-2.0
"""The encoder that learns from labels alone: its two terms, and that neither half of the network
reaches into the other.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from unbraid.objectives.supervised import Supervised

from unbraid.objectives.objective import total_loss
from unbraid.objectives.priors.prior import Prior
from unbraid.population.plan import make_plan
from unbraid.population.training_step import TrainingStep

RECORD = json.loads(
    (Path(__file__).resolve().parents[1] / "golden" / "few_labels.json").read_text()
)
SMALL = {"image_size": 16, "x": 6, "y": 6, "scale": 3}


@pytest.mark.parametrize("loss", ["xent", "cov"])
def test_golden_term_and_reconstruction(golden, loss):
    labels = torch.tensor(RECORD["labels"], dtype=torch.float32).unsqueeze(0)
    sizes = torch.tensor([RECORD["factor_sizes"]]).float()
    given = {
        "labelled_mean": golden.forward.mean,
        "labels": labels,
        "label_sizes": sizes,
        "reconstruction": torch.full((1, 16), 8.0),
    }
    terms = Supervised(label_loss=loss).terms(replace(golden.forward, **given))
    assert total_loss(terms).item() == pytest.approx(
        8.0 + RECORD["values"][loss], rel=golden.relative
    )


def test_the_decoder_gets_means_without_a_way_back():
    mean = torch.ones(1, 2, 3, requires_grad=True)
    latents = Supervised().latents(mean, torch.zeros(1, 2, 3), torch.full((1, 2, 3), 9.0), {})
    assert torch.equal(latents, mean)
    assert not latents.requires_grad


def program_of(**given) -> TrainingStep:
    plan, dataset = make_plan(
        "sprites",
        "supervised",
        data_options=SMALL,
        network="mlp",
        network_options={"hidden": 32},
        batch_size=16,
        latents=5,
        **given,
    )
    return TrainingStep(plan, plan.members, dataset, torch.device("cpu"))


def test_labels_teach_the_encoder_and_images_the_decoder():
    program = program_of()
    state = program.start()
    leaves = program._leaves(program.layout, state.model)
    forward = program._forward(program.objective, leaves, state, program.draw(torch.tensor([0])), 0)
    for term, taught, other in (
        ("reconstruction", "decoder", "encoder"),
        ("supervised", "encoder", "decoder"),
    ):
        value = program.objective.terms(forward)[term].mean().sum()
        slopes = dict(
            zip(
                leaves,
                torch.autograd.grad(
                    value, list(leaves.values()), materialize_grads=True, retain_graph=True
                ),
                strict=True,
            )
        )
        assert not any(slope.any() for name, slope in slopes.items() if name.startswith(other))
        # The head of the variances is used by nothing.
        assert all(
            slope.any()
            for name, slope in slopes.items()
            if name.startswith(taught) and "logvar" not in name
        )


def test_a_few_labels_are_learned_by_heart():
    program = program_of(
        hyper={"label_count": 16, "label_loss": "l2"}, steps=400, learning_rate=3e-3, log_every=50
    )
    state = program.start()
    for _ in range(400):
        program.step(state)
    squares = state.history[0, :, program.quantities.index("supervised")]
    # 16 images with 3 labels each: from their squares' sum to less than a tenth of a value off, on
    # average.
    assert squares[0] > 20 * squares[-1]
    assert squares[-1] < 16 * 3 * 0.1**2
    images = state.history[0, :, program.quantities.index("reconstruction")]
    assert images[-1] < 0.5 * images[0]


def test_it_has_no_prior():
    class Other(Prior):
        factorised = True
        standard = False

        def log_density(self, z):
            return z.sum(dim=-1)

        def sample(self, uniform):
            return uniform[..., 0]

    assert Supervised().refuses(Other()) == "is not used by this objective"
