# SPDX-License-Identifier: Apache-2.0
"""What children of the fork server do beside commands: folders that no command leaves behind, such
as those of a training that was stopped.
"""

from __future__ import annotations

import os
import shutil
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import unbraid as ub
from unbraid.commands.options import split_source
from unbraid.data import load
from unbraid.data.official import published
from unbraid.data.official.add import add
from unbraid.data.subset import Subset
from unbraid.population import chunk_training
from unbraid.population import train as training
from unbraid.population.background_save import BackgroundSave
from unbraid.population.plan import make_plan
from unbraid.population.run_folder import RunFolder
from unbraid.search.discover import image_source
from unbraid.search.discover import plan as discovery_plan
from unbraid.search.pbt.search import SearchRun
from unbraid.search.reduce.reduction import ReductionRule
from unbraid.search.rpu.plan import make_recursion
from unbraid.search.rpu.recursion import Recursion
from unbraid.studies import STUDIES, run_slices
from unbraid.studies.results import Results
from unbraid.studies.slice_work import SliceWork
from unbraid.testing.official_files import small_source

from ..studies.toy_study import make_study

CPU = torch.device("cpu")
LEGACY = Path(__file__).parents[1] / "legacy" / "folders"
SPRITES = {"image_size": 28, "x": 8, "y": 6, "scale": 1}
SMALL: dict[str, Any] = {
    "data_options": SPRITES,
    "network": "mlp",
    "network_options": {"hidden": 16},
    "latents": 3,
    "batch_size": 8,
    "learning_rate": 1e-3,
}
STEPS = 20
EAGER = ReductionRule(chance=None, peak_deviations=0.5, fewest_images=3, separation=4, more_than=2)
"""Finds parts in the codes of models that hardly trained."""
RECURSION: dict[str, Any] = {
    "data_options": {"x": 10, "y": 8, "scale": 1, "image_size": 16},
    "network": "mlp",
    "network_options": {"hidden": 32},
    "latents": 3,
    "population": 5,
    "models": 2,
    "epochs": 1,
    "epoch_images": 320,
    "leaf_images": 160,
    "hyper": {"beta": "0.2..0.5"},
    "learning_rate": "5e-3..1e-2",
    "batch_size": 16,
    "leaf_runs": 1,
    "levels": 2,
    "final_first_factor": 1,
    "reduction": EAGER,
    "seed": 1,
}
SEARCH: dict[str, Any] = {
    "hyper": {"beta": "1..8"},
    "population": 5,
    "epochs": 2,
    "epoch_images": 64,
    "score": "udr",
    "models": 2,
    **{name: SMALL[name] for name in ("data_options", "network", "network_options", "latents")},
    "batch_size": 16,
}


def prepare() -> None:
    """Before the first fork: a study and a published dataset that are small."""
    home = Path(os.environ["UNBRAID_DAMAGE_HOME"])
    STUDIES.register("toy", make_study(home / "toy"))
    published("shapes3d").source = small_source("shapes3d", home / "published")  # pyright: ignore


def shapes(folder: str) -> None:
    """A published dataset in the data home, which is above *folder*."""
    assert Path(folder).parent == Path(os.environ["UNBRAID_DATA"])
    add("shapes3d", Path(os.environ["UNBRAID_DAMAGE_HOME"]) / "published", quiet=True)


def finished_run(folder: str, seed: str = "0") -> None:
    """Two members, with scores, codes, reconstructions and a report."""
    run = ub.train(
        "sprites",
        ub.BetaVAE(beta=[1, 4]),
        out=folder,
        seeds=[int(seed)],
        steps=STEPS,
        device="cpu",
        quiet=True,
        keep_optimiser=True,
        **SMALL,
    )
    run.score(["mig", "elbo"], quiet=True)
    run.report()


def opened(folder: str) -> None:
    """What a program sees of a run."""
    run = ub.open_run(folder, device="cpu")
    print(run.members.to_csv(), run.history.to_csv())
    codes = [run.model(at).encode(run.dataset.images([0, 1, 2])) for at in run.members["member"]]
    print(np.array(codes).tobytes().hex())


