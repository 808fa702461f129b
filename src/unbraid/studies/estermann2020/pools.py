# SPDX-License-Identifier: Apache-2.0
"""What is trained for the study: searches, recursions, their final populations, and baselines.

At the scale `gpu` an individual of a recursion sees 160,000 images an epoch, with batches of 64. A
final model so does 40,000 updates, as the models of `locatello2019` do that it is compared with:
same data, network, latents, batches and scores. Batch sizes are drawn where searches are compared
with each other (pool `supervised`), and everywhere at the scale `paper`.
"""

from __future__ import annotations

from typing import Any

from unbraid.search import defaults
from unbraid.search.pbt.search_space import PUBLISHED_BATCHES
from unbraid.studies.pool import Pool, Scale, SearchSlice, Slice

SUPERVISED, FEW, CEILING = "supervised", "few-labels", "pbt-s"
RPU, FINALS, CELEBA = "rpu", "finals", "celeba"
DEFAULTS, RATES, IMPROVE = "our-ranges", "our-rates", "improve"
DATA = ("dsprites", "shapes3d_drawn")
SMALL = "sprites"
LEAF_RUNS = 3
EVERY_FINAL = tuple(range(LEAF_RUNS + 1))
FINAL_IMAGES, FINAL_EPOCHS = 160_000, 16
"""Of a final model at the scale `gpu`: 2,560,000 images, 40,000 updates of 64."""

FIRST_FACTOR = 3
"""Searches without labels begin with 30 individuals, of which the best 10 go on. The paper has 56
all along. Of only 10 draws a seed's may be nearly all of rates at which models diverge: of the
first seed's two were below 0.01, both with a small β.
"""

ARMS: dict[str, dict[str, Any]] = {
    "mig": {"score": "mig"},
    "dci": {"score": "dci", "points": 5_000},
    "mig-1000": {"score": "mig", "labels": 1_000},
    "random": {"score": "mig", "share": 0.0},
    "chosen-1000": {"score": "mig", "labels": 1_000, "share": 0.0},
}
"""Of the pool `supervised`: selected by all labels with MIG or DCI, by 1,000 labels, and random
search, whose models are only chosen among, by all labels or by 1,000. Each sees as many images:
population-based training begins with twice the population for an epoch, random search has an epoch
more.
"""
WEIGHTS = (1.0, 2.0, 4.0, 6.0, 8.0, 16.0)
"""Of the labels in the few-label baseline, as of Locatello et al. (2020)."""

PUBLISHED: dict[str, Any] = {"learning_rate": "published", "hyper": {"beta": "published"}}
"""Learning rates from 1e-5 to 1, of which two fifths diverge, and β from 1 to 437."""
OURS: dict[str, Any] = {"learning_rate": defaults.RATES, "hyper": {"beta": "1..60"}}
"""What `unbraid rpu` draws from by itself."""
OUR_RATES: dict[str, Any] = {"learning_rate": defaults.RATES, "hyper": {"beta": "published"}}
"""Tells whether the range of β or that of the learning rate decides what a root finds."""

