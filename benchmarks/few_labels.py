# SPDX-License-Identifier: Apache-2.0
"""What a hundred labels are worth: β-VAE with and without them, with labels worse than the truth,
and labels alone.

    python benchmarks/few_labels.py [--seeds 3] [--steps 1500]
        [--out benchmarks/results/few_labels.json]

A disc in 5 sizes on 12x12 positions of a 24x24 image: 720 images, of which 100 are labelled. Both
axes of its movement matter alike to the loss, so a VAE without labels may turn them as it likes.
Labels that have lost their order are learned by embedding, the others by cross-entropy. Prints MIG
and DCI disentanglement over the whole grid by setting and seed, and writes them to the JSON file.
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
from typing import Any

import unbraid as ub
from unbraid.objectives.ae import AE
from unbraid.objectives.beta_vae import BetaVAE
from unbraid.objectives.objective import Objective
from unbraid.objectives.supervision.few_labels import FewLabels

DATA = {"image_size": 24, "x": 12, "y": 12, "scale": 5, "x_range": 1.0, "y_range": 1.0}
NETWORK = {"hidden": 128, "encoder_layers": 2, "decoder_layers": 2, "activation": "relu"}
LABELS = 100
SETTINGS: dict[str, tuple[Objective, FewLabels | None]] = {
    "no labels, β 1": (BetaVAE(beta=1), None),
    "no labels, β 4": (BetaVAE(beta=4), None),
    "perfect": (BetaVAE(beta=1), FewLabels(count=LABELS)),
    "binned": (BetaVAE(beta=1), FewLabels(count=LABELS, labeller="binned")),
    "noisy": (BetaVAE(beta=1), FewLabels(count=LABELS, labeller="noisy")),
    "partial": (BetaVAE(beta=1), FewLabels(count=LABELS, labeller="partial")),
    "permuted, embed": (
        BetaVAE(beta=1),
        FewLabels(count=LABELS, labeller="permuted", loss="embed", weight=16),
    ),
    "labels alone": (AE(), FewLabels(count=LABELS, alone="yes")),
}


def scores_of_seeds(
    objective: Objective, labels: FewLabels | None, seeds: int, steps: int, folder: Path
) -> dict[str, list[float]]:
    """MIG and DCI disentanglement for each seed."""
    run = ub.train(
        ub.load("sprites", **DATA),
        objective,
        supervision=labels,
        network="mlp",
        network_options=NETWORK,
        latents=6,
        batch_size=32,
        learning_rate=1e-3,
        steps=steps,
        seeds=seeds,
        out=folder,
        device="cpu",
        quiet=True,
    )
    table = run.score(["mig", "dci"], quiet=True)
    return {name: table[name].tolist() for name in ("mig", "dci")}


def main() -> None:
    """Train, print the table, write the record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/few_labels.json"))
    given = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name, (objective, labels) in SETTINGS.items():
        began, busy = time.perf_counter(), time.process_time()
        with tempfile.TemporaryDirectory() as folder:
            scores = scores_of_seeds(
                objective, labels, given.seeds, given.steps, Path(folder) / "run"
            )
        seconds, busy = time.perf_counter() - began, time.process_time() - busy
        means = {f"{metric}_mean": statistics.fmean(values) for metric, values in scores.items()}
        rows.append(
            {
                "labels": name,
                **scores,
                **means,
                "seconds": round(seconds, 1),
                "cpu_seconds": round(busy, 1),
            }
        )
        print(
            f"{name}: {given.seeds} models of {given.steps} steps in {seconds:.0f} s",
            file=sys.stderr,
            flush=True,
        )
    record = {
        "command": "python benchmarks/few_labels.py",
        "setting": (
            f"sprites {DATA}, γ_sup 1 (embed 16), {LABELS} labels, 6 latents, MLP 2x128, batch 32,"
            f" {given.steps} steps"
        ),
        "machine": (
            f"{len(os.sched_getaffinity(0))} cores of {platform.processor() or platform.machine()}"
        ),
        "rows": rows,
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{'labels':<16}{'mean MIG':>9}{'mean DCI':>9}  MIG of each seed")
    for row in rows:
        each = "  ".join(f"{score:.3f}" for score in row["mig"])
        print(f"{row['labels']:<16}{row['mig_mean']:>9.3f}{row['dci_mean']:>9.3f}  {each}")


if __name__ == "__main__":
    main()
