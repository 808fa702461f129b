# SPDX-License-Identifier: Apache-2.0
"""Latent quantisation: nearest values by hand and by loops, where gradients go, and what trained
codes look like.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unbraid as ub
from unbraid import metrics
from unbraid.core.errors import InputError
from unbraid.objectives.hyper import stack, structure
from unbraid.objectives.objective import PRIOR_KINDS, Setting, total_loss
from unbraid.objectives.priors.isotropic import Isotropic
from unbraid.objectives.qlae import CODEBOOK, QLAE, codebook_values, nearest_values
from unbraid.population.resolve import in_sums

SETTING = Setting(latents=4, sample_shape=(1, 16, 16))


def normal(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_codebooks_start_evenly_spaced():
    (weight,) = QLAE(values=5).weights(SETTING)
    assert (weight.name, weight.shape, weight.start) == (CODEBOOK, (4, 5), 0.0)
    start = codebook_values(torch.zeros(2, *weight.shape, dtype=torch.float64))
    assert start[1, 3].tolist() == [-0.5, -0.25, 0.0, 0.25, 0.5]


def test_nearest_values_by_hand():
    codebooks = torch.tensor([[[-0.5, 0.0, 0.5], [-1.0, 0.1, 3.0]]])
    z = torch.tensor([[[0.2, 0.2], [0.3, -7.0], [-0.3, 1.5], [9.0, 1.6]]])
    assert nearest_values(z, codebooks)[0].tolist() == [
        [0.0, pytest.approx(0.1)],
        [0.5, -1.0],
        [-0.5, pytest.approx(0.1)],
        [0.5, 3.0],
    ]


def test_nearest_values_by_loops():
    codebooks, z = normal(3, 4, 6), normal(3, 8, 4, seed=2)
    found = nearest_values(z, codebooks)
    for m in range(3):
        for n in range(8):
            for j in range(4):
                ranked = sorted(
                    (abs(z[m, n, j].item() - value), value) for value in codebooks[m, j].tolist()
                )
                assert found[m, n, j].item() == ranked[0][1]


@settings(max_examples=30)
@given(values=st.integers(2, 12), spread=st.floats(0.01, 100))
def test_codes_are_values_of_the_codebook_and_quantising_twice_changes_nothing(values, spread):
    weights = {CODEBOOK: 0.1 * normal(2, 3, values)}
    mean, objective = spread * normal(2, 16, 3, seed=5), QLAE(values=values)
    codes, _ = objective.representation(mean, torch.zeros_like(mean), weights)
    books = codebook_values(weights[CODEBOOK])
    assert (codes.unsqueeze(3) == books.unsqueeze(1)).any(dim=3).all()
    again, _ = objective.representation(codes, torch.zeros_like(mean), weights)
    assert torch.equal(again, codes)
    # No other value is nearer.
    assert (
        (mean - codes).abs().unsqueeze(3) <= (mean.unsqueeze(3) - books.unsqueeze(1)).abs()
    ).all()


def test_gradients_pass_straight_through_to_the_encoder_and_not_to_the_codebooks():
    mean, weights = (
        normal(2, 5, 3).requires_grad_(),
        {CODEBOOK: (0.1 * normal(2, 3, 4)).requires_grad_()},
    )
    logvar, noise, slope = normal(2, 5, 3, seed=2), normal(2, 5, 3, seed=3), normal(2, 5, 3, seed=4)
    z = QLAE(values=4).latents(mean, logvar, noise, weights)
    codes, told = QLAE(values=4).representation(mean.detach(), logvar, weights)
    assert torch.allclose(z, codes, rtol=1e-15)
    assert told is logvar
    to_mean, to_codebook = torch.autograd.grad(
        (z * slope).sum(), [mean, weights[CODEBOOK]], allow_unused=True
    )
    assert torch.equal(to_mean, slope)
    assert to_codebook is None


def test_terms_and_their_gradients_by_hand(make_forward):
    # Two images, one latent, values −1/2 and 1/2: 0.1 and 0.7 both round to 1/2.
    mean = torch.tensor([[[0.1], [0.7]]], dtype=torch.float64, requires_grad=True)
    deviations = torch.zeros(1, 1, 2, dtype=torch.float64, requires_grad=True)
    parts = {
        "mean": mean,
        "reconstruction": torch.tensor([[2.0, 4.0]], dtype=torch.float64),
        "weights": {CODEBOOK: deviations},
    }
    terms = QLAE(values=2, quantisation=3, commitment=5).terms(
        make_forward(members=1, batch=2, latents=1, **parts)
    )
    assert terms["quantisation"].value[0].tolist() == pytest.approx([0.16, 0.04])
    assert terms["commitment"].value[0].tolist() == pytest.approx([0.16, 0.04])
    assert total_loss(terms).item() == pytest.approx(3.0 + (3 + 5) * 0.1)
    to_mean, to_codebook = torch.autograd.grad(total_loss(terms).sum(), [mean, deviations])
    # 5 · 2 (z − v) / 2 for the encoder; 3 · Σ 2 (v − z) / 2 for the value that both images use,
    # nothing for the other.
    assert to_mean.flatten().tolist() == pytest.approx([-2.0, 1.0])
    assert to_codebook.flatten().tolist() == pytest.approx([0.0, 3 * (0.4 - 0.2)])


def test_members_with_numbers_of_their_own(make_forward):
    forward = make_forward(weights={CODEBOOK: 0.1 * normal(3, 4, 6)})
    objectives = [
        QLAE(values=6, quantisation=q, commitment=c) for q, c in ((1, 1), (0, 10), (5, 0.1))
    ]
    together = total_loss(stack(objectives, dtype=torch.float64).terms(forward))
    alone = torch.stack([total_loss(one.terms(forward))[k] for k, one in enumerate(objectives)])
    assert torch.allclose(together, alone, rtol=1e-14)
    assert structure(QLAE(values=6)) != structure(QLAE(values=7))
    assert structure(QLAE(weight_decay=0)) == structure(QLAE(weight_decay=1, commitment=1))


def test_the_authors_weights_are_those_of_means():
    converted, given = in_sums(QLAE(quantisation=0.01, commitment=0.02), "mean", (1, 64, 64), 10)
    assert (converted.quantisation, converted.commitment) == (
        pytest.approx(4.096),
        pytest.approx(8.192),
    )
    assert converted.weight_decay == 0.1
    assert given == {"quantisation": 0.01, "commitment": 0.02}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"values": 1}, "values must be at least 2; got 1."),
        ({"values": 2.5}, "values must be a whole number; got 2.5."),
        (
            {"values": "linear(2, 4, 10)"},
            "values cannot be on a schedule; got linear(2, 4, 10). Give a whole number.",
        ),
        ({"quantisation": -1}, "quantisation must be at least 0; got -1."),
        ({"commitment": -1}, "commitment must be at least 0; got -1."),
        ({"weight_decay": -0.1}, "weight_decay must be at least 0; got -0.1."),
    ],
)
def test_nonsense_is_refused_in_full(given, told):
    with pytest.raises(InputError) as caught:
        QLAE(**given)
    assert str(caught.value) == f"qlae: {told}"


def test_other_priors_are_refused():
    class Other(Isotropic):
        standard = False
        key = "other"

    assert QLAE().problems(SETTING, Isotropic()) == []
    (problem,) = QLAE().problems(SETTING, Other())
    assert (problem.name, problem.rule) == ("qlae: prior", PRIOR_KINDS["none"])
    assert (problem.value, problem.remedy) == ("other", "Use the prior isotropic.")


SMALL = {
    "data_options": {"image_size": 16},
    "network": "mlp",
    "network_options": {"hidden": 32, "encoder_layers": 1, "decoder_layers": 1},
    "batch_size": 64,
    "latents": 4,
    "precision": "float32",
    "device": "cpu",
    "quiet": True,
}


def test_weight_decay_takes_its_share_of_the_network_and_leaves_the_codebooks(tmp_path):
    run = ub.train(
        "sprites",
        QLAE(weight_decay=[0.0, 50.0, 100.0]),
        steps=1,
        learning_rate=1e-3,
        out=tmp_path / "run",
        **SMALL,
    )
    free, half, full = (run.folder.member_weights(member) for member in range(3))
    assert torch.equal(free[CODEBOOK], full[CODEBOOK])
    for name in ("encoder.dense1.weight", "decoder.out.weight"):
        start = (free[name] - full[name]) / (1e-3 * 100.0)
        # Adam's first update moves a weight by the learning rate at most.
        assert (start - free[name]).abs().max() < 1.01e-3
        assert torch.allclose(half[name], (free[name] + full[name]) / 2, atol=1e-7)


def test_trained_codes_are_few_values_and_metrics_take_them(tmp_path):
    run = ub.train(
        "sprites",
        QLAE(values=5, weight_decay=0.1),
        steps=600,
        learning_rate=3e-3,
        out=tmp_path / "run",
        **SMALL,
    )
    history = run.history
    assert history["reconstruction"].iloc[-5:].mean() < 0.5 * history["reconstruction"].iloc[0]
    images = run.dataset.images(np.arange(len(run.dataset)))
    codes = run.model(0).encode(images)
    book = codebook_values(run.folder.member_weights(0)[CODEBOOK])[0].numpy()
    assert not np.allclose(book, np.linspace(-0.5, 0.5, 5), atol=1e-3)  # it has learned
    for latent in range(4):
        used = np.unique(codes[:, latent])
        assert 1 <= len(used) <= 5
        assert np.isin(used, book[latent]).all()
    assert len(np.unique(codes, axis=0)) > 10
    scores = run.score(["mig", "infomec", "modularity"], quiet=True)
    measured = scores[["mig", "infomec", "modularity"]].to_numpy(float)
    assert ((measured >= 0) & (measured <= 1)).all()
    # What is scored are the quantised codes.
    assert metrics.mig(
        codes, run.dataset.factors(np.arange(len(run.dataset)))
    ).score == pytest.approx(scores["mig"].iloc[0], abs=1e-6)