VARIANTS: dict[str, dict[str, Any]] = {
    "weighed": {"final_labels": "weighed"},
    "confirmed": {"final_labels": "confirmed"},
    "long": {"final_epochs": 2 * FINAL_EPOCHS},
}
"""Of the pool `improve`: final populations of the same labels of three leaf-runs, each of which
answers one suspicion why leaf-runs do not help. `weighed`: labels read off few images are mostly
chance and count as much as the root's. `confirmed`: labels of mixed latents teach nonsense. `long`:
finals end too soon.

The rule, written before any of them is run. By the seeds of dSprites, a variant is better where the
95% interval of its mean MIG less that of the published final of the same seed (pool `rpu`) lies
above 0. Of several the one with the highest mean is taken; `long`, which costs twice, only where
its mean is 0.02 higher than that of any other. It must not be worse on shapes3d_drawn: the
mean difference there is above -0.02. What is taken becomes the default of `unbraid rpu` and
`unbraid discover`; where none is, they stay as published. No claim looks at these models.
"""
METRICS = ("mig", "dci", "elbo", "active_units", "udr")
GPU: dict[str, Any] = {
    "objective": "beta_tcvae",
    "population": 10,
    "first_factor": FIRST_FACTOR,
    "epochs": 10,
    "epoch_images": FINAL_IMAGES,
    "batch_size": 64,
    "final_population": 12,
    "final_epochs": FINAL_EPOCHS,
    "leaf_images": 30_000,
    "levels": 3,
    "checkpoint_seconds": 120.0,
}
GPU_SUPERVISED: dict[str, Any] = {
    "objective": "beta_tcvae",
    "population": 28,
    "epochs": 16,
    "epoch_images": 60_000,
    "batch_size": [32, 64, 128, 256],
    "first_factor": 2,
    "together": 8,
    "checkpoint_seconds": 120.0,
}
PAPER: dict[str, Any] = {
    "objective": "beta_tcvae",
    "network": "conv_batchnorm",
    "population": 56,
    "epochs": 26,
    "batch_size": [*PUBLISHED_BATCHES],
    "final_population": 28,
    "final_epochs": 16,
    "leaf_images": 10_000,
    "levels": 3,
}
PAPER_IMAGES = {"dsprites": 737_280, "shapes3d_drawn": 480_000, "celeba": 202_599}
SMALL_DATA: dict[str, Any] = {
    "data_options": {"image_size": 16, "x": 8, "y": 8, "scale": 4, "shape": 3, "orientation": 5},
    "network": "mlp",
    "network_options": {"hidden": 96, "encoder_layers": 2, "decoder_layers": 2},
    "latents": 6,
    "code_samples": 1_500,
}
SMALL_SEARCH: dict[str, Any] = SMALL_DATA | {
    "objective": "beta_tcvae",
    "population": 5,
    "epochs": 4,
    "epoch_images": 6_000,
    "batch_size": 32,
    "final_population": 5,
    "final_epochs": 4,
    "final_first_factor": 1,
    "leaf_images": 1_000,
    "levels": 2,
    "models": 3,
    "learning_rate": "2e-3..8e-3",
    "hyper": {"beta": "0.5..4"},
}
_OF_RECURSIONS = ("final_population", "final_epochs", "final_first_factor", "leaf_images", "levels")


def pools(scale: Scale, first_seed: int) -> tuple[Pool, ...]:
    """The pools at *scale*, with seeds from *first_seed* on."""
    return {"small": _small, "gpu": _gpu, "paper": _paper}[scale](first_seed)


def _gpu(first_seed: int) -> tuple[Pool, ...]:
    seeds = range(first_seed, first_seed + 5)
    published = {data: GPU | PUBLISHED | {"data": data} for data in DATA}
    ours = {"dsprites": GPU | OURS | {"data": "dsprites"}}
    rates = _alone(GPU | OUR_RATES | {"data": "dsprites"}) | {"score": "udr"}
    return (
        _supervised(GPU_SUPERVISED | PUBLISHED | {"data": "dsprites"}, seeds),
        _few({"data": "dsprites", "learning_rate": 2e-4}, GPU_SUPERVISED, seeds),
        _recursions(RPU, "whole recursions with published draws", published, seeds),
        _ceiling(published, seeds),
        _finals(FINALS, published, seeds, {f"{count}": {} for count in EVERY_FINAL[:-1]}),
        _recursions(DEFAULTS, "recursions with the ranges of `unbraid rpu`", ours, seeds),
        Pool(
            RATES,
            "roots with our learning rates and published β",
            tuple(_search("root", rates, seed) for seed in seeds),
        ),
        _finals(IMPROVE, published, seeds, VARIANTS),
        _celeba(GPU | PUBLISHED, range(first_seed, first_seed + 1)),
    )


def _paper(first_seed: int) -> tuple[Pool, ...]:
    seeds = range(first_seed, first_seed + 5)
    every = {
        data: PAPER | PUBLISHED | {"data": data, "epoch_images": PAPER_IMAGES[data]}
        for data in DATA
    }
    supervised = _alone(every["dsprites"]) | {"population": 28, "first_factor": 2}
    few = {"data": "dsprites", "network": "conv_batchnorm", "learning_rate": 1e-4}
    one = PAPER | PUBLISHED | {"epoch_images": PAPER_IMAGES["celeba"]}
    return (
        _supervised(supervised, seeds),
        _few(few, supervised, seeds),
        _recursions(RPU, "whole recursions", every, seeds),
        _ceiling(every, seeds),
        _finals(FINALS, every, seeds, {f"{count}": {} for count in EVERY_FINAL[:-1]}),
        _celeba(one, range(first_seed, first_seed + 1)),
    )


def _small(first_seed: int) -> tuple[Pool, ...]:
    seeds = range(first_seed, first_seed + 2)
    every = {SMALL: SMALL_SEARCH | {"data": SMALL}}
    fewer = {"models": 1, "first_factor": 2, "epoch_images": 3_000}
    supervised = _alone(every[SMALL]) | fewer
    few = SMALL_DATA | {"data": SMALL, "learning_rate": 1e-3}
    return (
        _supervised(supervised, seeds, points=500, labels=200),
        _few(few, supervised, seeds),
        _recursions(RPU, "whole recursions on small sprites", every, seeds),
        _ceiling(every, seeds),
        _finals(FINALS, every, seeds, {f"{count}": {} for count in EVERY_FINAL[:-1]}),
    )


