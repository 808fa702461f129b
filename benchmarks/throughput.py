# SPDX-License-Identifier: Apache-2.0
"""How many model-steps a second a population trains on one GPU, against a plain PyTorch loop in the
same run.

    python benchmarks/throughput.py --out benchmarks/results/throughput.json

Measures, on one device in one process: its ceilings (copy bandwidth, bfloat16 matrix product); a
plain PyTorch loop, float32, as it is and captured as a CUDA graph; Unbraid in bfloat16 at several
population sizes on one-channel and three-channel images; every objective at one size; every
convolutional network; encoding; and the time of each kernel against its floor, which is the larger
of the time its memory traffic and its arithmetic need at the ceilings. Prints a table and writes
the JSON that the README's table is generated from. `--only networks` measures those alone, and
leaves the rest of the JSON as it is. `--quick` shrinks everything, and runs on a CPU too, to try
the script out.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from plain_loop import LATENTS, plain_step
from torch.utils.flop_counter import FlopCounterMode

from unbraid.data import load
from unbraid.data.dataset import Dataset
from unbraid.objectives import OBJECTIVES
from unbraid.population.cuda_graph import Stepper
from unbraid.population.plan import Plan, make_plan
from unbraid.population.training_step import DRAWN_AT_ONCE, TrainingStep

BATCH = 64
SIZES = (1, 8, 32, 128, 256)
MANY = 128
HALF = torch.bfloat16
DATA = {1: "dsprites", 3: "xysquares"}
NETWORKS: dict[str, dict[str, Any]] = {
    "conv_burgess": {},
    "conv_locatello": {"network": "conv_locatello"},
    "conv_mathieu": {"network": "conv_mathieu"},
    "conv_batchnorm": {"network": "conv_batchnorm"},
    "conv_dcgan, 32x32, batch 500": {"network": "conv_dcgan", "batch_size": 500},
    "conv_burgess, ada_gvae, batch 256": {"objective": "ada_gvae", "batch_size": 256},
    "conv_burgess, overlap, batch 256": {"likelihood": "gaussian+box31", "batch_size": 256},
}
"""What is trained, and how it differs from β-VAEs of the first on dSprites."""


def sync(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def per_second(work: Callable[[], int], seconds: float, device: torch.device) -> float:
    """How much *work* is done a second; a first call warms up."""
    work()
    sync(device)
    began, done = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        done += work()
    sync(device)
    return done / (time.perf_counter() - began)


def seconds_of(call: Callable[[], Any], device: torch.device) -> float:
    """Median time of one call."""
    if device.type == "cpu":
        began = time.perf_counter()
        call()
        return time.perf_counter() - began
    import triton

    return triton.testing.do_bench(call, warmup=8, rep=30, return_mode="median") * 1e-3


def ceilings(device: torch.device, size: int) -> dict[str, float]:
    """Bytes a second of a copy, reads and writes counted, and bfloat16 operations a second of a
    matrix product.
    """
    source = torch.randn(size * size * 16, device=device)
    target = torch.empty_like(source)
    copied = 2 * source.numel() * 4 / seconds_of(lambda: target.copy_(source), device)
    left, right = (torch.randn(size, size, device=device, dtype=torch.bfloat16) for _ in range(2))
    return {"copy": copied, "matrix": 2 * size**3 / seconds_of(lambda: left @ right, device)}


def plain_rates(device: torch.device, seconds: float) -> dict[str, float]:
    """Model-steps a second of the plain loop, and of the same captured as a CUDA graph."""
    dataset = load("dsprites")
    images = (
        torch.from_numpy(dataset.images(range(0, len(dataset), 10)))
        .permute(0, 3, 1, 2)
        .contiguous()
        .to(device)
    )
    step = plain_step(images, BATCH)

    def once() -> int:
        step()
        return 1

    for _ in range(3):
        step()
    rates = {"plain": per_second(once, seconds, device)}
    if device.type == "cuda":
        captured = plain_step(images, BATCH, capturable=True)
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                captured()
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            captured()

        def replay() -> int:
            graph.replay()
            return 1

        rates["captured"] = per_second(replay, seconds, device)
    return rates


def population_rate(
    device: torch.device,
    seconds: float,
    members: int,
    channels: int = 1,
    objective: str = "beta_vae",
    precision: str = "bfloat16",
) -> dict[str, float]:
    """Model-steps a second of a population, and the memory it took."""
    plan, dataset = make_plan(
        DATA[channels],
        objective,
        seeds=members,
        steps=10**9,
        batch_size=BATCH,
        latents=LATENTS,
        precision=precision,
        log_every=10**6,
    )
    return rate_of(plan, dataset, device, seconds)


def rate_of(plan: Plan, dataset: Dataset, device: torch.device, seconds: float) -> dict[str, float]:
    """Model-steps a second of *plan*'s population, and the memory it took."""
    members = len(plan.members)
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    program = TrainingStep(plan, plan.members, dataset, device)
    stepper = Stepper(program, program.start())
    for _ in range(3):
        stepper.advance(10**6)
    rate = per_second(lambda: members * stepper.advance(10**6), seconds, device)
    assert not bool((stepper.state.diverged_at >= 0).any())
    peak = torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else math.nan
    return {"model_steps_per_second": rate, "peak_gib": peak}


