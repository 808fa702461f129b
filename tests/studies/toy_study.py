# SPDX-License-Identifier: Apache-2.0
"""A study that trains in a moment: two pools of small models on small sprites, three claims."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pandas as pd

from unbraid.core.registry import Citation
from unbraid.studies.finding import Estimate, Finding
from unbraid.studies.pool import Pool, Scale, Slice
from unbraid.studies.study import Study

SMALL: dict[str, Any] = {
    "data": "sprites",
    "data_options": {"x": 6, "y": 4, "scale": 2, "image_size": 28},
    "network": "mlp",
    "network_options": {"hidden": 8},
    "latents": 3,
    "batch_size": 8,
    "learning_rate": 1e-3,
    "checkpoint_seconds": 0.0,
}
STEPS = {"small": 20, "gpu": 40, "paper": 60}
CLAIMS = """
[[claim]]
id = "TOY-1"
place = "page 1"
statement = "Models have a KL."
paper = "always"
source = "text"
measured = "mean KL of all models"
pools = ["main"]
data = ["sprites"]

[[claim.rule]]
statistic = "kl"
side = "above"
threshold = 0.0
interval = "the range"

[[claim]]
id = "TOY-2"
place = "page 2"
statement = "Cars are harder."
paper = "0.3"
source = "plot"
measured = "MIG on cars"
pools = ["cars"]
data = ["cars3d"]

[[claim.rule]]
statistic = "mig"
side = "below"
threshold = 0.5
interval = "the range"

[[claim]]
id = "TOY-3"
place = "page 3"
statement = "A KL grows while a model trains."
paper = "in a figure"
source = "plot"
measured = "KL at the end against that of the first stage"
pools = ["stages"]

[[claim.rule]]
statistic = "growth"
side = "above"
threshold = 0.0
interval = "the range"
"""


def pools(scale: Scale, first_seed: int) -> tuple[Pool, ...]:
    steps = int(os.environ.get("TOY_STEPS", STEPS[scale]))
    seeds = [first_seed, first_seed + 1]
    plan = SMALL | {"steps": steps, "seeds": seeds}
    main = [
        Slice(f"beta-{beta}", plan | {"objective": f"beta_vae:beta={beta}"}, ("mig", "elbo"))
        for beta in (1, 4)
    ]
    stages = Slice(
        "annealed",
        plan | {"objective": "annealed_vae:gamma=10"},
        ("active_units",),
        sampled=("total_correlation",),
        stages=(steps // 4, steps // 2),
        latents=True,
    )
    cars = Slice("cars", plan | {"data": "cars3d", "data_options": {}}, ("mig",))
    return (
        Pool("main", "two strengths", tuple(main)),
        Pool("stages", "one model on its way", (stages,)),
        Pool("cars", "needs a published file", (cars,), needs=("cars3d",)),
    )


def mean_kl(table: pd.DataFrame) -> Finding | None:
    values = table.loc[table["pool"] == "main", "elbo.kl"].dropna()
    if values.empty:
        return None
    return Finding((Estimate("kl", values.mean(), values.min(), values.max(), len(values)),))


def cars_mig(table: pd.DataFrame) -> Finding | None:
    values = table.loc[table["data"] == "cars3d", "mig"]
    return Finding((Estimate("mig", values.mean(), values.min(), values.max(), len(values)),))


def growth(table: pd.DataFrame) -> Finding | None:
    own = table[table["pool"] == "stages"]
    totals = own.assign(kl=own["kl_by_latent"].map(sum)).pivot(
        index="seed", columns="steps", values="kl"
    )
    gain = totals.iloc[:, -1] - totals.iloc[:, 0]
    return Finding((Estimate("growth", gain.mean(), gain.min(), gain.max(), len(gain)),))


def make_study(folder: Path) -> Study:
    """The study, with its claims in *folder*."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "claims.toml").write_text(CLAIMS)
    return Study(
        name="toy",
        title="whether the machinery of studies runs",
        citation=Citation("Nobody", 2026, "A toy", "nowhere"),
        folder=folder,
        pools=pools,
        analyses={"TOY-1": mean_kl, "TOY-2": cars_mig, "TOY-3": growth},
    )


if __name__ == "__main__":  # as a process of its own: FOLDER, then the words of a command line
    import sys

    from unbraid.commands.command_line import main
    from unbraid.scoring import metric_inputs
    from unbraid.studies import STUDIES

    metric_inputs.WORTH_PROCESSES = 10**6  # they would outlive a kill, and take longer to start
    STUDIES.register("toy", make_study(Path(sys.argv.pop(1))))
    main()
