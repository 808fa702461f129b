# SPDX-License-Identifier: Apache-2.0
"""Ada-ML-VAE decides as Ada-GVAE does and averages by precision."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from unbraid.core.errors import InputError
from unbraid.objectives.ada_gvae import AdaGVAE
from unbraid.objectives.ada_mlvae import AdaMLVAE
from unbraid.objectives.hyper import stack
from unbraid.objectives.objective import Forward, total_loss
from unbraid.objectives.supervision.pairs import Pairs

GOLDEN = Path(__file__).resolve().parents[1] / "golden"


def test_golden_posteriors_and_loss():
    values = json.loads((GOLDEN / "pair_averaging.json").read_text())["values"]["mlvae_argmax"]
    with np.load(GOLDEN / "pair_averaging_inputs.npz") as arrays:
        mean = torch.from_numpy(np.concatenate([arrays["mu"], arrays["mu2"]])).unsqueeze(0)
        logvar = torch.from_numpy(np.concatenate([arrays["logvar"], arrays["logvar2"]])).unsqueeze(
            0
        )
    mean, logvar = AdaMLVAE().supervision.posterior(mean, logvar, None)
    for ours, name in ((mean, "mean"), (logvar, "logvar")):
        expected = np.concatenate([values[f"{name}1"], values[f"{name}2"]])
        assert ours[0].numpy() == pytest.approx(expected, rel=1e-4, abs=1e-6)
    forward = Forward(torch.full((1, 32), 3.0), mean, logvar, z=mean, step=torch.tensor(0.0))
    loss = total_loss(AdaMLVAE(beta=2).terms(forward))
    assert loss.item() == pytest.approx(3.0 + 2 * values["kl_loss"], rel=1e-4)


def test_two_latents_by_hand():
    mean = torch.tensor([[[9.0, 1.0], [0.0, 4.0]]], dtype=torch.float64)
    logvar = torch.tensor([[[0.0, 0.0], [0.0, math.log(3.0)]]], dtype=torch.float64)
    shared, shared_logvar = AdaMLVAE().supervision.posterior(mean, logvar, None)
    assert shared[0].numpy() == pytest.approx(np.array([[9.0, 1.75], [0.0, 1.75]]))
    assert shared_logvar.exp()[0].numpy() == pytest.approx(np.array([[1.0, 1.5], [1.0, 1.5]]))


@pytest.mark.parametrize("divergence", ["kl", "symmetric_kl"])
def test_decides_as_ada_gvae_and_each_member_by_its_threshold(make_forward, divergence):
    forward = make_forward(members=3)
    shares = (0.0, 0.3, 1.0)
    ours, theirs = (
        stack(
            [kind(threshold=share, divergence=divergence).supervision for share in shares],
            dtype=torch.float64,
        )
        for kind in (AdaMLVAE, AdaGVAE)
    )
    own = ours.own(forward.mean, forward.logvar, None)
    assert torch.equal(own, theirs.own(forward.mean, forward.logvar, None))
    assert own.sum(dim=(1, 2)).tolist()[::2] == [16, 4]
    kept = torch.cat([own, own], dim=1)
    mean, _ = ours.posterior(forward.mean, forward.logvar, None)
    other, _ = theirs.posterior(forward.mean, forward.logvar, None)
    assert torch.equal(mean[kept], other[kept])
    assert (mean[~kept] != other[~kept]).all()


def test_loss_does_not_depend_on_which_image_is_first(make_forward):
    forward = make_forward(members=2, batch=20)
    objective = AdaMLVAE(divergence="symmetric_kl")
    losses = []
    for shift in (0, 10):
        mean, logvar = objective.supervision.posterior(
            forward.mean.roll(shift, 1), forward.logvar.roll(shift, 1), None
        )
        losses.append(
            total_loss(
                objective.terms(make_forward(members=2, batch=20, mean=mean, logvar=logvar, z=mean))
            )
        )
    assert losses[0].tolist() == pytest.approx(losses[1].tolist(), rel=1e-12)


def test_gradient_flows_to_both_images(make_forward):
    forward = make_forward(members=1)
    mean, logvar = forward.mean.requires_grad_(), forward.logvar.requires_grad_()
    own = AdaMLVAE().supervision.own(mean, logvar, None)
    shared, _ = AdaMLVAE().supervision.posterior(mean, logvar, None)
    to_mean, to_logvar = torch.autograd.grad(shared[:, 4:].sum(), [mean, logvar])
    weight = torch.sigmoid(logvar[:, 4:] - logvar[:, :4])[~own]
    assert to_mean[:, :4][~own].tolist() == pytest.approx(weight.tolist(), rel=1e-12)
    assert (to_logvar[:, :4][~own] != 0).all()
    assert (to_mean[:, :4][own] == 0).all()


def test_asks_for_unlabelled_pairs():
    assert AdaMLVAE().supervision == Pairs(average="harmonic")
    assert AdaMLVAE(pair_rule="michlo", changed_factors=3).supervision == Pairs(
        average="harmonic", rule="michlo", changed_factors=3
    )
    assert AdaMLVAE().prior_kind == "factorised"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"beta": -1}, "ada_mlvae: beta must be at least 0; got -1."),
        ({"threshold": 1.01}, "ada_mlvae: threshold must be at most 1; got 1.01."),
        ({"threshold": -1}, "ada_mlvae: threshold must be at least 0; got -1."),
        ({"changed_factors": -2}, "ada_mlvae: changed_factors must be at least 0; got -2."),
        (
            {"divergence": "kls"},
            "ada_mlvae: divergence 'kls' is unknown; did you mean 'kl'? Known: kl, symmetric_kl.",
        ),
        (
            {"pair_rule": "every"},
            "ada_mlvae: pair_rule 'every' is unknown. Known: locatello, michlo.",
        ),
    ],
)
def test_nonsense_is_refused_in_full(given, told):
    with pytest.raises(InputError) as error:
        AdaMLVAE(**given)
    assert str(error.value) == told