def network_rates(device: torch.device, seconds: float, members: int) -> list[dict[str, Any]]:
    """The networks one by one: model-steps a second, and operations a second beside the first's."""
    rows: list[dict[str, Any]] = []
    for what, options in NETWORKS.items():
        small = np.random.default_rng(1).integers(0, 256, (5000, 32, 32), dtype=np.uint8)
        given: dict[str, Any] = {"batch_size": BATCH, **options}
        plan, dataset = make_plan(
            small if given.get("network") == "conv_dcgan" else DATA[1],
            given.pop("objective", "beta_vae"),
            seeds=members,
            steps=10**9,
            latents=LATENTS,
            precision="bfloat16",
            log_every=10**6,
            **given,
        )
        found = rate_of(plan, dataset, device, seconds)
        operations = operations_of(plan, dataset) * found["model_steps_per_second"]
        rows.append({"what": what, **found, "tflops": operations / 1e12})
        rows[-1]["of_first"] = operations / 1e12 / rows[0]["tflops"]
        print(
            f"{what:<40}{found['model_steps_per_second']:>10.0f} /s {rows[-1]['tflops']:>7.1f}"
            f" TFLOP/s, {rows[-1]['of_first']:.2f} of the first",
            flush=True,
        )
    return rows


def operations_of(plan: Plan, dataset: Dataset) -> float:
    """Operations of one model-step: forward, counted on a CPU, and twice that for the gradients."""
    members = plan.members[:1] * 2
    program = TrainingStep(plan, members, dataset, torch.device("cpu"))
    weights = program.layout.views(program.start().model.weights)
    x = torch.rand(2, 1, *dataset.sample_shape)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        mean, _ = program.network.encode(weights, x)
        program.network.decode(weights, mean, dataset.sample_shape)
    return 3.0 * counter.get_total_flops() / 2 * program.rows


def encoding(device: torch.device, members: int, images: int) -> dict[str, float]:
    """Seconds to encode *images* images for *members* members, and the most device memory taken."""
    from unbraid.codes.encode import encode_images

    plan, dataset = make_plan(
        "dsprites", "beta_vae", seeds=members, steps=1, latents=LATENTS, precision="bfloat16"
    )
    program = TrainingStep(plan, plan.members, dataset, device)
    weights = program.layout.views(program.start().model.weights)
    encode_images(
        program.network, weights, program.sampler, torch.arange(1024, device=device), plan.dtype
    )
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    began = time.perf_counter()
    # As `unbraid score` does: a part of the members at a time, so that the codes held in memory
    # stay bounded.
    for first in range(0, members, 16):
        part = {name: view[first : first + 16] for name, view in weights.items()}
        encode_images(
            program.network, part, program.sampler, torch.arange(images, device=device), plan.dtype
        )
    seconds = time.perf_counter() - began
    peak = torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else math.nan
    return {"members": members, "images": images, "seconds": seconds, "peak_gib": peak}


