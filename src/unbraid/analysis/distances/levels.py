# SPDX-License-Identifier: Apache-2.0
"""Where distances are taken: in the data and along a trained member (Michlo et al. 2023).

Inputs and reconstructions are compared by the loss, latent means by their Euclidean distance,
posteriors by the Kullback-Leibler divergence KL(first || second) in nats, which is not symmetric;
or by the mean of both ways, as in the authors' code. Reconstructions are decoded means, unrounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unbraid.analysis.distances.perceived_loss import PerceivedLoss
from unbraid.codes.model import check_healthy
from unbraid.core.checks import is_whole
from unbraid.core.errors import invalid
from unbraid.data.dataset import Dataset
from unbraid.population.devices import explain_oom
from unbraid.population.run_folder import RunFolder

Features = tuple[Tensor, ...]


@dataclass(frozen=True)
class Level:
    """One place to compare samples at; distances are float64."""

    key: str
    """`inputs`, `means`, `posteriors` or `reconstructions`."""
    measure: str
    """What is measured there: the loss, L2 or KL."""
    pairs: Callable[[Features, Features], Tensor]
    """Features `(n, ...)` of two lists of samples to distances `(n,)`."""
    matrix: Callable[[Features], Tensor]
    """Features `(groups, n, ...)` to distances `(groups, n, n)` within each group."""


@dataclass(frozen=True)
class Perception:
    """What sees samples: one look gives the features of all its levels."""

    levels: tuple[Level, ...]
    look: Callable[[Tensor], dict[str, Features]]
    """Dataset indices `(n,)` to features `(n, ...)` by level."""
    numbers: int
    """Numbers in one sample, by which batches are bounded."""
    device: torch.device
    name: str = ""
    """The member's label; empty for the data itself."""


def samples_on(dataset: Dataset, device: torch.device) -> Callable[[Tensor], Tensor]:
    """What draws the samples of *dataset* on *device*."""
    with explain_oom(device, f"the data '{dataset.name}'", "Free some memory, or use a CPU."):
        return dataset.sampler(device)


def data_perception(
    dataset: Dataset, loss: PerceivedLoss, sampler: Callable[[Tensor], Tensor], device: torch.device
) -> Perception:
    """The samples themselves."""
    return Perception(
        levels=(by_loss("inputs", loss),),
        look=lambda indices: {"inputs": (sampler(indices),)},
        numbers=math.prod(dataset.sample_shape),
        device=device,
    )


@dataclass(frozen=True)
class TrainedMember:
    """A trained member as two functions of tensors."""

    encode: Callable[[Tensor], tuple[Tensor, Tensor]]
    """Samples `(n, ...)` to means and log-variances `(n, latents)`."""
    decode: Callable[[Tensor], Tensor]
    """Latents `(n, latents)` to expected samples `(n, ...)`."""
    samples_latents: bool
    """Whether it has posteriors."""


def trained_member(run: RunFolder, member: int, device: torch.device) -> TrainedMember:
    """A member of *run* on *device*; one that diverged is refused."""
    check_member(run, member)
    plan, dataset = run.plan, run.dataset
    weights = run.member_weights(member, device)
    network = plan.build_network()
    objective = plan.members[member].build()
    likelihood = plan.build_likelihood(dataset).bound(weights)

    def encode(samples: Tensor) -> tuple[Tensor, Tensor]:
        mean, logvar = network.encode(weights, samples.unsqueeze(0), plan.dtype)
        mean, logvar = objective.representation(mean, logvar, weights)
        return mean[0], logvar[0]

    def decode(z: Tensor) -> Tensor:
        raw = network.decode(weights, z.unsqueeze(0), dataset.sample_shape, plan.dtype)
        return likelihood.expected(raw)[0]

    return TrainedMember(encode, decode, objective.samples_latents)


MEANS = Level(
    "means",
    "L2",
    lambda a, b: euclidean(a[0], b[0]),
    lambda f: euclidean(f[0][:, :, None], f[0][:, None, :]),
)
POSTERIORS = Level(
    "posteriors",
    "KL",
    lambda a, b: kl(*a, *b),
    lambda f: kl(*(one[:, :, None] for one in f), *(one[:, None, :] for one in f)),
)
BOTH_WAYS = Level(
    "posteriors",
    "KL both ways",
    lambda a, b: 0.5 * (kl(*a, *b) + kl(*b, *a)),
    lambda f: _symmetric(POSTERIORS.matrix(f)),
)


def _symmetric(matrix: Tensor) -> Tensor:
    return 0.5 * (matrix + matrix.transpose(1, 2))


def member_perception(
    run: RunFolder,
    member: int,
    loss: PerceivedLoss,
    sampler: Callable[[Tensor], Tensor],
    device: torch.device,
) -> Perception:
    """A trained member: its latent means, posteriors (where it has any), reconstructions."""
    trained, name = trained_member(run, member, device), run.plan.members[member].label()
    return replace(perception_of(trained, run.dataset, loss, sampler, device), name=name)


def perception_of(
    trained: TrainedMember,
    dataset: Dataset,
    loss: PerceivedLoss,
    sampler: Callable[[Tensor], Tensor],
    device: torch.device,
    posteriors: Level = POSTERIORS,
) -> Perception:
    """The same of a member that is loaded already, with *posteriors* compared in either way."""

    def look(indices: Tensor) -> dict[str, Features]:
        mean, logvar = trained.encode(sampler(indices))
        return {
            "means": (mean,),
            "posteriors": (mean, logvar),
            "reconstructions": (trained.decode(mean),),
        }

    sampled = (posteriors,) if trained.samples_latents else ()
    return Perception(
        levels=(MEANS, *sampled, by_loss("reconstructions", loss)),
        look=look,
        numbers=math.prod(dataset.sample_shape),
        device=device,
    )


def check_member(run: RunFolder, member: int) -> None:
    """Refuse a member that the run does not have or that diverged."""
    last = len(run.plan.members) - 1
    if not is_whole(member) or not 0 <= member <= last:
        raise invalid("member", f"must be one of 0..{last}", member)
    check_healthy(run, int(member))


def by_loss(key: str, loss: PerceivedLoss) -> Level:
    """Samples, true or decoded, compared by *loss*."""
    return Level(
        key,
        loss.name,
        lambda a, b: loss.pairs(a[0], b[0]),
        lambda features: loss.matrix(features[0]),
    )


def euclidean(first: Tensor, second: Tensor) -> Tensor:
    """Euclidean distance of codes `(..., latents)` that broadcast against each other."""
    return (first.double() - second.double()).square().sum(dim=-1).sqrt()


def kl(mean: Tensor, logvar: Tensor, other_mean: Tensor, other_logvar: Tensor) -> Tensor:
    """KL divergence of diagonal Gaussians from the first to the other `(..., latents)`, in nats."""
    mean, logvar, other_mean, other_logvar = (
        part.double() for part in (mean, logvar, other_mean, other_logvar)
    )
    gap = logvar - other_logvar
    # expm1(g) - g is at least 0 and exact for equal variances.
    terms = torch.expm1(gap) - gap + (mean - other_mean).square() * torch.exp(-other_logvar)
    return 0.5 * terms.sum(dim=-1)
