# SPDX-License-Identifier: Apache-2.0
"""Does bfloat16 cost anything? The same 64 seeds of β-VAE on dSprites, trained in float32 and in
bfloat16.

    python benchmarks/precision.py train --precision bfloat16 --out FOLDER
    python benchmarks/precision.py train --precision float32 --out FOLDER
    python benchmarks/precision.py compare --out FOLDER
        [--results benchmarks/results/precision.json]

Training writes the evidence lower bound and the mutual information gap of every seed at each
milestone as it is reached, so an interrupted run still compares up to the last one both have.
`compare` reports means, spreads and three tests: Mann-Whitney (do values tend to be larger?),
Kolmogorov-Smirnov (are the distributions different at all?) and a bootstrap interval of the
difference of means. Both precisions draw the same initial weights, batches and noise, but soon
follow paths of their own.
"""

from __future__ import annotations

import argparse
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

SEEDS = 64
MILESTONES = (10_000, 15_000, 20_000)
BETA = 4.0
CODE_SAMPLES = 10_000
LOG_EVERY = 500
"""The evidence lower bound at a milestone is the mean over so many steps before it."""


def train(
    precision: str,
    out: Path,
    seeds: int,
    milestones: tuple[int, ...],
    data: dict[str, Any],
    log_every: int,
) -> None:
    """Train all seeds as one population and write their scores at each milestone."""
    import torch

    from unbraid import metrics
    from unbraid.codes.codes import recorded_sample
    from unbraid.codes.encode import encode_images
    from unbraid.objectives.beta_vae import BetaVAE
    from unbraid.population.cuda_graph import Stepper
    from unbraid.population.plan import make_plan
    from unbraid.population.training_step import TrainingStep

    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    plan, dataset = make_plan(
        objective=BetaVAE(beta=BETA),
        seeds=seeds,
        steps=milestones[-1],
        precision=precision,
        log_every=log_every,
        **data,
    )
    indices = recorded_sample(len(dataset), CODE_SAMPLES)
    factors = dataset.factors(indices)
    program = TrainingStep(plan, plan.members, dataset, device)
    stepper = Stepper(program, program.start())
    state, found, began = stepper.state, [], time.perf_counter()

    def write(
        milestone: int, mean: Any, recorded: dict[str, list[float]], diverged: int, seconds: float
    ) -> None:
        elbo = [
            -(nats + kl)
            for nats, kl in zip(recorded["reconstruction"], recorded["kl"], strict=True)
        ]
        mig = [metrics.mig(codes, factors).score for codes in mean.numpy()]
        found.append(
            {
                "step": milestone,
                "elbo": elbo,
                "mig": mig,
                "kl": recorded["kl"],
                "diverged": diverged,
            }
        )
        record = {
            "precision": precision,
            "seeds": seeds,
            "beta": BETA,
            "seconds": seconds,
            "found": found,
        }
        out.mkdir(parents=True, exist_ok=True)
        (out / f"precision_{precision}.json").write_text(
            json.dumps(record) + "\n", encoding="utf-8"
        )
        print(
            f"{precision} step {milestone}: ELBO {np.mean(elbo):.2f} ± {np.std(elbo, ddof=1):.2f},"
            f" MIG {np.mean(mig):.4f} ± {np.std(mig, ddof=1):.4f}, {diverged} diverged,"
            f" {seconds:.0f} s",
            flush=True,
        )

    # Scores are computed beside the training, which goes on.
    written = []
    with ThreadPoolExecutor(1) as scoring:
        for milestone in milestones:
            while state.step < milestone:
                stepper.advance(milestone - state.step)
            weights = program.kinds[0].layout.views(state.model.weights)
            mean, _ = encode_images(
                program.network,
                weights,
                program.sampler,
                torch.from_numpy(indices).to(device),
                plan.dtype,
            )
            values = state.history[:, milestone // log_every - 1].T.tolist()
            recorded = dict(zip(program.kinds[0].quantities, values, strict=True))
            diverged = int((state.diverged_at >= 0).sum())
            written.append(
                scoring.submit(
                    write, milestone, mean, recorded, diverged, time.perf_counter() - began
                )
            )
        for future in written:
            future.result()


def compare_values(
    step: int, quantity: str, float32: list[float], bfloat16: list[float]
) -> dict[str, Any]:
    """Means, spreads and tests of the difference of one *quantity*, which is also printed."""
    from scipy import stats

    a, b, draws = np.array(float32), np.array(bfloat16), np.random.default_rng(0)
    means = [draws.choice(b, len(b)).mean() - draws.choice(a, len(a)).mean() for _ in range(4000)]
    low, high = np.percentile(means, [2.5, 97.5])
    row = {
        "step": step,
        "quantity": quantity,
        "float32": {"mean": a.mean(), "std": a.std(ddof=1)},
        "bfloat16": {"mean": b.mean(), "std": b.std(ddof=1)},
        "difference_95": [low, high],
        "mann_whitney_p": float(stats.mannwhitneyu(a, b).pvalue),
        "kolmogorov_smirnov_p": float(stats.ks_2samp(a, b).pvalue),
    }
    print(
        f"step {step:>6} {quantity:<5} float32 {a.mean():9.4f} ± {a.std(ddof=1):.4f}   bfloat16"
        f" {b.mean():9.4f} ± {b.std(ddof=1):.4f}   difference [{low:+.4f}, {high:+.4f}]   p"
        f" {row['mann_whitney_p']:.2f} (MW) {row['kolmogorov_smirnov_p']:.2f} (KS)",
        flush=True,
    )
    return row


def compare(out: Path) -> dict[str, Any]:
    """Means, spreads and tests of the difference at every milestone that both reached."""
    runs = {
        name: json.loads((out / f"precision_{name}.json").read_text())
        for name in ("float32", "bfloat16")
    }
    shared = [
        pair
        for pair in zip(runs["float32"]["found"], runs["bfloat16"]["found"], strict=False)
        if pair[0]["step"] == pair[1]["step"]
    ]
    rows = [
        compare_values(full["step"], quantity, full[quantity], low[quantity])
        for full, low in shared
        for quantity in ("elbo", "mig")
    ]
    return {
        "seeds": runs["float32"]["seeds"],
        "beta": runs["float32"]["beta"],
        "rows": rows,
        "runs": runs,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=["train", "compare"])
    parser.add_argument("--precision", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--out", type=Path, required=True, help="folder of the runs' numbers")
    parser.add_argument("--results", type=Path, help="JSON file for the comparison")
    parser.add_argument(
        "--quick",
        action="store_true",
        help="two seeds and a few steps on a small set, to try the script out",
    )
    options = parser.parse_args()
    if options.what == "train":
        if options.quick:
            small = {
                "data": "sprites",
                "data_options": {"x": 6, "y": 4, "scale": 2, "image_size": 28},
                "batch_size": 8,
            }
            train(options.precision, options.out, 2, (10, 20), small, 5)
        else:
            train(
                options.precision, options.out, SEEDS, MILESTONES, {"data": "dsprites"}, LOG_EVERY
            )
        return
    record = compare(options.out)
    if options.results:
        options.results.parent.mkdir(parents=True, exist_ok=True)
        options.results.write_text(json.dumps(record, indent=None) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
