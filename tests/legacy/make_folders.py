# SPDX-License-Identifier: Apache-2.0

"""Folders and `expected.json` were made with commit 9842173 of this project, by this script.

It is a record: it uses the commands and modules of that commit, and no test runs it. With the
source of that commit on PYTHONPATH, in an empty folder whose path anyone may read, since leaf-runs,
discoveries and perturbed data hold it:

    python .../tests/legacy/make_folders.py            # makes folders/ and expected.json there

Runs are stopped as by Ctrl-C, always at the same steps. For small files networks are tiny,
FactorVAE's discriminators have 8 units a layer instead of 1,000 (but in `run_begun`), discoveries
look at images of 16 x 16 with a tiny network too, and pages, locks and replaced checkpoints are
removed.
"""

from __future__ import annotations

import _thread
import contextlib
import json
import os
import shlex
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

FOLDERS = Path("folders")
SPRITES = "sprites:image_size=16,x=5,y=5,scale=3"
SMALL = "--network mlp:hidden=3,encoder_layers=1,decoder_layers=1 --latents 3 --device cpu"
TRAINED = f"--steps 60 --batch-size 16 --learning-rate 3e-3 --code-samples 70 {SMALL}"
DENSE = {"hidden": 2, "encoder_layers": 1, "decoder_layers": 0}


def run(line: str, code: int = 0) -> None:
    """Run a command line."""
    from observing import unbraid

    unbraid(*shlex.split(line), code=code)


def make_runs() -> None:
    """Runs: finished, with labels, stopped."""
    kinds = "beta_vae,factor_vae,annealed_vae,ada_gvae,ada_mlvae,gvae,mlvae"
    own = "--max-capacity 5 --ramp-steps 40 --divergence symmetric_kl --pair-rule michlo"
    run(f"train {SPRITES} {kinds} {own} {TRAINED} --out run_finished")
    make_run_with_labels("run_labels")
    for name in ("run_finished", "run_labels"):
        run(f"score {name} --metrics mig,sap,udr --device cpu")
    kinds = "s2_factor_vae,ada_gvae,beta_vae,control_vae"
    own = "--beta 'linear(0, 4, 40)' --label-count 20 --annealing anneal --annealing-steps 50"
    with stopped_training({0: 25, 1: 31, 2: 16, 3: 40}):
        run(f"train {SPRITES} {kinds} {own} {TRAINED} --out run_interrupted", code=1)
    own = "--steps 4 --batch-size 8 --network mlp:hidden=8 --latents 4 --device cpu"
    with stopped_training({0: 0}):
        run(f"train {SPRITES} s2_factor_vae {own} --out run_begun", code=1)
    own = "--beta 0.02 --convention mean --prior sparse:gamma=0.7 --where 'x < 4'"
    own += " --standardise --likelihood laplace:scale=0.5 --seeds 3,5 --checkpoint-seconds 9.5"
    with stopped_training({0: 45}, together=2):
        run(f"train {SPRITES} beta_vae {own} {TRAINED} --out run_settings", code=1)


