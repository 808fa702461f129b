# SPDX-License-Identifier: Apache-2.0
"""Tables of models that never were, on which each claim of Mathieu et al. 2019 is true or false."""

from __future__ import annotations

import itertools
import math
import zlib
from typing import Any

import numpy as np
import pandas as pd

from unbraid.studies.mathieu2019.pools import (
    ALPHAS,
    BETAS,
    GAMMAS,
    INDEPENDENT,
    MATCHED_ALPHAS,
    MATCHED_BETAS,
    OVERLAPS,
    PINWHEEL_ALPHAS,
    PINWHEEL_BETAS,
)
from unbraid.studies.measures import CELLS

SEEDS = 8
LATENTS = 50


def normal(table: pd.DataFrame, salt: str, scale: float = 0.01) -> np.ndarray:
    """Luck of each model."""
    return np.random.default_rng(zlib.crc32(salt.encode())).normal(size=len(table)) * scale


def table(pool: str, data: str, rows: list[dict[str, Any]], seeds: int = SEEDS) -> pd.DataFrame:
    """Every setting of *rows* with each seed."""
    known = {"objective": "decomposition", "strength_name": "alpha", "learning_rate": 1e-3}
    known |= {"pool": pool, "slice": pool, "data": data, "steps": 1000, "status": "trained"}
    every = [known | row | {"seed": seed} for row in rows for seed in range(seeds)]
    found = pd.DataFrame(every)
    for name in ("alpha", "strength"):
        if name not in found:
            found[name] = math.nan
    return found


def independence(true: bool, what: str) -> pd.DataFrame:
    """Four priors at four betas; *what* is true or not, all else is."""
    priors = {
        "isotropic": {"prior": "isotropic", "prior_learned": math.nan, "prior_df": math.nan},
        "pca": {"prior": "anisotropic", "prior_learned": "no", "prior_df": math.nan},
        "pca_learned": {"prior": "anisotropic", "prior_learned": "yes", "prior_df": math.nan},
        "student_t": {"prior": "student_t", "prior_learned": math.nan, "prior_df": 9.0},
    }
    rows = [
        own | {"kind": kind, "beta": beta, "strength": beta, "objective": "beta_vae"}
        | {"slice": f"dsprites-beta-{beta:g}"}
        for kind, own in priors.items()
        for beta in BETAS
    ]  # fmt: skip
    found = table("independence", "dsprites", rows)
    place = np.log2(found["beta"].to_numpy())
    better = np.where(found["kind"] == "isotropic", 0.0, 0.05)
    dearer = np.where(found["kind"] == "isotropic", 1.0, 1.02)
    if what == "MAT-F1a" and not true:
        better = np.where(found["kind"] == "pca_learned", -0.05, better)
    if what == "MAT-F1b" and not true:
        better = np.where(found["kind"] == "student_t", -0.05, better)
    if what == "MAT-F1c" and not true:
        dearer = np.where(found["kind"] == "student_t", 1.3, dearer)
    sign = -1.0 if what == "MAT-TH1b" and not true else 1.0
    luck = np.random.default_rng(1).normal(size=SEEDS)[found["seed"]] * 0.05
    return found.drop(columns="kind").assign(
        kim_mnih_score=0.7 + better - 0.02 * place + luck + normal(found, "score"),
        **{
            "elbo.reconstruction": dearer * (20 + 5 * place) + normal(found, "nats", 0.1),
            "elbo.mutual_information": 7 - sign * place + normal(found, "mi", 0.1),
            "elbo.total_correlation": 3 - 0.5 * place + normal(found, "tc", 0.1),
            "posterior_overlap": 0.2 + sign * 0.1 * place + normal(found, "overlap"),
            "posterior_overlap.width": 0.5 + sign * 0.1 * place + normal(found, "width"),
        },
    )


def sparsity(true: bool, what: str) -> pd.DataFrame:
    """Two gammas at five alphas."""
    rows = [
        {"beta": 1.0, "alpha": alpha, "strength": alpha, "prior": "sparse", "prior_gamma": gamma}
        | {"slice": f"fashion-alpha-{alpha:g}", "prior_spike": 0.05}
        for alpha in ALPHAS
        for gamma in GAMMAS
    ]
    found = table("sparsity", "fashion_mnist", rows, 5)
    sparse = found["prior_gamma"].to_numpy() == 0.8
    place = found["alpha"].map({alpha: at for at, alpha in enumerate(ALPHAS)}).to_numpy(float)
    grows = 0.0 if what == "MAT-F3c" and not true else 0.06
    spares = np.where(sparse, 0.4, 0.1)
    if what == "MAT-F3a" and not true:
        spares = np.full(len(found), 0.02)
    found = found.assign(
        hoyer=0.25 + np.where(sparse, grows, 0.0) * place + normal(found, "hoyer", 0.004),
        class_sparsity=spares + normal(found, "classes", 0.004),
        log_likelihood=900 - 5 * place + normal(found, "log", 1.0),
        **{
            "class_sparsity.used_by_a_class": 10.0 + normal(found, "used"),
            "class_sparsity.in_use": 20.0 + normal(found, "use"),
            "elbo.kl": 20 - 2 * place + normal(found, "kl", 0.1),
        },
    )
    return found.assign(**_lists(found, true or what != "MAT-F3b"))


