# SPDX-License-Identifier: Apache-2.0
"""Importance-weighted log p(x) against linear Gaussian models, where it is known, and on runs of
small networks.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unbraid as ub
from unbraid.analysis.log_likelihood import importance_weights, log_likelihood
from unbraid.core.errors import InputError
from unbraid.networks.mlp import Mlp
from unbraid.objectives.likelihoods import likelihood
from unbraid.objectives.priors.anisotropic import Anisotropic
from unbraid.objectives.priors.isotropic import STANDARD
from unbraid.objectives.priors.mixture import Mixture

SCALE = 0.5
NETWORK = Mlp(encoder_layers=0, decoder_layers=0)
ORTHOGONAL = torch.tensor([[1.0, 0.6], [0.5, -1.2], [0.0, 0.3]], dtype=torch.float64)
"""Columns are orthogonal, so that the true posterior is diagonal: W diag(v) Wᵀ + s² I is the law of
x.
"""
OFFSET = torch.tensor([0.1, -0.2, 0.3], dtype=torch.float64)


def linear_model(loadings, variances=(1.0, 1.0), widen=1.0):
    """Weights of one member: the decoder x = W z + b, and the encoder with the true posterior's
    means and variances (*widen*ed).
    """
    precision = (
        torch.diag(1.0 / torch.tensor(variances, dtype=torch.float64))
        + loadings.T @ loadings / SCALE**2
    )
    covariance = torch.linalg.inv(precision)
    to_mean = loadings @ covariance / SCALE**2
    tensors = {
        "encoder.mean.weight": to_mean,
        "encoder.mean.bias": -OFFSET @ to_mean,
        "encoder.logvar.weight": torch.zeros(3, 2, dtype=torch.float64),
        "encoder.logvar.bias": (widen * covariance.diagonal()).log(),
        "decoder.out.weight": loadings.T.contiguous(),
        "decoder.out.bias": OFFSET,
    }
    return {name: tensor.unsqueeze(0) for name, tensor in tensors.items()}


def known_log_p(x, loadings, variances=(1.0, 1.0)):
    covariance = (
        loadings @ torch.diag(torch.tensor(variances, dtype=torch.float64)) @ loadings.T
        + SCALE**2 * torch.eye(3).double()
    )
    return torch.distributions.MultivariateNormal(OFFSET, covariance).log_prob(x)


def draws(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def weights_of(model, prior, x, samples, rows=10_000):
    density = likelihood(f"gaussian:scale={SCALE}", bounded=False)
    return importance_weights(
        NETWORK,
        model,
        density,
        prior,
        x.unsqueeze(0),
        draws(1, len(x), samples, 2, seed=1),
        rows=rows,
    )[0]


@pytest.mark.parametrize(
    ("prior", "variances"),
    [(STANDARD, (1.0, 1.0)), (Anisotropic(variances=(2.0, 0.5)), (2.0, 0.5))],
)
def test_true_posteriors_give_log_p_with_a_single_sample(prior, variances):
    """p(x|z) p(z) / p(z|x) is p(x) whatever z is."""
    x = draws(20, 3)
    log_w = weights_of(linear_model(ORTHOGONAL, variances), prior, x, 7)
    expected = known_log_p(x, ORTHOGONAL, variances).unsqueeze(1).expand_as(log_w)
    assert torch.allclose(log_w, expected, rtol=1e-11)


def test_other_posteriors_need_samples_and_stay_below_on_average():
    loadings = torch.tensor([[1.0, 0.9], [-0.4, 0.2], [0.2, 0.5]], dtype=torch.float64)
    x = draws(200, 3)
    truth = known_log_p(x, loadings)
    log_w = weights_of(linear_model(loadings, widen=2.0), STANDARD, x, 4000)
    one, few, all_of_them = (
        log_w[:, :samples].logsumexp(dim=1) - np.log(samples) - truth for samples in (1, 10, 4000)
    )
    assert one.mean() < few.mean() - 0.1
    assert few.mean() < all_of_them.mean()
    assert all_of_them.abs().mean() < 0.02


def test_a_mixture_prior_has_the_mixture_of_gaussians_as_its_law():
    prior = Mixture(variance=0.2)
    x = draws(50, 3)
    centres = prior.centres(torch.zeros(1, dtype=torch.float64)) @ ORTHOGONAL.T + OFFSET
    covariance = 0.2 * ORTHOGONAL @ ORTHOGONAL.T + SCALE**2 * torch.eye(3).double()
    clusters = torch.distributions.MultivariateNormal(centres, covariance)
    truth = clusters.log_prob(x.unsqueeze(1)).logsumexp(dim=1) - np.log(4)
    log_w = weights_of(linear_model(ORTHOGONAL, widen=1.5), prior, x, 5000)
    assert (log_w.logsumexp(dim=1) - np.log(5000) - truth).abs().max() < 0.1


@pytest.mark.parametrize("rows", [1, 3, 7, 50, 1000])
def test_how_many_are_decoded_at_once_changes_nothing(rows):
    x = draws(5, 3)
    model = linear_model(ORTHOGONAL, widen=2.0)
    assert torch.allclose(
        weights_of(model, STANDARD, x, 7, rows=rows), weights_of(model, STANDARD, x, 7), rtol=1e-12
    )


OPTIONS = {
    "network": "mlp",
    "latents": 2,
    "batch_size": 32,
    "steps": 60,
    "learning_rate": 3e-3,
    "quiet": True,
    "device": "cpu",
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Five members, a prior each, on the pinwheel."""
    return ub.train(
        "pinwheel", "vae", prior=["isotropic", "anisotropic", "mixture", "sparse", "student_t"],
        likelihood="gaussian:scale=learned", network_options={"hidden": 16},
        out=tmp_path_factory.mktemp("runs") / "priors", **OPTIONS,
    )  # fmt: skip


