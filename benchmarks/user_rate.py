# SPDX-License-Identifier: Apache-2.0
"""What a user gets: whole plans through the public commands, from the command to its end.

    python benchmarks/user_rate.py --out benchmarks/results/user_rate.json

Each row is one process of `unbraid`, timed from its start to its exit: imports, compiling the
kernels, training with checkpoints every 30 seconds, encoding. Rows marked cold begin with an empty
cache of compiled kernels. Beside each stands what the kernels would allow: the same members trained
for two seconds in a process that is warm already; beside a search, as many models trained as long
by `unbraid train`. The models of one row are scored too, by `unbraid score`. `--only` names the
rows to run, `--quick` shrinks them to try the script out on a CPU; rows of earlier calls with the
same names are replaced.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import torch

SIX = (
    "beta_vae:beta=1,2,4,6,8,16",
    "annealed_vae:max_capacity=5,10,25,50,75,100",
    "factor_vae:gamma=10,20,30,40,50,100",
    "dip_vae_i:lambda_od=1,2,5,10,20,50",
    "dip_vae_ii:lambda_od=1,2,5,10,20,50",
    "beta_tcvae:beta=1,2,4,6,8,10",
)
"""The objectives and strengths of Locatello et al. (2019), table 2."""
ROWS: dict[str, dict[str, Any]] = {
    "mixed": {
        "what": "6 objectives x 6 strengths x 2 seeds, 30,000 steps",
        "objectives": SIX,
        "seeds": 2,
        "steps": 30_000,
        "cold": True,
    },
    "beta": {
        "what": "β-VAE, 6 strengths x 20 seeds, 20,000 steps",
        "objectives": SIX[:1],
        "seeds": 20,
        "steps": 20_000,
        "cold": True,
        "score": True,
    },
    "seeds": {
        "what": "128 seeds, 8,000 steps",
        "objectives": ("beta_vae",),
        "seeds": 128,
        "steps": 8_000,
        "cold": False,
    },
    "first": {
        "what": "128 seeds, 1,600 steps, first run on the machine",
        "objectives": ("beta_vae",),
        "seeds": 128,
        "steps": 1_600,
        "cold": True,
    },
    "second": {
        "what": "128 seeds, 1,600 steps, second run",
        "objectives": ("beta_vae",),
        "seeds": 128,
        "steps": 1_600,
        "cold": False,
    },
}
SEARCHES: dict[str, dict[str, Any]] = {
    "pbt": {
        "what": "population-based training by MIG, 12 models, 8 epochs of 200,000 images",
        "models": 12,
        "options": ["--score", "mig", "--population", "12"],
        "epochs": 8,
    },
    "pbt_groups": {
        "what": "population-based training by UDR, 10 x 5 models, 4 epochs of 200,000 images",
        "models": 50,
        "options": ["--score", "udr", "--population", "10", "--models", "5"],
        "epochs": 4,
    },
}
"""Searches: batch 64 throughout, so that the same models can be trained without the search."""
EPOCH_IMAGES = 200_000
BATCH = 64
KERNELS = """
import sys, time, torch
from unbraid.core.spelling import split_list
from unbraid.population.cuda_graph import Stepper, rehearse
from unbraid.population.devices import choose_device, usual_precision
from unbraid.population.kind import chunks_of
from unbraid.population.plan import make_plan
from unbraid.population.training_step import TrainingStep

device = choose_device(sys.argv[1])
plan, dataset = make_plan(
    "dsprites", sys.argv[4:], seeds=int(sys.argv[2]), steps=10**9, log_every=10**6,
    precision=usual_precision(device),
)
(chunk,) = chunks_of(plan.members, 10**6)
program = TrainingStep(plan, chunk, dataset, device)
rehearse(program)
stepper = Stepper(program, program.start())
for _ in range(5):
    stepper.advance(10**6)
wait = torch.cuda.synchronize if device.type == "cuda" else (lambda: None)
wait()
began, done = time.perf_counter(), 0
while time.perf_counter() - began < float(sys.argv[3]):
    done += len(chunk) * stepper.advance(10**6)
