# SPDX-License-Identifier: Apache-2.0
"""Mathieu et al. 2019 on one CPU core: α, β and q(z) on the pinwheel, and sparse codes of 8x8
digits.

OMP_NUM_THREADS=1 python benchmarks/decomposition.py --results benchmarks/results/decomposition.json
"""

from __future__ import annotations

import argparse
import json
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unbraid.analysis.theory.digits_sparsity import DigitsSparsity, digits_sparsity
from unbraid.analysis.theory.pinwheel_decomposition import (
    PinwheelDecomposition,
    PinwheelMember,
    pinwheel_decomposition,
)

DIGITS_SEEDS = (10, 11, 12)
"""None of them was looked at when the claim about the gap was worded."""


def timed(what: str, compute: Callable[[], Any]) -> tuple[Any, dict[str, float]]:
    """What *compute* returns, with its seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = compute()
    seconds = {
        "wall_s": round(time.perf_counter() - wall, 1),
        "cpu_s": round(time.process_time() - cpu, 1),
    }
    print(f"\n{what}: {seconds['wall_s']:.0f} s, {seconds['cpu_s']:.0f} s of CPU time", flush=True)
    return found, seconds


def pinwheel_row(name: str, value: float, members: list[PinwheelMember]) -> dict[str, Any]:
    """A setting's numbers, all seeds; printed as a line."""
    row = {
        name: value,
        "kl_nats_mean": float(np.mean([one.kl.nats for one in members])),
        "kl_nats": [round(one.kl.nats, 4) for one in members],
        "largest_kl_standard_error": max(one.kl.standard_error for one in members),
        "arms_kept": [round(one.arms_kept, 4) for one in members],
        "cluster_shares_mean": np.mean([one.shares for one in members], axis=0).round(4).tolist(),
        "posterior_std": [round(one.posterior_std, 4) for one in members],
    }
    seeds = " ".join(f"{nats:.3f}" for nats in row["kl_nats"])
    std = np.mean(row["posterior_std"])
    print(
        f"{name} {value:<5g} KL(p||q) {row['kl_nats_mean']:.3f} ({seeds})  arms kept"
        f" {np.mean(row['arms_kept']):.2f}  std {std:.3f}"
    )
    return row


def pinwheel_record(found: PinwheelDecomposition, seconds: dict[str, float]) -> dict[str, Any]:
    """Both sweeps and whether the claim held."""
    rows = [pinwheel_row("alpha", alpha, found.of(alpha=alpha)) for alpha in found.alphas()]
    rows += [pinwheel_row("beta", beta, found.of(beta=beta)) for beta in found.betas()]
    seeds = len({one.seed for one in found.members})
    verdict: dict[str, Any] = {"seeds": seeds}
    if found.alphas():
        print(
            f"falls with alpha: {found.falls_with_alpha} in the mean, in {found.seeds_that_fall} of"
            f" {seeds} seeds"
        )
        verdict |= {
            "falls_with_alpha": found.falls_with_alpha,
            "seeds_that_fall": found.seeds_that_fall,
        }
    if found.betas():
        print(f"overlap rises with beta: {found.overlap_rises_with_beta} in the mean")
        verdict["overlap_rises_with_beta"] = found.overlap_rises_with_beta
    return {**seconds, **verdict, "rows": rows}


def digits_record(found: DigitsSparsity, seconds: dict[str, float]) -> dict[str, Any]:
    """Scores, gaps and whether the claim held."""
    for alpha, gap in zip(found.alphas(), found.mean_gaps(), strict=True):
        scores = {
            gamma: " ".join(f"{score:.3f}" for score in found.sparsity(gamma, alpha).values())
            for gamma in found.gammas()
        }
        print(
            f"alpha {alpha:<4g}"
            + "".join(f" gamma {gamma:g}: {text} " for gamma, text in scores.items())
            + f" mean gap {gap:.3f}"
        )
    print(
        f"gap grows: {found.gap_grows} in the mean, in {found.seeds_that_grow} seeds; least KL"
        f" {found.least_kl:.1f} nats"
    )
    verdict = {
        "gap_grows": found.gap_grows,
        "seeds_that_grow": found.seeds_that_grow,
        "least_kl_nats": found.least_kl,
    }
    rows = [
        {
            "gamma": one.gamma,
            "alpha": one.alpha,
            "seed": one.seed,
            "hoyer": round(one.sparsity, 4),
            "kl_nats": round(one.kl_nats, 3),
        }
        for one in found.members
    ]
    return {
        **seconds,
        **verdict,
        "mean_gaps": [round(gap, 4) for gap in found.mean_gaps()],
        "rows": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    torch.set_num_threads(1)
    record: dict[str, Any] = {
        "command": (
            "OMP_NUM_THREADS=1 python benchmarks/decomposition.py --results"
            " benchmarks/results/decomposition.json"
        ),
        "machine": f"one CPU core, torch {torch.__version__}, Python {platform.python_version()}",
    }
    found, seconds = timed("pinwheel, beta = 0", lambda: pinwheel_decomposition(seeds=5, betas=()))
    record["pinwheel_alpha"] = pinwheel_record(found, seconds)
    found, seconds = timed(
        "pinwheel, alpha = 0", lambda: pinwheel_decomposition(seeds=5, alphas=())
    )
    record["pinwheel_beta"] = pinwheel_record(found, seconds)
    learned = "gaussian:scale=learned"
    found, seconds = timed(
        f"pinwheel, {learned}", lambda: pinwheel_decomposition(seeds=5, likelihood=learned)
    )
    record["pinwheel_learned_scale"] = pinwheel_record(found, seconds)
    found, seconds = timed("digits", lambda: digits_sparsity(seeds=DIGITS_SEEDS))
    record["digits"] = digits_record(found, seconds)
    if given.results:
        given.results.parent.mkdir(parents=True, exist_ok=True)
        given.results.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
