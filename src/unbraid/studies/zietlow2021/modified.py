# SPDX-License-Identifier: Apache-2.0
"""The data of this study: moved by a latent of a trained model, or with noise as the control."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.data.perturbed.by_pattern import write_by_pattern
from unbraid.data.perturbed.dataset import Perturbed
from unbraid.data.perturbed.folder import write_perturbed
from unbraid.data.perturbed.pattern import ROWS_PER_STEP, standardised

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from unbraid.data.dataset import Dataset
    from unbraid.population.run_folder import RunFolder
    from unbraid.studies.made_data import Left

SEED = 0
"""Of the pattern and of the noise: data are chosen, models are the chance of the study."""
_HERE = ("run",)
"""What says where a run lay on the machine that trained it."""


@dataclass(frozen=True)
class LeastNoisy:
    """Leaves s: the least noisy latent of the restart with the lowest MIG (eq. 6).

    s is kept in 16 bits, which moves the pattern by a twentieth of a row at most, so that the file
    of all dSprites has 1.5 MB. What is made from it is the same everywhere.
    """

    among: str
    """Objective and strength of the restarts, as in `beta_vae:beta=8`."""

    def definition(self) -> dict[str, Any]:
        """The restarts, and which rule chooses among them."""
        return {"least_noisy": self.among, "rule": 1}

    def take(self, run: RunFolder, device: torch.device) -> Left:
        """The s of every image, and which restart and latent it is, and why."""
        import torch

        from unbraid.analysis.perturbation.least_noisy import lowest_mig, read_s
        from unbraid.scoring.score_table import stored_scores

        scores = stored_scores(run)
        mig = {one: value for one, value in _of(scores, "mig").items() if value == value}
        # By the paper's rule, which the table of the slice has too: ZIE-E6 tells what was taken.
        units = {one: int(value) for one, value in _of(scores, "active_units").items()}
        choice = lowest_mig(run, mig, units, self.among)
        s, made = read_s(run, device, choice.member, choice=choice, quiet=True)
        record = {name: value for name, value in made.items() if name not in _HERE}
        return {"s": torch.from_numpy(s).to(torch.float16)}, record


def _of(scores: pd.DataFrame, metric: str) -> dict[int, float]:
    """The score of each member on mean codes that has one."""
    rows = scores.loc[
        (scores["metric"] == metric)
        & (scores["representation"] == "mean")
        & (scores["quantity"] == "score")
    ]
    return {
        int(one): float(value) for one, value in zip(rows["member"], rows["value"], strict=True)
    }


@dataclass(frozen=True)
class Modified:
    """The plan's data, changed by the pattern that moves with s, as a slice before left it."""

    after: str
    epsilon: float

    def definition(self) -> dict[str, Any]:
        """How far values change and rows move, and the pattern's seed."""
        told = {"epsilon": self.epsilon, "rows_per_step": ROWS_PER_STEP, "clip": True, "seed": SEED}
        return {"noise": "pattern", **told}

    def make(self, base: Dataset, left: Left | None, folder: Path) -> Dataset:
        """Perturbed data in *folder*."""
        assert left is not None, "check_pools asks for what it comes after"
        tensors, made = left
        s, _, _ = standardised(tensors["s"].double().numpy())
        provenance = {"run": self.after, **made}
        write_by_pattern(folder, base, s, epsilon=self.epsilon, seed=SEED, provenance=provenance)
        return Perturbed(folder, base)


@dataclass(frozen=True)
class Noisy:
    """The plan's data with uniform noise in every value, the control."""

    epsilon: float
    after: str = ""

    def definition(self) -> dict[str, Any]:
        """How far values change, and the noise's seed."""
        return {"noise": "uniform", "epsilon": self.epsilon, "clip": True, "seed": SEED}

    def make(self, base: Dataset, left: Left | None, folder: Path) -> Dataset:
        """Noisy data in *folder*."""
        write_perturbed(folder, base, epsilon=self.epsilon, clip=True, seed=SEED)
        return Perturbed(folder, base)
