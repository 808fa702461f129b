# SPDX-License-Identifier: Apache-2.0
"""Does bfloat16 cost anything on a CPU? The same seeds of β-VAE, trained in both precisions.

    python benchmarks/cpu_precision.py --out benchmarks/results/cpu_precision.json

On a set of 3,072 sprites of 32x32 pixels, since dSprites at full size would take a CPU hours. Both
precisions train by the public command, a member a core, and are scored by MIG, DCI and the evidence
lower bound; `precision.compare_values` says whether their distributions differ. Model-steps per
second of both are reported beside. `--quick` tries the script out.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from precision import compare_values

import unbraid as ub

SEEDS = 24
STEPS = 4_000
BETA = 4.0
SPRITES = {"x": 16, "y": 16, "scale": 4, "shape": 3, "image_size": 32}
METRICS = ("elbo", "mig", "dci")


def scores_of(precision: str, seeds: int, steps: int, folder: Path) -> dict[str, Any]:
    """Train *seeds* members and score them: values by metric, and the training's rate."""
    began = time.perf_counter()
    run = ub.train(
        "sprites",
        ub.BetaVAE(beta=BETA),
        data_options=SPRITES,
        seeds=seeds,
        steps=steps,
        learning_rate=5e-4,
        latents=6,
        precision=precision,
        device="cpu",
        out=folder / precision,
        quiet=True,
    )
    seconds = time.perf_counter() - began
    table = run.score(METRICS, quiet=True)
    values = {name: [float(value) for value in table[name]] for name in METRICS}
    return {"model_steps_per_second": seeds * steps / seconds, **values}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    seeds, steps = (2, 10) if given.quick else (given.seeds, given.steps)
    with tempfile.TemporaryDirectory() as folder:
        runs = {
            precision: scores_of(precision, seeds, steps, Path(folder))
            for precision in ("float32", "bfloat16")
        }
    rows = [
        compare_values(steps, name, runs["float32"][name], runs["bfloat16"][name])
        for name in METRICS
    ]
    for precision, run in runs.items():
        print(f"{precision}: {run['model_steps_per_second']:.1f} model-steps/s")
    if given.out:
        record = {
            "machine": f"{torch.get_num_threads()} cores",
            "processor": torch.backends.cpu.get_cpu_capability(),
            "torch": torch.__version__,
            "seeds": seeds,
            "beta": BETA,
            "rows": rows,
            "runs": runs,
        }
        given.out.write_text(json.dumps(record) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
