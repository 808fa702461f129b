# SPDX-License-Identifier: Apache-2.0
"""What every objective inherits: checked numbers, sweeps, stacking and one reduction."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass

import numpy as np
import pytest
import torch

import unbraid.objectives
from unbraid.core.errors import InputError
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.annealed_vae import AnnealedVAE
from unbraid.objectives.beta_vae import BetaVAE
from unbraid.objectives.dip_vae_i import DIPVAEI
from unbraid.objectives.factor_vae import FactorVAE
from unbraid.objectives.hyper import number, stack, structure
from unbraid.objectives.objective import Objective, Term, total_loss
from unbraid.objectives.vae import VAE


@dataclass(frozen=True)
class Odd(Objective):
    """An objective with a whole number, a number above a limit and a word."""

    strides: int = number(3, "a whole number", at_least=1, whole=True)
    scale: float = number(1.0, "above a limit", above=0.5)
    kind: str = "plain"

    def terms(self, forward):
        """Nothing."""
        return {}


def message(kind, **given):
    with pytest.raises(InputError) as told:
        kind(**given)
    return str(told.value)


@pytest.mark.parametrize(
    ("beta", "told"),
    [
        (-1, "beta_vae: beta must be at least 0; got -1."),
        (-0.5, "beta_vae: beta must be at least 0; got -0.5."),
        (float("nan"), "beta_vae: beta must be a finite number; got nan."),
        (float("inf"), "beta_vae: beta must be a finite number; got inf."),
        (float("-inf"), "beta_vae: beta must be a finite number; got -inf."),
        (10**400, f"beta_vae: beta must be a finite number; got 1{'0' * 199}...{'0' * 200}."),
        (True, "beta_vae: beta must be a number; got True."),
        ("4", "beta_vae: beta must be a number; got '4'."),
        (None, "beta_vae: beta must be a number; got None."),
        (4j, "beta_vae: beta must be a number; got 4j."),
        ([], "beta_vae: beta needs at least one value; got []."),
        ((), "beta_vae: beta needs at least one value; got ()."),
        ([1, -1], "beta_vae: beta must be at least 0; got -1."),
        ([[1]], "beta_vae: beta must be a number; got [1]."),
        (
            [-1, "x"],
            "beta_vae: beta must be at least 0; got -1.\nbeta_vae: beta must be a number; got 'x'.",
        ),
    ],
)
def test_bad_numbers_are_refused_in_full(beta, told):
    assert message(BetaVAE, beta=beta) == told


def test_every_problem_is_told_at_once():
    assert (
        message(AnnealedVAE, max_capacity=-1, gamma="much", ramp_steps=0)
        == "annealed_vae: max_capacity must be at least 0; got -1.\n"
        "annealed_vae: gamma must be a number; got 'much'.\n"
        "annealed_vae: ramp_steps must be at least 1; got 0."
    )


def test_whole_and_open_ranges():
    key = Odd().key
    assert message(Odd, strides=2.5) == f"{key}: strides must be a whole number; got 2.5."
    assert message(Odd, scale=0.5) == f"{key}: scale must be above 0.5; got 0.5."
    assert Odd(strides=2.0).strides == 2
    assert isinstance(Odd(strides=2.0).strides, int)


def test_numbers_of_numpy_are_numbers():
    for given in (4, 4.0, np.float32(4), np.float64(4), np.int64(4)):
        assert type(BetaVAE(beta=given).beta) is float
        assert BetaVAE(beta=given) == BetaVAE(beta=4.0)
    assert BetaVAE(beta=list(np.array([1, 4]))).beta == (1.0, 4.0)
    assert BetaVAE(beta=np.array([1, 4])).beta == (1.0, 4.0)
    assert (
        message(BetaVAE, beta=np.float64("nan"))
        == "beta_vae: beta must be a finite number; got nan."
    )


def test_configs_are_frozen():
    with pytest.raises(FrozenInstanceError):
        BetaVAE().beta = 5.0  # type: ignore[misc]


def test_sweep_takes_every_combination_the_first_field_slowest():
    swept = AnnealedVAE(max_capacity=[5, 25], gamma=(1, 10, 100)).sweep()
    assert [(one.max_capacity, one.gamma, one.ramp_steps) for one in swept] == [
        (5.0, 1.0, 1e5),
        (5.0, 10.0, 1e5),
        (5.0, 100.0, 1e5),
        (25.0, 1.0, 1e5),
        (25.0, 10.0, 1e5),
        (25.0, 100.0, 1e5),
    ]
    assert all(isinstance(one, AnnealedVAE) for one in swept)
    assert BetaVAE(beta=4).sweep() == [BetaVAE(beta=4)]
    assert VAE().sweep() == [VAE()]
    assert BetaVAE(beta=[1, 4]).hyper() == {"beta": (1.0, 4.0)}


def test_stack_puts_a_member_axis_on_numbers():
    stacked = stack([Odd(strides=1, scale=2), Odd(strides=3, scale=4)], dtype=torch.float64)
    assert isinstance(stacked, Odd)
    assert stacked.strides.tolist() == [1.0, 3.0]
    assert stacked.scale.tolist() == [2.0, 4.0]
    assert stacked.scale.dtype == torch.float64
    assert stacked.kind == "plain"
    assert stack([BetaVAE(beta=1)]).beta.dtype == torch.float32


def test_stack_refuses_what_cannot_be_together():
    with pytest.raises(InputError) as told:
        stack([Odd(kind="plain"), Odd(kind="fancy")])
    assert str(told.value) == "kind must agree within a kind; got ['plain', 'fancy']."


def test_structure_says_who_can_be_stacked():
    assert structure(BetaVAE(beta=1)) == structure(BetaVAE(beta=16)) == (BetaVAE,)
    assert structure(BetaVAE()) != structure(VAE())
    assert structure(DIPVAEI()) != structure(OBJECTIVES.load("dip_vae_ii")())
    assert structure(Odd(kind="plain")) != structure(Odd(kind="fancy"))


def test_total_loss_weighs_batch_means():
    terms = {
        "per_sample": Term(torch.tensor([[1.0, 3.0], [10.0, 30.0]])),
        "per_batch": Term(torch.tensor([5.0, 7.0]), torch.tensor([10.0, 100.0])),
        "for_the_record": Term(torch.tensor([[1e6, 1e6], [1e6, 1e6]]), 0.0),
    }
    assert total_loss(terms).tolist() == [2.0 + 50.0, 20.0 + 700.0]


def test_plain_objectives_have_no_auxiliary_network(make_forward):
    assert VAE().auxiliary_network() is None
    with pytest.raises(InputError) as told:
        VAE().auxiliary_loss(make_forward())
    assert str(told.value) == "objective has no auxiliary network; got 'vae'."
    assert FactorVAE().auxiliary_network() is not None


def test_names_are_found_in_the_package():
    assert unbraid.objectives.BetaVAE is BetaVAE
    with pytest.raises(
        AttributeError, match=r"^module 'unbraid\.objectives' has no attribute 'GammaVAE'$"
    ):
        _ = unbraid.objectives.GammaVAE


def test_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(InputError) as told:
        OBJECTIVES.load("beta_vea")
    known = ", ".join(sorted(OBJECTIVES))
    assert (
        str(told.value)
        == f"objective 'beta_vea' is unknown; did you mean 'beta_vae'? Known: {known}."
    )
