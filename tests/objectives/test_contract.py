# SPDX-License-Identifier: Apache-2.0
"""Every registered objective keeps the contract, and the contract notices what breaks it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from unbraid.objectives import OBJECTIVES, factor_vae
from unbraid.objectives.beta_vae import BetaVAE
from unbraid.objectives.factor_vae import FactorVAE
from unbraid.objectives.hyper import number
from unbraid.objectives.objective import Term
from unbraid.testing.checks import check_test_file
from unbraid.testing.objective_contract import check_objective


@pytest.mark.parametrize("name", list(OBJECTIVES.built_in))
def test_objective_keeps_the_contract(name):
    check_objective(name)


@pytest.mark.parametrize("name", list(OBJECTIVES.built_in))
def test_objective_has_a_test_file(name):
    check_test_file(Path(__file__).parent / f"test_{name}.py")


def broken(change, parent=BetaVAE):
    """A copy of *parent* whose terms went through *change*."""

    @dataclass(frozen=True)
    class Broken(parent):
        """Reconstruction + β KL, broken."""

        @property
        def key(self):
            return "beta_vae"

        def terms(self, forward):
            return change(super().terms(forward), forward)

    return Broken


def neighbour(terms, forward):
    return terms | {"kl": Term(terms["kl"].value + terms["kl"].value.roll(1, 0).detach(), 4.0)}


def all_members(terms, forward):
    return terms | {"kl": Term(terms["kl"].value * forward.mean.mean(), 4.0)}


CASES = {
    "term_names": (
        lambda terms, forward: {"kl": terms["kl"], "reconstruction": terms["reconstruction"]},
        "term_names",
    ),
    "reduced": (
        lambda terms, forward: terms | {"kl": Term(terms["kl"].value.mean())},
        r"must be \(members, batch\) or \(members,\), is \(\)",
    ),
    "twice": (
        lambda terms, forward: terms | {"reconstruction": Term(forward.reconstruction, 2.0)},
        "must count the reconstruction once",
    ),
    "infinite": (
        lambda terms, forward: terms | {"kl": Term(terms["kl"].value / 0.0)},
        "kl must be finite",
    ),
    "root": (
        lambda terms, forward: (
            terms | {"kl": Term((terms["kl"].value - terms["kl"].value.detach()).sqrt())}
        ),
        "the gradient to mean must be finite",
    ),
    "neighbour": (neighbour, "mixes members: losses must move"),
    "everyone": (all_members, "mixes members|NaN in one member"),
    "constant": (
        lambda terms, forward: (
            terms | {"kl": replace(terms["kl"], weight=4.0 + 0.0 * forward.mean.sum())}
        ),
        "mixes members|NaN in one member must not reach another's",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_contract_notices_broken_terms(case, monkeypatch):
    change, told = CASES[case]
    monkeypatch.setattr(OBJECTIVES, "load", lambda name: broken(change))
    with pytest.raises(AssertionError, match=told):
        check_objective("beta_vae")


def test_a_flag_holds_for_the_terms_it_was_set_for_alone():
    class Terms:
        def terms(self, forward):
            return {}

    @dataclass(frozen=True)
    class Mixed(Terms, BetaVAE):
        """Terms from elsewhere."""

    @dataclass(frozen=True)
    class Said(Terms, BetaVAE):
        """The same, by one who knows."""

        reads_reconstruction = False

    @dataclass(frozen=True)
    class Heir(BetaVAE):
        """Its parent's terms."""

    assert (Mixed.reads_reconstruction, Said.reads_reconstruction, Heir.reads_reconstruction) == (
        True,
        False,
        False,
    )


