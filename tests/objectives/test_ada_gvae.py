# SPDX-License-Identifier: Apache-2.0
"""Ada-GVAE guesses what changed and averages the rest; squares that do not overlap defeat it."""

from __future__ import annotations

import importlib.util
import json
import math
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest
import torch

from unbraid.core.errors import InputError
from unbraid.objectives.ada_gvae import AdaGVAE
from unbraid.objectives.hyper import stack
from unbraid.objectives.objective import Forward, Setting, total_loss
from unbraid.objectives.priors.isotropic import STANDARD
from unbraid.objectives.schedule import linear
from unbraid.objectives.supervision.pairs import Pairs
from unbraid.population.plan import make_plan
from unbraid.population.training_step import TrainingStep

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden"
LOG_3 = math.log(3.0)


def rows(*values):
    """Posteriors of one pair of one member, first image and second: `(1, 2, latents)`."""
    return torch.tensor([values], dtype=torch.float64)


def by_pass(objective, mean, logvar, reconstruction=0.0):
    """Loss of each member for posteriors as the encoder gives them."""
    mean, logvar = objective.supervision.posterior(mean, logvar, None)
    lost = torch.full(mean.shape[:2], reconstruction, dtype=mean.dtype)
    return total_loss(objective.terms(Forward(lost, mean, logvar, z=mean, step=torch.tensor(0.0))))


def reference(name):
    values = json.loads((GOLDEN / "pair_averaging.json").read_text())["values"][name]
    with np.load(GOLDEN / "pair_averaging_inputs.npz") as arrays:
        mean = torch.from_numpy(np.concatenate([arrays["mu"], arrays["mu2"]])).unsqueeze(0)
        logvar = torch.from_numpy(np.concatenate([arrays["logvar"], arrays["logvar2"]])).unsqueeze(
            0
        )
        return values, mean, logvar, torch.from_numpy(arrays["changed_index"][:, 0]).unsqueeze(0)


def test_golden_posteriors_and_loss():
    values, mean, logvar, _ = reference("gvae_argmax")
    shared = AdaGVAE().supervision.posterior(mean, logvar, None)
    for ours, name in zip(shared, ("mean", "logvar"), strict=True):
        expected = np.concatenate([values[f"{name}1"], values[f"{name}2"]])
        assert ours[0].numpy() == pytest.approx(expected, rel=1e-4, abs=1e-6)
    assert by_pass(AdaGVAE(), mean, logvar).item() == pytest.approx(values["kl_loss"], rel=1e-4)
    assert by_pass(AdaGVAE(beta=16), mean, logvar, 7.0).item() == pytest.approx(
        7.0 + 16 * values["kl_loss"], rel=1e-4
    )


def test_two_latents_by_hand():
    # The first latent differs by 2 nats, the second by (3 + 1/4 − 1 − log 3) / 2.
    mean, logvar = rows([2.0, 0.5], [0.0, 1.0]), rows([0.0, LOG_3], [0.0, 0.0])
    shared_mean, shared_logvar = AdaGVAE().supervision.posterior(mean, logvar, None)
    assert shared_mean.tolist() == [[[2.0, 0.75], [0.0, 0.75]]]
    assert shared_logvar.exp()[0].numpy() == pytest.approx(np.array([[1.0, 2.0], [1.0, 2.0]]))
    second = 0.5 * (0.75**2 + 2.0 - math.log(2.0) - 1.0)
    assert by_pass(AdaGVAE(beta=3), mean, logvar, 5.0).item() == pytest.approx(
        5.0 + 3 * (0.5 * (2.0 + 0.0) + second)
    )


def test_one_way_and_symmetric_divergence_decide_differently():
    # From the first image: 2 against (e⁻⁴ + 3) / 2. From the second: 2 against (e⁴ − 5) / 2.
    mean, logvar = rows([2.0, 0.0], [0.0, 0.0]), rows([0.0, -4.0], [0.0, 0.0])
    assert AdaGVAE(divergence="kl").supervision.own(mean, logvar, None).tolist() == [
        [[True, False]]
    ]
    assert AdaGVAE(divergence="symmetric_kl").supervision.own(mean, logvar, None).tolist() == [
        [[False, True]]
    ]


def test_symmetric_divergence_does_not_care_which_image_is_first(make_forward):
    forward = make_forward(members=2, batch=40, latents=5)
    swapped = [part.roll(20, dims=1) for part in (forward.mean, forward.logvar)]
    symmetric, one_way = Pairs(divergence="symmetric_kl"), Pairs()
    for ours, theirs in zip(
        symmetric.posterior(forward.mean, forward.logvar, None),
        symmetric.posterior(*swapped, None),
        strict=True,
    ):
        assert ours.numpy() == pytest.approx(theirs.roll(20, dims=1).numpy(), rel=1e-13)
    assert not torch.equal(
        one_way.own(forward.mean, forward.logvar, None), one_way.own(*swapped, None)
    )


