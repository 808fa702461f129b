# SPDX-License-Identifier: Apache-2.0
"""Every registered prior keeps the contract and has a test file; the contract notices what breaks
it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from unbraid.networks.layout import Weight
from unbraid.objectives.hyper import number
from unbraid.objectives.priors import PRIORS
from unbraid.objectives.priors.isotropic import Isotropic
from unbraid.objectives.priors.prior import per_member, vector_per_member
from unbraid.objectives.priors.sparse import Sparse
from unbraid.testing.checks import check_test_file
from unbraid.testing.prior_contract import check_prior

OPTIONS = [
    # The variances of this one are by default those of data, which there is none of here.
    *((name, {}) for name in PRIORS.built_in if name != "anisotropic"),
    ("anisotropic", {"variances": (4.0, 2.0, 1.0, 0.5)}),
    ("anisotropic", {"variances": (4.0, 2.0, 1.0, 0.5), "learned": "yes", "scale": 0.7}),
    ("mixture", {"components": 3, "radius": 2.0, "variance": 0.3}),
    ("sparse", {"gamma": 0.0}),
    ("sparse", {"gamma": 1.0}),
    ("student_t", {"df": 1.5}),
]


@pytest.mark.parametrize(("name", "options"), OPTIONS)
def test_prior_keeps_the_contract(name, options):
    check_prior(name, **options)


@pytest.mark.parametrize("name", list(PRIORS.built_in))
def test_prior_has_a_test_file(name):
    check_test_file(Path(__file__).parent / f"test_prior_{name}.py")


class Sloppy:
    """What each broken prior below does wrong, and what the contract says of it."""

    @dataclass(frozen=True)
    class Wide(Isotropic):
        """Draws are wider than the density says."""

        def sample(self, uniform):
            return 1.1 * super().sample(uniform)

    @dataclass(frozen=True)
    class Reduced(Isotropic):
        """The KL is already a mean."""

        def kl(self, mean, logvar, z):
            return super().kl(mean, logvar, z).mean(dim=1)

    @dataclass(frozen=True)
    class Neighbour(Isotropic):
        """Looks at the next member."""

        def log_density(self, z):
            return super().log_density(z) + 0.1 * z.roll(1, 0).sum(dim=-1).detach()

    @dataclass(frozen=True)
    class Unused(Isotropic):
        """Learns a number that nothing depends on."""

        def weights(self, latents):
            return (Weight("prior.unused", (latents,)),)

    @dataclass(frozen=True)
    class Misnamed(Isotropic):
        """Calls its weight as it likes."""

        def weights(self, latents):
            return (Weight("mine", (latents,)),)

        def log_density(self, z):
            return super().log_density(z + vector_per_member(self.own_weights["mine"], z))

    @dataclass(frozen=True)
    class Flat(Sparse):
        """Forgets that numbers may be stacked."""

        def log_density(self, z):
            return super().log_density(z) * (1.0 if torch.is_tensor(self.gamma) else 2.0)

    @dataclass(frozen=True)
    class Root(Isotropic):
        """Has a slope without bounds."""

        def kl(self, mean, logvar, z):
            return super().kl(mean, logvar, z) + (mean - mean.detach()).sum(dim=-1).sqrt()

    @dataclass(frozen=True)
    class Silent(Isotropic):
        pass


@dataclass(frozen=True)
class Lax(Isotropic):
    """A number that is whatever."""

    width: float = number(1.0, "unchecked", above=0)

    def __post_init__(self):
        pass

    def log_density(self, z):
        """Unused."""
        return super().log_density(z) * per_member(self.width, z).mean()


CASES = {
    Sloppy.Wide: "draws must follow log_density",
    Sloppy.Reduced: r"kl must have the shape \(3, 8\), is \(3,\)",
    Sloppy.Neighbour: "mixes members",
    Sloppy.Unused: "something must depend on prior.unused, which is learned",
    Sloppy.Misnamed: "the weight 'mine' must be called prior.something",
    Sloppy.Flat: "log_density must be the same with numbers stacked to tensors",
    Sloppy.Root: "the gradient to mean must be finite|mixes members",
    Sloppy.Silent: "first paragraph is one sentence",
    Lax: r"must be refused with 'mine: width must be a finite number; got nan\.\.\.\.', not ''",
}


@pytest.mark.parametrize("kind", CASES, ids=lambda kind: kind.__name__)
def test_contract_notices_a_broken_prior(kind, monkeypatch):
    monkeypatch.setattr(PRIORS, "load", lambda name: kind)
    monkeypatch.setattr(kind, "key", property(lambda self: "mine"))
    with pytest.raises(AssertionError, match=CASES[kind]):
        check_prior("mine")


def test_contract_notices_a_wrong_name(monkeypatch):
    monkeypatch.setattr(PRIORS, "load", lambda name: Isotropic)
    with pytest.raises(
        AssertionError, match=r"^the file of 'normal' must bear its name, not 'isotropic'"
    ):
        check_prior("normal")
