# SPDX-License-Identifier: Apache-2.0
"""Ada-GVAE on a miniature of XYSquares: the less its squares overlap as they move, the worse its
factors are found.

    python benchmarks/pairs_miniature.py [--seeds 3] [--steps 3000] [--beta 0.01]
        [--out benchmarks/results/pairs_miniature.json]

Michlo et al. (2023, figure 9) find that with 8x8 squares on 64x64 pixels. Here two squares of 3x3
pixels, each in a channel of its own, move on 8x8 positions of a 24x24 image: 4,096 images, of which
no two positions overlap at spacing 3. The rest is theirs: images standardised, pairs by the rule of
their code, symmetric divergence, β between means. A dense network takes the place of the
convolutions. Prints MIG over the whole grid by spacing and seed, and writes it to the JSON file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import unbraid as ub
from unbraid.core.grid import FactorGrid
from unbraid.data.dataset import PixelDataset, as_planes
from unbraid.data.drawn.xysquares import covers
from unbraid.objectives.ada_gvae import AdaGVAE

SIDE, SQUARE, POSITIONS = 24, 3, 8
SPACINGS = (1, 2, 3)
NETWORK = {"hidden": 128, "encoder_layers": 2, "decoder_layers": 2, "activation": "relu"}


class TwoSquares(PixelDataset):
    """Every image of two squares whose positions lie *spacing* pixels apart."""

    licence = "none needed: drawn here"

    def __init__(self, spacing: int) -> None:
        self.name = "two_squares"
        self.options = {"spacing": spacing}
        self.grid = FactorGrid(("x_1", "y_1", "x_2", "y_2"), (POSITIONS,) * 4)
        self.image_shape = (SIDE, SIDE, 2)
        offset = (SIDE - (SQUARE + (POSITIONS - 1) * spacing)) // 2
        covered = covers(
            offset + spacing * self.grid.to_factors(np.arange(self.grid.size)), SQUARE, SIDE
        )
        columns, rows = covered[:, 0::2], covered[:, 1::2]
        images = rows.swapaxes(1, 2)[:, :, None, :] & columns.swapaxes(1, 2)[:, None, :, :]
        self.planes = as_planes(images.astype(np.uint8) * np.uint8(255))


def mig_of_seeds(spacing: int, seeds: int, steps: int, beta: float, folder: Path) -> list[float]:
    """MIG of Ada-GVAE for each seed."""
    run = ub.train(
        TwoSquares(spacing),
        AdaGVAE(beta=beta, divergence="symmetric_kl", pair_rule="locatello"),
        convention="mean",
        standardise=True,
        likelihood="gaussian",
        network="mlp",
        network_options=NETWORK,
        latents=6,
        batch_size=256,
        learning_rate=1e-3,
        steps=steps,
        seeds=seeds,
        code_samples=POSITIONS**4,
        out=folder,
        device="cpu",
        quiet=True,
    )
    return run.score("mig", quiet=True)["mig"].tolist()


def main() -> None:
    """Train, print the table, write the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument(
        "--beta", type=float, default=0.01, help="between means over pixels and latents"
    )
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/pairs_miniature.json"))
    given = parser.parse_args()
    rows = []
    for spacing in SPACINGS:
        began = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            scores = mig_of_seeds(
                spacing, given.seeds, given.steps, given.beta, Path(folder) / "run"
            )
        seconds = time.perf_counter() - began
        rows.append(
            {
                "spacing": spacing,
                "mig": scores,
                "mean": statistics.fmean(scores),
                "wall_seconds": round(seconds),
            }
        )
        print(
            f"spacing {spacing}: {given.seeds} models of {given.steps} steps in {seconds:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    record = {
        "command": "python benchmarks/pairs_miniature.py",
        "setting": (
            f"Ada-GVAE, symmetric KL, β {given.beta:g} between means, 6 latents, MLP 2x128, 256"
            f" pairs, {given.steps} steps"
        ),
        "machine": (
            f"{len(os.sched_getaffinity(0))} cores of {platform.processor() or platform.machine()}"
        ),
        "rows": rows,
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{'spacing':>7}{'mean MIG':>10}  each seed")
    for row in rows:
        print(
            f"{row['spacing']:>7}{row['mean']:>10.3f}  "
            + "  ".join(f"{score:.3f}" for score in row["mig"])
        )


if __name__ == "__main__":
    main()