@pytest.mark.parametrize("divergence", ["kl", "symmetric_kl"])
def test_threshold_from_nothing_shared_to_all_but_one(make_forward, divergence):
    forward = make_forward(latents=6)
    nothing = Pairs(threshold=0, divergence=divergence)
    for ours, own in zip(
        nothing.posterior(forward.mean, forward.logvar, None),
        (forward.mean, forward.logvar),
        strict=True,
    ):
        assert torch.equal(ours, own)
    kept = AdaGVAE(threshold=1, divergence=divergence).supervision.own(
        forward.mean, forward.logvar, None
    )
    assert (kept.sum(dim=-1) == 1).all()
    counts = [
        AdaGVAE(threshold=share, divergence=divergence)
        .supervision.own(forward.mean, forward.logvar, None)
        .sum()
        .item()
        for share in (0, 0.1, 0.3, 0.5, 1)
    ]
    assert counts == sorted(counts, reverse=True)
    assert len(set(counts)) == 5


def test_each_member_has_its_own_threshold_and_beta(make_forward):
    forward = make_forward(members=3)
    own = [
        AdaGVAE(beta=1, threshold=0),
        AdaGVAE(beta=2, threshold=0.3),
        AdaGVAE(beta=4, threshold=1),
    ]
    pairs = stack([one.supervision for one in own], dtype=torch.float64)
    mean, logvar = pairs.posterior(forward.mean, forward.logvar, None)
    shared = Forward(torch.full((3, 8), 9.0), mean, logvar, z=mean, step=torch.tensor(0.0))
    together = total_loss(stack(own, dtype=torch.float64).terms(shared))
    for member, objective in enumerate(own):
        only = slice(member, member + 1)
        alone = by_pass(objective, forward.mean[only], forward.logvar[only], 9.0)
        assert together[member].item() == pytest.approx(alone.item(), rel=1e-12)
    kept = pairs.own(forward.mean, forward.logvar, None).sum(dim=(1, 2)).tolist()
    assert kept[0] == 16
    assert kept[0] > kept[1] > kept[2] == 4


def test_threshold_on_a_schedule(make_forward):
    forward = make_forward(members=2)
    own = [AdaGVAE(threshold=linear(0, 1, 100)), AdaGVAE(threshold=0)]
    stacked = stack([one.supervision for one in own], dtype=torch.float64)
    for step, kept in ((0.0, [16, 16]), (100.0, [4, 16])):
        now = stacked.at(torch.tensor(step, dtype=torch.float64))
        assert now.own(forward.mean, forward.logvar, None).sum(dim=(1, 2)).tolist() == kept


def test_gradient_flows_through_averages_and_not_through_the_decision(make_forward):
    forward = make_forward(members=1)
    mean, logvar = forward.mean.requires_grad_(), forward.logvar.requires_grad_()
    own = AdaGVAE().supervision.own(mean, logvar, None)
    assert not own.requires_grad
    shared, _ = AdaGVAE().supervision.posterior(mean, logvar, None)
    (gradient,) = torch.autograd.grad(shared[:, 4:].sum(), mean)  # of the second images
    assert gradient[:, :4][~own].tolist() == pytest.approx([0.5] * int((~own).sum()))
    assert (gradient[:, :4][own] == 0).all()
    assert (gradient[:, 4:][own] == 1).all()
    gradients = torch.autograd.grad(by_pass(AdaGVAE(), mean, logvar).sum(), [mean, logvar])
    assert all(torch.isfinite(one).all() and (one != 0).all() for one in gradients)


def test_one_member_does_not_see_another(make_forward):
    forward = make_forward(members=3)
    torn = forward.mean.clone()
    torn[1] = torch.nan
    whole, _ = AdaGVAE().supervision.posterior(forward.mean, forward.logvar, None)
    after, _ = AdaGVAE().supervision.posterior(torn, forward.logvar, None)
    assert torch.equal(after[[0, 2]], whole[[0, 2]])