def stopped_run(folder: str, seed: str = "0") -> None:
    """Two members, stopped when each has two checkpoints."""
    chunk_training._LEAST_TRAINING_PER_SAVING = 0

    class AtOnce(BackgroundSave):
        def __call__(self, *given: Any) -> None:
            super().__call__(*given)
            self.wait()

    both, stop = threading.Barrier(2), threading.Event()

    class Stopping(chunk_training.Stepper):
        def advance(self, most: int) -> int:
            done = super().advance(most)
            if self.state.step == STEPS - 6:
                both.wait()
                stop.set()
            return done

    setattr(chunk_training, "BackgroundSave", AtOnce)  # noqa: B010
    setattr(chunk_training, "Stepper", Stopping)  # noqa: B010
    setattr(training, "workers", lambda device: [device, device])  # noqa: B010
    plan, data = make_plan(
        "sprites",
        ub.BetaVAE(beta=[1, 4]),
        seeds=[int(seed)],
        steps=STEPS,
        checkpoint_seconds=0.0,
        **SMALL,
    )
    run = RunFolder.create(folder, plan, 1, data)
    assert not training.train_run(run, CPU, stop=stop).finished


def own_run(source: str, folder: str) -> None:
    """A run on own data."""
    rest = {name: value for name, value in SMALL.items() if name != "data_options"}
    data, options = split_source(source, None)
    run = ub.train(
        data,
        "beta_vae",
        out=folder,
        steps=4,
        data_options=options,
        keep_optimiser=True,
        device="cpu",
        quiet=True,
        **rest,
    )
    run.score("mig", quiet=True)


def subset_run(kept: str, folder: str) -> None:
    """A run on the images that a reduction kept."""
    rest = {name: value for name, value in SMALL.items() if name != "data_options"}
    data = Subset(load("sprites", **SPRITES), kept)
    ub.train(data, "beta_vae", out=folder, steps=4, device="cpu", quiet=True, **rest)


def reduction(folder: str) -> None:
    """The images that are kept by two latents of clean steps."""
    place = load("sprites", **SPRITES).factors(np.arange(48)).astype(np.float64)
    made = ub.reduce(
        place + np.random.default_rng(0).normal(0, 0.01, place.shape), rule=EAGER, out=folder
    )
    assert len(made.indices)


def finished_search(folder: str, seed: str = "0") -> None:
    """A search of two epochs."""
    given = SEARCH | {"seed": int(seed)}
    ub.pbt("sprites", "beta_vae", out=folder, device="cpu", quiet=True, **given)


def stopped_search(folder: str, seed: str = "0") -> None:
    """A search stopped in its second epoch, with two states."""
    from unbraid.search.pbt.make_search import make_search

    given = SEARCH | {"seed": int(seed)}
    search = SearchRun.create(folder, *make_search("sprites", "beta_vae", **given))

    def stop(epoch: dict[str, Any]) -> None:
        if epoch["epoch"] == 1:
            raise KeyboardInterrupt

    assert not search.train(CPU, on_epoch=stop).finished
    # The state before it, as a killed search has it.
    (state,) = (Path(folder) / "population").glob("state-*")
    state.with_name("state-000001.safetensors").write_bytes(state.read_bytes())


def finished_recursion(folder: str, seed: str = "1") -> None:
    """A root, a leaf-run and a final population."""
    given = RECURSION | {"seed": int(seed)}
    made = ub.rpu("sprites", "beta_vae", out=folder, device="cpu", quiet=True, **given)
    assert [stage.name for stage in made.stages] == ["root", "leaf-0/level-2", "final-1"]


def stopped_recursion(folder: str) -> None:
    """One that has its root and stopped in its leaf-run."""
    recursion = Recursion.create(folder, *make_recursion("sprites", "beta_vae", **RECURSION))

    def train(stage: Any, search: SearchRun) -> Any:
        def stop(epoch: dict[str, Any]) -> None:
            raise KeyboardInterrupt

        return search.train(CPU, on_epoch=stop if stage.level == 2 else lambda epoch: None)

    assert recursion.train(CPU, train) is None