def test_contract_notices_terms_that_read_what_is_not_decoded_yet(monkeypatch):
    kind = broken(
        lambda terms, forward: (
            terms | {"kl": Term(terms["kl"].value + 0.0 * forward.reconstruction, 4.0)}
        )
    )
    assert kind.reads_reconstruction, "terms of a subclass may read it, whatever its parent says"
    assert not BetaVAE.reads_reconstruction
    monkeypatch.setattr(kind, "reads_reconstruction", False)
    monkeypatch.setattr(OBJECTIVES, "load", lambda name: kind)
    with pytest.raises(AssertionError, match="reads_reconstruction must be True, since kl is"):
        check_objective("beta_vae")


def test_contract_notices_a_wrong_name_and_silent_class(monkeypatch):
    monkeypatch.setattr(OBJECTIVES, "load", lambda name: BetaVAE)
    with pytest.raises(
        AssertionError, match=r"^the file of 'beta' must bear its name, not 'beta_vae'"
    ):
        check_objective("beta")

    @dataclass(frozen=True)
    class Silent(BetaVAE):
        pass

    monkeypatch.setattr(OBJECTIVES, "load", lambda name: Silent)
    with pytest.raises(AssertionError, match="docstring paragraph of silent must be one sentence"):
        check_objective("silent")


def test_contract_notices_an_unchecked_field(monkeypatch):
    @dataclass(frozen=True)
    class Lax(BetaVAE):
        """β is whatever."""

        gamma: float = number(1.0, "unchecked", at_least=0)
        key = "lax"

        def __post_init__(self):
            pass

    monkeypatch.setattr(OBJECTIVES, "load", lambda name: Lax)
    with pytest.raises(
        AssertionError,
        match=(
            r"^lax\(beta=nan\) must be an InputError that says 'lax: beta must be a finite number;"
            r" got nan\.'"
        ),
    ):
        check_objective("lax")


def cut_off(forward, loss):
    """Connected to every weight, and zero in all of them."""
    return loss.detach() + (loss - loss.detach()) * 0.0


AUXILIARY_CASES = {
    "reduced": (lambda forward, loss: loss.mean(dim=1), r"must be \(members, n\)"),
    "constant": (
        lambda forward, loss: loss.detach(),
        "must reach every auxiliary weight, and does not reach dense1.weight",
    ),
    "encoder": (
        lambda forward, loss: forward.z.sum(dim=-1),
        "must reach every auxiliary weight, and does not reach dense1.weight",
    ),
    "zeros": (cut_off, "must reach every auxiliary weight, and does not reach dense1.weight"),
    "root": (
        lambda forward, loss: loss + (loss - loss.detach()).sqrt(),
        "must have a finite gradient to dense1.weight",
    ),
    "neighbour": (
        lambda forward, loss: loss + loss.roll(1, 0),
        "NaN in one member must not reach another's auxiliary loss",
    ),
}


@pytest.mark.parametrize("case", AUXILIARY_CASES)
def test_contract_notices_a_broken_auxiliary_loss(case, monkeypatch):
    change, told = AUXILIARY_CASES[case]

    @dataclass(frozen=True)
    class Broken(FactorVAE):
        """The discriminator's loss went through a change."""

        key = "broken"

        def auxiliary_loss(self, forward):
            return change(forward, super().auxiliary_loss(forward))

    monkeypatch.setattr(factor_vae, "_HIDDEN", 16)
    monkeypatch.setattr(OBJECTIVES, "load", lambda name: Broken)
    with pytest.raises(AssertionError, match=told):
        check_objective("broken")


def test_contract_lets_an_auxiliary_loss_depend_on_the_latents(monkeypatch):
    @dataclass(frozen=True)
    class Connected(FactorVAE):
        """The discriminator's loss reaches z, which training does not follow."""

        key = "connected"

        def auxiliary_loss(self, forward):
            return super().auxiliary_loss(forward) + forward.z.sum(dim=-1)

    monkeypatch.setattr(factor_vae, "_HIDDEN", 16)
    monkeypatch.setattr(OBJECTIVES, "load", lambda name: Connected)
    check_objective("connected")
