# SPDX-License-Identifier: Apache-2.0
"""How fast the metrics are beside disentanglement_lib's own code, in CPU seconds of one core.

    python benchmarks/metrics.py [--rounds 3] [--out benchmarks/results/metrics.json]

The input is tests/golden/metrics_timing.npz: 10 codes, 5 factors of 3, 6, 40, 32 and 32 values,
10,000 rows to train and 5,000 to test, a noisy sparse mixture. disentanglement_lib's seconds on it
were recorded once, on another machine; they are scaled to this one by a reference that both did:
scikit-learn's boosted trees for all five factors on the first 1,000 rows, timed in this run. The
last row is a population: 128 members with 10,000 samples each, wall seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from unbraid import metrics

INPUT = Path(__file__).resolve().parents[1] / "tests" / "golden" / "metrics_timing.npz"
REFERENCE_SECONDS = 28.46
"""disentanglement_lib's DCI on the first 1,000 rows: 500 trees' worth of scikit-learn's
`GradientBoostingClassifier`.
"""
MEMBERS = 128
POPULATION = "mig, modularity, total correlation, sap continuous and irs"
POPULATION_SECONDS = 10.0


@dataclass(frozen=True)
class Case:
    """One call with disentanglement_lib's CPU seconds for the same work and how many times faster
    ours must be.
    """

    what: str
    theirs: float
    bar: float | None
    call: Callable[[], object]
    note: str = ""


def cases(
    train: np.ndarray, factors: np.ndarray, test: np.ndarray, test_factors: np.ndarray
) -> list[Case]:
    """Everything that disentanglement_lib was timed on."""
    split = (train, factors, test, test_factors)
    short = (train[:1000], factors[:1000], test, test_factors)
    generator = np.random.default_rng(0)
    turns = [np.linalg.qr(np.eye(10) + 0.1 * generator.normal(size=(10, 10)))[0] for _ in range(5)]
    models, kl = np.stack([train @ turn for turn in turns]), np.ones((5, 10))
    return [
        Case("dci, lightgbm", 301.21, 30, lambda: metrics.dci(*split, backend="lightgbm")),
        Case(
            "udr, spearman, 5 models", 4.18, 20, lambda: metrics.udr(models, kl, method="spearman")
        ),
        Case("udr, lasso, 5 models", 0.24, None, lambda: metrics.udr(models, kl, method="lasso")),
        Case("factor_vae_score", 1.09, 10, lambda: metrics.factor_vae_score(train, factors)),
        Case("mig", 0.13, 10, lambda: metrics.mig(train, factors)),
        Case(
            "modularity",
            0.13,
            10,
            lambda: metrics.modularity(train, factors),
            "theirs: the information of MIG",
        ),
        Case(
            "explicitness",
            1.78,
            1,
            lambda: metrics.explicitness(*split),
            "theirs: 1.91 s less modularity",
        ),
        Case("sap", 0.82, 1, lambda: metrics.sap(*split)),
        Case("beta_vae_score", 1.78, 1, lambda: metrics.beta_vae_score(train, factors)),
        Case("irs", 0.06, None, lambda: metrics.irs(train, factors)),
        Case(
            "unsupervised",
            0.29,
            None,
            lambda: _unsupervised(train),
            "total and Wasserstein correlation, pairwise information",
        ),
        Case("downstream, logistic, 1,000 rows", 3.83, None, lambda: _logistic(*short)),
    ]


def _unsupervised(codes: np.ndarray) -> None:
    metrics.total_correlation(codes)
    metrics.wasserstein_correlation(codes)
    metrics.pairwise_information(codes)


def _logistic(*split: np.ndarray) -> None:
    metrics.downstream(*split, predictor="logistic", train_sizes=(1000,))


def cpu_seconds(call: Callable[[], object], rounds: int) -> float:
    """The least CPU seconds of a few calls, after one that loads what is needed; short calls are
    repeated more.
    """
    call()
    best, spent = float("inf"), 0.0
    while rounds > 0 or spent < 0.2:
        began = time.process_time()
        call()
        taken = time.process_time() - began
        best, spent, rounds = min(best, taken), spent + taken, rounds - 1
    return best


def population_seconds(train: np.ndarray, factors: np.ndarray) -> float:
    """Wall seconds of five scores of 128 members."""
    generator = np.random.default_rng(0)
    codes = np.stack([train @ generator.normal(size=(10, 10)) for _ in range(MEMBERS)])
    began = time.perf_counter()
    metrics.mig(codes, factors)
    metrics.modularity(codes, factors)
    metrics.total_correlation(codes)
    metrics.sap(codes, factors, codes[:, :100], factors[:100], continuous=True)
    metrics.irs(codes, factors)
    return time.perf_counter() - began


def main() -> None:
    """Time everything, print the table, write it where told."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3, help="calls of which the fastest counts")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    given = parser.parse_args()
    with np.load(INPUT) as file:
        names = ("mus_train", "ys_train", "mus_test", "ys_test")
        train, factors, test, test_factors = (np.ascontiguousarray(file[name].T) for name in names)
    reference = cpu_seconds_once(
        lambda: metrics.dci(train[:1000], factors[:1000], test, test_factors, backend="sklearn")
    )
    scale = reference / REFERENCE_SECONDS
    print(
        f"reference: {reference:.1f} CPU s here, {REFERENCE_SECONDS} s there; their seconds are"
        f" scaled by {scale:.2f}\n"
    )
    rows = []
    print(f"{'what':<34}{'ours, s':>10}{'theirs, s':>11}{'faster':>9}{'bar':>6}")
    for case in cases(train, factors, test, test_factors):
        seconds = cpu_seconds(case.call, given.rounds)
        theirs = case.theirs * scale
        row = {
            "what": case.what,
            "seconds": seconds,
            "theirs": theirs,
            "faster": theirs / seconds,
            "bar": case.bar,
            "note": case.note,
        }
        rows.append(row)
        print(
            f"{case.what:<34}{seconds:>10.4f}{theirs:>11.3f}{row['faster']:>9.1f}"
            f"{case.bar or '':>6}",
            flush=True,
        )
    record = {"reference_seconds": reference, "scale": scale, "rows": rows, "machine": _machine()}
    seconds = population_seconds(train, factors)
    record["population"] = {"members": MEMBERS, "what": POPULATION, "seconds": seconds}
    print(f"\n{MEMBERS} members, {POPULATION}: {seconds:.1f} s (bar {POPULATION_SECONDS:g} s)")
    if given.out:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        given.out.write_text(json.dumps(record, indent=1) + "\n", "utf-8")


def cpu_seconds_once(call: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    began = time.process_time()
    call()
    return time.process_time() - began


def _machine() -> str:
    import sklearn

    return (
        f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()},"
        f" scikit-learn {sklearn.__version__}"
    )


if __name__ == "__main__":
    import scipy.linalg  # noqa: F401 -- only libraries that are loaded can be limited
    import sklearn.linear_model  # noqa: F401

    with threadpool_limits(1):  # one core, as the recorded seconds
        main()
