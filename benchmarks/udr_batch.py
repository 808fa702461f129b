# SPDX-License-Identifier: Apache-2.0
"""UDR of a population in training: all groups at once, group by group, and with a loop over
scikit-learn or SciPy.

    OMP_NUM_THREADS=1 python benchmarks/udr_batch.py --out benchmarks/results/udr_batch.json
        [--device cuda] [--rounds 3]

56 groups of 5 models encode 1,000 samples in 10 latents, as in unsupervised population-based
training (Estermann et al. 2020). The models of a group share 10 sources, each mixed by a matrix
near the identity and with noise of its own; about a fifth of the latents are dead. The loop fits
scikit-learn's `Lasso` (SciPy's `spearmanr`) to every ordered pair of models, on the CPU, and takes
the scores from its coefficients in NumPy. Seconds are the least of the rounds: on a CPU those of
one thread's own work, since a machine shared with others changes its pace; on a GPU those of the
clock on the wall. With --out the numbers of this device are written into the JSON beside those of
the other.
"""

from __future__ import annotations

import argparse
import json
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unbraid.metrics._agreement import agreement_scores

GROUPS, MODELS, SAMPLES, LATENTS = 56, 5, 1000, 10
WAYS: dict[str, dict[str, Any]] = {
    "lasso": {"method": "lasso"},
    "lasso, tolerance 0": {"method": "lasso", "tolerance": 0},
    "spearman": {"method": "spearman"},
}


def population() -> tuple[np.ndarray, np.ndarray]:
    """Codes `(groups, models, n, latents)` in single precision, as networks give them, and KL."""
    generator = np.random.default_rng(0)
    sources = generator.normal(size=(GROUPS, 1, SAMPLES, LATENTS))
    spread = np.linspace(0.05, 0.5, GROUPS)[:, None, None, None]
    mixing = np.eye(LATENTS) + spread * generator.normal(size=(GROUPS, MODELS, LATENTS, LATENTS))
    codes = sources @ mixing + 0.3 * generator.normal(size=(GROUPS, MODELS, SAMPLES, LATENTS))
    kl = np.where(
        generator.random((GROUPS, MODELS, LATENTS)) < 0.2,
        0.003,
        generator.uniform(0.1, 4.0, (GROUPS, MODELS, LATENTS)),
    )
    return codes.astype(np.float32), kl


def loop(codes: np.ndarray, kl: np.ndarray, method: str, tolerance: float) -> np.ndarray:
    """Scores by the definition, pair by pair."""
    from scipy.stats import spearmanr
    from sklearn.linear_model import Lasso

    scores = np.zeros((GROUPS, MODELS))
    for group in range(GROUPS):
        live = kl[group] > 0.01
        own = codes[group].astype(np.float64)
        scaled = (
            (own - own.mean(axis=1, keepdims=True)) / own.std(axis=1, keepdims=True) * live[:, None]
        )
        pairwise = np.full((MODELS, MODELS), np.nan)
        for source, target in np.argwhere(~np.eye(MODELS, dtype=bool)):
            if method == "lasso":
                matrix = np.abs(
                    Lasso(alpha=0.1, tol=tolerance).fit(scaled[source], scaled[target]).coef_
                ).T
            else:
                matrix = np.abs(spearmanr(own[source], own[target]).statistic[:LATENTS, LATENTS:])
            matrix = matrix[live[source]][:, live[target]]
            pairwise[source, target] = np.mean([_strength(matrix, axis).mean() for axis in (0, 1)])
        scores[group] = np.nanmedian(pairwise, axis=0)
    return scores


def _strength(matrix: np.ndarray, axis: int) -> np.ndarray:
    largest, total = matrix.max(axis=axis), matrix.sum(axis=axis)
    return np.divide(largest**2, total, where=total > 0, out=np.zeros_like(total))


def timed(call: Callable[[], Any], rounds: int, clock: Callable[[], float]) -> tuple[float, Any]:
    """The least seconds of *rounds* calls, with the last result."""
    best, found = float("inf"), None
    for _ in range(rounds):
        began = clock()
        found = call()
        best = min(best, clock() - began)
    return best, found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--device", default="cpu", help="cpu or cuda; the loop runs on the CPU anyway"
    )
    parser.add_argument("--rounds", type=int, default=3, help="calls of which the fastest counts")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    given = parser.parse_args()
    torch.set_num_threads(1)
    clock = time.process_time if given.device == "cpu" else time.perf_counter
    arrays = population()
    codes, kl = (torch.from_numpy(array).to(given.device) for array in arrays)
    rows = []
    for name, options in WAYS.items():
        agreement_scores(codes, kl, **options)  # loads what is needed
        together, scores = timed(
            lambda options=options: agreement_scores(codes, kl, **options).cpu().numpy(),
            given.rounds,
            clock,
        )
        one_by_one, _ = timed(
            lambda options=options: [
                agreement_scores(codes[g : g + 1], kl[g : g + 1], **options).cpu()
                for g in range(GROUPS)
            ],
            given.rounds,
            clock,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # where scikit-learn's sweeps run out
            tolerance = options.get("tolerance", 1e-4) or 1e-12
            looped, theirs = timed(
                lambda options=options, t=tolerance: loop(*arrays, options["method"], t),
                given.rounds,
                clock,
            )
        row = {
            "what": name,
            "all_groups_s": together,
            "group_by_group_s": one_by_one,
            "loop_s": looped,
        }
        rows.append(
            {
                **row,
                "largest_difference": float(np.abs(scores - theirs).max()),
                "mean_score": float(scores.mean()),
            }
        )
    where = torch.cuda.get_device_name() if codes.is_cuda else f"one core, {platform.machine()}"
    record = {
        "machine": f"{where}, torch {torch.__version__}, Python {platform.python_version()}",
        "population": f"{GROUPS} groups x {MODELS} models x {SAMPLES} samples x {LATENTS} latents",
        "rows": rows,
    }
    if given.out:
        kept = json.loads(given.out.read_text("utf-8")) if given.out.exists() else {}
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(
            json.dumps({**kept, codes.device.type: record}, indent=1) + "\n", encoding="utf-8"
        )
    print(f"{record['population']}, {record['machine']}\n")
    print(
        f"{'what':<20}{'all groups, s':>15}{'one by one, s':>15}{'loop, s':>10}{'faster':>9}"
        f"{'difference':>13}"
    )
    for row in rows:
        faster = row["loop_s"] / row["all_groups_s"]
        print(
            f"{row['what']:<20}{row['all_groups_s']:>15.3f}{row['group_by_group_s']:>15.3f}{row['loop_s']:>10.2f}"
            f"{faster:>8.1f}x{row['largest_difference']:>13.1e}"
        )


if __name__ == "__main__":
    main()
