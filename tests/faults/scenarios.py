# SPDX-License-Identifier: Apache-2.0
"""The commands that are disturbed: what lies there before, the command, how a person goes on.

Everything is relative to the folder in which a scenario plays, which is always the same one, so
that paths in records are the same too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

DATA = "sprites:image_size=28,x=6,y=4,scale=1"
NETWORK = ("--network", "mlp:hidden=8", "--latents", "2", "--device", "cpu")
TRAIN = (
    *("train", DATA, "beta_vae", "--beta", "1,4", "--seeds", "1", "--batch-size", "8"),
    *("--learning-rate", "1e-3", "--out", "run", *NETWORK),
)
SCORE = ("score", "run", "--metrics", "mig,elbo", "--device", "cpu")
SEARCH = (
    *("sprites:image_size=16,x=10,y=8,scale=1", "beta_vae", "--network", "mlp:hidden=32"),
    *("--latents", "3", "--population", "5", "--models", "2", "--batch-size", "16"),
    *("--beta", "0.2..0.5", "--learning-rate", "5e-3..1e-2", "--seed", "1"),
    *("--out", "run", "--device", "cpu"),
)
PBT = ("pbt", *SEARCH, "--epochs", "3", "--epoch-images", "32")
RPU = ("rpu", *SEARCH, "--epochs", "1", "--epoch-images", "160", "--leaf-images", "80")

Words = tuple[str, ...]


@dataclass(frozen=True)
class Scenario:
    """One command, and what belongs to it."""

    words: Words
    before: tuple[Words | Callable[[], object], ...] = ()
    """What makes the folder that the command finds."""
    kind: str = ""
    """Of folder that it makes in `run`, and which `resume` goes on with; else it is repeated."""
    settings: Callable[[], object] = lambda: None
    """What is smaller than for people."""
    locks: bool = True
    """Whether files may change only while a lock is held."""
    result: str = ""
    """With this file there is nothing left to do."""
    inputs: tuple[str, ...] = ()
    """Folders that the command reads."""
    notes: bool = False
    """Whether a note of what a killed one had begun may stay, beside the record that settles it."""
    dear: bool = False
    """Whether it takes seconds."""
    since: str = ""
    """Another scenario has what comes before this failpoint."""

    def go_on(self) -> Words | None:
        """What a person types after a failure; None where all is there."""
        if self.result and Path(self.result).exists():
            return None
        if self.kind:
            from unbraid.core.folders import kind_of

            if kind_of("run") == self.kind:
                return ("resume", "run", "--device", "cpu")
        return self.words


def _remove_codes() -> None:
    """As of a run that was trained elsewhere: scoring encodes it."""
    import shutil

    shutil.rmtree("run/codes")


def _remove_tables() -> None:
    """They are made again by whoever reads them."""
    for name in ("members", "history"):
        Path(f"run/{name}.parquet").unlink()


def _killed_in_the_middle() -> None:
    """Who trained the first member is gone, and was writing its results."""
    from unbraid.core.lease_holder import machine

    process = os.fork()
    if process == 0:
        os._exit(0)
    os.waitpid(process, 0)
    _remove_tables()
    for path in Path("run/checkpoint").glob("members-00000-*"):
        path.unlink()
    holder = f"{machine()}-{process}-1-0123456789ab"
    halves = Path("run/checkpoint/.members-00000-00000.lease", f"{holder}.halves")
    halves.mkdir(parents=True)
    (halves / ".members-00000-00000.step-000000006.safetensors.0-1.part").write_bytes(b"half")
    halves.with_name(holder).write_text("{}")


def _searches_save_between_epochs() -> None:
    """And never within one, so that the same files are written in every run."""
    from unbraid.search.pbt.state import Checkpointer

    Checkpointer.seconds_left = lambda self: 1e6
    Checkpointer.due = lambda self: True


def _eager() -> None:
    """Recursions find parts in the codes of models that hardly trained."""
    from unbraid.search.reduce.reduction import ReductionRule
    from unbraid.search.rpu import plan

    _searches_save_between_epochs()
    make, least = plan.make_recursion, {"peak_deviations": 0.5, "fewest_images": 3}
    rule = ReductionRule(chance=None, separation=4, more_than=2, **least)
    plan.make_recursion = lambda *given, **options: make(*given, **options, reduction=rule)


def _small_discoveries() -> None:
    """Of images of 16 x 16 with a small network, and of some images only."""
    from unbraid.search.discover import image_source, plan

    _searches_save_between_epochs()
    own = {"network": "mlp", "network_options": {"hidden": 8}, "learning_rate": "1e-2..5e-2"}

    def small(make: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given, **options: make(*given, **options | own)

    plan.make_search, plan.make_recursion = small(plan.make_search), small(plan.make_recursion)
    plan.EPOCHS, plan.BATCH, plan.SIDES = 2, 8, (16,)
    plan.beta_range = lambda data: "0.2..2"
    image_source.MOST_IMAGES = 60


def _toy_study() -> None:
    """With two slices of a model each, one of them in two stages."""
    from studies import toy_study
    from unbraid.studies import STUDIES
    from unbraid.studies.pool import Pool, Slice

    own = {**toy_study.SMALL, "steps": 6, "checkpoint_seconds": 1e6}
    plain, staged = ({**own, "objective": name, "seeds": 1} for name in ("beta_vae", "vae"))
    slices = Slice("plain", plain, ("elbo",)), Slice("staged", staged, ("mig",), stages=(3,))
    study = toy_study.make_study(Path("claims"))
    study = replace(study, pools=lambda scale, first: (Pool("main", "small", slices),))
    STUDIES.register("toy", study)


def _published() -> None:
    from unbraid.data.official import published
    from unbraid.testing.official_files import small_source

    os.environ["UNBRAID_DATA"] = str(Path("home").absolute())
    published("mpi3d_toy").source = small_source("mpi3d_toy", Path("published").absolute())


def _under_another_name() -> None:
    """What was added seems to be other images, which the new ones take the place of."""
    from unbraid.core.store import read_json, write_json

    record = read_json(Path("home/mpi3d_toy/record.json"))
    for one in record["arrays"].values():
        old = Path("home/mpi3d_toy", one["file"])
        one["file"] = f"{old.stem[:-1]}{'1' if old.stem[-1] == '0' else '0'}.npy"
        old.rename(old.with_name(one["file"]))
    write_json(Path("home/mpi3d_toy/record.json"), record)


ADD: Words = ("data", "add", "mpi3d_toy", "published")
EXPORT = ("data", "export", DATA, "--out")
SCENARIOS: dict[str, Scenario] = {
    "train": Scenario((*TRAIN, "--steps", "6"), kind="train"),
    "extend": Scenario(
        ("resume", "run", "--steps", "9", "--device", "cpu"),
        ((*TRAIN, "--steps", "6", "--keep-optimiser"), SCORE, ("report", "run")),
    ),
    "grow": Scenario(
        ("resume", "run", "--seeds", "2", "--device", "cpu"),
        ((*TRAIN, "--steps", "6"), SCORE, ("report", "run")),
    ),
    "take_over": Scenario(
        ("work", "run", "--device", "cpu"), ((*TRAIN, "--steps", "6"), _killed_in_the_middle)
    ),
    "score": Scenario(SCORE, ((*TRAIN, "--steps", "6"), _remove_codes)),
    "report": Scenario(("report", "run"), ((*TRAIN, "--steps", "6"), SCORE, _remove_tables)),
    "explore": Scenario(
        ("explore", "run", "--out", "site"),
        ((*TRAIN, "--steps", "6"),),
        locks=False,
        result="site/index.html",
    ),
    "pbt": Scenario(PBT, kind="pbt", settings=_searches_save_between_epochs),
    "rpu": Scenario(
        (*RPU, "--leaf-runs", "1", "--levels", "2"),
        kind="rpu",
        settings=_eager,
        dear=True,
    ),
    "rpu_same_labels": Scenario(
        (*RPU, "--leaf-runs", "1", "--levels", "2", "--every-final"),
        kind="rpu",
        settings=_searches_save_between_epochs,
        dear=True,
        since="tree.copied",
    ),
    "discover": Scenario(
        (
            *("discover", "sprites:image_size=16,x=10,y=8,scale=1", "--steps", "4"),
            *("--models", "2", "--population", "5"),
            *("--latents", "2", "--out", "run", "--device", "cpu"),
        ),
        kind="discover",
        settings=_small_discoveries,
        dear=True,
    ),
    "add": Scenario(ADD, settings=_published, inputs=("published",)),
    "add_again": Scenario(
        ADD, (ADD, _under_another_name), settings=_published, inputs=("published",)
    ),
    "export": Scenario((*EXPORT, "data.npz"), locks=False, result="data.npz"),
    "export_folder": Scenario((*EXPORT, "images", "--count", "4"), locks=False, result="images"),
    "perturb": Scenario(
        ("perturb", DATA, "--from", "run", "--member", "0", "--out", "broken", "--device", "cpu"),
        ((*TRAIN, "--steps", "6"),),
        result="broken/perturbed.json",
        notes=True,
    ),
    "study": Scenario(
        (
            *("study", "run", "toy", "--scale", "small", "--device", "cpu"),
            *("--results", "results"),
        ),
        settings=_toy_study,
        inputs=("claims",),
    ),
}


def everywhere() -> None:
    """Settings of all scenarios: one process, one core, so that the order is always the same."""
    import torch

    from unbraid.scoring import metric_inputs

    torch.set_num_threads(1)
    metric_inputs.WORTH_PROCESSES = 10**6
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[os.getpid() % _cores()]})


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def command(words: Words) -> int:
    """The exit code of a command line in this process."""
    from unbraid.commands.command_line import main

    sys.argv = ["unbraid", *words]
    try:
        main()
    except SystemExit as error:
        return int(error.code or 0)
    return 0
