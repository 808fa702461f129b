# SPDX-License-Identifier: Apache-2.0
"""ML-VAE keeps the labelled latent and averages all others by precision."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from unbraid.core.errors import InputError
from unbraid.objectives.gvae import GVAE
from unbraid.objectives.mlvae import MLVAE
from unbraid.objectives.objective import Forward, total_loss
from unbraid.objectives.supervision.pairs import Pairs

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def test_golden_posteriors_and_loss():
    values = json.loads((GOLDEN / "pair_averaging.json").read_text())["values"]["mlvae_labels"]
    with np.load(GOLDEN / "pair_averaging_inputs.npz") as arrays:
        mean = torch.from_numpy(np.concatenate([arrays["mu"], arrays["mu2"]])).unsqueeze(0)
        logvar = torch.from_numpy(np.concatenate([arrays["logvar"], arrays["logvar2"]])).unsqueeze(
            0
        )
        changed = torch.from_numpy(arrays["changed_index"][:, 0]).unsqueeze(0)
    mean, logvar = MLVAE().supervision.posterior(mean, logvar, changed)
    for ours, name in ((mean, "mean"), (logvar, "logvar")):
        expected = np.concatenate([values[f"{name}1"], values[f"{name}2"]])
        assert ours[0].numpy() == pytest.approx(expected, rel=1e-4, abs=1e-6)
    forward = Forward(torch.full((1, 32), 3.0), mean, logvar, z=mean, step=torch.tensor(0.0))
    assert total_loss(MLVAE(beta=4).terms(forward)).item() == pytest.approx(
        3.0 + 4 * values["kl_loss"], rel=1e-4
    )


def test_two_latents_by_hand():
    mean = torch.tensor([[[1.0, 5.0], [4.0, 7.0]]], dtype=torch.float64)
    logvar = torch.tensor([[[0.0, 0.0], [math.log(3.0), 0.0]]], dtype=torch.float64)
    shared, shared_logvar = MLVAE().supervision.posterior(mean, logvar, torch.tensor([[1]]))
    assert shared[0].numpy() == pytest.approx(np.array([[1.75, 5.0], [1.75, 7.0]]))
    assert shared_logvar.exp()[0].numpy() == pytest.approx(np.array([[1.5, 1.0], [1.5, 1.0]]))


def test_equal_variances_give_gvae(make_forward):
    forward = make_forward(logvar=torch.full((3, 8, 4), -0.7, dtype=torch.float64))
    changed = torch.tensor([[0, 1, 2, 3]] * 3)
    for ours, theirs in zip(
        MLVAE().supervision.posterior(forward.mean, forward.logvar, changed),
        GVAE().supervision.posterior(forward.mean, forward.logvar, changed),
        strict=True,
    ):
        assert ours.numpy() == pytest.approx(theirs.numpy(), rel=1e-12)


def test_shared_variance_is_below_that_of_gvae_and_gradient_is_finite(make_forward):
    forward = make_forward()
    changed = torch.tensor([[0, 1, 2, 3]] * 3)
    mean, logvar = forward.mean.requires_grad_(), forward.logvar.requires_grad_()
    shared = MLVAE().supervision.posterior(mean, logvar, changed)
    _, wider = GVAE().supervision.posterior(mean, logvar, changed)
    averaged = (shared[1] != logvar).detach()
    assert averaged.sum() == 3 * 8 * 3
    assert (shared[1] < wider)[averaged].all()
    loss = total_loss(MLVAE().terms(make_forward(mean=shared[0], logvar=shared[1], z=shared[0])))
    for gradient in torch.autograd.grad(loss.sum(), [mean, logvar]):
        assert torch.isfinite(gradient).all()
        assert (gradient != 0).all()


def test_asks_for_labelled_pairs():
    assert MLVAE().supervision == Pairs(average="harmonic", changed_factors=1, which="named")
    assert MLVAE().prior_kind == "factorised"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"beta": float("inf")}, "mlvae: beta must be a finite number; got inf."),
        ({"changed_factors": 0.5}, "mlvae: changed_factors must be a whole number; got 0.5."),
        ({"pair_rule": 1}, "mlvae: pair_rule must be one of locatello, michlo; got 1."),
    ],
)
def test_nonsense_is_refused_in_full(given, told):
    with pytest.raises(InputError) as error:
        MLVAE(**given)
    assert str(error.value) == told
