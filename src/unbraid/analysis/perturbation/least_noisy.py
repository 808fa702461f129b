# SPDX-License-Identifier: Apache-2.0
"""s(x), the least noisy latent of a trained member over the whole data (Zietlow et al. 2021).

`s(x) = μ_j(x)` with j the latent of the lowest posterior variance averaged over the data, of the
member with the lowest MIG among restarts of one objective and strength, unless a member is chosen.
Departs: s is standardised over the data, since its scale is left open. Restarts with fewer active
latents than factors less one, which the paper leaves unsaid, are not taken unless chosen: a low MIG
then says that they are pruned, not how their latents lie, and of a collapsed one the least noisy
latent is rounding, which standardising would blow up.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.codes.encode import encode_images
from unbraid.codes.model import check_healthy
from unbraid.core.errors import InputError, Shown, invalid, unknown
from unbraid.core.progress import Progress
from unbraid.core.spelling import as_named
from unbraid.core.words import count
from unbraid.data.perturbed.pattern import standardised
from unbraid.population.devices import explain_oom
from unbraid.population.run_folder import RunFolder
from unbraid.scoring.collapse import REMEDY, count_active, least_active
from unbraid.scoring.counted import varying_factors

_IMAGES_AT_ONCE = 8192


def read_s(
    run: RunFolder,
    device: torch.device,
    member: int,
    *,
    choice: Choice | None = None,
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
        "mig": choice.mig if choice else None,
        **(choice.record() if choice else {}),
        "collapsed": count_active(mean, noise) < least,
        "latent": latent,
        "noise_per_latent": noise.tolist(),
        "mean": was,
        "deviation": deviation,
    }


@dataclass(frozen=True)
class Choice:
    """The restart that s is read from, and those that it was chosen among."""

    member: int
    mig: float
    setting: str
    """Objective and strength that all restarts share, as in `beta_vae:beta=8`."""
    restarts: int
    refused: dict[int, int]
    """Restarts with too few active latents, and how many of theirs are."""
    least: int
    """The fewest that are enough."""

    def told(self) -> str:
        """Which was taken and why, as a sentence without its end."""
        lost = ""
        if self.refused:
            each = ", ".join(f"{one} ({active})" for one, active in self.refused.items())
            lost = f"; refused, with fewer than {self.least} active latents: {each}"
        of = f"{self.restarts} restarts of {self.setting}" if self.restarts > 1 else self.setting
        return f"whose MIG of {self.mig:.4f} is the lowest of {of}{lost}"

    def record(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "among": self.setting,
            "restarts": self.restarts,
            "refused": {str(one): active for one, active in self.refused.items()},
            "least_active": self.least,
        }


def settings(run: RunFolder) -> dict[str, list[int]]:
    """Members with noisy latents by objective and strength, as `beta_vae:beta=8`."""
    found: dict[str, list[int]] = {}
    for one in run.plan.members:
        objective = one.build()
        if objective.samples_latents:
            name = objective.strength
            strength = f":{name}={spelled(one.hyper[name])}" if name else ""
            found.setdefault(one.objective + strength, []).append(one.id)
    return found


def spelled(value: Any) -> str:
    """A strength as it is written in a request."""
    return f"{value:g}" if isinstance(value, (int, float)) else str(value)


def restarts_of(run: RunFolder, among: str | None) -> tuple[str, list[int]]:
    """The one setting that is meant by *among*, and its members.

    It may be left out where the run has a single one.
    """
    found = settings(run)
    if among is None:
        if len(found) == 1:
            return next(iter(found.items()))
        if not found:
            first = run.plan.members[0].objective
            rule = "needs members with noisy latents, to find the least noisy"
            raise invalid("run", rule, Shown(first))
        remedy = f"Give one, as in {{among={next(iter(found))}}}, or choose a {{member=}}."
        rule = "must name one objective and strength, whose restarts are compared"
        raise invalid("among", rule, Shown(f"none of {', '.join(found)}"), remedy)
    name, options = as_named(among)
    words = ",".join(f"{key}={spelled(value)}" for key, value in options.items())
    wanted = name + (f":{words}" if words else "")
    matching = [key for key in found if wanted in (key, key.partition(":")[0])]
    if len(matching) != 1:
        raise InputError(unknown("objective and strength of the run", among, found))
    return matching[0], found[matching[0]]


def lowest_mig(
    run: RunFolder,
    mig: Mapping[int, float],
    active: Mapping[int, int],
    among: str | None = None,
) -> Choice:
    """The restart with the lowest *mig* that has enough *active* latents, both by member."""
    setting, members = restarts_of(run, among)
    least = max(1, min(run.plan.latents, varying_factors(run)) - 1)
    known = [one for one in members if math.isfinite(mig.get(one, math.nan))]
    refused = {one: active[one] for one in known if active[one] < least}
    left = sorted((mig[one], one) for one in known if one not in refused)
    if not left:
        rule = f"needs a restart of {setting} with {count(least, 'active latent')} or more"
        each = ", ".join(f"member {one} has {some}" for one, some in refused.items())
        value = Shown(each or f"{run.path}, where none has a MIG")
        raise invalid("run", rule, value, f"{REMEDY} Or choose a {{member=}}.")
    return Choice(left[0][1], left[0][0], setting, len(members), refused, least)


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