def make_run_with_labels(name: str) -> None:
    """A run with every loss, labeller and annealing."""
    import unbraid as ub

    anneal, tune = {"annealing": "anneal"}, {"annealing": "fine_tune"}
    binned = {"labeller": "binned", "label_bins": 2, "label_seed": 7}
    noisy = {"labeller": "noisy", "label_noise": 0.3}
    partial = {"labeller": "partial", "observed_factors": 2, "embedding_sigma": 2}
    ordered = {"embedding": "ordered", "learn_sigma": "yes"}
    objectives = [
        ub.S2BetaVAE(beta=2, label_loss="l2", label_count=20, annealing_steps=40, **anneal),
        ub.S2FactorVAE(gamma=5, label_loss="xent", label_count=30, **binned),
        ub.S2DIPVAEI(label_loss="cov", label_count=40, gamma_sup=2, annealing_steps=30, **tune),
        ub.S2DIPVAEII(lambda_od=2, label_loss="l2_sigmoid", label_count=50, **noisy),
        ub.S2BetaTCVAE(label_loss="embed", label_count=60, gamma_sup=3, **partial),
        ub.Supervised(label_loss="embed", label_count=25, **ordered),
        ub.Supervised(labeller="permuted", label_count=75),
    ]
    options: dict[str, Any] = {"steps": 60, "batch_size": 16, "code_samples": 70, "latents": 3}
    options |= {"network": "mlp", "network_options": DENSE | {"hidden": 3, "decoder_layers": 1}}
    options |= {"data_options": {"image_size": 16, "x": 5, "y": 5, "scale": 3}, "device": "cpu"}
    options["learning_rate"] = "linear(5e-3, 2e-3, 60)"
    ub.train("sprites", objectives, **options, out=name, quiet=True)


def make_perturbed() -> None:
    """Perturbed data, and a run on it."""
    run(f"perturb {SPRITES} --from run_finished --epsilon 0.2 --device cpu --out perturbed")
    run(f"train ./perturbed beta_vae --beta 1 {TRAINED} --out run_perturbed")
    run("score run_perturbed --metrics mig,sap,udr,elbo --device cpu")


def make_searches() -> None:
    """Population-based training by agreement and by labels."""
    size = f"--population 5 --epochs 3 --epoch-pictures 320 --first-factor 1 {SMALL}"
    own = "--beta 0.1..2 --batch-size published --learning-rate 1e-3,3e-3,1e-2 --models 2 --seed 5"
    run(f"pbt unsupervised {SPRITES} beta_vae {own} {size} --out pbt_finished")
    own = "--beta published --batch-size 16,32,64 --learning-rate 1e-3..3e-2 --labels 50 --seed 1"
    with stopped("searching", 90):
        run(f"pbt supervised {SPRITES} beta_tcvae {own} {size} --out pbt_interrupted", code=1)


def make_recursions() -> None:
    """RPU-VAE with a rule of reduction that finds parts in codes of models that hardly trained."""
    from unbraid.errors import StoppedError
    from unbraid.search.reduction import ReductionRule
    from unbraid.searching import recurse

    least = {"peak_deviations": 0.5, "fewest_images": 3, "separation": 4, "more_than": 2}
    eager = ReductionRule(chance=None, **least)
    options: dict[str, Any] = {"data_options": {"image_size": 16, "x": 8, "y": 6, "scale": 1}}
    options |= {"network": "mlp", "network_options": DENSE, "latents": 2, "device": "cpu"}
    options |= {"hyper": {"beta": "0.2..1"}, "learning_rate": "1e-2..5e-2", "batch_size": 16}
    options |= {"population": 5, "models": 2, "epochs": 2, "epoch_pictures": 640, "seed": 2}
    options |= {"leaf_runs": 1, "levels": 2, "leaf_pictures": 320, "final_first_factor": 1}
    options |= {"reduction": eager, "quiet": True}
    options["command"] = "unbraid rpu run sprites:image_size=16,x=8,y=6,scale=1 beta_vae"
    recurse("sprites", "beta_vae", out="rpu_finished", **options)
    with stopped("leaf-0/level-2", 150), contextlib.suppress(StoppedError):
        recurse("sprites", "beta_vae", out="rpu_interrupted", **options)


def make_discoveries() -> None:
    """Discoveries: one search, and a recursion."""
    own = "--population 5 --models 2 --latents 2 --steps 120 --seed 2 --device cpu"
    with small_discoveries():
        run(f"discover {SPRITES} {own} --out discover_finished")
        with stopped("last models", 180):
            run(f"discover {SPRITES} {own} --leaf-runs 1 --out discover_interrupted", code=1)