def _alone(plan: dict[str, Any]) -> dict[str, Any]:
    """*plan* without what only recursions have."""
    return {name: value for name, value in plan.items() if name not in _OF_RECURSIONS}


def _supervised(
    plan: dict[str, Any], seeds: range, points: int = 5_000, labels: int = 1_000
) -> Pool:
    """Searches by labels, and random ones that see as many images."""
    slices = []
    for name, arm in ARMS.items():
        own = dict(arm)
        if "points" in own:
            own["points"] = points
        if "labels" in own:
            own["labels"] = labels
        if "share" in own:  # as many images: an epoch more, and none of twice the population
            more = plan["epochs"] + plan["first_factor"] - 1
            own |= {"first_factor": 1, "epochs": more}
        slices += [_search(name, plan | own, seed) for seed in seeds]
    return Pool(SUPERVISED, "population-based and random search by labels", tuple(slices))


def _few(plan: dict[str, Any], search: dict[str, Any], seeds: range) -> Pool:
    """The few-label baseline, which sees as many images as a model of the *search* beside it, as in
    the paper (300,000 updates of 64 beside 26 epochs of 737,280).
    """
    weights = ",".join(f"{weight:g}" for weight in WEIGHTS)
    settings = {
        "objective": "beta_vae:beta=4",
        "supervision": f"labels:count=1000,weight={weights}",
        "seeds": [*seeds],
        "steps": search["epochs"] * search["epoch_images"] // 64,
    }
    one = Slice(f"{_dashed(plan['data'])}-{_named(seeds)}", plan | settings, METRICS[:4])
    return Pool(FEW, "β-VAE with 1,000 labels, six weights", (one,))


def _recursions(name: str, about: str, plans: dict[str, dict[str, Any]], seeds: range) -> Pool:
    slices = [
        SearchSlice(
            _recursion_name(data, seed),
            plan | {"seed": seed, "leaf_runs": LEAF_RUNS},
            METRICS,
            kind="rpu",
        )
        for data, plan in plans.items()
        for seed in seeds
    ]
    return Pool(name, about, tuple(slices))


def _ceiling(plans: dict[str, dict[str, Any]], seeds: range) -> Pool:
    """PBT-S with the population and epochs of the final populations."""
    slices = []
    for plan in plans.values():
        own = {"population": plan["final_population"], "epochs": plan["final_epochs"]}
        own |= {"score": "mig", "models": 1, "first_factor": plan.get("final_first_factor", 2)}
        slices += [_search("mig", _alone(plan) | own, seed) for seed in seeds]
    return Pool(CEILING, "searches by MIG, as long as final populations", tuple(slices))


def _finals(
    name: str,
    plans: dict[str, dict[str, Any]],
    seeds: range,
    variants: dict[str, dict[str, Any]],
) -> Pool:
    """Final populations by the labels of the pool `rpu`: a variant's name may be the number of
    leaf-runs that it uses.
    """
    slices = [
        SearchSlice(
            f"{_dashed(data)}-{variant}-seed-{seed}",
            plan
            | {"seed": seed, "leaf_runs": int(variant) if variant.isdigit() else LEAF_RUNS}
            | more,
            METRICS[:4],
            kind="final",
            labels_of=f"{RPU}/{_recursion_name(data, seed)}",
        )
        for data, plan in plans.items()
        for variant, more in variants.items()
        for seed in seeds
    ]
    return Pool(name, "final populations by labels of recursions", tuple(slices))


def _celeba(plan: dict[str, Any], seeds: range) -> Pool:
    plans = {"celeba": plan | {"data": "celeba"}}
    one = _recursions(CELEBA, "a recursion on CelebA", plans, seeds)
    slices = [
        SearchSlice(one.name, one.plan, ("active_units", "udr"), kind="rpu") for one in one.slices
    ]
    return Pool(CELEBA, one.about, tuple(slices), needs=("celeba",))


def _search(what: str, plan: dict[str, Any], seed: int) -> SearchSlice:
    name = f"{_dashed(plan['data'])}-{what}-seed-{seed}"
    return SearchSlice(name, plan | {"seed": seed}, METRICS)


def _recursion_name(data: str, seed: int) -> str:
    return f"{_dashed(data)}-seed-{seed}"


def _dashed(data: str) -> str:
    return data.replace("_", "-")


def _named(seeds: range) -> str:
    return f"seeds-{seeds[0]}-{seeds[-1]}"
