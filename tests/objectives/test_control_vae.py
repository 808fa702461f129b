# SPDX-License-Identifier: Apache-2.0
"""The controller against one in plain Python, step by step, and in training: the KL goes where it
was told to.
"""

from __future__ import annotations

import math

import pytest
import torch

import unbraid as ub
from unbraid.core.errors import InputError
from unbraid.objectives.control_vae import ControlVAE
from unbraid.objectives.hyper import stack, structure
from unbraid.objectives.objective import Setting, total_loss
from unbraid.objectives.priors.isotropic import STANDARD
from unbraid.objectives.schedule import linear

SETTING = Setting(latents=4, sample_shape=(1, 16, 16))


class Controller:
    """Algorithm 1 of Shao et al. 2020 with one number for everything; `recovering` lets the
    integral come back from a limit.
    """

    def __init__(self, capacity, k_p=0.01, k_i=0.001, least=1.0, most=100.0, recovering=True):
        self.capacity, self.k_p, self.k_i, self.least, self.most, self.recovering = (
            capacity,
            k_p,
            k_i,
            least,
            most,
            recovering,
        )
        self.integral, self.last = 0.0, least

    def beta(self, kl: float) -> float:
        error = self.capacity - kl
        stopped = self.last < self.least or self.last > self.most
        if self.recovering:
            stopped = (self.last < self.least and error > 0) or (
                self.last > self.most and error < 0
            )
        if not stopped:
            self.integral -= self.k_i * error
        self.last = self.k_p / (1.0 + math.exp(error)) + self.integral + self.least
        return min(max(self.last, self.least), self.most)


def forward_with_kl(make_forward, kl, memory):
    """One latent with variance 1 and the mean that has this KL, `(members, batch)`."""
    mean = torch.sqrt(2.0 * kl).unsqueeze(2)
    members, batch = kl.shape
    reconstruction = torch.zeros(members, batch, dtype=torch.float64)
    return make_forward(
        members=members,
        batch=batch,
        latents=1,
        mean=mean,
        logvar=torch.zeros_like(mean),
        reconstruction=reconstruction,
        memory=memory,
    )


def betas(make_forward, objective, kls):
    """β per step `(steps, members)` for KLs `(steps, members)`; memory is carried along."""
    memory = {
        name: torch.full((kls.shape[1],), start, dtype=torch.float64)
        for name, start in objective.memory.items()
    }
    found = []
    for kl in kls:
        # Images around the batch's mean: the controller sees the mean alone.
        spread = torch.tensor([0.5, 1.0, 1.5], dtype=torch.float64)
        forward = forward_with_kl(make_forward, kl.unsqueeze(1) * spread, memory)
        terms = objective.terms(forward)
        found.append(terms["beta"].value)
        memory = {name: forward.remembered[name] for name in objective.memory}
    return torch.stack(found)


SETTINGS = [
    {"capacity": 6.0},
    {
        "capacity": 3.0,
        "proportional_gain": 0.5,
        "integral_gain": 0.2,
        "beta_min": 0.0,
        "beta_max": 1.5,
    },
    {
        "capacity": 12.0,
        "proportional_gain": 0.05,
        "integral_gain": 0.05,
        "beta_min": 0.5,
        "beta_max": 3.0,
    },
]
NAMES = {
    "capacity": "capacity",
    "proportional_gain": "k_p",
    "integral_gain": "k_i",
    "beta_min": "least",
    "beta_max": "most",
}


@pytest.mark.parametrize("anti_windup", ["recovering", "published"])
def test_fifty_steps_against_plain_python(make_forward, anti_windup):
    generator = torch.Generator().manual_seed(3)
    # Up to where β meets its upper limit, and down again for long enough to meet the lower one.
    wave = torch.cat(
        [torch.linspace(4.0, 30.0, 15), torch.linspace(30.0, 0.1, 15), torch.full((20,), 0.1)]
    ).double()
    kls = (
        (wave + torch.rand(50, generator=generator, dtype=torch.float64)).unsqueeze(1).expand(50, 3)
    )
    together = betas(
        make_forward,
        stack(
            [ControlVAE(**one, anti_windup=anti_windup) for one in SETTINGS], dtype=torch.float64
        ),
        kls,
    )
    for member, given in enumerate(SETTINGS):
        plain = Controller(
            **{NAMES[name]: value for name, value in given.items()},
            recovering=anti_windup == "recovering",
        )
        expected = torch.tensor(
            [plain.beta(kl) for kl in kls[:, member].tolist()], dtype=torch.float64
        )
        assert torch.allclose(together[:, member], expected, rtol=1e-12, atol=1e-14)
        alone = betas(
            make_forward, ControlVAE(**given, anti_windup=anti_windup), kls[:, member : member + 1]
        )
        assert torch.allclose(alone[:, 0], expected, rtol=1e-12, atol=1e-14)
    assert together[:, 1].max() == 1.5
    assert together[:, 1].min() == (0.0 if anti_windup == "recovering" else together[0, 1])


def test_the_first_step_by_hand(make_forward):
    # KL = C: e = 0, so β = 0.01 / 2 + 0 + 1.
    kl = torch.tensor([[6.0]], dtype=torch.float64)
    memory = {name: torch.zeros(1, dtype=torch.float64) for name in ControlVAE.memory}
    forward = forward_with_kl(make_forward, kl, memory)
    terms = ControlVAE(capacity=6).terms(forward)
    assert terms["beta"].value.item() == pytest.approx(1.005, rel=1e-12)
    assert total_loss(terms).item() == pytest.approx(6.0 * 1.005, rel=1e-12)
    assert forward.remembered["integral"].item() == pytest.approx(0.0, abs=1e-15)
    assert forward.remembered["above_least"].item() == pytest.approx(0.005, rel=1e-12)


