# SPDX-License-Identifier: Apache-2.0
"""Log p(x) of images under a trained member, by importance sampling (Burda et al. 2016).

log (1/K) Σ_k p(x|z_k) p(z_k) / q(z_k|x) with z_k drawn from the member's own posterior q(z|x):
below log p(x) on average, and nearer to it the more samples. The evidence lower bound from the same
draws, the mean of the logarithms, stands beside it.

The prior is the member's, whichever it is. The likelihood is the run's: where that is a full
density or probability the number is in nats of data. Where constants were dropped, or it is no
density at all, `left_out` says so, and only numbers of the same likelihood can be compared. Noise
is a function of the member's seed and the image's index, so that an image's number does not depend
on which others are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unbraid.codes.codes import scored_sample
from unbraid.codes.encode import images_at_once
from unbraid.core import random
from unbraid.core.checks import is_whole, read_whole
from unbraid.core.errors import invalid
from unbraid.core.random import Stream
from unbraid.networks.network import Comparison, Network, Weights
from unbraid.objectives.hyper import stack
from unbraid.objectives.likelihood_spelling import read_likelihood
from unbraid.objectives.priors.prior import Prior
from unbraid.population.devices import choose_device, explain_oom
from unbraid.population.plan import Plan
from unbraid.population.run_folder import RunFolder

_VALUES_AT_ONCE = 2**20
"""Decoded values that are held together on a CPU."""
_MOST_ROWS = 2**14


@dataclass(frozen=True)
class LogLikelihood:
    """Log p(x) in nats, over the images it was asked of."""

    nats_per_image: float
    standard_error: float
    """Of the mean, from the differences between images."""
    elbo_per_image: float
    """The evidence lower bound from the same draws; never above."""
    per_image: NDArray[np.float64]
    indices: NDArray[np.int64]
    samples: int
    effective_samples: float
    """(Σ w)² / Σ w², averaged over images: how many of the samples count. Near 1 the bound is far
    from tight.
    """
    left_out: str
    """What keeps the number from being a log-density or log-probability of the data; empty where
    nothing does.
    """


def log_likelihood(
    run: Any,
    member: int = 0,
    *,
    samples: int = 1000,
    images: int | Sequence[int] = 1000,
    device: str = "auto",
) -> LogLikelihood:
    """Log p(x) of *images* under one *member* of *run*, a folder or an opened run.

    *images* is how many, taken at random and the same for every member, or their indices.
    """
    folder = _folder(run)
    plan, dataset = folder.plan, folder.dataset
    samples = read_whole("samples", samples, 1, 100_000)
    if not is_whole(member) or not 0 <= member < len(plan.members):
        raise invalid("member", f"must be one of 0..{len(plan.members) - 1}", member)
    chosen = plan.members[member]
    if not chosen.build().samples_latents:
        rule = "must be one whose objective draws latents from a posterior"
        raise invalid("member", rule, chosen.objective, "Train a vae, or another with a posterior.")
    if is_whole(images):
        indices = scored_sample(dataset, read_whole("images", images, 2, 10**9))
    else:
        indices = dataset.grid.check_index(np.asarray(images).reshape(-1))
        if len(indices) < 2:
            raise invalid("images", "must be at least 2", len(indices))
    on = choose_device(device)
    weights = folder.member_weights(member, on)
    likelihood = plan.build_likelihood(dataset).bound(weights)
    end = torch.tensor(float(plan.steps))
    prior = (
        stack([chosen.build_prior()], on, torch.float64)
        .at(end)
        .bound({name: part.double() for name, part in weights.items()})
    )
    values = math.prod(dataset.sample_shape)
    at_once = images_at_once(values, 1, on, columns=plan.build_network().uses_columns)
    rows = min(_MOST_ROWS, max(at_once, _VALUES_AT_ONCE // values if on.type == "cpu" else 0))
    seed, sampler = torch.tensor([chosen.seed], device=on), dataset.sampler(on)
    bounds, elbos, effective, black_and_white = [], [], [], True
    with (
        torch.no_grad(),
        explain_oom(on, "the samples of an image", "Free some memory, or use a CPU."),
    ):
        for part in torch.from_numpy(indices).split(max(1, rows // samples)):
            x, steps = sampler(part.to(on)).unsqueeze(0), part.to(on)
            noise = random.normal(seed, steps, Stream.IMPORTANCE_NOISE, (samples, plan.latents))
            log_w = importance_weights(
                plan.build_network(), weights, likelihood, prior, x, noise, plan.dtype, rows
            )[0].cpu()
            black_and_white = black_and_white and bool(((x == 0) | (x == 1)).all())
            bounds.append(log_w.logsumexp(dim=1) - math.log(samples))
            elbos.append(log_w.mean(dim=1))
            effective.append(torch.exp(2 * log_w.logsumexp(dim=1) - (2 * log_w).logsumexp(dim=1)))
    per_image = torch.cat(bounds).numpy()
    return LogLikelihood(
        nats_per_image=float(per_image.mean()),
        standard_error=float(per_image.std(ddof=1) / math.sqrt(len(per_image))),
        elbo_per_image=float(torch.cat(elbos).mean()),
        per_image=per_image,
        indices=indices,
        samples=samples,
        effective_samples=float(torch.cat(effective).mean()),
        left_out=_left_out(plan, black_and_white),
    )


def importance_weights(
    network: Network,
    weights: Weights,
    likelihood: Comparison,
    prior: Prior,
    x: Tensor,
    noise: Tensor,
    precision: torch.dtype | None = None,
    rows: int = _MOST_ROWS,
) -> Tensor:
    """Log p(x|z) p(z) / q(z|x) in nats at z = mean + deviation · noise.

    float64 `(members, n, samples)`.

    x is `(members, n, *sample_shape)` and *noise* standard normal `(members, n, samples, latents)`;
    at most *rows* latents are decoded at once for each member.
    """
    mean, logvar = (part.unsqueeze(2) for part in network.encode(weights, x, precision))
    z = mean + torch.exp(0.5 * logvar) * noise.to(mean.dtype)
    exact = noise.double()
    # z is known by its noise: log q needs no difference of nearly equal numbers.
    log_q = -0.5 * (exact.square() + logvar.double() + math.log(2.0 * math.pi)).sum(dim=-1)
    members, count, samples, latents = z.shape
    log_p = prior.log_density(z.double().view(members, count * samples, latents)).view(
        members, count, samples
    )
    nats = torch.empty_like(log_q)
    # Whole images where several fit, else one image's samples in parts.
    together, at_once = max(1, rows // samples), min(samples, rows)
    for image in range(0, count, together):
        for first in range(0, samples, at_once):
            part = z[:, image : image + together, first : first + at_once]
            seen = x[:, image : image + together].repeat_interleave(part.shape[2], dim=1)
            found = network.compare(
                weights, part.reshape(members, -1, latents), seen, likelihood, precision
            )
            nats[:, image : image + together, first : first + at_once] = found.double().view(
                part.shape[:3]
            )
    return log_p - nats - log_q


def _folder(run: Any) -> RunFolder:
    """The run folder of a path, of a run, or itself."""
    if isinstance(run, (str, Path)):
        return RunFolder.open(run)
    found = getattr(run, "folder", run)
    if not isinstance(found, RunFolder):
        raise invalid("run", "must be a run or the folder of one", run)
    return found


def _left_out(plan: Plan, black_and_white: bool) -> str:
    """What the run's likelihood lacks of a density of the data."""
    spelling = read_likelihood(plan.likelihood)
    if spelling.window:
        return "the overlap term makes the likelihood more than a density of the data"
    if spelling.base == "bernoulli":
        return (
            ""
            if black_and_white
            else "a Bernoulli likelihood is no density of grey values, only of black and white"
        )
    if spelling.base == "gaussian" and spelling.scale is None:
        return "the constant −½ log π of each value, of a Gaussian with variance 1/2"
    if plan.standardise:
        return "the density is that of standardised values"
    return ""