class Kernels:
    """Times kernels on the Burgess network's layers against their floors."""

    def __init__(self, device: torch.device, members: int, ceiling: dict[str, float]) -> None:
        self.device, self.members, self.ceiling = device, members, ceiling
        self.rows: list[dict[str, Any]] = []

    def measure(
        self,
        name: str,
        call: Callable[[], Any],
        *,
        half: int = 0,
        full: int = 0,
        operations: float = 0.0,
    ) -> None:
        """Time *call*, which must move so many numbers of 2 and of 4 bytes and do so many
        operations.
        """
        memory = (2 * half + 4 * full) / self.ceiling["copy"]
        arithmetic = operations / self.ceiling["matrix"]
        took, floor = seconds_of(call, self.device), max(memory, arithmetic)
        limit = "memory" if memory >= arithmetic else "arithmetic"
        self.rows.append(
            {"kernel": name, "ms": 1e3 * took, "floor_ms": 1e3 * floor, "floor": limit}
        )

    def random(self, *shape: int) -> torch.Tensor:
        """Activations or weights as the kernels take them."""
        return torch.randn(*shape, device=self.device).to(HALF)

    def hidden_layer(self, side: int, big: int, small: int) -> None:
        """The five products of a layer between hidden activations: as convolution and as transposed
        convolution.
        """
        from unbraid.networks.kernels import launch

        x, y = (
            self.random(self.members, BATCH, side, side, big),
            self.random(self.members, BATCH, side // 2, side // 2, small),
        )
        weight, bias = (
            self.random(self.members, small, 4, 4, big),
            torch.zeros(self.members, max(big, small), device=self.device),
        )
        layer, m, n = f"{side}x{side}x{big} - {side // 2}x{side // 2}x{small}", x.numel(), y.numel()
        calls = {
            "convolution": (lambda: launch.conv(x, weight, bias, relu=True), m + n),
            "its input gradient": (
                lambda: launch.conv_transpose(y, weight, (side, side), mask=x),
                2 * m + n,
            ),
            "weight gradient of either": (
                lambda: launch.weight_gradient(x, y, 4, bias_of_big=False),
                m + n,
            ),
            "transposed convolution": (
                lambda: launch.conv_transpose(y, weight, (side, side), bias, relu=True),
                m + n,
            ),
            "transposed: input gradient": (lambda: launch.conv(x, weight, mask=y), m + 2 * n),
        }
        for name, (call, moved) in calls.items():
            self.measure(f"{name} {layer}", call, half=moved, operations=2.0 * n * 16 * big)

    def image_layers(self) -> None:
        """The first layer of the encoder and the last of the decoder."""
        from unbraid.networks.kernels import launch

        hidden = self.random(self.members, BATCH, 32, 32, 32).relu()
        image = torch.rand(self.members, BATCH, 1, 64, 64, device=self.device)
        blocks, weight = launch.by_blocks(image), self.random(self.members, 32, 4, 4, 1)
        bias, operations = (
            torch.zeros(self.members, 32, device=self.device),
            2.0 * hidden.numel() * 16,
        )
        slope, scale = (
            self.random(*blocks.shape),
            torch.ones(self.members, BATCH, device=self.device),
        )
        m, n = hidden.numel(), blocks.numel()
        self.measure("images by blocks", lambda: launch.by_blocks(image), full=2 * n)
        first = {"half": m, "full": n, "operations": operations}
        self.measure("first layer", lambda: launch.first(blocks, weight, bias, relu=True), **first)
        self.measure(
            "first layer's weight gradient",
            lambda: launch.first_weight_gradient(blocks, hidden, 1),
            **first,
        )
        distance = lambda: launch.last_distance(hidden, weight, bias, blocks, 1)  # noqa: E731
        self.measure(
            "last layer and likelihood", distance, half=m + n, full=n, operations=operations
        )
        backward = lambda: launch.last_backward(hidden, slope, scale, weight, mask=True)  # noqa: E731
        self.measure("last layer's gradients", backward, half=2 * m + n, operations=2 * operations)

    def others(self) -> None:
        """What is not a layer: the optimiser, random numbers, images from bits."""
        from unbraid.population.adam import Adam, Gradient

        plan, dataset = make_plan(
            "dsprites",
            "beta_vae",
            seeds=self.members,
            steps=1,
            latents=LATENTS,
            precision="bfloat16",
        )
        program = TrainingStep(plan, plan.members, dataset, self.device)
        adam = Adam.start(program.start().model.weights)
        adam.keep_low_precision_copy(HALF)
        gradient = Gradient(
            program.layout,
            [torch.randn_like(view) for view in program.layout.views(adam.weights).values()],
        )
        healthy, clock = (
            torch.ones(self.members, dtype=torch.bool, device=self.device),
            torch.zeros((), device=self.device),
        )
        count = adam.weights.numel()
        update = lambda: adam.update(gradient, healthy, program.rate, (0.9, 0.999), clock)  # noqa: E731
        self.measure("Adam", update, full=7 * count, half=count)
        self.measure("is the gradient finite", gradient.finite, full=count)
        steps = torch.arange(DRAWN_AT_ONCE, device=self.device)
        numbers = self.members * BATCH * (LATENTS + 2) * DRAWN_AT_ONCE
        self.measure(
            f"random numbers of {DRAWN_AT_ONCE} steps", lambda: program.draw(steps), full=numbers
        )
        indices = program.draw(steps).indices[:, 0]
        self.measure(
            "images from bits",
            lambda: program.sampler(indices),
            full=self.members * BATCH * 64 * 64,
        )

    def all(self) -> list[dict[str, Any]]:
        """Everything, in order."""
        for layer in ((32, 32, 32), (16, 32, 64), (8, 64, 64)):
            self.hidden_layer(*layer)
        self.image_layers()
        self.others()
        return self.rows


def operations_a_step(channels: int) -> float:
    """Operations of one model-step: forward, and twice that for the gradients."""
    layers = [(16 * channels, 32, 1024), (512, 32, 256), (512, 64, 64), (1024, 64, 16)]
    convolutions = 2 * sum(depth * small * positions for depth, small, positions in layers)
    dense = 2 * 1024 * 256 + 256 * 2 * LATENTS + LATENTS * 256
    return 3 * 2 * BATCH * (convolutions + dense)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="JSON file to write")
    parser.add_argument(
        "--seconds", type=float, default=1.0, help="how long each population trains"
    )
    parser.add_argument(
        "--quick", action="store_true", help="shrink everything, to try the script out"
    )
    parser.add_argument("--only", choices=["networks"], help="measure these alone")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    sizes, many, seconds = ((1, 2), 2, 0.1) if options.quick else (SIZES, MANY, options.seconds)
    machine = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    record: dict[str, Any] = {
        "machine": machine,
        "torch": torch.__version__,
        "batch": BATCH,
        "rows": [],
        "objectives": [],
    }

    def save() -> None:
        if options.out:
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(
                json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
            )

    if options.only:
        if options.out and options.out.exists():
            record = json.loads(options.out.read_text(encoding="utf-8"))
        record["networks"] = network_rates(device, seconds, many)
        save()
        return
    record["ceilings"] = ceiling = ceilings(device, 256 if options.quick else 8192)
    print(
        f"{machine}: copy {ceiling['copy'] / 1e12:.2f} TB/s, bfloat16 product"
        f" {ceiling['matrix'] / 1e12:.0f} TFLOP/s",
        flush=True,
    )
    plain = plain_rates(device, 3 * seconds)

    def add(table: str, what: str, channels: int, **found: Any) -> dict[str, Any]:
        rate = found["model_steps_per_second"]
        rated = operations_a_step(channels) * rate
        row = {
            "what": what,
            "channels": channels,
            **found,
            "ratio": rate / plain["plain"],
            "tflops": rated / 1e12,
            "share": rated / ceiling["matrix"],
        }
        record[table].append(row)
        line = (
            f"{what:<58}{rate:>10.0f} /s {row['ratio']:>7.1f}x {row['tflops']:>7.1f} TFLOP/s"
            f" {row['share']:>6.1%}"
        )
        print(f"{line} {found.get('peak_gib', math.nan):6.1f} GiB", flush=True)
        save()
        return row

    add("rows", "plain PyTorch loop, float32, one model", 1, model_steps_per_second=plain["plain"])
    if "captured" in plain:
        add(
            "rows", "the same captured as a CUDA graph", 1, model_steps_per_second=plain["captured"]
        )
    best = math.nan
    for channels in DATA:
        for members in sizes:
            what = f"Unbraid, population of {members}, {DATA[channels]}"
            found = population_rate(device, seconds, members, channels)
            row = add("rows", what, channels, **found, members=members)
            if members == many and channels == 1:
                best = row["model_steps_per_second"]
    found = population_rate(device, seconds, many, precision="float32")
    add("rows", f"Unbraid, population of {many}, {DATA[1]}, float32", 1, **found, members=many)
    for objective in OBJECTIVES:
        found = population_rate(device, seconds, many, 1, objective)
        add("objectives", f"{objective}, population of {many}", 1, **found, objective=objective)
        record["objectives"][-1]["of_beta_vae"] = found["model_steps_per_second"] / best
    record["networks"] = network_rates(device, seconds, many)
    if device.type == "cuda":
        record["kernels"] = Kernels(device, many, ceiling).all()
        print(
            f"\n{'kernel (population of ' + str(many) + ')':<64}{'ms':>8}{'floor':>8}{'times':>7}"
        )
        for row in record["kernels"]:
            print(
                f"{row['kernel']:<64}{row['ms']:>8.3f}{row['floor_ms']:>8.3f}"
                f"{row['ms'] / row['floor_ms']:>7.1f}  {row['floor']}"
            )
        save()
    record["encoding"] = encoding(device, many, 256 if options.quick else len(load("dsprites")))
    save()
    code = record["encoding"]
    print(
        f"\nencoding {code['images']} images for {code['members']} members: {code['seconds']:.1f}"
        f" s, {code['peak_gib']:.1f} GiB"
    )
    print(
        "\nof β-VAE's rate: "
        + ", ".join(f"{row['objective']} {row['of_beta_vae']:.0%}" for row in record["objectives"])
    )


if __name__ == "__main__":
    main()
