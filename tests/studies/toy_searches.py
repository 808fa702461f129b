# SPDX-License-Identifier: Apache-2.0
"""Pools of searches that train in a moment: by MIG, a recursion, and a final by its labels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unbraid.core.registry import Citation
from unbraid.search.reduce.reduction import ReductionRule
from unbraid.studies.pool import Pool, Scale, SearchSlice
from unbraid.studies.study import Study

EAGER = ReductionRule(chance=None, peak_deviations=0.5, fewest_images=3, separation=4, more_than=2)
"""Finds parts in the codes of models that hardly trained."""
SMALL: dict[str, Any] = {
    "data": "sprites",
    "data_options": {"x": 10, "y": 8, "scale": 1, "image_size": 16},
    "objective": "beta_vae",
    "network": "mlp",
    "network_options": {"hidden": 32},
    "latents": 3,
    "population": 5,
    "epochs": 2,
    "epoch_images": 320,
    "hyper": {"beta": "0.2..0.5"},
    "learning_rate": "5e-3..1e-2",
    "batch_size": [8, 16],
    "checkpoint_seconds": 0.0,
}
RECURSION = SMALL | {"models": 2, "leaf_images": 160, "levels": 2, "reduction": EAGER}


def pools(scale: Scale, first_seed: int) -> tuple[Pool, ...]:
    seed = {"seed": first_seed + 1}
    by_mig = SearchSlice("by-mig", SMALL | seed | {"score": "mig", "first_factor": 1}, ("mig",))
    recursion = SearchSlice(
        "whole", RECURSION | seed | {"leaf_runs": 1}, ("mig", "udr"), kind="rpu"
    )
    final = SearchSlice(
        "final-0",
        RECURSION | seed | {"leaf_runs": 0},
        ("mig",),
        kind="final",
        labels_of="rpu/whole",
    )
    return (
        Pool("finals", "by the root's labels alone", (final,)),
        Pool("pbt", "by MIG", (by_mig,)),
        Pool("rpu", "a recursion", (recursion,)),
    )


def make_study(folder: Path) -> Study:
    """The study, with its claims in *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "claims.toml").write_text("")
    citation = Citation("Nobody", 2026, "Toy searches", "nowhere")
    return Study("toy_searches", "whether searches run", citation, folder, pools, {})