def test_pairs_are_asked_for_by_the_hyper_parameters():
    assert AdaGVAE().supervision == Pairs()
    assert AdaGVAE(pair_rule="michlo", changed_factors=2).supervision == Pairs(
        rule="michlo", changed_factors=2
    )
    assert [item.name for item in fields(AdaGVAE)] == [
        "beta",
        "pair_rule",
        "changed_factors",
        "divergence",
        "threshold",
    ]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"beta": -1}, "ada_gvae: beta must be at least 0; got -1."),
        ({"beta": float("nan")}, "ada_gvae: beta must be a finite number; got nan."),
        ({"threshold": -0.1}, "ada_gvae: threshold must be at least 0; got -0.1."),
        ({"threshold": 1.5}, "ada_gvae: threshold must be at most 1; got 1.5."),
        ({"threshold": "half"}, "ada_gvae: threshold must be a number; got 'half'."),
        ({"changed_factors": -1}, "ada_gvae: changed_factors must be at least 0; got -1."),
        ({"changed_factors": 1.5}, "ada_gvae: changed_factors must be a whole number; got 1.5."),
        (
            {"divergence": "jensen"},
            "ada_gvae: divergence 'jensen' is unknown. Known: kl, symmetric_kl.",
        ),
        (
            {"divergence": "symetric_kl"},
            (
                "ada_gvae: divergence 'symetric_kl' is unknown; did you mean 'symmetric_kl'? Known:"
                " kl, symmetric_kl."
            ),
        ),
        ({"divergence": 2}, "ada_gvae: divergence must be one of kl, symmetric_kl; got 2."),
        (
            {"pair_rule": "locatelo"},
            (
                "ada_gvae: pair_rule 'locatelo' is unknown; did you mean 'locatello'? Known:"
                " locatello, michlo."
            ),
        ),
        (
            {"threshold": 2, "beta": "x", "divergence": "l2"},
            (
                "ada_gvae: beta must be a number; got 'x'.\nada_gvae: divergence 'l2' is unknown;"
                " did you mean 'kl'? Known: kl, symmetric_kl.\nada_gvae: threshold must be at most"
                " 1; got 2."
            ),
        ),
    ],
)
def test_nonsense_is_refused_in_full(given, told):
    with pytest.raises(InputError) as error:
        AdaGVAE(**given)
    assert str(error.value) == told


def test_prior_must_be_factorised():
    class Tied(type(STANDARD)):
        factorised = False

    setting = Setting(latents=4, sample_shape=(1, 8, 8), factor_sizes=(3, 4), dataset_size=12)
    assert AdaGVAE().problems(setting, STANDARD) == []
    assert AdaGVAE().refuses(Tied()) == "must have independent latents"


def test_a_training_step_averages_pairs_of_images():
    plan, dataset = make_plan(
        "sprites",
        AdaGVAE(threshold=[0.0, 0.5]),
        data_options={"x": 6, "y": 4, "scale": 2, "image_size": 28},
        network="mlp",
        network_options={"hidden": 8},
        latents=5,
        batch_size=8,
        steps=4,
    )
    program = TrainingStep(plan, plan.members, dataset, torch.device("cpu"))
    state = program.start()
    leaves = program._leaves(program.layout, state.model)
    draws = program.draw(torch.arange(4))
    forward = program._forward(leaves, state, draws, 1)[0].forward
    encoded, _ = program.network.encode(leaves, program.sampler(draws.indices[:, 1]))
    assert torch.equal(forward.mean[0], encoded[0]), "threshold 0 averages nothing"
    first, second = forward.mean[1].chunk(2)
    own_first, own_second = encoded[1].chunk(2)
    averaged = first == second
    assert 0 < averaged.sum() < averaged.numel()
    assert torch.equal(first[averaged], (0.5 * (own_first + own_second))[averaged])
    assert torch.equal(second[~averaged], own_second[~averaged])
    before = state.model.weights.clone()
    for _ in range(4):
        program.step(state)
    assert (state.diverged_at < 0).all()
    assert (state.model.weights != before).any(dim=1).all()


@pytest.fixture(scope="module")
def miniature():
    spec = importlib.util.spec_from_file_location(
        "pairs_miniature", ROOT / "benchmarks" / "pairs_miniature.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_miniature_images_are_two_squares_in_their_own_channels(miniature):
    data = miniature.TwoSquares(spacing=3)
    images = data.images(np.arange(len(data)))
    assert images.shape == (4096, 24, 24, 2)
    assert (images.astype(int).sum(axis=(1, 2)) == 9 * 255).all()
    index = data.grid.to_index([[7, 0, 2, 5]])
    across, down = np.nonzero(data.images(index)[0, :, :, 0].T)
    assert (across.min(), across.max(), down.min(), down.max()) == (21, 23, 0, 2)
    across, down = np.nonzero(data.images(index)[0, :, :, 1].T)
    assert (across.min(), across.max(), down.min(), down.max()) == (6, 8, 15, 17)
    # One step of one square moves min(3, spacing) columns of 3 pixels out and as many in.
    for spacing in (1, 2, 3):
        data = miniature.TwoSquares(spacing)
        near, far = data.images(data.grid.to_index([[3, 3, 3, 3], [4, 3, 3, 3]])).astype(int)
        assert ((near - far) != 0).sum() == 2 * 3 * spacing


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_miniature_mig_falls_with_spacing_in_every_seed(miniature, tmp_path):
    scores = np.array(
        [
            miniature.mig_of_seeds(spacing, 3, 3000, 0.01, tmp_path / str(spacing))
            for spacing in (1, 2, 3)
        ]
    )
    assert scores.shape == (3, 3)
    means = scores.mean(axis=1)
    assert means[0] > means[1] > means[2], scores
    assert (scores[0] > scores[1]).all(), scores
    assert (scores[1] > scores[2]).all(), scores
    assert means[2] < 0.1, scores
