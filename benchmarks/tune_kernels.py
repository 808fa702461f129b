# SPDX-License-Identifier: Apache-2.0
"""Find the kernels' block sizes on this GPU by timing candidates on the layers of the Burgess
network.

    python benchmarks/tune_kernels.py --out FOLDER [--precision float32] [--members 128]
        [--only weight]

Candidates compile side by side in processes of their own and are timed one at a time. Prints, for
each kernel and layer, the best few with their time beside the floor that memory traffic alone sets;
`networks/kernels/tuned.py` holds what was chosen. Correctness is the tests' business (`make
test-gpu`).
"""

from __future__ import annotations

import argparse
import fcntl
import json
import multiprocessing
import os
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

BATCH = 64
BANDWIDTH = 4.2e12
"""Bytes a second, for the floors: a copy on an H200."""
HIDDEN = ((32, 32, 32), (16, 32, 64), (8, 64, 64))
"""Side of the big image, its channels, channels of the small one."""
IMAGES = ((64, 1, 32), (64, 3, 32))
"""Side of the image, its channels, channels of the small one."""


class Candidate(NamedTuple):
    """One block of one kernel on one layer; *other* is the way back of a layer that has two."""

    kernel: str
    layer: tuple[int, int, int]
    other: bool
    block: dict[str, Any]


