# SPDX-License-Identifier: Apache-2.0
"""Does a change of at most ε break what a β-VAE found? Trained on the original, the perturbed and
the noisy data, seed by seed.

    python benchmarks/perturbation.py --out FOLDER [--results FILE] [--data dsprites]
        [--seeds 10] [--steps 30000]

Zietlow et al. 2021, Tables 1 and 2, for one family: β-VAEs with as many latents as the data has
factors are trained; of those with the first β the one with the lowest MIG gives s; then the same β
and seeds are trained on the data perturbed with each ε, and on data with uniform noise of the first
ε. Prints MIG (mean and deviation over seeds) and how many latents are active (mean posterior
variance below 0.8), and with --results writes them. Runs and data are kept under --out; what is
there already is used again.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

ACTIVE_BELOW = 0.8


def trained(data: Any, folder: Path, given: argparse.Namespace, options: dict[str, Any]) -> Any:
    """The run in *folder*, trained now unless it is there."""
    import unbraid as ub

    if (folder / "plan.json").exists():
        return ub.open_run(folder).resume(quiet=True)
    return ub.train(
        data,
        ub.BetaVAE(beta=given.betas),
        seeds=given.seeds,
        steps=given.steps,
        learning_rate=5e-4,
        out=folder,
        quiet=True,
        **options,
    )


def measured(run: Any) -> list[dict[str, Any]]:
    """MIG and active latents of every member."""
    from unbraid.codes.codes import CodeStore

    store = CodeStore(run.folder)
    scores = run.score("mig", quiet=True).reset_index()
    rows = []
    for row in scores.to_dict("records"):
        noise = np.exp(store.load(row["member"]).logvar.astype(np.float64)).mean(axis=0)
        active = int((noise < ACTIVE_BELOW).sum())
        rows.append(
            {
                "member": row["member"],
                "beta": row["beta"],
                "seed": row["seed"],
                "mig": row["mig"],
                "active": active,
            }
        )
    return rows


def main() -> None:
    numbers = lambda text: [float(part) for part in text.split(",")]  # noqa: E731
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--data", default="dsprites")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--betas", type=numbers, default=[8.0, 16.0])
    parser.add_argument("--epsilons", type=numbers, default=[0.1, 0.15])
    parser.add_argument("--network", default="conv_burgess")
    given = parser.parse_args()
    import unbraid as ub
    from unbraid.core.spelling import as_source

    name, data_options = as_source(given.data)
    dataset = ub.load(name, **data_options)
    options = {"latents": len(dataset.factor_names), "network": given.network}
    began = time.perf_counter()
    original = trained(dataset, given.out / "original", given, options)
    results = {"original": measured(original)}
    worst = min(
        (row for row in results["original"] if row["beta"] == given.betas[0]),
        key=lambda row: row["mig"],
    )["member"]
    versions = [(f"pattern, ε = {epsilon:g}", epsilon, "pattern") for epsilon in given.epsilons]
    for label, epsilon, noise in [
        *versions,
        (f"noise, ε = {given.epsilons[0]:g}", given.epsilons[0], "uniform"),
    ]:
        folder = given.out / f"{noise}-{epsilon:g}"
        if not (folder / "perturbed.json").exists():
            source = {"run": original, "member": worst} if noise == "pattern" else {}
            made = ub.perturb(
                dataset, out=folder, epsilon=epsilon, noise=noise, quiet=True, **source
            )
            print(f"\n{label}\n{made.summary()}\n", flush=True)
        results[label] = measured(
            trained(folder, given.out / f"trained-{noise}-{epsilon:g}", given, options)
        )
        print(f"{label}: {time.perf_counter() - began:.0f} s since the start", flush=True)
    table = [
        {
            "version": version,
            "beta": beta,
            "mig_mean": float(np.mean([row["mig"] for row in rows if row["beta"] == beta])),
            "mig_std": float(np.std([row["mig"] for row in rows if row["beta"] == beta], ddof=1)),
            "active": float(np.mean([row["active"] for row in rows if row["beta"] == beta])),
            "mig": [row["mig"] for row in rows if row["beta"] == beta],
        }
        for version, rows in results.items()
        for beta in given.betas
    ]
    print(f"\n{'data':<22}{'β':>5}{'MIG':>16}{'active latents':>16}")
    for row in table:
        print(
            f"{row['version']:<22}{row['beta']:>5g}{row['mig_mean']:>9.3f} ±"
            f" {row['mig_std']:.3f}{row['active']:>14.1f}"
        )
    if given.results:
        import torch

        machine = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
        about = {
            "data": given.data,
            "seeds": given.seeds,
            "steps": given.steps,
            "member": int(worst),
            "machine": machine,
        }
        given.results.parent.mkdir(parents=True, exist_ok=True)
        given.results.write_text(
            json.dumps({**about, "rows": table}, indent=1, ensure_ascii=False) + "\n",
            encoding="utf-8",
        )


if __name__ == "__main__":
    main()
