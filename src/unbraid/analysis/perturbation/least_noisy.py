# SPDX-License-Identifier: Apache-2.0
"""s(x), the least noisy latent of a trained member over the whole data (Zietlow et al. 2021).

`s(x) = μ_j(x)` with j the latent of the lowest posterior variance averaged over the data, of the
member with the lowest MIG unless one is chosen. Departs: s is standardised over the data, since its
scale is left open.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.codes.encode import encode_images
from unbraid.commands.train import Run
from unbraid.core.errors import Shown, invalid
from unbraid.core.progress import Progress
from unbraid.data.perturbed.pattern import standardised
from unbraid.population.devices import explain_oom

_IMAGES_AT_ONCE = 8192


def read_s(
    run: Run, member: int | None = None, quiet: bool = False
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Standardised s of every image, and a record of where it comes from."""
    chosen, mig = (int(member), None) if member is not None else _lowest_mig(run, quiet)
    status = dict(zip(run.members["member"], run.members["status"], strict=True))
    if status[chosen] == "diverged":
        raise invalid("member", "must not have diverged", chosen, "Choose another.")
    mean, noise = _encode(run, chosen, quiet)
    if not np.isfinite(noise).all() or not np.isfinite(mean).all():
        raise invalid("member", "must have finite codes", chosen, "Choose another.")
    latent = int(np.argmin(noise))
    s, was, deviation = standardised(mean[:, latent])
    plan = run.folder.plan
    about = {
        "run": str(run.path.resolve()),
        "plan": plan.digest(),
        "member": chosen,
        "label": plan.members[chosen].label(),
    }
    about |= {
        "mig": mig,
        "latent": latent,
        "noise_per_latent": noise.tolist(),
        "mean": was,
        "deviation": deviation,
    }
    return s, about


def _lowest_mig(run: Run, quiet: bool) -> tuple[int, float]:
    """The member with the lowest MIG, among those whose latents are noisy."""
    noisy = {one.id for one in run.folder.plan.members if one.build().samples_latents}
    scores = run.score("mig", quiet=quiet)
    members = scores.index.get_level_values("member")
    values = scores["mig"] if "mig" in scores else [float("nan")] * len(members)
    ranked = sorted(
        (float(value), int(one))
        for one, value in zip(members, values, strict=True)
        if one in noisy and value == value
    )
    if not ranked:
        raise invalid(
            "run",
            "needs a member whose MIG has a value",
            Shown(str(run.path)),
            "Choose one with --member.",
        )
    mig, member = ranked[0]
    return member, mig


def _encode(run: Run, member: int, quiet: bool) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Means of all images `(n, latents)` and the mean posterior variance of each latent."""
    folder, dataset, device = run.folder, run.dataset, run.device
    weights = folder.member_weights(member, device)
    network, precision = folder.plan.build_network(), folder.plan.dtype
    means, variance = [], torch.zeros(folder.plan.latents, dtype=torch.float64)
    with (
        Progress("encoding", "images", len(dataset), quiet) as progress,
        explain_oom(
            device, "the data and a batch of codes", "Free some memory, or use --device cpu."
        ),
    ):
        sampler = dataset.sampler(device)
        for indices in torch.arange(len(dataset), device=device).split(_IMAGES_AT_ONCE):
            mean, logvar = encode_images(network, weights, sampler, indices, precision)
            means.append(mean[0].to(torch.float32))
            variance += logvar[0].double().exp().sum(dim=0)
            progress.advance(len(indices))
    return torch.cat(means).numpy(), (variance / len(dataset)).numpy()
