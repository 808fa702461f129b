# SPDX-License-Identifier: Apache-2.0
"""What the pinwheel of Mathieu et al. asks of training: AMSGrad, all points at every step, a
decoder with a scale for each value; beside torch's own modules and optimiser.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import unbraid as ub
from unbraid.core import random
from unbraid.core.errors import InputError
from unbraid.core.random import Stream
from unbraid.networks.layout import Layout, Weight
from unbraid.networks.mlp import Mlp
from unbraid.objectives.likelihoods import likelihood
from unbraid.population.adam import EPSILON, Adam, Gradient
from unbraid.population.cuda_graph import Stepper
from unbraid.population.plan import Plan, make_plan
from unbraid.population.state import State
from unbraid.population.training_step import TrainingStep

NETWORK = {
    **{"hidden": 16, "encoder_layers": 1, "decoder_layers": 1, "activation": "relu"},
    **{"scale": "softplus", "decoder_scale": "softplus", "start": "torch"},
}
EXACT: dict[str, Any] = {
    "network": "mlp",
    "network_options": NETWORK,
    "likelihood": "gaussian:scale=decoded",
    "latents": 2,
    "batch_size": "all",
    "learning_rate": 1e-3,
    "amsgrad": True,
}
FAST = (0.9, 0.8)
"""Betas by which squares fall within a test."""


def test_amsgrad_is_torchs_and_an_unhealthy_member_keeps_every_bit():
    drawn = torch.Generator().manual_seed(1)
    layout = Layout((Weight("weights", (48,)),))
    start = torch.randn(3, 48, generator=drawn)
    rates = torch.tensor([1e-4, 1e-2, 5e-3])
    ours, plain = Adam.start(start.clone(), amsgrad=True), Adam.start(start.clone())
    healthy = torch.tensor([True, False, True])
    peers = {k: start[k].clone().requires_grad_() for k in (0, 2)}
    optimisers = {
        k: torch.optim.Adam([peers[k]], lr=float(rates[k]), betas=FAST, eps=EPSILON, amsgrad=True)
        for k in peers
    }
    for step in range(12):
        gradient = torch.randn(3, 48, generator=drawn) * 10.0 ** (2 - step % 5)
        for k, peer in peers.items():
            peer.grad = gradient[k].clone()
            optimisers[k].step()
        gradient[1] = torch.nan
        for adam in (ours, plain):
            adam.update(Gradient(layout, [gradient]), healthy, rates, FAST, torch.tensor(step))
    for k, peer in peers.items():
        torch.testing.assert_close(ours.weights[k], peer.detach(), rtol=0, atol=1e-6)
        assert (ours.weights[k] - plain.weights[k]).abs().max() > 1e-5
    assert torch.equal(ours.weights[1], start[1])
    assert (ours.largest_square[1] == 0).all()
    assert (ours.largest_square[0] >= ours.gradient_square[0]).all()


def test_its_state_survives_a_checkpoint(tmp_path):
    settings = EXACT | {"data_options": {"points": 10}, "out": tmp_path / "run", "quiet": True}
    run = ub.train("pinwheel", "vae", steps=30, keep_optimiser=True, **settings)
    kept = run.folder.checkpoints(run.folder.chunks()[0]).load(torch.device("cpu"), print)
    assert isinstance(kept, State)
    assert kept.model.largest_square.shape == kept.model.weights.shape
    assert (kept.model.largest_square >= kept.model.gradient_square).all()
    run.resume(steps=60, quiet=True)
    settings["out"] = tmp_path / "whole"
    whole = ub.train("pinwheel", "vae", steps=60, **settings)
    for name, weight in whole.folder.member_weights(0).items():
        assert torch.equal(weight, run.folder.member_weights(0)[name])
    assert "amsgrad=True" in run.report().read_text("utf-8")
    assert "every image at each, AMSGrad" in run.report().read_text("utf-8")


def test_a_step_with_all_images_takes_each_once_and_is_the_full_gradient():
    plan, dataset = make_plan("pinwheel", "vae", data_options={"points": 25}, steps=20, **EXACT)
    assert (plan.batch_size, plan.full_batch) == (100, True)
    training = TrainingStep(plan, plan.members, dataset, torch.device("cpu"))
    drawn = training.draw(torch.arange(3)).indices
    assert drawn.tolist() == [[[*range(100)]] * 3]
    assert Plan.from_record(plan.record()).digest() == plan.digest()
    usual, _ = make_plan("pinwheel", "vae", steps=20, batch_size=100, network="mlp")
    assert not {"full_batch", "amsgrad"} & usual.record().keys()


def test_steps_are_those_of_plain_torch():
    """Encoder, decoder with two heads, ELBO, AMSGrad on all points, written with torch alone."""
    plan, dataset = make_plan("pinwheel", "vae", data_options={"points": 25}, steps=40, **EXACT)
    training = TrainingStep(plan, plan.members, dataset, torch.device("cpu"))
    state = training.start()
    views = training.layout.views(state.model.weights.clone())
    layers = {name: torch.nn.Parameter(view[0]) for name, view in views.items()}
    peer = torch.optim.Adam(layers.values(), lr=1e-3, amsgrad=True)
    x = torch.from_numpy(dataset.points(range(100)))

    def dense(h: torch.Tensor, name: str) -> torch.Tensor:
        return h @ layers[f"{name}.weight"] + layers[f"{name}.bias"]

    for step in range(40):
        hidden = dense(x, "encoder.dense1").relu()
        q = torch.distributions.Normal(
            dense(hidden, "encoder.mean"), F.softplus(dense(hidden, "encoder.logvar")) + 1e-6
        )
        noise = random.normal(torch.tensor([0]), step, Stream.LATENT_NOISE, (100, 2))[0]
        z = q.loc + q.scale * noise
        hidden = dense(z, "decoder.dense1").relu()
        p = torch.distributions.Normal(
            dense(hidden, "decoder.out"), F.softplus(dense(hidden, "decoder.scale")) + 1e-6
        )
        kl = torch.distributions.kl_divergence(q, torch.distributions.Normal(0.0, 1.0))
        loss = (kl.sum(dim=1) - p.log_prob(x).sum(dim=1)).mean()
        peer.zero_grad()
        loss.backward()
        peer.step()
        training.step(state)
    ours = training.layout.views(state.model.weights)
    for name, layer in layers.items():
        torch.testing.assert_close(ours[name][0], layer.detach(), rtol=0, atol=2e-5)


def test_weights_start_as_torchs_layers_do():
    layout = Mlp(**NETWORK).layout((2,), 2)
    rows = layout.initial(torch.arange(50), Stream.INITIAL_WEIGHTS)
    for name, values in layout.views(rows).items():
        fan_in = 16 if name in FROM_HIDDEN else 2
        assert values.abs().max() <= 1 / math.sqrt(fan_in)
        assert values.std() == pytest.approx(1 / math.sqrt(3 * fan_in), rel=0.15), name
    glorot = Mlp(hidden=16).layout((2,), 2)
    assert (glorot.views(glorot.initial(torch.arange(2), 0))["decoder.out.bias"] == 0).all()


FROM_HIDDEN = {
    f"{layer}.{part}"
    for layer in ("encoder.mean", "encoder.logvar", "decoder.out", "decoder.scale")
    for part in ("weight", "bias")
}


@pytest.mark.parametrize("bounded", [True, False])
@pytest.mark.parametrize(
    ("base", "law"),
    [("gaussian", torch.distributions.Normal), ("laplace", torch.distributions.Laplace)],
)
def test_a_decoded_scale_is_the_density_of_each_value(base, law, bounded):
    found = likelihood(f"{base}:scale=decoded", bounded=bounded)
    assert found.name == f"{base}:scale=decoded"
    raw, x = torch.randn(2, 5, 1, 4, 4), torch.rand(2, 5, 1, 4, 4)
    scale = torch.rand(2, 5, 1, 4, 4) + 0.01
    wanted = -law(torch.sigmoid(raw) if bounded else raw, scale).log_prob(x).flatten(2).sum(dim=2)
    torch.testing.assert_close(found.by_scale(raw, scale, x), wanted)
    with pytest.raises(InputError, match="mlp:decoder_scale=softplus"):
        found.negative_log(raw, x)


def test_images_can_have_decoded_scales_and_everything_reads_such_a_run(tmp_path):
    small = {"x": 4, "y": 4, "scale": 1, "image_size": 28}
    options = {"hidden": 8, "decoder_scale": "softplus"}
    run = ub.train(
        "sprites",
        "vae",
        data_options=small,
        network="mlp",
        network_options=options,
        likelihood="gaussian:scale=decoded",
        latents=2,
        steps=20,
        batch_size=8,
        standardise=True,
        out=tmp_path / "run",
        quiet=True,
    )
    assert np.isfinite(run.score("elbo", quiet=True)["elbo"]).all()
    assert run.report().stat().st_size > 0


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"network_options": {}}, "needs a decoder with a scale"),
        ({"likelihood": "gaussian"}, "must read the scale that this decoder gives"),
        ({"likelihood": "gaussian+box3:scale=decoded"}, "cannot be decoded with a blur"),
        ({"likelihood": "gaussian:scale=decode"}, "must be learned, decoded or a number"),
        ({"amsgrad": "yes"}, "amsgrad must be True or False"),
        ({"batch_size": "every"}, "batch_size must be a whole number"),
        ({"where": "arm == 0"}, "batch_size cannot be all with a rule"),
        ({"network_options": {"decoder_scale": "exp"}}, "decoder_scale must be none or softplus"),
        ({"network_options": {"start": "zeros"}}, "start must be glorot or torch"),
    ],
)
def test_what_does_not_go_together_is_refused(settings, told):
    with pytest.raises(InputError, match=told):
        make_plan("pinwheel", "vae", steps=5, **(EXACT | settings))


def test_too_many_images_for_one_step_are_refused():
    with pytest.raises(InputError, match="batch_size can be all for at most 100,000 images"):
        make_plan("dsprites", "vae", batch_size="all")


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_gpu_trains_as_a_cpu_does(precision):
    """AMSGrad without a kernel, all points at every step, decoded scales, in a captured graph."""
    settings = EXACT | {"data_options": {"points": 25}, "precision": precision}
    plan, dataset = make_plan("pinwheel", "vae", seeds=3, steps=60, **settings)
    found = []
    for name in ("cpu", "cuda"):
        training = TrainingStep(plan, plan.members, dataset, torch.device(name))
        state = training.start()
        stepper = Stepper(training, state, warn=pytest.fail)
        while state.step < 60:
            stepper.advance(60 - state.step)
        found.append(state)
    cpu, cuda = found
    assert torch.equal(cuda.diverged_at.cpu(), cpu.diverged_at)
    tolerance = 2e-3 if precision == "float32" else 5e-2
    torch.testing.assert_close(cuda.model.weights.cpu(), cpu.model.weights, rtol=0, atol=tolerance)
    assert (cuda.model.largest_square >= cuda.model.gradient_square).all()
    copy = cuda.model.low_precision_copy
    if copy is not None:
        assert torch.equal(copy, cuda.model.weights.to(copy.dtype))