def candidates(precision: str) -> Iterator[Candidate]:
    """What is tried: sizes that fit the registers and shared memory of a multiprocessor."""
    low = precision == "bfloat16"
    products = ("ieee",) if low else ("ieee", "tf32x3")
    for layer, way in product(HIDDEN, products):
        side, big, _ = layer
        for rows, depth, warps, loops in product(
            (64, 128), (128, 256) if low else (16, 32), (4, 8), (side // 2, side // 4)
        ):
            if rows * depth <= 128 * 256 and depth <= 8 * big:
                block = {
                    "rows": rows,
                    "depth": depth,
                    "warps": warps,
                    "loops": loops,
                    "products": way,
                }
                yield from (Candidate("conv", layer, other, block) for other in (False, True))
        for depth, columns, warps, loops in product(
            (256,) if low else (32, 128), (64, 128), (4, 8), (1, 4)
        ):
            block = {
                "rows": 64,
                "depth": depth,
                "columns": columns,
                "warps": warps,
                "loops": loops,
                "products": way,
            }
            yield from (Candidate("conv_transpose", layer, other, block) for other in (False, True))
        for rows, tile, warps, stages in product(
            (32, 64) if low else (16, 32), (64, 128), (4, 8), (1, 2, 4)
        ):
            block = {
                "rows": rows,
                "depth": tile,
                "columns": tile,
                "warps": warps,
                "stages": stages,
                "products": way,
            }
            yield Candidate("weight", layer, False, block | {"programs": 396})
    for layer, way, rows, warps, stages in product(IMAGES, products, (64, 128), (2, 4, 8), (1, 2)):
        block = {"rows": rows, "warps": warps, "stages": stages, "products": way}
        yield Candidate("first_weight", layer, False, block | {"programs": 1056})
        yield Candidate("last_backward", layer, False, block | {"programs": 2112})
        for loops in (9, 33):
            yield Candidate("last", layer, False, block | {"loops": loops})
        for loops in (1, 8):
            if stages == 1:
                yield Candidate("first", layer, False, block | {"loops": loops})


def call_of(one: Candidate, precision: str, members: int) -> tuple[Callable[[], Any], int]:
    """A call of the kernel on fresh random tensors, and how many bytes it must move."""
    import torch

    from unbraid.networks.kernels import launch
    from unbraid.networks.kernels.tuned import Block

    dtype, block = getattr(torch, precision), Block(**one.block)
    side, big, small = one.layer
    half, item = side // 2, dtype.itemsize

    def make(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, device="cuda").to(dtype)

    hidden, weight = (
        make(members, BATCH, half, half, small).relu(),
        make(members, small, 4, 4, big) / (16 * big) ** 0.5,
    )
    bias = torch.randn(members, max(small, big), device="cuda")
    if one.kernel in ("conv", "conv_transpose", "weight"):
        x = make(members, BATCH, side, side, big)
        moved = item * (x.numel() + hidden.numel())
        if one.kernel == "weight":
            return (
                lambda: launch.weight_gradient(x, hidden, 4, bias_of_big=False, block=block),
                moved,
            )
        out, options = (hidden, {}) if one.kernel == "conv" else (x, {"size": (side, side)})
        source = x if one.kernel == "conv" else hidden
        run = launch.conv if one.kernel == "conv" else launch.conv_transpose
        if one.other:
            return (
                lambda: run(source, weight, **options, mask=out, block=block),
                moved + item * out.numel(),
            )
        return lambda: run(source, weight, **options, bias=bias, relu=True, block=block), moved
    blocks = launch.by_blocks(torch.rand(members, BATCH, big, side, side, device="cuda"))
    slope, scale = blocks.to(dtype).contiguous(), torch.rand(members, BATCH, device="cuda")
    moved = item * hidden.numel() + 4 * blocks.numel()
    calls = {
        "first": (lambda: launch.first(blocks, weight, bias, relu=True, block=block), moved),
        "first_weight": (
            lambda: launch.first_weight_gradient(blocks, hidden, big, block=block),
            moved,
        ),
        "last": (
            lambda: launch.last_distance(hidden, weight, bias, blocks, 1, block=block),
            moved + item * blocks.numel(),
        ),
        "last_backward": (
            lambda: launch.last_backward(hidden, slope, scale, weight, mask=True, block=block),
            item * (2 * hidden.numel() + blocks.numel()),
        ),
    }
    return calls[one.kernel]


def trial(job: tuple[Candidate, str, int, str]) -> dict[str, Any]:
    """Compile one candidate beside the others, then time it alone."""
    import torch
    import triton

    one, precision, members, lock_file = job
    row: dict[str, Any] = one._asdict()
    try:
        call_of(one, precision, 2)[0]()
        torch.cuda.synchronize()
        with open(lock_file) as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            call, moved = call_of(one, precision, members)
            row["ms"] = triton.testing.do_bench(call, warmup=8, rep=30, return_mode="median")
            row["floor_ms"] = 1e3 * moved / BANDWIDTH
            del call
            torch.cuda.empty_cache()
    except Exception as error:  # a block that does not fit is a result too
        row["error"] = f"{type(error).__name__}: {error}"[:300]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder for the JSON of all trials")
    parser.add_argument("--precision", choices=["bfloat16", "float32"], default="bfloat16")
    parser.add_argument("--members", type=int, default=128)
    parser.add_argument("--only", help="one kernel's name")
    parser.add_argument("--show", type=int, default=3, help="how many of the best to print")
    options = parser.parse_args()
    wanted = [one for one in candidates(options.precision) if options.only in (None, one.kernel)]
    with tempfile.NamedTemporaryFile() as lock:
        jobs = [(one, options.precision, options.members, lock.name) for one in wanted]
        with ProcessPoolExecutor(
            os.cpu_count(), mp_context=multiprocessing.get_context("spawn")
        ) as pool:
            rows = list(pool.map(trial, jobs))
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / f"tune_{options.precision}.json").write_text(
        json.dumps(rows) + "\n", encoding="utf-8"
    )
    groups: dict[tuple, list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["kernel"], tuple(row["layer"]), row["other"]), []).append(row)
    for (kernel, layer, other), group in sorted(groups.items()):
        good = sorted((row for row in group if "ms" in row), key=lambda row: row["ms"])
        print(
            f"{kernel} {layer}{' masked' * other}: {len(group) - len(good)} of {len(group)} did"
            " not fit"
        )
        for row in good[: options.show]:
            print(f"  {row['ms']:.3f} ms, floor {row['floor_ms']:.3f}: {row['block']}")


if __name__ == "__main__":
    main()
