# SPDX-License-Identifier: Apache-2.0
"""How long the six usual metrics of a population take, and each of them alone.

    python benchmarks/scoring.py [--members 128] [--device auto] [--check 16]
        [--out benchmarks/results/scoring.json]

Codes are made up: 10 latents that follow some of dSprites' five factors through bends, with little
or much noise, 10,000 samples to fit and 5,000 to test. On a GPU, DCI's trees are grown there while
the cores do the rest, as `unbraid score` does it. DCI of so many members as --check says is
computed by the cores too, and both are compared.
"""

from __future__ import annotations

import argparse
import json
import platform
import resource
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib.externals.loky import get_reusable_executor

from unbraid.codes.codes import recorded_sample
from unbraid.data import load
from unbraid.population.devices import choose_device, cores
from unbraid.scoring.metric_inputs import MetricInputs, Task, score_tasks
from unbraid.scoring.metric_names import USUAL

SAMPLES, TRAIN, LATENTS = 15_000, 10_000, 10


def codes_of(member: int, factors: np.ndarray) -> np.ndarray:
    """Codes between disentangled and mixed, sharp and noisy."""
    generator = np.random.default_rng(member)
    unit = (factors - factors.mean(axis=0)) / factors.std(axis=0)
    shape = (factors.shape[1], LATENTS)
    mixing = generator.normal(size=shape) * (generator.random(shape) < generator.uniform(0.1, 0.6))
    bent = np.tanh(0.7 * unit @ mixing)
    noise = generator.choice([0.01, 0.05, 0.2, 1.0], LATENTS)
    return (bent + noise * generator.normal(size=bent.shape)).astype(np.float32)


class Scoring:
    """The scores of made-up members."""

    def __init__(self, members: int) -> None:
        dataset = load("dsprites")
        self.factors = dataset.factors(recorded_sample(len(dataset), SAMPLES))
        self.codes = [codes_of(member, self.factors) for member in range(members)]

    def inputs(self, task: Task) -> list[MetricInputs]:
        """What a metric is given."""
        return [MetricInputs(self.codes[task.members[0]], TRAIN, self.factors)]

    def measure(
        self, names: tuple[str, ...], members: int, workers: int, device: torch.device | None
    ) -> tuple[float, float, dict[tuple[int, str], float]]:
        """Wall seconds, CPU seconds of all processes, and each member's numbers."""
        tasks = [Task((member,), name, "mean") for member in range(members) for name in names]
        before, began = _cpu_seconds(), time.perf_counter()
        found = {}
        for outcome in score_tasks(tasks, self.inputs, workers, device):
            assert not outcome.complaint, outcome.complaint
            found |= {(row[0], f"{row[1]}.{row[3]}"): row[4] for row in outcome.rows}
        wall = time.perf_counter() - began
        get_reusable_executor().shutdown(wait=True)  # only what has ended is counted
        return wall, _cpu_seconds() - before, found


def _cpu_seconds() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(used.ru_utime + used.ru_stime for used in map(resource.getrusage, kinds))


def main() -> None:
    """Measure, print, and write where told."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", type=int, default=128)
    parser.add_argument("--device", default="auto", help="where DCI's trees grow")
    parser.add_argument("--check", type=int, default=16, help="members whose DCI is compared")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    given = parser.parse_args()
    device, scoring = choose_device(given.device), Scoring(given.members)
    scoring.measure(USUAL, 1, 1, device)  # kernels are compiled, libraries loaded
    rows: list[dict[str, Any]] = []
    for name in USUAL:
        wall, spent, _ = scoring.measure((name,), 1, 1, None)
        rows.append({"metric": name, "wall_s": wall, "cpu_s": spent})
        print(f"{name:<20}{wall:>8.3f} s a model on one core", flush=True)
    record: dict[str, Any] = {"one_core": rows}
    if device.type == "cuda":
        wall, spent, there = scoring.measure(("dci",), given.members, 1, device)
        record["dci_on_gpu"] = {"members": given.members, "wall_s": wall, "cpu_s": spent}
        print(f"dci of {given.members} models on {device}: {wall:.1f} s", flush=True)
        if given.check:
            wall, spent, here = scoring.measure(("dci",), given.check, cores(), None)
            apart = max(abs(value - there[place]) for place, value in here.items())
            record["dci_by_cores"] = {"members": given.check, "wall_s": wall, "cpu_s": spent}
            record["dci_apart"] = apart
            print(f"dci of {given.check} by the cores: {wall:.1f} s; apart by {apart:.2g}")
    wall, spent, _ = scoring.measure(USUAL, given.members, cores(), device)
    record["usual"] = {"members": given.members, "wall_s": wall, "cpu_s": spent}
    print(f"usual metrics of {given.members} models: {wall:.1f} s, {spent:.1f} CPU s")
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    record |= {
        "device": name,
        "cores": cores(),
        "versions": {"torch": torch.__version__, "python": platform.python_version()},
        "command": "python benchmarks/scoring.py",
    }
    if given.out:
        given.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