def test_the_published_rule_locks_after_a_large_error_and_ours_does_not(make_forward):
    # 18 nats short once (more than K_p / K_i = 10), then far above the set point for good.
    kls = torch.tensor([0.0, *[40.0] * 49], dtype=torch.float64).unsqueeze(1)
    published = betas(make_forward, ControlVAE(capacity=18, anti_windup="published"), kls)
    recovering = betas(make_forward, ControlVAE(capacity=18), kls)
    assert torch.equal(published, torch.ones_like(published))
    # The integral gains 0.001 · 22 a step.
    assert recovering[-1].item() == pytest.approx(1.0 + 0.01 - 0.018 + 49 * 0.022, rel=1e-6)


def test_rules_agree_while_beta_is_within_its_range(make_forward):
    kls = torch.linspace(6.1, 20.0, 40, dtype=torch.float64).unsqueeze(1)
    published, recovering = (
        betas(make_forward, ControlVAE(capacity=6, anti_windup=rule), kls)
        for rule in ("published", "recovering")
    )
    assert torch.equal(published, recovering)


def test_no_gradient_goes_through_beta(make_forward):
    memory = {
        name: torch.tensor([0.3, 0.6, 0.9], dtype=torch.float64) for name in ControlVAE.memory
    }
    forward = make_forward(memory=memory)
    forward.mean.requires_grad_()
    terms = ControlVAE(capacity=2).terms(forward)
    assert not terms["beta"].value.requires_grad
    (gradient,) = torch.autograd.grad(total_loss(terms).sum(), forward.mean)
    beta = terms["beta"].value.view(3, 1, 1)
    assert torch.allclose(gradient, beta * forward.mean / forward.mean.shape[1], rtol=1e-12)


def test_extreme_errors_stay_finite(make_forward):
    memory = {name: torch.zeros(2) for name in ControlVAE.memory}
    kl = torch.tensor([[1e6], [1e-6]])
    forward = forward_with_kl(make_forward, kl, memory)
    terms = ControlVAE(capacity=1e5).terms(forward)
    assert torch.isfinite(terms["beta"].value).all()
    assert terms["beta"].value.tolist() == [100.0, 1.0]


def test_capacity_may_be_on_a_schedule(make_forward):
    stacked = stack(
        [ControlVAE(capacity=linear(0.5, 18, 100)), ControlVAE(capacity=6)], dtype=torch.float64
    )
    now = stacked.at(torch.tensor(50))
    assert now.capacity.tolist() == [9.25, 6.0]
    kls = torch.tensor([[8.0, 8.0]], dtype=torch.float64)
    found = betas(make_forward, now, kls)
    alone = betas(make_forward, ControlVAE(capacity=9.25), kls[:, :1])
    assert found[0, 0].item() == pytest.approx(alone.item(), rel=1e-12)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"capacity": -1}, "capacity must be at least 0; got -1."),
        ({"proportional_gain": -0.1}, "proportional_gain must be at least 0; got -0.1."),
        ({"integral_gain": -0.1}, "integral_gain must be at least 0; got -0.1."),
        ({"beta_min": -1}, "beta_min must be at least 0; got -1."),
        ({"beta_max": -1}, "beta_max must be at least 0; got -1."),
        ({"anti_windup": "none"}, "anti_windup 'none' is unknown. Known: published, recovering."),
    ],
)
def test_nonsense_is_refused_in_full(given, told):
    with pytest.raises(InputError) as caught:
        ControlVAE(**given)
    assert str(caught.value) == f"control_vae: {told}"


def test_an_empty_range_of_beta_is_refused():
    assert ControlVAE(beta_min=2, beta_max=2).problems(SETTING, STANDARD) == []
    for objective, shown in (
        (ControlVAE(beta_min=3, beta_max=2), "beta_min 3.0 and beta_max 2.0"),
        (
            ControlVAE(beta_min=linear(0, 5, 10), beta_max=4),
            "beta_min linear(0, 5, 10) and beta_max 4.0",
        ),
    ):
        (problem,) = objective.problems(SETTING, STANDARD)
        assert (problem.name, problem.rule) == (
            "control_vae: beta_max",
            "must be at least beta_min",
        )
        assert problem.value == shown


def test_rules_do_not_share_a_chunk():
    assert structure(ControlVAE()) != structure(ControlVAE(anti_windup="published"))
    assert structure(ControlVAE()) == structure(ControlVAE(capacity=3, beta_min=0))


@pytest.mark.slow
def test_training_brings_the_kl_to_the_set_point(tmp_path):
    # A larger integral gain than the paper's, for a thousand steps instead of a million; the VAE's
    # own KL is below 9 nats.
    objectives = [
        ControlVAE(capacity=3.0, integral_gain=0.02),
        ControlVAE(capacity=9.0, integral_gain=0.02, beta_min=0.0),
    ]
    run = ub.train(
        "sprites",
        objectives,
        data_options={"image_size": 16},
        network="mlp",
        network_options={"hidden": 32, "encoder_layers": 1, "decoder_layers": 1},
        steps=1200,
        batch_size=64,
        latents=4,
        learning_rate=2e-3,
        precision="float32",
        device="cpu",
        out=tmp_path / "run",
        quiet=True,
    )
    late = run.history[run.history["step"] > 900].groupby("member").mean()
    for member, capacity in enumerate((3.0, 9.0)):
        assert late.loc[member, "kl"] == pytest.approx(capacity, rel=0.05)
    assert late.loc[1, "beta"] < 1.0 < late.loc[0, "beta"]
