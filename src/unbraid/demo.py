# SPDX-License-Identifier: Apache-2.0
"""The demo: a small drawn set whose factors are known, a plain VAE against β-VAEs, scores and a report, on a laptop.

The set is chosen so that the outcome is honest and stable. A disc moves in x and y and changes its size; the three change
the picture by clearly different amounts (in x most, in size least), since a VAE orders its latents by that amount and
has no reason to keep apart what matters equally. Nothing about the factors is shown to the models.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from unbraid.run import Run, train

DATA = {"image_size": 28, "x": 12, "y": 8, "scale": 5, "y_range": 0.45, "scale_min": 0.18, "scale_max": 0.24}
BETAS = [1.0, 16.0]
STEPS = 1000
LATENTS = 5
LEARNING_RATE = 1e-3
METRICS = ["mig", "modularity", "sap", "beta_vae_score", "factor_vae_score"]
"""All but DCI, whose boosted trees would take longer than the training."""


def run_demo(out: Path | None, seeds: int | Sequence[int], say: Callable[[str], None]) -> Run:
    """Train, score and report the demo; *say* prints a line."""
    options = ",".join(f"{name}={value}" for name, value in DATA.items())
    command = (
        f"unbraid train sprites:{options} beta_vae --beta {','.join(f'{beta:g}' for beta in BETAS)} --seeds {_shown(seeds)} "
        f"--steps {STEPS} --latents {LATENTS} --learning-rate {LEARNING_RATE:g}"
    )
    say(f"A population of β-VAEs on a small drawn set (a disc with three factors: size, x, y). The same by hand:\n  {command}\n")
    run = train(
        "sprites", "beta_vae", data_options=DATA, hyper={"beta": BETAS}, seeds=seeds, steps=STEPS, latents=LATENTS,
        learning_rate=LEARNING_RATE, out=out if out is not None else _free("demo"), command=command,
    )  # fmt: skip
    table = run.score(METRICS)
    by_beta = table.groupby("beta")["mig"]
    say("\nMIG (1: every factor in a latent of its own; 0: no factor is), over the seeds:")
    for beta, scores in by_beta:
        say(f"  β = {beta:<4g} " + "  ".join(f"{score:.2f}" for score in sorted(scores, reverse=True)))
    winner = by_beta.median().idxmax()
    won = table[table["beta"] == winner]["mig"]
    say(f"\nβ = {winner:g} wins: {int((won >= 0.5).sum())} of {len(won)} seeds reach MIG 0.5 or more without having seen a label.")
    page = run.report()
    say(
        f"\nOpen this page in a browser:\n  {page.resolve()}\n"
        "\nWhat to try next:\n"
        f"  unbraid score {run.path} --metrics dci                     # a sixth score, a few minutes\n"
        "  unbraid train sprites:y_range=1.0 beta_vae --beta 16 --seeds 3   # equal ranges: watch x and y get mixed\n"
        "  unbraid train my_images/ beta_vae --beta 1,4 --steps 5000        # your own folder of images\n"
        "  unbraid list                                                     # objectives, metrics, data, networks"
    )
    return run


def _shown(seeds: int | Sequence[int]) -> str:
    return str(seeds) if isinstance(seeds, int) else ",".join(map(str, seeds))


def _free(stem: str) -> Path:
    number = 1
    while (Path("runs") / f"{stem}-{number}").exists():
        number += 1
    return Path("runs") / f"{stem}-{number}"
