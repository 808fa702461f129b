# SPDX-License-Identifier: Apache-2.0
"""What trained models say of the theory: local axes, polarised latents, and which of them is s."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from unbraid.analysis.perturbation.polarised_kl import polarised_kl
from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import exactly, leave_out_seeds, mean_of
from unbraid.studies.study import Analysis
from unbraid.studies.zietlow2021.models import AUTOENCODER, ON_DSPRITES, models
from unbraid.studies.zietlow2021.pools import TABLE1
from unbraid.studies.zietlow2021.settings import ORIGINAL

BY_LATENT = ("kl_by_latent", "variance_by_latent")
BETWEEN, LOCAL = "axes.between", "axes.local_pca"


def local_axes(table: pd.DataFrame) -> Finding | None:
    """ZIE-F1a: how the columns of decoders' Jacobians lie, β-VAE against autoencoder."""
    found = models(
        _first(table), ON_DSPRITES, (ORIGINAL,), (AUTOENCODER, "beta_vae"), (BETWEEN, LOCAL)
    )
    if found is None:
        return None

    def statistics(rows: pd.DataFrame) -> Mapping[str, float]:
        vae, other = (
            {
                name: float(rows.loc[rows["objective"] == one, name].to_numpy(dtype=float).mean())
                for name in (BETWEEN, LOCAL)
            }
            for one in ("beta_vae", AUTOENCODER)
        )
        return {
            "cosine between latents, autoencoder less beta-VAE": other[BETWEEN] - vae[BETWEEN],
            "cosine with local principal directions, beta-VAE less autoencoder": vae[LOCAL]
            - other[LOCAL],
            "cosine between latents, beta-VAE": vae[BETWEEN],
            "cosine between latents, autoencoder": other[BETWEEN],
            "cosine with local principal directions, beta-VAE": vae[LOCAL],
            "cosine with local principal directions, autoencoder": other[LOCAL],
        }

    rows = found.rows
    shown = pd.concat(
        [
            pd.DataFrame({"x": what, "y": rows[column], "group": rows["objective"]})
            for what, column in (("between latents", BETWEEN), ("with local PCA", LOCAL))
        ],
        ignore_index=True,
    )
    return Finding(
        leave_out_seeds(rows, statistics),
        Exhibit(
            "violins",
            shown,
            "columns of the decoder's Jacobian",
            "mean |cosine|",
            "Columns of two latents, and columns with local principal directions of the data.",
        ),
        found.remark,
    )


def _first(table: pd.DataFrame) -> pd.DataFrame:
    """Models of table 1, at the stated strengths."""
    return table.loc[table["pool"] == TABLE1] if len(table) else table


def polarised(table: pd.DataFrame) -> Finding | None:
    """ZIE-E4: the exact KL of β-VAEs beside that of the polarised regime."""
    found = models(_first(table), ON_DSPRITES, (ORIGINAL,), ("beta_vae",), BY_LATENT)
    if found is None:
        return None
    each = [
        polarised_kl(kl, variance)
        for kl, variance in zip(*(found.rows[name] for name in BY_LATENT), strict=True)
    ]
    shown = pd.DataFrame(
        {"x": [one.exact for one in each], "y": [one.polarised for one in each], "group": "restart"}
    )
    ends = [min(shown["x"].min(), shown["y"].min()), max(shown["x"].max(), shown["y"].max())]
    line = pd.DataFrame({"x": ends, "y": ends, "group": "paper"})
    return Finding(
        (
            mean_of("relative gap of the two", [one.relative_gap for one in each]),
            mean_of("KL of passive latents, nats", [one.of_passive for one in each]),
            mean_of("exact KL, nats", [one.exact for one in each]),
            mean_of("KL of the polarised regime, nats", [one.polarised for one in each]),
            mean_of("active latents", [float(one.active.sum()) for one in each]),
        ),
        Exhibit(
            "points",
            pd.concat([shown, line], ignore_index=True),
            "exact KL, nats",
            "KL of the polarised regime, nats",
            "Equation 4, less a half for each active latent, against the exact divergence.",
        ),
        found.remark,
    )


def choice_of_s(table: pd.DataFrame) -> Finding | None:
    """ZIE-E6: the restarts that s may come from, and the noise of their latents."""
    columns = ("mig", "active_units", "variance_by_latent")
    found = models(_first(table), ON_DSPRITES, (ORIGINAL,), ("beta_vae",), columns)
    if found is None:
        return None
    rows = found.rows
    noise = [np.sort(np.asarray(one, dtype=float)) for one in rows["variance_by_latent"]]
    enough = rows["active_units"].to_numpy() >= found.own.latents - 1
    state = np.where(enough, "restart", "refused")
    if enough.any():
        lowest = np.where(enough, rows["mig"].to_numpy(dtype=float), np.inf)
        state[int(lowest.argmin())] = "taken"
    taken = np.flatnonzero(state == "taken")
    shown = pd.DataFrame({"x": rows["mig"], "y": [one[0] for one in noise], "group": state})
    ratio = float(noise[taken[0]][0] / noise[taken[0]][1]) if len(taken) else np.nan
    scores = rows["mig"].to_numpy(dtype=float)
    less = float(scores[taken[0]] - scores.mean()) if len(taken) else np.nan
    return Finding(
        (
            exactly("restarts with enough active latents", float(enough.sum()), len(rows)),
            exactly("noise of s as a share of the next latent's", ratio, 1),
            exactly("MIG of the restart taken less the mean", less, len(rows)),
            *(
                exactly(f"least noise, restart {seed}", float(one[0]), 1)
                for seed, one in zip(rows["seed"], noise, strict=True)
            ),
        ),
        Exhibit(
            "points",
            shown,
            "MIG",
            "posterior variance of the least noisy latent",
            "The restarts that s could come from, and the one of lowest MIG, which gives it.",
        ),
        found.remark,
    )


ANALYSES: Mapping[str, Analysis] = {
    "ZIE-E4": polarised,
    "ZIE-E6": choice_of_s,
    "ZIE-F1a": local_axes,
}
