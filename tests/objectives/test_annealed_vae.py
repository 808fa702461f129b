# SPDX-License-Identifier: Apache-2.0
"""The capacity grows once or in cycles; the loss is the distance of the batch's KL from it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from unbraid.core.errors import InputError
from unbraid.objectives.annealed_vae import AnnealedVAE, capacity_nats
from unbraid.objectives.hyper import stack, structure
from unbraid.objectives.objective import total_loss
from unbraid.objectives.schedule import cyclic


def test_golden_schedule(golden):
    for step, expected in golden.values["anneal"].items():
        found = capacity_nats(torch.tensor(float(step)), 25.0, 100_000)
        assert found.item() == pytest.approx(expected, rel=golden.relative, abs=0)


def test_distance_is_taken_after_the_batch_mean(make_forward):
    # KLs of 0 and 8 nats around a capacity of 4: their mean is on the spot, each alone is 4 away.
    mean = torch.tensor([[[0.0], [4.0]]])
    parts = {
        "mean": mean,
        "logvar": torch.zeros(1, 2, 1),
        "reconstruction": torch.tensor([[1.0, 2.0]]),
    }
    forward = make_forward(members=1, batch=2, latents=1, step=torch.tensor(10.0), **parts)
    terms = AnnealedVAE(max_capacity=8, gamma=1000, ramp_steps=20).terms(forward)
    assert terms["kl"].value.tolist() == [[0.0, 8.0]]
    assert terms["capacity_gap"].value.tolist() == [0.0]
    assert total_loss(terms).tolist() == [1.5]


@pytest.mark.parametrize(("step", "gap"), [(0, 4.0), (10, 1.0), (20, 2.0), (2000, 2.0)])
def test_loss_by_hand_along_the_ramp(make_forward, step, gap):
    mean = torch.full((1, 3, 2), 2.0)
    parts = {
        "mean": mean,
        "logvar": torch.zeros(1, 3, 2),
        "reconstruction": torch.full((1, 3), 7.0),
    }
    forward = make_forward(members=1, batch=3, latents=2, step=torch.tensor(float(step)), **parts)
    terms = AnnealedVAE(max_capacity=6, gamma=10, ramp_steps=20).terms(forward)
    assert terms["capacity_gap"].value.item() == pytest.approx(gap, rel=1e-6)
    assert total_loss(terms).item() == pytest.approx(7.0 + 10 * gap, rel=1e-6)


def test_gradient_turns_at_the_capacity(make_forward):
    for capacity, sign in ((100.0, -1.0), (0.0, 1.0)):
        forward = make_forward(step=torch.tensor(10.0))
        forward.mean.requires_grad_()
        gap = AnnealedVAE(max_capacity=capacity, ramp_steps=10).terms(forward)["capacity_gap"]
        (gradient,) = torch.autograd.grad(gap.value.sum(), forward.mean)
        assert torch.allclose(gradient, sign * forward.mean / forward.mean.shape[1], rtol=1e-12)


def test_members_ramp_separately(make_forward):
    forward = make_forward(step=torch.tensor(10.0, dtype=torch.float64))
    objectives = [
        AnnealedVAE(max_capacity=c, gamma=g, ramp_steps=s)
        for c, g, s in ((5, 1, 10), (25, 10, 20), (50, 100, 1000))
    ]
    together = total_loss(stack(objectives, dtype=torch.float64).terms(forward))
    alone = torch.stack([total_loss(one.terms(forward))[k] for k, one in enumerate(objectives)])
    assert torch.allclose(together, alone, rtol=1e-14)


def test_cyclic_capacity_by_hand():
    # A cycle of 8 updates grows for 4 and stays for 4.
    found = [capacity_nats(torch.tensor(float(t)), 6.0, 8.0, "cyclic").item() for t in range(10)]
    assert found == [0.0, 1.5, 3.0, 4.5, 6.0, 6.0, 6.0, 6.0, 0.0, 1.5]


@given(st.integers(0, 10**6), st.floats(0, 100), st.integers(1, 10**5))
def test_cyclic_capacity_is_the_cyclic_schedule(step, most, cycle):
    found = capacity_nats(
        torch.tensor(float(step), dtype=torch.float64), most, float(cycle), "cyclic"
    ).item()
    assert found == pytest.approx(cyclic(0, most, cycle).value(step), rel=1e-12, abs=1e-300)


def test_cyclic_loss_by_hand(make_forward):
    mean = torch.full((1, 3, 2), 2.0)
    parts = {
        "mean": mean,
        "logvar": torch.zeros(1, 3, 2),
        "reconstruction": torch.full((1, 3), 7.0),
    }
    objective = AnnealedVAE(max_capacity=6, gamma=10, ramp_steps=20, ramp="cyclic")
    for step, gap in ((0, 4.0), (5, 1.0), (10, 2.0), (19, 2.0), (20, 4.0), (25, 1.0)):
        forward = make_forward(
            members=1, batch=3, latents=2, step=torch.tensor(float(step)), **parts
        )
        assert total_loss(objective.terms(forward)).item() == pytest.approx(
            7.0 + 10 * gap, rel=1e-6
        )


def test_linear_is_the_ramp_unless_told_otherwise(make_forward):
    for step in (0.0, 7.0, 25.0):
        forward = make_forward(step=torch.tensor(step, dtype=torch.float64))
        plain, named = (
            total_loss(one.terms(forward))
            for one in (AnnealedVAE(ramp_steps=20), AnnealedVAE(ramp_steps=20, ramp="linear"))
        )
        assert torch.equal(plain, named)


def test_ramps_do_not_share_a_chunk():
    assert structure(AnnealedVAE(ramp="cyclic")) != structure(AnnealedVAE())
    assert structure(AnnealedVAE(ramp="cyclic", gamma=1)) == structure(
        AnnealedVAE(ramp="cyclic", gamma=2)
    )


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"max_capacity": -1}, "max_capacity must be at least 0; got -1."),
        ({"gamma": -0.5}, "gamma must be at least 0; got -0.5."),
        ({"ramp_steps": 0}, "ramp_steps must be at least 1; got 0."),
        (
            {"ramp": "cycle"},
            "ramp 'cycle' is unknown; did you mean 'cyclic'? Known: cyclic, linear.",
        ),
    ],
)
def test_nonsense_is_refused_in_full(given, told):
    with pytest.raises(InputError) as caught:
        AnnealedVAE(**given)
    assert str(caught.value) == f"annealed_vae: {told}"
