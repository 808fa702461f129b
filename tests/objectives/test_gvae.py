# SPDX-License-Identifier: Apache-2.0
"""GVAE keeps the labelled latent and averages all others arithmetically."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from unbraid.core.errors import InputError
from unbraid.objectives.gvae import GVAE
from unbraid.objectives.hyper import stack
from unbraid.objectives.objective import Forward, total_loss
from unbraid.objectives.supervision.pairs import Pairs
from unbraid.population.plan import make_plan
from unbraid.population.training_step import TrainingStep

GOLDEN = Path(__file__).resolve().parents[1] / "golden"
SPRITES = {"x": 6, "y": 4, "scale": 2, "image_size": 28}


def test_golden_posteriors_and_loss():
    values = json.loads((GOLDEN / "pair_averaging.json").read_text())["values"]["gvae_labels"]
    with np.load(GOLDEN / "pair_averaging_inputs.npz") as arrays:
        mean = torch.from_numpy(np.concatenate([arrays["mu"], arrays["mu2"]])).unsqueeze(0)
        logvar = torch.from_numpy(np.concatenate([arrays["logvar"], arrays["logvar2"]])).unsqueeze(
            0
        )
        changed = torch.from_numpy(arrays["changed_index"][:, 0]).unsqueeze(0)
    mean, logvar = GVAE().supervision.posterior(mean, logvar, changed)
    for ours, name in ((mean, "mean"), (logvar, "logvar")):
        expected = np.concatenate([values[f"{name}1"], values[f"{name}2"]])
        assert ours[0].numpy() == pytest.approx(expected, rel=1e-4, abs=1e-6)
    forward = Forward(torch.full((1, 32), 3.0), mean, logvar, z=mean, step=torch.tensor(0.0))
    assert total_loss(GVAE().terms(forward)).item() == pytest.approx(
        3.0 + values["kl_loss"], rel=1e-4
    )


def test_two_latents_by_hand():
    mean = torch.tensor([[[2.0, 0.0], [0.0, 1.0], [0.0, 4.0], [2.0, 1.0]]])
    logvar = torch.tensor([[[0.0, 0.0], [0.0, 0.0], [math.log(3.0), 0.0], [0.0, math.log(5.0)]]])
    # Pairs are rows 0 and 2, of which latent 1 changed, and rows 1 and 3, of which latent 0
    # changed.
    shared, shared_logvar = GVAE().supervision.posterior(mean, logvar, torch.tensor([[1, 0]]))
    assert shared.tolist() == [[[1.0, 0.0], [0.0, 1.0], [1.0, 4.0], [2.0, 1.0]]]
    assert shared_logvar.exp()[0].numpy() == pytest.approx(
        np.array([[2.0, 1.0], [1.0, 3.0], [2.0, 1.0], [1.0, 3.0]]), rel=1e-6
    )


def test_members_have_their_own_labels_and_betas(make_forward):
    forward = make_forward(members=3)
    changed = torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0], [1, 1, 1, 1]])
    mean, logvar = GVAE().supervision.posterior(forward.mean, forward.logvar, changed)
    for member in range(3):
        only = slice(member, member + 1)
        alone, _ = GVAE().supervision.posterior(
            forward.mean[only], forward.logvar[only], changed[only]
        )
        assert torch.equal(alone[0], mean[member])
    moved = (mean != forward.mean)[:, :4]
    assert (moved.sum(dim=-1) == 3).all()
    assert not moved.gather(2, changed.unsqueeze(-1)).any()
    objectives = stack([GVAE(beta=beta) for beta in (0.0, 1.0, 4.0)], dtype=torch.float64)
    terms = objectives.terms(make_forward(members=3, mean=mean, logvar=logvar, z=mean))
    kl, lost = terms["kl"].mean(), terms["reconstruction"].mean()
    assert total_loss(terms).tolist() == pytest.approx(
        (lost + torch.tensor([0.0, 1.0, 4.0]) * kl).tolist(), rel=1e-12
    )


def test_gradient_of_shared_latents_reaches_both_images(make_forward):
    forward = make_forward(members=1)
    mean = forward.mean.requires_grad_()
    shared, _ = GVAE().supervision.posterior(mean, forward.logvar, torch.tensor([[0, 1, 2, 3]]))
    (gradient,) = torch.autograd.grad(shared[:, 4:].sum(), mean)
    assert torch.equal(gradient[0, :4], 0.5 * (1 - torch.eye(4, dtype=torch.float64)))
    assert torch.equal(gradient[0, 4:], 0.5 + 0.5 * torch.eye(4, dtype=torch.float64))


def test_by_default_one_factor_changes():
    assert GVAE().supervision == Pairs(changed_factors=1, which="named")
    assert GVAE(pair_rule="michlo", changed_factors=0).supervision == Pairs(
        rule="michlo", which="named"
    )


def test_a_training_step_keeps_the_latent_of_the_factor_that_changed():
    plan, dataset = make_plan(
        "sprites",
        GVAE(),
        data_options=SPRITES,
        network="mlp",
        network_options={"hidden": 8},
        latents=5,
        batch_size=8,
        steps=3,
    )
    program = TrainingStep(plan, plan.members, dataset, torch.device("cpu"))
    state = program.start()
    draws = program.draw(torch.arange(3))
    leaves = program._leaves(program.layout, state.model)
    forward = program._forward(leaves, state, draws, 2)[0].forward
    first, second = forward.mean[0].chunk(2)
    factors = [dataset.factors(half.numpy()) for half in draws.indices[0, 2].chunk(2)]
    differ = factors[0] != factors[1]
    assert (differ.sum(axis=1) <= 1).all()
    assert differ.any()
    assert np.array_equal((first != second).numpy()[:, : differ.shape[1]], differ)
    assert not (first != second)[:, differ.shape[1] :].any()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"beta": -1}, "gvae: beta must be at least 0; got -1."),
        ({"changed_factors": -1}, "gvae: changed_factors must be at least 0; got -1."),
        ({"changed_factors": "two"}, "gvae: changed_factors must be a number; got 'two'."),
        (
            {"pair_rule": "michelo"},
            (
                "gvae: pair_rule 'michelo' is unknown; did you mean 'michlo'? Known: locatello,"
                " michlo."
            ),
        ),
    ],
)
def test_nonsense_is_refused_in_full(given, told):
    with pytest.raises(InputError) as error:
        GVAE(**given)
    assert str(error.value) == told


def test_fewer_latents_than_factors_are_refused():
    with pytest.raises(InputError) as error:
        make_plan(
            "sprites",
            GVAE(changed_factors=9),
            data_options=SPRITES,
            network="mlp",
            latents=2,
            steps=3,
        )
    factors = len(
        make_plan("sprites", GVAE(), data_options=SPRITES, network="mlp", steps=3)[1].factor_sizes
    )
    assert (
        str(error.value)
        == f"gvae: changed_factors must be at most the {factors} factors of the data; got 9. Use 0"
        f" to draw it for every pair.\ngvae: latents must be at least the {factors} factors of"
        f" the data, one for each; got 2. Use latents={factors} or more."
    )
