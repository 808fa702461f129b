# SPDX-License-Identifier: Apache-2.0
"""Scale and offset: the same score where the definition allows it, and else a remark."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import unbraid as ub
from unbraid.codes.codes import Codes
from unbraid.metrics import METRICS
from unbraid.scoring.metric_inputs import MetricInputs, evaluate
from unbraid.scoring.own_codes import score_codes
from unbraid.scoring.scale import OWN_OFFSET, OWN_SPREAD, LatentScale, depends, scale_remark

from .conftest import SETTINGS, SPRITES

RNG = np.random.default_rng(0)
FACTORS = RNG.integers([3, 5, 6], size=(900, 3))
PERFECT = (FACTORS - FACTORS.mean(axis=0)) / FACTORS.std(axis=0) + 0.05 * RNG.normal(size=(900, 3))
TURN = np.linalg.qr(RNG.normal(size=(3, 3)))[0]
ROTATED = PERFECT @ TURN + 0.2 * RNG.normal(size=(900, 3))
MOVES = {
    "smaller": lambda codes: codes * 1e-6,
    "small": lambda codes: codes * 0.01,
    "larger": lambda codes: codes * 1e6,
    "off": lambda codes: codes - 1e4,
    "small and off": lambda codes: codes * 1e-6 + 1e4,
    "uneven": lambda codes: codes * np.array([1e-4, 1.0, 1e4]),
    "tiny": lambda codes: codes * 1e-30,
    "huge": lambda codes: codes * 1e28,
}
QUICK = {
    "beta_vae_score": "train_points=300,test_points=300",
    "factor_vae_score": "train_votes=300,test_votes=300",
    "kim_mnih_score": "votes=300,batch=50",
    "dci_es": "trees=5",
    "downstream": "predictor=logistic,train_sizes=100",
}
DEAR = (
    "dci",
    "unified_scores",
    "downstream",
    "downstream_reduced",
    "downstream_strong",
    "fairness",
)
DECLARED = {"sap", "unified_scores", "beta_vae_score", "factor_vae_score", "downstream", "hoyer"}
DECLARED |= {"wasserstein_correlation", "irs", "infomec", "active_units", "elbo", "udr"}
DECLARED |= {"class_sparsity", "clustering", "few_shot"}
NAMES = [
    pytest.param(name, marks=[pytest.mark.slow] if name in DEAR else [])
    for name in METRICS.built_in
    if METRICS.load(name).needs in ("codes", "sample", "split", "grid")
]


def remark(names: list[str], *models: NDArray, every_latent: bool = True) -> str:
    scales = [LatentScale.of(codes, every_latent=every_latent) for codes in models]
    return scale_remark(names, [one for one in scales if one], every_latent=every_latent)


def score(name: str, codes: NDArray) -> float:
    spelled = f"{name}:{QUICK[name]}" if name in QUICK else name
    return evaluate(spelled, MetricInputs(codes, 600, FACTORS)).score


@pytest.mark.parametrize("codes", [PERFECT, ROTATED], ids=["perfect", "rotated"])
@pytest.mark.parametrize("name", NAMES)
def test_a_score_sees_no_scale_and_offset_or_a_remark_says_so(name: str, codes: NDArray):
    plain = score(name, codes)
    for move, moved in MOVES.items():
        if score(name, moved(codes)) != pytest.approx(plain, abs=0.01):
            assert f"{name}, since" in remark([name], moved(codes)), move
            assert name in DECLARED


def test_the_metrics_that_depend_on_scale_are_these():
    assert {name for name in METRICS if depends(name) is not None} == DECLARED


@pytest.mark.parametrize("name", ["sap", "beta_vae_score", "hoyer"])
def test_within_the_usual_range_nothing_moves_in_silence(name: str):
    for codes in (PERFECT, ROTATED):
        unit = (codes - codes.mean(axis=0)) / codes.std(axis=0)
        plain = score(name, unit)
        low, high = OWN_SPREAD
        for moved in (unit * low * 1.01, unit * high * 0.99, unit + 0.99 * OWN_OFFSET):
            assert remark([name], moved) == ""
            assert score(name, moved) == pytest.approx(plain, abs=0.03)


@pytest.mark.parametrize(
    "name", ["sap:standardise=true", "sap:continuous=true", "factor_vae_score:active_std=0"]
)
def test_an_option_makes_free_of_scale(name: str):
    scores = [
        evaluate(name, MetricInputs(moved(PERFECT), 600, FACTORS)).score
        for move, moved in {"none": lambda codes: codes, **MOVES}.items()
        if (name, move) != ("sap:continuous=true", "uneven")  # latents a millionth of the widest
    ]
    assert scores == pytest.approx([scores[0]] * len(scores), abs=0.01)
    assert depends(name) is None


def test_beta_vae_score_of_standardised_differences_is_the_same_at_any_scale():
    name = "beta_vae_score:standardise=true,train_points=300,test_points=300"
    moved = [PERFECT, PERFECT * 1e-6, PERFECT * 1e28]
    scores = [evaluate(name, MetricInputs(codes, 600, FACTORS)).score for codes in moved]
    assert scores == pytest.approx([1.0] * 3)


@pytest.mark.parametrize("name", ["sap", "factor_vae_score:train_votes=200,test_votes=100"])
def test_where_scale_matters_a_remark_says_so(name: str):
    said: list[str] = []
    table = score_codes(PERFECT * 0.01, FACTORS, name, errors="none", warn=said.append)
    assert table["value"][0] < 0.01, "as in the reference"
    assert said == table.attrs["remarks"]
    (line,) = said
    assert line.startswith("Scale matters here: latents have standard deviations from 0.01")
    assert name in line
    assert line.endswith("To standardise: (codes - codes.mean(0)) / codes.std(0).")
    assert ("sap:standardise=true" in line) == (name == "sap")
    said.clear()
    score_codes(PERFECT, FACTORS, name, errors="none", warn=said.append)
    assert said == []


def test_what_a_score_depends_on_decides_whether_it_is_told():
    assert "means up to 1" in remark(["sap"], PERFECT + 100.0)
    assert remark(["mig", "irs"], PERFECT * 0.01) == ""
    assert remark(["hoyer"], PERFECT * 0.01) == ""
    assert "irs" in remark(["irs"], PERFECT * [1.0, 1.0, 0.1])
    assert "downstream" in remark(["downstream"], PERFECT * 0.01)
    assert remark(["downstream:predictor=trees"], PERFECT * 0.01) == ""


def test_models_on_scales_of_their_own_are_not_uneven():
    assert remark(["irs", "infomec"], PERFECT, PERFECT * 100) == ""
    assert "irs" in remark(["irs"], PERFECT, PERFECT * [1.0, 1.0, 0.1])


def test_a_way_out_is_named_of_the_metrics_that_are_told_alone():
    said = remark(["sap", "beta_vae_score", "factor_vae_score"], PERFECT + 100.0)
    assert "Free of it: sap:standardise=true. To standardise" in said


def test_codes_that_do_not_move_have_no_scale():
    assert LatentScale.of(np.ones((20, 3)), every_latent=True) is None
    assert remark(["sap"], np.ones((20, 3))) == ""


def test_a_dead_latent_of_a_vae_is_no_matter_of_scale():
    codes = PERFECT * [1.0, 1.0, 1e-3]
    assert remark(["factor_vae_score"], codes, every_latent=False) == ""
    assert remark(["factor_vae_score"], codes)


def test_the_table_of_a_run_tells_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    run = ub.train("sprites", "ae", data_options=SPRITES, out=tmp_path / "run", **SETTINGS)
    monkeypatch.setattr(Codes, "representation", lambda self, kind="mean": self.mean + 100.0)
    for name, told in (("sap", True), ("mig", False)):
        remarks = run.score(name, errors="none", quiet=True).attrs["remarks"]
        assert any(line.startswith("Scale matters here") for line in remarks) == told
    run.score("sap", errors="none", quiet=True)
    assert "Scale matters here" in run.report().read_text("utf-8")
