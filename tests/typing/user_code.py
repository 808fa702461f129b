# SPDX-License-Identifier: Apache-2.0
"""What people write with Unbraid: `test_user_code.py` has pyright check it, in strict mode.

It is checked and never run. There is no cast and no ignored line.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, assert_type

import numpy as np
from numpy.typing import NDArray

import unbraid as ub
from unbraid.objectives import Forward, Objective, Term, number


def train_and_compare(images: NDArray[np.uint8]) -> None:
    """The quickstart: sweeps, schedules, seeds; tables, the best model, its codes."""
    run = ub.train("dsprites", ub.BetaVAE(beta=[1, 4, 16]), seeds=10, steps=30_000)
    assert_type(run, ub.Run)
    table = run.score(["mig", "dci:backend=sklearn"], representation="sampled")
    print(table, run.members, run.history)
    model = run.best("mig")
    assert_type(model, ub.Model)
    z = model.encode(images)
    assert_type(z, NDArray[np.float32])
    assert_type(model.decode(z), NDArray[np.uint8])
    page: Path = run.report()
    print(page, run.summary(), run.dataset.factor_names)


def many_ways_to_train(images: NDArray[np.uint8]) -> None:
    """Objectives, priors, supervision, networks and data, as objects and as they are spelled."""
    data = ub.load("sprites", x=16, y=8)
    assert_type(data, ub.Dataset)
    ub.train(
        data,
        [ub.FactorVAE(gamma=[10, 20]), ub.AnnealedVAE(max_capacity=[5, 25]), "vae"],
        prior=[ub.Sparse(gamma=0.8), "isotropic"],
        supervision=ub.FewLabels(count=[100, 1000]),
        network="mlp:hidden=256",
        learning_rate=[1e-4, ub.cosine(1e-3, 0, 30_000)],
        seeds=[3, 5],
        out=Path("runs/mine"),
        device="cpu",
        quiet=True,
    )
    ub.train("sprites:x=16,y=8", ["beta_vae", "factor_vae:gamma=10,20"], likelihood="laplace")
    ub.train(images, ub.BetaTCVAE(beta=ub.linear(0, 4, 1000)), where="x < 3", standardise=True)
    ub.train("dsprites", ub.BetaVAE(beta=[1, ub.linear(0, 4, 1000)]), latents=20, batch_size=256)
    ub.train("dsprites", "beta_vae", hyper={"beta": [1, 4]}, data_options={"file": "added"})


def go_on() -> None:
    """Folders: a run opened, anything resumed."""
    run = ub.open_run("runs/mine", data="there.npz:resize=64", device="cuda:0")
    assert_type(run, ub.Run)
    print(ub.resume("runs/mine").summary())
    print(ub.score("runs/mine", metrics="all"), ub.report("runs/mine"))
    print(ub.score(codes="z.npy", factors="y.npy", samples=1000))


def search(images: NDArray[np.uint8]) -> None:
    """Searches with and without labels, and what they leave."""
    by_labels = ub.pbt("dsprites", "beta_tcvae:beta=1..60", score="mig", labels=1000)
    print(by_labels.lineage, by_labels.score, by_labels.winner.best("mig"))
    ub.pbt("dsprites", ub.BetaTCVAE(beta=4), learning_rate="1e-4..3e-3", batch_size=[64, 128])
    recursive = ub.rpu("dsprites", leaf_runs=1, every_final=True)
    print(recursive.table(), recursive.final().winner.model(0).encode(images))
    found = ub.discover(images, minutes=5)
    print(found.summary(), found.codes.columns, found.models.members)
    cut = ub.reduce("codes.csv", columns=["factor_1", "factor_2"], published=True)
    assert_type(cut.indices, NDArray[np.int64])


def analyse() -> None:
    """Perturbed data, perceived distances, the gallery, datasets, lists."""
    perturbed = ub.perturb("dsprites", from_="runs/first", epsilon=0.1)
    print(perturbed.data.epsilon, perturbed.summary())
    print(ub.distances("dsprites", loss="mse+box31").distances.importance_table())
    print(ub.gallery(seed=3).page, ub.list("metrics"), ub.demo(seeds=[1, 2]).path)
    print(ub.data.info("dsprites"), ub.data.export("dsprites", out="some.npz", count=100))


def measure(codes: NDArray[np.float32], factors: NDArray[np.int64]) -> None:
    """Metrics of anybody's arrays."""
    found = ub.metrics.mig(codes, factors, bins=10)
    score: float = found.score
    print(score, found.mutual_information.shape, ub.metrics.modularity(codes, factors).score)


@dataclass(frozen=True)
class Mine(Objective):
    """An objective of one's own."""

    weight: float = number(2.0, "weight of the KL divergence", at_least=0)

    label = "Mine"
    term_names = ("reconstruction", "kl")
    citation: ClassVar[ub.Citation] = ub.Citation("Me", 2026, "Mine")

    def terms(self, forward: Forward) -> dict[str, Term]:
        return {
            "reconstruction": Term(forward.reconstruction),
            "kl": Term(forward.kl(), self.weight),
        }


def extend() -> None:
    """Registering and training it, and what may go wrong."""
    ub.OBJECTIVES.register("mine", Mine)
    try:
        ub.train("dsprites", Mine(weight=3.0))
    except ub.StoppedError:
        raise
    except ub.InputError as error:
        print([(one.name, one.rule, one.value, one.remedy) for one in error.problems])