def _lists(found: pd.DataFrame, local: bool) -> dict[str, list[Any]]:
    """Sizes by class, and traversals of the first seed: of a part of the picture, or all of it."""
    generator, sizes, pixels, traversed = np.random.default_rng(3), [], [], []
    for seed in found["seed"]:
        sizes.append(generator.uniform(0, 1, 10 * LATENTS).round(3).tolist())
        shown = np.full((6, 9, 32, 32), 30)
        rise = (np.arange(9) * 20)[:, None, None]
        if local:
            shown[:, :, 4:12, 4:12] += rise
        else:
            shown += rise
        pixels.append(shown.ravel().tolist() if seed == 0 else None)
        traversed.append([49, 30, 19, 40, 3, 7] if seed == 0 else None)
    frames = [9.0 if seed == 0 else math.nan for seed in found["seed"]]
    return {"class_sizes": sizes, "classes": [10.0] * len(found), "traversals": pixels,
            "traversed": traversed, "traversal_frames": frames}  # fmt: skip


def pinwheel(true: bool, what: str) -> pd.DataFrame:
    """α with β = 0, β with α = 0."""
    pairs = [(alpha, 0.0) for alpha in PINWHEEL_ALPHAS] + [(0.0, beta) for beta in PINWHEEL_BETAS]
    rows = [{"alpha": alpha, "strength": alpha, "beta": beta} for alpha, beta in pairs]
    found = table("pinwheel", "pinwheel", rows, 10)
    place = np.tile(np.repeat(np.arange(4.0), 10), 2)
    by_alpha = (found["beta"] == 0).to_numpy()
    kept = np.where(by_alpha, 0.6 + 0.13 * place, 0.6 - 0.1 * place)
    nats = np.where(by_alpha, 1.2 - 0.35 * place, 6.0 - 1.5 * place)
    width = np.where(by_alpha, 0.1, 0.05 + 0.1 * place)
    if what == "MAT-F2a" and not true:
        kept, nats = np.where(by_alpha, 0.5, kept), np.where(by_alpha, 1.0 + 0.3 * place, nats)
    if what == "MAT-F2b" and not true:
        kept, width = np.where(by_alpha, kept, 0.95), np.where(by_alpha, width, 0.3 - 0.05 * place)
    return found.assign(
        **{
            "aggregate.kl": nats + normal(found, "kl", 0.03),
            "aggregate.kept": np.clip(kept + normal(found, "kept"), 0, 1),
            "aggregate.width": width + normal(found, "width", 0.003),
            "aggregate.density": _densities(len(found)),
            "posterior_overlap": 0.5 + normal(found, "overlap"),
        }
    )


def _densities(count: int) -> list[list[float]]:
    line = np.linspace(-2, 2, CELLS)
    return [np.exp(-(line[:, None] ** 2) - (line - 0.01 * one) ** 2).ravel().round(4).tolist()
            for one in range(count)]  # fmt: skip


def overlap(true: bool) -> pd.DataFrame:
    """Points on a cross at three betas."""
    found = table("overlap", "pinwheel", [{"alpha": 0.0, "beta": beta} for beta in OVERLAPS], 10)
    place = np.repeat(np.arange(3), 10)
    nats = np.array([200.0, 5.0, 0.1])[place] if true else np.array([1.0, 5.0, 3.0])[place]
    error = np.array([1.0, 2.0, 30.0])[place]
    return found.assign(
        **{
            "posterior_overlap.pairwise": 0.01 + 0.2 * place + normal(found, "pairs"),
            "aggregate.kl": nats * np.exp(normal(found, "kl", 0.3)),
            "elbo.reconstruction": error + normal(found, "error", 0.1),
            "aggregate.density": _densities(len(found)),
        }
    )


def species(true: bool) -> pd.DataFrame:
    """Objectives for independence, and a matched prior that is better, or worse."""
    rows = [
        {"objective": name, "strength": value, "strength_name": hyper}
        | {"beta": value if hyper == "beta" else math.nan}
        for name, (hyper, values) in INDEPENDENT.items()
        for value in values
    ]
    matched = itertools.product(MATCHED_ALPHAS, MATCHED_BETAS)
    rows += [{"alpha": alpha, "strength": alpha, "beta": beta} for alpha, beta in matched]
    found = table("species", "species", rows)
    ours = (found["objective"] == "decomposition").to_numpy()
    good = (found["alpha"] == MATCHED_ALPHAS[1]).to_numpy()
    gain = np.where(ours, np.where(good, 0.15 if true else -0.15, -0.2), 0.0)
    return found.assign(
        clustering=0.6 + gain + normal(found, "clustering", 0.03),
        few_shot=0.7 + gain + normal(found, "few", 0.03),
    )


def spoiled(found: pd.DataFrame) -> pd.DataFrame:
    """The same with a diverged model among the last."""
    found = found.copy()
    last = found.index[-1]
    numbers = [name for name in found if found[name].dtype.kind == "f"]
    kept = {"alpha", "beta", "strength", "learning_rate", "prior_gamma", "prior_df"}
    found.loc[last, [name for name in numbers if name not in kept]] = np.nan
    found.loc[last, "status"] = "diverged"
    found.loc[last, "steps"] = 123  # where it stopped
    return found


CLAIMS = {
    **{
        name: (lambda true, name=name: independence(true, name))
        for name in ("MAT-TH1b", "MAT-F1a", "MAT-F1b", "MAT-F1c")
    },
    **{
        name: (lambda true, name=name: sparsity(true, name))
        for name in ("MAT-F3a", "MAT-F3b", "MAT-F3c")
    },
    **{name: (lambda true, name=name: pinwheel(true, name)) for name in ("MAT-F2a", "MAT-F2b")},
    "MAT-D": overlap,
    "MAT-B1": species,
}