def few_epochs() -> None:
    """Discoveries that end in a moment, on a draw of the images."""
    discovery_plan.EPOCHS, discovery_plan.BATCH = 2, 8
    discovery_plan.MOST_IMAGES = image_source.MOST_IMAGES = 90
    small = {"network": "mlp", "network_options": {"hidden": 32}}
    discovery_plan.make_search = partial(discovery_plan.make_search, **small)
    discovery_plan.make_recursion = partial(discovery_plan.make_recursion, **small)


def images(folder: str, count: str = "60") -> None:
    """A folder of images with factors.csv."""
    data, home = load("sprites", image_size=28, x=10, y=10, scale=1), Path(folder)
    home.mkdir()
    lines = ["file,x"]
    for number, image in enumerate(data.images(np.arange(int(count)))):
        Image.fromarray(image[..., 0]).save(home / f"im{number:03d}.png")
        lines.append(f"im{number:03d}.png,{data.factors([number])[0, 1]}")
    (home / "factors.csv").write_text("\n".join(lines) + "\n")


def arrays(folder: str) -> None:
    """The same as .npz, and as .npy with a .csv of labels."""
    data, home = load("sprites", image_size=28, x=8, y=6, scale=1), Path(folder)
    home.mkdir()
    images, factors = data.images(np.arange(48)), data.factors(np.arange(48))[:, 1:]
    np.savez(home / "all.npz", images=images, factors=factors)
    np.save(home / "images.npy", images)
    np.save(home / "labels.npy", factors)


def legacy(name: str, folder: str) -> None:
    """A folder that earlier code made."""
    shutil.copytree(LEGACY / name, folder)


def discovery(source: str, folder: str, leaf_runs: str = "0", seed: str = "0") -> None:
    """A finished discovery of a folder, or of a dataset by name, whose images are stored."""
    few_epochs()
    options = {} if os.path.exists(source) else {"image_size": 28, "x": 10, "y": 10, "scale": 1}
    ub.discover(
        source,
        out=folder,
        steps=2 * 20,
        population=5,
        models=2,
        latents=3,
        leaf_runs=int(leaf_runs),
        seed=int(seed),
        data_options=options,
        device="cpu",
        quiet=True,
    )


def stopped_discovery(source: str, folder: str) -> None:
    """One that stopped while its models trained."""
    from unbraid.commands import discover

    train = discover.train_search

    def stopping(*given: Any) -> Any:
        search = given[1]

        def stop(epoch: dict[str, Any]) -> None:
            raise KeyboardInterrupt

        return search.train(CPU, on_epoch=stop)

    discover.train_search = stopping
    try:
        discovery(source, folder)
    except KeyboardInterrupt:
        return
    finally:
        discover.train_search = train
    raise AssertionError("it was to be stopped")


def study(folder: str) -> None:
    """The tables of a study."""
    results = Results(STUDIES.load("toy"), "small", folder)
    run_slices.run_slices(results, results.slices(), CPU, quiet=True)


def stopped_study(folder: str) -> None:
    """The tables of one pool, and a slice that has its first stage."""
    results = Results(STUDIES.load("toy"), "small", folder)
    parts = results.slices()
    run_slices.run_slices(results, [one for one in parts if one[0].name == "main"], CPU, quiet=True)
    pool, one = next(part for part in parts if part[0].name == "stages")
    stop, place = threading.Event(), run_slices.work_folder(results, None)
    making = SliceWork(place / pool.name / one.name, results, pool, one, CPU, stop)
    making.open(load(one.plan["data"], **one.plan["data_options"]))
    score = making._score

    def last(steps: int) -> None:
        score(steps)
        stop.set()

    making._score = last  # pyright: ignore
    assert not making.train(lambda steps, found: None, lambda line: None)
