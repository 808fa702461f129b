# SPDX-License-Identifier: Apache-2.0
"""`demo`: a small drawn set with known factors, a plain VAE against β-TCVAEs, scores and a report.

The set is chosen so that the outcome is honest and stable. A disc moves in x and y and changes its
size; the three change the image by clearly different amounts (in x most, in size least), since a
VAE orders its latents by that amount and has no reason to keep apart what matters equally. Nothing
about the factors is shown to the models.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unbraid.commands import options as declared
from unbraid.commands.run import Run
from unbraid.commands.train import train
from unbraid.commands.verb import command
from unbraid.core.errors import Problems
from unbraid.core.folders import next_folder

DATA = {
    "image_size": 28,
    "x": 12,
    "y": 12,
    "scale": 11,
    "y_range": 0.5,
    "scale_min": 0.18,
    "scale_max": 0.26,
}
OBJECTIVE = "beta_tcvae"
BETAS = [1.0, 8.0, 32.0]
STEPS = 1000
LATENTS = 5
LEARNING_RATE = 2e-3
SUCCESS = 0.5


@command
def demo(*, out: declared.Out = None, seeds: declared.Seeds = 3) -> Run:
    """Train, score and report a small population in a few minutes on a CPU."""
    from unbraid.population.new_folder import check_free
    from unbraid.population.seeds_and_rates import read_seeds

    # What `train` refuses, before anything is said.
    problems = Problems()
    read_seeds(seeds, problems)
    problems.raise_if_any()
    folder = Path(out) if out is not None else next_folder("demo")
    check_free(folder)
    options = ",".join(f"{name}={value}" for name, value in DATA.items())
    program = "unbraid" if shutil.which("unbraid") else os.path.relpath(sys.argv[0])
    typed = (
        f"{program} train sprites:{options} {OBJECTIVE} --beta"
        f" {','.join(f'{beta:g}' for beta in BETAS)} --seeds {_shown(seeds)} --steps {STEPS}"
        f" --latents {LATENTS} --learning-rate {LEARNING_RATE:g}"
    )
    _say(
        "A population of β-TCVAEs on a small drawn set (a disc with three factors: size, x, y)."
        f" The same by hand:\n  {typed}\n"
    )
    run = train(
        "sprites",
        OBJECTIVE,
        hyper={"beta": BETAS},
        data_options=DATA,
        seeds=seeds,
        steps=STEPS,
        latents=LATENTS,
        learning_rate=LEARNING_RATE,
        out=folder,
        command=typed,
    )
    table = run.score()
    by_beta: Any = table.groupby("beta")["mig"]
    _say("\nMIG (1: every factor in a latent of its own; 0: no factor is), over the seeds:")
    for beta, scores in by_beta:
        _say(
            f"  β = {beta:<4g} "
            + "  ".join(f"{score:.2f}" for score in sorted(scores, reverse=True))
        )
    for line in table.attrs["remarks"]:
        _say(f"\n{line}")
    told = table.assign(mig=table["mig"].where(~table["collapsed"], 0.0))
    winner = told.groupby("beta")["mig"].median().idxmax()
    won = told[told["beta"] == winner]["mig"]
    reached = sum(score >= SUCCESS for score in won)
    _say(
        f"\nβ = {winner:g} wins: {reached} of {len(won)} seeds reach MIG {SUCCESS} or more without"
        " having seen a label (β = 1 is a plain VAE)."
    )
    page = run.report()
    _say(f"\nOpen this page in a browser:\n  {page.resolve()}\n\nWhat to try next:")
    for words, what in (
        (f"explore {run.path}", "every model a dot, its latents under sliders"),
        (f"score {run.path} --metrics all", "twenty more scores, a few minutes"),
        ("discover my_images/", "what varies in your own images, without labels"),
        ("train my_images/ beta_vae --beta 1,4 --steps 5000", "models of your own images"),
        ("list", "objectives, metrics, data, networks"),
    ):
        _say(f"  {program} {words:<52}{what}")
    _say("or the command above with y_range=1.0: x and y then matter equally, and models mix them.")
    return run


def _shown(seeds: int | Sequence[int]) -> str:
    return str(seeds) if isinstance(seeds, int) else ",".join(map(str, seeds))


def _say(text: str) -> None:
    print(text, flush=True)


def shown(verb: str, run: Run, given: dict[str, Any]) -> str:
    """Nothing: all was said while it ran."""
    return ""
