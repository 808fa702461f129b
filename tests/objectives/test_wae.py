# SPDX-License-Identifier: Apache-2.0
"""The Wasserstein autoencoder's penalty by loops over the paper's formula, by hand, and in
training.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unbraid as ub
from unbraid.core.errors import InputError
from unbraid.objectives.hyper import stack
from unbraid.objectives.objective import total_loss
from unbraid.objectives.wae import WAE


def points(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def penalty_by_loops(prior: np.ndarray, codes: np.ndarray, variance: float) -> float:
    """Algorithm 2 of Tolstikhin et al. 2018 with the sum of kernels of the authors' code."""
    count, latents = codes.shape

    def kernel(a: np.ndarray, b: np.ndarray) -> float:
        squared = float(np.sum((a - b) ** 2))
        constants = [2 * latents * variance * scale for scale in (0.1, 0.2, 0.5, 1, 2, 5, 10)]
        return sum(constant / (constant + squared) for constant in constants)

    value = 0.0
    for i in range(count):
        for j in range(count):
            value -= 2 * kernel(prior[i], codes[j]) / count**2
            if i != j:
                value += (kernel(prior[i], prior[j]) + kernel(codes[i], codes[j])) / (
                    count * (count - 1)
                )
    return value


@pytest.mark.parametrize("deviation", [1.0, 0.4, 3.0])
def test_penalty_by_loops(make_forward, deviation):
    forward = make_forward(prior_points=deviation * points(3, 8, 4))
    found = WAE(prior_deviation=deviation).terms(forward)["mmd"].value
    for member in range(3):
        expected = penalty_by_loops(
            forward.prior_points[member].numpy(), forward.z[member].numpy(), deviation**2
        )
        assert found[member].item() == pytest.approx(expected, rel=1e-10)


def test_two_points_by_hand(make_forward):
    # Codes at 0 and 0, prior points at ±1, one latent: C is 2 s, squared distances are 0, 4 and 1.
    z = torch.zeros(1, 2, 1, dtype=torch.float64)
    prior = torch.tensor([[[1.0], [-1.0]]], dtype=torch.float64)
    parts = {
        "z": z,
        "mean": z,
        "prior_points": prior,
        "reconstruction": torch.tensor([[3.0, 5.0]], dtype=torch.float64),
    }
    terms = WAE(penalty=10).terms(make_forward(members=1, batch=2, latents=1, **parts))
    constants = [0.2, 0.4, 1.0, 2.0, 4.0, 10.0, 20.0]
    expected = 7 + sum(c / (c + 4) for c in constants) - 2 * sum(c / (c + 1) for c in constants)
    assert terms["mmd"].value.item() == pytest.approx(expected, rel=1e-12)
    assert total_loss(terms).item() == pytest.approx(4.0 + 10 * expected, rel=1e-12)


def test_penalty_is_zero_on_average_where_codes_follow_the_prior(make_forward):
    codes, prior = points(2000, 16, 3, seed=2), points(2000, 16, 3, seed=3)
    found = (
        WAE()
        .terms(make_forward(members=2000, batch=16, latents=3, z=codes, prior_points=prior))["mmd"]
        .value
    )
    assert abs(found.mean().item()) < 4 * found.std().item() / 2000**0.5
    assert (found < 0).any()


def test_a_scale_of_everything_changes_nothing(make_forward):
    forward = make_forward(prior_points=points(3, 8, 4))
    scaled = make_forward(z=5.0 * forward.z, prior_points=5.0 * forward.prior_points)
    plain, wide = (
        WAE().terms(forward)["mmd"].value,
        WAE(prior_deviation=5).terms(scaled)["mmd"].value,
    )
    assert torch.allclose(plain, wide, rtol=1e-12)


def test_codes_have_no_noise_and_the_variance_no_gradient(make_forward):
    objective = WAE()
    mean, logvar, noise = points(3, 8, 4), points(3, 8, 4, seed=2), points(3, 8, 4, seed=3)
    assert torch.equal(objective.latents(mean, logvar, noise, {}), mean)
    forward = make_forward(prior_points=points(3, 8, 4))
    forward.logvar.requires_grad_()
    assert not total_loss(objective.terms(forward)).requires_grad


def test_members_with_numbers_of_their_own(make_forward):
    forward = make_forward(prior_points=points(3, 8, 4))
    objectives = [WAE(penalty=p, prior_deviation=d) for p, d in ((1, 1), (10, 2), (100, 0.5))]
    together = total_loss(stack(objectives, dtype=torch.float64).terms(forward))
    alone = torch.stack([total_loss(one.terms(forward))[k] for k, one in enumerate(objectives)])
    assert torch.allclose(together, alone, rtol=1e-13)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"penalty": -1}, "penalty must be at least 0; got -1."),
        ({"prior_deviation": 0}, "prior_deviation must be above 0; got 0."),
        ({"prior_deviation": -2.0}, "prior_deviation must be above 0; got -2.0."),
    ],
)
def test_nonsense_is_refused_in_full(given, told):
    with pytest.raises(InputError) as caught:
        WAE(**given)
    assert str(caught.value) == f"wae: {told}"


def test_training_gives_codes_the_moments_of_the_prior(tmp_path):
    run = ub.train(
        "sprites",
        WAE(penalty=[0.0, 1000.0]),
        data_options={"image_size": 16},
        network="mlp",
        network_options={"hidden": 32, "encoder_layers": 1, "decoder_layers": 1},
        steps=400,
        batch_size=64,
        latents=3,
        learning_rate=3e-3,
        precision="float32",
        device="cpu",
        out=tmp_path / "run",
        quiet=True,
    )
    last = run.history[run.history["step"] > 300].groupby("member")["mmd"].mean()
    assert last[1] < 0.1 < 0.5 < last[0]
    codes = [
        run.model(member).encode(run.folder.dataset.images(np.arange(len(run.folder.dataset))))
        for member in range(2)
    ]
    free, drawn = (abs(one.std(axis=0) - 1).max() for one in codes)
    assert drawn < 0.25 < free
