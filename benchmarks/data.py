# SPDX-License-Identifier: Apache-2.0
"""How many images a second each dataset gives a training step, and what it takes in memory.

    python benchmarks/data.py [--seconds 1] [--device cpu|cuda] [--painting scream.jpg]
        [--out results.json]

On a CPU one thread draws batches of 64; on a GPU batches of 64 for each of 128 members. The
yardstick in the same run is a plain loader of XYSquares: one image at a time drawn by NumPy
assignment, stacked, turned into a float tensor, as loaders of this field do (disent's own was
measured at 19,000 a second on a core). Memory of the host is the growth of the process's peak while
a sampler is made and used, in a process of its own. With --out the results of this device are
written into the JSON that the README's table is generated from, beside those of the other.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from unbraid.data import DRAWN

CPU_BATCH, GPU_BATCH = 64, 64 * 128
YARDSTICK = "xysquares, a plain loader on one core"
NEEDS_PAINTING = "scream_dsprites"


def rate(draw, size: int, device: str, seconds: float) -> float:
    """Images a second of *draw*, indices drawn beforehand."""
    import torch

    batch = CPU_BATCH if device == "cpu" else GPU_BATCH
    indices = torch.randint(0, size, (8, batch), generator=torch.Generator().manual_seed(0)).to(
        device
    )
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    for row in indices:
        draw(row)
    wait()
    began, images = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        for row in indices:
            draw(row)
        wait()
        images += indices.numel()
    return images / (time.perf_counter() - began)


def plain_loader(seconds: float) -> float:
    """Images a second of the yardstick."""
    import numpy as np
    import torch

    powers = 8 ** np.arange(5, -1, -1)

    def draw(indices: torch.Tensor) -> torch.Tensor:
        images = []
        for index in indices.tolist():
            corners = 8 * (index // powers % 8)
            image = np.zeros((64, 64, 3), np.uint8)
            for channel, (x, y) in enumerate(corners.reshape(3, 2)):
                image[y : y + 8, x : x + 8, channel] = 255
            images.append(image)
        return (
            torch.from_numpy(np.stack(images))
            .permute(0, 3, 1, 2)
            .to(torch.float32)
            .div(255)
            .contiguous()
        )

    return rate(draw, 8**6, "cpu", seconds)


def measure(name: str, options: dict[str, str], device: str, seconds: float) -> dict[str, float]:
    """Rate of one dataset, and the memory it takes."""
    import resource

    import torch

    from unbraid.data import load

    torch.set_num_threads(1)
    torch.zeros(1, device=device)
    kib = 1024
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kib
    dataset = load(name, **options)
    began = time.perf_counter()
    draw = dataset.sampler(device)
    draw(torch.zeros(CPU_BATCH, dtype=torch.int64, device=device))
    ready = time.perf_counter() - began
    found = {
        "images_per_second": rate(draw, len(dataset), device, seconds),
        "seconds_to_first_batch": ready,
        "host_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * kib - before,
    }
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
        found["device_bytes"] = torch.cuda.memory_allocated()
    return found


def in_own_process(
    name: str, options: dict[str, str], device: str, seconds: float
) -> dict[str, float]:
    command = [sys.executable, __file__, "--only", name, "--options", json.dumps(options)]
    command += ["--device", device]
    done = subprocess.run(
        [*command, "--seconds", str(seconds)], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--device", default="")
    parser.add_argument(
        "--painting",
        default="",
        help="an image of The Scream; without it scream_dsprites is left out",
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", default="", help=argparse.SUPPRESS)
    parser.add_argument("--options", default="{}", help=argparse.SUPPRESS)
    given = parser.parse_args()
    import torch

    device = given.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if given.only == YARDSTICK:
        torch.set_num_threads(1)
        print(json.dumps({"images_per_second": plain_loader(given.seconds)}))
        return
    if given.only:
        print(json.dumps(measure(given.only, json.loads(given.options), device, given.seconds)))
        return
    sets = {name: {"painting": given.painting} if name == NEEDS_PAINTING else {} for name in DRAWN}
    if not given.painting:
        del sets[NEEDS_PAINTING]
    plain = in_own_process(YARDSTICK, {}, device, given.seconds)["images_per_second"]
    print(f"{YARDSTICK:<40}{plain:>14,.0f} /s      1.0x")
    rows = []
    for name, options in sets.items():
        found = in_own_process(name, options, device, given.seconds)
        row = {"name": name, **found, "ratio": found["images_per_second"] / plain}
        rows.append(row)
        memory = row.get("device_bytes", row["host_bytes"]) / 2**20
        print(
            f"{name:<40}{row['images_per_second']:>14,.0f} /s {row['ratio']:>8.1f}x  first batch"
            f" after {row['seconds_to_first_batch']:>5.1f} s {memory:>8.0f} MiB",
            flush=True,
        )
    if given.out:
        machine = (
            torch.cuda.get_device_name()
            if device == "cuda"
            else f"one core of {platform.processor() or platform.machine()}"
        )
        record = json.loads(given.out.read_text("utf-8")) if given.out.exists() else {}
        record[device] = {"machine": machine, "cores": os.cpu_count(), "plain": plain, "rows": rows}
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