@contextlib.contextmanager
def replaced(owner: Any, **names: Any) -> Iterator[None]:
    """Other values for *names* of *owner*."""
    usual = {name: getattr(owner, name) for name in names}
    try:
        for name, value in names.items():
            setattr(owner, name, value)
        yield
    finally:
        for name, value in usual.items():
            setattr(owner, name, value)


@contextlib.contextmanager
def small_discoveries() -> Iterator[None]:
    """Discoveries that learn something of small images in a few steps."""
    from unbraid.search import discovery_plan

    own = {"network": "mlp", "network_options": DENSE, "learning_rate": "1e-2..5e-2"}

    def small(make: Callable[..., Any]) -> Callable[..., Any]:
        return lambda data, **options: make(data, **options | own)

    search, recursion = small(discovery_plan.make_search), small(discovery_plan.make_recursion)
    betas = {"SIDES": (16,), "beta_range": lambda data: "0.2..2"}
    with replaced(discovery_plan, make_search=search, make_recursion=recursion, **betas):
        yield


@contextlib.contextmanager
def stopped_training(steps: dict[int, int], together: int = 1) -> Iterator[None]:
    """Ctrl-C when every chunk is at its step; *steps* by first member, *together* to a chunk."""
    import unbraid.run
    from unbraid.population import train

    everybody = threading.Barrier(len(steps), action=_thread.interrupt_main)

    class Stopping(train.Stepper):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            self.look()

        def advance(self, at_most: int) -> int:
            done = super().advance(at_most)
            self.look()
            return done

        def look(self) -> None:
            if self.state.step == steps[self.program.members[0].id]:
                everybody.wait()
                time.sleep(2.0)  # until the main thread has told all to stop

    workers = {"Stepper": Stopping, "cores": lambda: len(steps)}
    with replaced(train, **workers), replaced(unbraid.run, chunk_size=lambda *_: together):
        yield


@contextlib.contextmanager
def stopped(stage: str, call: int) -> Iterator[None]:
    """Ctrl-C when the progress of *stage* is told for the *call*-th time."""
    from unbraid.progress import Progress

    usual, calls = Progress.advance, 0

    def advance(self: Progress, *given: Any) -> None:
        nonlocal calls
        usual(self, *given)
        calls += self.what == stage
        if self.what == stage and calls == call:
            raise KeyboardInterrupt

    with replaced(Progress, advance=advance):
        yield
    if calls < call:
        raise SystemExit(f"{stage} was told of {calls} times only")


def clean(home: Path) -> None:
    """Remove pages, locks, and checkpoints that newer ones have replaced."""
    for path in [*home.rglob("*.html"), *home.rglob(".*lock")]:
        path.unlink()
    for folder in [*home.rglob("checkpoint"), *home.rglob("population")]:
        newest: dict[str, Path] = {}
        for path in sorted(folder.iterdir()):
            whose = path.name.rpartition("-")[0]
            if whose in newest:
                newest[whose].unlink()
            newest[whose] = path


def record(folders: Path) -> dict[str, Any]:
    """What that code made of copies of the folders."""
    import observing

    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary) / "folders"
        shutil.copytree(folders, home)
        for name, case in observing.CASES.items():
            with observing.small_discriminators(case.units):
                observing.resume(name, home)
                observing.score(name, home)
                found[name] = observing.observe(name, home)
        found[observing.PERTURBED] = observing.perturbed_data(home / observing.PERTURBED)
    return {"machine": observing.machine(), "folders": found}


def main() -> None:
    """Make everything in the folder that this is run in."""
    import observing

    FOLDERS.mkdir()
    os.chdir(FOLDERS)
    with observing.small_discriminators(8):
        make_runs()
        make_perturbed()
        make_searches()
        make_recursions()
        make_discoveries()
    os.chdir("..")
    clean(FOLDERS)
    text = json.dumps(record(FOLDERS), ensure_ascii=False, indent=1)
    Path("expected.json").write_text(f"{text}\n")


if __name__ == "__main__":
    main()
