# SPDX-License-Identifier: Apache-2.0
"""s(x), the least noisy latent of a trained member over the whole data (Zietlow et al. 2021).

`s(x) = μ_j(x)` with j the latent of the lowest posterior variance averaged over the data, of the
member with the lowest MIG unless one is chosen. Departs: s is standardised over the data, since its
scale is left open; collapsed members, which the paper leaves unsaid, are not taken unless chosen:
their least noisy latent is rounding, which standardising would blow up.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.codes.encode import encode_images
from unbraid.codes.model import check_healthy
from unbraid.core.errors import Shown, invalid
from unbraid.core.progress import Progress
from unbraid.data.perturbed.pattern import standardised
from unbraid.population.devices import explain_oom
from unbraid.population.run_folder import RunFolder
from unbraid.scoring.collapse import REMEDY, count_active, least_active
from unbraid.scoring.counted import varying_factors

if TYPE_CHECKING:
    import pandas as pd

_IMAGES_AT_ONCE = 8192


def read_s(
    run: RunFolder,
    device: torch.device,
    member: int,
    *,
    mig: float | None = None,
    quiet: bool = False,
) -> tuple[NDArray[np.float64], dict[str, Any]]:
    """Standardised s of every image, and a record of where it comes from."""
    check_healthy(run, member)
    mean, noise = _encode(run, member, device, quiet)
    if not np.isfinite(noise).all() or not np.isfinite(mean).all():
        raise invalid("member", "must have finite codes", member, "Choose another.")
    latent = int(np.argmin(noise))
    s, was, deviation = standardised(mean[:, latent])
    least = least_active(run.plan.latents, varying_factors(run))
    return s, {
        "run": str(run.path.resolve()),
        "plan": run.plan.digest(),
        "member": member,
        "label": run.plan.members[member].label(),
        "mig": mig,
        "collapsed": count_active(mean, noise) < least,
        "latent": latent,
        "noise_per_latent": noise.tolist(),
        "mean": was,
        "deviation": deviation,
    }


def lowest_mig(run: RunFolder, scores: pd.DataFrame) -> tuple[int, float]:
    """The member with the lowest MIG in *scores* among those with noisy latents, and its MIG.

    Collapsed members are left out.
    """
    noisy = {one.id for one in run.plan.members if one.build().samples_latents}
    noisy -= set(scores.query("collapsed").index.get_level_values("member"))
    members = scores.index.get_level_values("member")
    values = scores["mig"] if "mig" in scores else [math.nan] * len(members)
    ranked = sorted(
        (float(value), int(one))
        for one, value in zip(members, values, strict=True)
        if one in noisy and not math.isnan(value)
    )
    if not ranked:
        rule = "needs a member that is not collapsed and whose MIG has a value"
        raise invalid("run", rule, Shown(str(run.path)), f"{REMEDY} Or choose a {{member=}}.")
    mig, member = ranked[0]
    return member, mig


def _encode(
    run: RunFolder, member: int, device: torch.device, quiet: bool
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Means of all images `(n, latents)` and the mean posterior variance of each latent."""
    dataset, plan = run.dataset, run.plan
    weights = run.member_weights(member, device)
    network = plan.build_network()
    means, variance = [], torch.zeros(plan.latents, dtype=torch.float64)
    with (
        Progress("encoding", "images", len(dataset), quiet) as progress,
        explain_oom(device, "the data and a batch of codes", "Free some memory, or use a CPU."),
    ):
        sampler = dataset.sampler(device)
        for indices in torch.arange(len(dataset), device=device).split(_IMAGES_AT_ONCE):
            mean, logvar = encode_images(network, weights, sampler, indices, plan.dtype)
            means.append(mean[0].to(torch.float32))
            variance += logvar[0].double().exp().sum(dim=0)
            progress.advance(len(indices))
    return torch.cat(means).numpy(), (variance / len(dataset)).numpy()
