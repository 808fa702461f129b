# SPDX-License-Identifier: Apache-2.0
"""Plans of earlier versions: they are read, resumed and shown as they are.

Chunks once held members of one kind only, and few labels came with objectives of their own. Members
keep the names and hyperparameters that their plan holds, so that its digest, which checkpoints
carry, stays; what they train is said here in today's terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from unbraid.objectives import OBJECTIVES
from unbraid.objectives.supervision import SUPERVISIONS

if TYPE_CHECKING:
    from unbraid.population.member import Member

WITH_LABELS = {
    "s2_beta_vae": "beta_vae",
    "s2_factor_vae": "factor_vae",
    "s2_dip_vae_i": "dip_vae_i",
    "s2_dip_vae_ii": "dip_vae_ii",
    "s2_beta_tcvae": "beta_tcvae",
    "supervised": "ae",
}
"""Objectives that learned from few labels, and what they are without."""
LABEL_FIELDS = {
    "label_loss": "loss",
    "label_count": "count",
    "labeller": "labeller",
    "label_seed": "seed",
    "label_bins": "bins",
    "label_noise": "noise",
    "observed_factors": "observed_factors",
    "embedding": "embedding",
    "embedding_sigma": "embedding_sigma",
    "learn_sigma": "learn_sigma",
    "gamma_sup": "weight",
    "annealing": "annealing",
    "annealing_steps": "annealing_steps",
}
"""Their hyperparameters, and those of the supervision `labels`."""


def chunks_of_one_kind(members: Sequence[Member], most: int) -> list[tuple[Member, ...]]:
    """Members that trained together: neighbours of a kind, at most *most* of them."""
    chunks: list[list[Member]] = []
    for member in members:
        last = chunks[-1] if chunks else []
        if last and len(last) < most and last[-1].structure() == member.structure():
            last.append(member)
        else:
            chunks.append([member])
    return [tuple(chunk) for chunk in chunks]


def in_todays_terms(member: Member) -> Member:
    """*member* with an objective and a supervision that exist today; mostly itself."""
    if member.objective not in WITH_LABELS or member.objective in OBJECTIVES:
        return member
    labels = {
        LABEL_FIELDS[name]: value for name, value in member.hyper.items() if name in LABEL_FIELDS
    }
    if member.objective == "supervised":
        labels["alone"] = "yes"
    return replace(
        member,
        objective=WITH_LABELS[member.objective],
        hyper={name: value for name, value in member.hyper.items() if name not in LABEL_FIELDS},
        supervision="labels",
        supervision_hyper=labels,
    )


def usual_hyper(member: Member) -> dict[str, Any]:
    """Defaults of the hyperparameters of *member*, by the names of its plan."""
    now = in_todays_terms(member)
    usual = {item.name: item.default for item in fields(OBJECTIVES.recall(now.objective))}
    if now is not member:
        labels = {item.name: item.default for item in fields(SUPERVISIONS.load("labels"))}
        usual |= {former: labels[name] for former, name in LABEL_FIELDS.items()}
    return usual