wait()
print(done / (time.perf_counter() - began))
"""


def command(row: dict[str, Any], out: Path, device: str) -> list[str]:
    """What a user types."""
    words = ["train", "dsprites", *row["objectives"], "--seeds", str(row["seeds"])]
    words += ["--steps", str(row["steps"]), "--checkpoint-seconds", "30"]
    return [*words, "--device", device, "--out", str(out)]


def search_command(row: dict[str, Any], out: Path, device: str) -> list[str]:
    """What a user types to search."""
    words = ["pbt", "dsprites", "beta_tcvae", *row["options"], "--first-factor", "1"]
    words += ["--epochs", str(row["epochs"]), "--epoch-images", str(row["images"])]
    words += ["--batch-size", str(BATCH), "--checkpoint-seconds", "30"]
    return [*words, "--device", device, "--out", str(out)]


def without_search(row: dict[str, Any], out: Path, device: str) -> list[str]:
    """What a user types to train as many models as long."""
    updates = row["epochs"] * -(-row["images"] // BATCH)
    plan = {"objectives": ("beta_tcvae",), "seeds": row["models"], "steps": updates}
    return [*command(plan, out, device), "--batch-size", str(BATCH)]


def typed(words: list[str], environment: dict[str, str]) -> tuple[float, str]:
    """Run a command of a user's; returns its seconds and what it said."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "unbraid", *words],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)} failed:\n{done.stderr}")
    return time.perf_counter() - began, done.stderr


def kernels(
    objectives: tuple[str, ...],
    seeds: int,
    device: str,
    seconds: float,
    environment: dict[str, str],
) -> float:
    """Model-steps a second of the same members in a process that is warm already."""
    done = subprocess.run(
        [sys.executable, "-c", KERNELS, device, str(seeds), str(seconds), *objectives],
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    return float(done.stdout)


def measure(
    row: dict[str, Any], device: str, cache: Path, seconds: float, runs: Path | None
) -> dict[str, Any]:
    """Run one row, in a folder of *runs* where it shall stay; returns its numbers."""
    searches = row["name"] in SEARCHES
    with tempfile.TemporaryDirectory() as folder:
        cold = Path(folder) / "cache"
        environment = os.environ | {"TRITON_CACHE_DIR": str(cold if row["cold"] else cache)}
        out = Path(folder if runs is None else runs) / row["name"]
        alike = ("beta_tcvae",) if searches else row["objectives"]
        could = partial(kernels, alike, row["models" if searches else "seeds"], device, seconds)
        # A row that is not cold finds its kernels compiled.
        warm_rate = None if row["cold"] else could(environment)
        words = (search_command if searches else command)(row, out, device)
        took, said = typed(words, environment)
        told = re.search(
            r"(?:training|searching): ([\d,]+) (?:model-steps|images) in (\d+) s", said
        )
        assert told is not None, said
        model_steps = int(told[1].replace(",", "")) / (BATCH if searches else 1)
        scoring = typed(["score", str(out)], environment)[0] if row.get("score") else None
        plain = (
            typed(without_search(row, Path(folder) / "plain", device), environment)[0]
            if searches
            else None
        )
        rate = warm_rate or could(environment)
        disk = sum(path.stat().st_size for path in out.rglob("*") if path.is_file())
    return {
        "what": row["what"],
        "members": row["models"] if searches else round(model_steps / row["steps"]),
        "model_steps_per_second": model_steps / took,
        "seconds": took,
        "seconds_of_training": int(told[2]),
        "kernels": rate,
        "share": model_steps / took / rate,
        "share_while_training": model_steps / max(int(told[2]), 1) / rate,
        "disk_bytes": disk,
        "seconds_of_scoring": scoring,
        "share_of_training": plain and plain / took,
        "cold": row["cold"],
        "command": " ".join(["unbraid", *words[:-1], "OUT"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="*", choices=[*ROWS, *SEARCHES], default=[*ROWS, *SEARCHES])
    parser.add_argument("--runs", type=Path, help="where run folders stay")
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    machine = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    found: dict[str, Any] = {"rows": []}
    if given.out and given.out.exists():
        found = json.loads(given.out.read_text())
    found |= {
        "machine": machine,
        "torch": torch.__version__,
        "date": datetime.now(UTC).date().isoformat(),
    }
    with tempfile.TemporaryDirectory() as cache:
        for name in given.only:
            row = {"name": name, "cold": False, "images": EPOCH_IMAGES}
            row |= ROWS[name] if name in ROWS else SEARCHES[name]
            if given.quick:  # no numbers to be taken for those of the whole row
                row["what"] = f"quick: {row['what']}"
            if given.quick and name in ROWS:
                row |= {"seeds": 1, "steps": 2, "objectives": row["objectives"][:2]}
            elif given.quick:
                row |= {"epochs": 2, "images": 128}
            numbers = measure(row, device, Path(cache), 0.1 if given.quick else 2.0, given.runs)
            print(
                f"{numbers['what']}: {numbers['model_steps_per_second']:,.0f} /s of"
                f" {numbers['kernels']:,.0f}, {numbers['seconds']:.0f} s with"
                f" {numbers['seconds_of_training']} of training,"
                f" {numbers['disk_bytes'] / 1e9:.2f} GB",
                flush=True,
            )
            found["rows"] = [
                *(one for one in found["rows"] if one["what"] != numbers["what"]),
                numbers,
            ]
            if given.out:
                given.out.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
