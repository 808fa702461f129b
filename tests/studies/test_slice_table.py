# SPDX-License-Identifier: Apache-2.0
"""Rows of a study's table: what a model is, its scores, KL and information of its latents."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from unbraid.analysis.distances import learnt
from unbraid.codes.codes import Codes, CodeStore
from unbraid.population.plan import make_plan
from unbraid.population.run_folder import RunFolder
from unbraid.population.train import train_run
from unbraid.scoring.metric_inputs import COLUMNS
from unbraid.studies.measures import measured
from unbraid.studies.slice_table import slice_table

from .toy_study import SMALL


def trained(folder: Path, **settings: object) -> RunFolder:
    plan, dataset = make_plan(**(SMALL | {"steps": 4} | settings))
    run = RunFolder.create(folder, plan, 1, dataset)
    train_run(run, torch.device("cpu"))
    return run


def scores(*rows: tuple[object, ...]) -> pd.DataFrame:
    return pd.DataFrame([(*row, 0.1, 1) for row in rows], columns=COLUMNS)


def table_of(run: RunFolder, found: pd.DataFrame, metrics=(), sampled=(), **more):
    CodeStore(run).encode(torch.device("cpu"))
    return slice_table(run, found, list(metrics), list(sampled), pool="p", name="s", **more)


def test_a_model_is_told_by_its_objective_strength_and_seed(tmp_path: Path):
    run = trained(tmp_path / "run", objective="vae,factor_vae:gamma=10,20", seeds=[7])
    table = table_of(run, scores())
    assert table["objective"].tolist() == ["vae", "factor_vae", "factor_vae"]
    assert table["strength_name"].tolist() == ["", "gamma", "gamma"]
    assert math.isnan(table["strength"][0])
    assert table["strength"].tolist()[1:] == [10.0, 20.0]
    assert table.loc[0, ["pool", "slice", "data", "seed", "steps"]].tolist() == [
        *("p", "s", "sprites"),
        *(7, 4),
    ]
    assert table["learning_rate"].tolist() == [1e-3] * 3
    assert table["status"].tolist() == ["trained"] * 3


def test_scores_stand_under_their_names(tmp_path: Path):
    run = trained(tmp_path / "run", seeds=2)
    found = scores(
        (0, "mig", "mean", "score", 0.25),
        (0, "mig", "sampled", "score", 0.125),
        (1, "dci:backend=sklearn", "mean", "score", 0.5),
        (1, "dci:backend=sklearn", "mean", "completeness", 0.75),
        (1, "sap", "mean", "score", 0.9),
    )
    table = table_of(run, found, ["dci:backend=sklearn", "mig"], ["mig"])
    names = ["mig", "mig_sampled", "dci", "dci.completeness", "information", "factors"]
    assert list(table.columns)[10:] == names
    assert table["mig"].tolist()[0] == 0.25
    assert table["mig_sampled"].tolist()[0] == 0.125
    assert table.loc[1, ["dci", "dci.completeness"]].tolist() == [0.5, 0.75]
    assert table["mig"].isna().tolist() == [False, True]


def test_two_spellings_of_a_metric_keep_their_options(tmp_path: Path):
    run = trained(tmp_path / "run")
    found = scores((0, "mig", "mean", "score", 0.25), (0, "mig:bins=5", "mean", "score", 0.5))
    table = table_of(run, found, ["mig", "mig:bins=5"])
    assert table.loc[0, ["mig", "mig:bins=5"]].tolist() == [0.25, 0.5]


def test_a_diverged_model_has_a_row_without_scores(tmp_path: Path):
    run = trained(tmp_path / "run", objective="beta_vae:beta=1,1e38", steps=20)
    table = table_of(run, scores((0, "mig", "mean", "score", 0.25)), ["mig"])
    assert table["status"].tolist() == ["trained", "diverged"]
    assert table["steps"][0] == 20 > table["steps"][1]
    assert table["mig"].isna().tolist() == [False, True]


def test_kl_and_information_of_each_latent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = trained(tmp_path / "run")
    every = np.arange(len(run.dataset))
    factors = run.dataset.factors(every)
    names = list(run.dataset.factor_names)
    # The first latent is x, the second y, the third knows nothing.
    mean = np.stack([factors[:, names.index("x")], factors[:, names.index("y")], 0 * every], axis=1)
    logvar = np.full(mean.shape, -1.0)
    codes = Codes(every, factors, mean.astype(np.float32), logvar.astype(np.float32), 0)
    monkeypatch.setattr(CodeStore, "load", lambda self, member: codes)
    assert "kl_by_latent" not in table_of(run, scores())
    row = table_of(run, scores(), by_latent=True).loc[0]
    kl = 0.5 * ((mean**2).mean(axis=0) + math.exp(-1) + 1 - 1)
    np.testing.assert_allclose(row["kl_by_latent"], kl, rtol=1e-6)
    expected = np.zeros((len(names), 3))
    expected[names.index("x"), 0] = expected[names.index("y"), 1] = 1.0
    found = np.reshape(row["information"], (len(names), 3))
    constant = [len(np.unique(column)) == 1 for column in factors.T]
    np.testing.assert_allclose(found[~np.array(constant)], expected[~np.array(constant)], atol=1e-9)
    assert np.isnan(found[constant]).all()
    assert row["factors"] == names


def test_settings_become_columns(tmp_path: Path):
    run = trained(
        tmp_path / "run",
        objective="beta_vae:beta=0.001,0.01",
        supervision="pairs:average=second",
        convention="mean",
        likelihood="mse+box3",
    )
    names = ("beta", "average", "x", "hidden", "latents", "likelihood", "spacing")
    table = table_of(run, scores(), settings=names)
    assert table["beta"].tolist() == [0.001, 0.01]  # as given, where `strength` is that of sums
    assert table["strength"][0] == pytest.approx(0.001 * 28 * 28 / 3)
    assert table.loc[0, ["average", "x", "hidden", "latents", "likelihood"]].tolist() == [
        *("second", 6.0, 8.0, 3.0),
        "gaussian+box3",
    ]
    assert table["spacing"].isna().all()


def test_distances_stand_beside_the_scores(tmp_path: Path):
    run = trained(tmp_path / "run", objective="beta_vae:beta=1,1e38", steps=20)
    table = table_of(run, scores(), more=measured(run, ["distances"], torch.device("cpu")))
    assert {f"distances.{name}" for name in learnt.COLUMNS} <= {*table.columns}
    assert 0 <= table["distances.overlap"][0] <= 1
    assert table["distances.overlap"].isna().tolist() == [False, True]


def test_axes_of_decoders_are_measured_where_asked(tmp_path: Path):
    from unbraid.analysis.perturbation.decoder_axes import decoder_axes

    run = trained(tmp_path / "run", objective="vae,ae", seeds=2)
    CodeStore(run).encode(torch.device("cpu"))
    more = measured(run, ["axes"], torch.device("cpu"))
    table = table_of(run, scores(), data="sprites_modified", more=more)
    assert {*table["data"]} == {"sprites_modified"}
    own = [decoder_axes(run, member) for member in range(4)]
    assert table["axes.between"].tolist() == pytest.approx(
        [one.between for one in own], nan_ok=True
    )
    assert table["axes.local_pca"].tolist() == pytest.approx(
        [one.local_pca for one in own], nan_ok=True
    )


def test_variances_and_levels_of_latents_are_kept(tmp_path: Path):
    run = trained(tmp_path / "run", objective="vae,ae")
    CodeStore(run).encode(torch.device("cpu"))
    table = table_of(run, scores(), by_latent=True)
    variance = CodeStore(run).load(0).mean_variances()
    assert table["variance_by_latent"][0] == pytest.approx(variance.tolist())
    shares = np.reshape(table["information"][0], (3, 3))
    known = shares.argmax(axis=1)
    assert table["information_level"][0] == pytest.approx((1 - variance[known]).tolist())
    assert table["variance_by_latent"][1] is None  # an autoencoder has no posterior
    assert table["information_level"][1] is None
