# SPDX-License-Identifier: Apache-2.0
"""How many model-steps a second a population trains on this machine's CPU, against a plain PyTorch
loop in the same run.

    python benchmarks/cpu_training.py [--seconds 30] [--rounds 3] [--out results.json]

The plain loop is what one would write first: `torch.nn` modules of the same network,
`torch.optim.Adam`, float32, all cores, images taken by random index from a tensor in memory. Each
contender runs in a fresh process, so that none inherits another's settings; rounds alternate, and
medians are compared, the ratio being the median of the ratios within a round, since a machine
shared with others changes its speed from minute to minute. Prints a table and, with --out, writes
the JSON that the README's table is generated from.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

BATCH = 64
LATENTS = 10
MEMBERS = 4
CONTENDERS = {
    "plain": "plain PyTorch loop, float32, one model",
    "float32": f"Unbraid, population of {MEMBERS}, float32",
    "bfloat16": f"Unbraid, population of {MEMBERS}, bfloat16 convolutions",
}


def plain_loop(seconds: float) -> float:
    """Model-steps a second of the plain loop."""
    import torch
    from plain_loop import plain_step

    import unbraid as ub

    dataset = ub.load("dsprites")
    step = plain_step(
        torch.from_numpy(dataset.images(range(0, len(dataset), 40)))
        .permute(0, 3, 1, 2)
        .contiguous(),
        BATCH,
    )
    for _ in range(3):
        step()
    began, steps = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        step()
        steps += 1
    return steps / (time.perf_counter() - began)


def population(seconds: float, precision: str) -> float:
    """Model-steps a second of `train_run`, the loop that `unbraid train` uses, checkpoints
    included.
    """
    import torch

    from unbraid.population.plan import make_plan
    from unbraid.population.run_folder import RunFolder
    from unbraid.population.train import train_run

    rate_guess = 25
    plan, dataset = make_plan(
        "dsprites",
        "beta_vae",
        seeds=MEMBERS,
        steps=max(10, int(seconds * rate_guess / MEMBERS)),
        batch_size=BATCH,
        latents=LATENTS,
        precision=precision,
    )
    dataset.sampler("cpu")
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", plan, 1, dataset)
        began = time.perf_counter()
        train_run(run, torch.device("cpu"))
        return plan.steps * MEMBERS / (time.perf_counter() - began)


def measure(name: str, seconds: float) -> float:
    """Run one contender in a process of its own."""
    command = [sys.executable, __file__, "--only", name, "--seconds", str(seconds)]
    return float(
        subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="about how long each contender runs in a round"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument("--only", choices=CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(
            plain_loop(options.seconds)
            if options.only == "plain"
            else population(options.seconds, options.only)
        )
        return
    rates: dict[str, list[float]] = {name: [] for name in CONTENDERS}
    for number in range(options.rounds):
        for name in CONTENDERS:
            rates[name].append(measure(name, options.seconds))
            print(f"round {number + 1}: {name:<10}{rates[name][-1]:8.1f} model-steps/s", flush=True)
    rows = [
        {
            "what": what,
            "model_steps_per_second": statistics.median(rates[name]),
            "ratio": statistics.median(
                ours / plain for ours, plain in zip(rates[name], rates["plain"], strict=True)
            ),
        }
        for name, what in CONTENDERS.items()
    ]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    print(f"\n{'what':<58}{'model-steps/s':>14}{'ratio':>8}")
    for row in rows:
        print(f"{row['what']:<58}{row['model_steps_per_second']:>14.1f}{row['ratio']:>8.2f}")
    if options.out:
        task = f"β-VAE on dSprites, 64x64, conv_burgess, batch {BATCH}"
        setting = f"{task}; medians of {options.rounds} rounds, `python benchmarks/cpu_training.py`"
        record = {"rows": rows, "machine": f"{cores} cores of {_processor()}", "setting": setting}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(
            json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
        )


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    names = (
        [
            line.split(":")[1].strip()
            for line in info.read_text().splitlines()
            if "model name" in line
        ]
        if info.exists()
        else []
    )
    return names[0] if names else platform.processor() or platform.machine()


if __name__ == "__main__":
    main()