@pytest.mark.parametrize("member", range(5))
def test_every_prior_is_bounded_below_by_its_elbo(run, member):
    found = log_likelihood(run, member, samples=200, images=100)
    assert found.elbo_per_image < found.nats_per_image
    assert found.per_image.shape == (100,)
    assert found.left_out == ""
    assert found.samples == 200
    assert 1 < found.effective_samples <= 200
    assert found.standard_error == pytest.approx(found.per_image.std(ddof=1) / 10, rel=1e-12)
    # A density of the plane cannot be far above that of the best constant Gaussian after so short a
    # training.
    assert -5 < found.nats_per_image < 0


def test_more_samples_bring_the_bound_up(run):
    one, many = (log_likelihood(run, 0, samples=samples, images=400) for samples in (1, 1000))
    assert one.nats_per_image == pytest.approx(one.elbo_per_image)
    assert one.nats_per_image < many.nats_per_image


def test_a_run_its_folder_and_its_path_give_the_same_numbers(run):
    found = [
        log_likelihood(source, 2, samples=20, images=10)
        for source in (run, run.folder, run.path, str(run.path))
    ]
    for one in found[1:]:
        assert np.array_equal(one.per_image, found[0].per_image)


def test_a_image_has_its_number_whoever_else_is_asked_for(run):
    together = log_likelihood(run, 1, samples=20, images=[5, 7, 300])
    others = log_likelihood(run, 1, samples=20, images=[300, 9])
    assert together.indices.tolist() == [5, 7, 300]
    assert together.per_image[2] == pytest.approx(others.per_image[0], rel=1e-6)


@pytest.mark.parametrize(
    ("spelled", "told"),
    [
        ("bernoulli", ""),
        ("gaussian", "the constant −½ log π of each value, of a Gaussian with variance 1/2"),
        (
            "gaussian+box3:scale=0.5",
            "the overlap term makes the likelihood more than a density of the data",
        ),
        ("laplace:scale=0.1", ""),
    ],
)
def test_what_the_likelihood_lacks_is_said(spelled, told, tmp_path):
    run = ub.train(
        np.random.default_rng(0).integers(0, 2, (12, 8, 8)).astype(bool), "vae",
        likelihood=spelled, out=tmp_path / "run",
        network_options={"hidden": 8}, **(OPTIONS | {"steps": 2}),
    )  # fmt: skip
    assert log_likelihood(run, samples=4, images=4).left_out == told


def test_grey_values_are_no_bernoulli_outcomes_and_standardised_ones_have_another_density(tmp_path):
    grey = np.random.default_rng(0).random((12, 8, 8))
    told = {
        "bernoulli": "a Bernoulli likelihood is no density of grey values, only of black and white",
        "laplace": "the density is that of standardised values",
    }
    for spelled, line in told.items():
        run = ub.train(
            grey, "vae", likelihood=spelled, out=tmp_path / spelled,
            standardise=spelled == "laplace",
            network_options={"hidden": 8}, **(OPTIONS | {"steps": 2}),
        )  # fmt: skip
        assert log_likelihood(run, samples=4, images=4).left_out == line


def test_nonsense_is_refused_by_name(run, tmp_path):
    told = {
        "member must be one of 0..4; got 5.": {"member": 5},
        "samples must be a whole number in 1..100000; got 0.": {"samples": 0},
        "images must be a whole number in 2..1000000000; got 1.": {"images": 1},
        "images must be at least 2; got 1.": {"images": [3]},
        "indices must lie in 0..399; got 400.": {"images": [0, 400]},
    }
    for line, options in told.items():
        with pytest.raises(InputError) as caught:
            log_likelihood(run, **options)
        assert str(caught.value) == line
    with pytest.raises(InputError) as caught:
        log_likelihood(3)
    assert str(caught.value) == "run must be a run or the folder of one; got 3."
    plain = ub.train(
        "pinwheel",
        "ae",
        out=tmp_path / "ae",
        network_options={"hidden": 8},
        **(OPTIONS | {"steps": 2}),
    )
    with pytest.raises(InputError) as caught:
        log_likelihood(plain)
    assert (
        str(caught.value)
        == "member must be one whose objective draws latents from a posterior; got 'ae'. Train a"
        " vae, or another with a posterior."
    )
