# SPDX-License-Identifier: Apache-2.0
"""Scores of models that are measured from their own prior."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import unbraid as ub
from unbraid.codes.codes import CodeStore
from unbraid.codes.reconstructions import ReconstructionStore
from unbraid.core.errors import InputError
from unbraid.metrics import elbo, kim_mnih_score
from unbraid.metrics.elbo import NOISE_STREAM
from unbraid.objectives.priors.isotropic import STANDARD
from unbraid.scoring.own_prior import OwnPrior, of_prior

SMALL: dict[str, Any] = {
    "data_options": {"x": 6, "y": 4, "scale": 2, "image_size": 28},
    "network": "mlp:hidden=8",
    "latents": 3,
    "batch_size": 8,
    "steps": 30,
    "learning_rate": 1e-2,
    "quiet": True,
}
PRIORS = ["isotropic", "pca_learned", "anisotropic:variances=4/2/1", "mixture", "sparse"]
PRIORS += ["student_t:df=5,9"]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("priors") / "run"
    return ub.train("sprites", "vae", prior=PRIORS, out=folder, **SMALL)


def posteriors(rows: int = 400, latents: int = 2) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(0)
    return generator.normal(size=(rows, latents)), generator.normal(-1.0, 0.5, (rows, latents))


def own(key: str, **hyper: Any) -> OwnPrior:
    return OwnPrior(key, hyper, 0, {})


def test_the_standard_normal_given_as_a_prior_changes_nothing_but_the_kl_per_latent():
    mean, logvar = posteriors()
    plain = elbo(mean, logvar, np.zeros(len(mean)))
    given = elbo(mean, logvar, np.zeros(len(mean)), prior=own("isotropic"))
    for name in ("score", "kl", "mutual_information", "total_correlation", "dimension_wise_kl"):
        assert getattr(given, name) == pytest.approx(getattr(plain, name), abs=1e-9)
    assert np.isnan(given.kl_per_latent).all()


def test_the_kl_from_a_gaussian_prior_is_its_closed_form():
    mean, logvar = posteriors()
    variances = np.array([4.0, 0.5])
    wanted = 0.5 * ((mean**2 + np.exp(logvar)) / variances - 1 - logvar + np.log(variances))
    prior = own("anisotropic", variances=(4.0, 0.5))
    found = elbo(mean, logvar, np.full(len(mean), 7.0), prior=prior)
    assert found.kl == pytest.approx(wanted.sum(axis=1).mean(), abs=1e-9)
    assert found.score == pytest.approx(-7.0 - found.kl, abs=1e-12)
    parts = found.mutual_information + found.total_correlation + found.dimension_wise_kl
    assert found.sampled_kl == pytest.approx(parts, abs=1e-9)
    assert found.sampled_kl == pytest.approx(found.kl, abs=0.15)


@pytest.mark.parametrize(
    ("key", "hyper"), [("mixture", {}), ("sparse", {"gamma": 0.5}), ("student_t", {"df": 5.0})]
)
def test_the_kl_from_any_other_prior_is_the_mean_of_one_draw_each(key, hyper):
    mean, logvar = posteriors(3_000)
    prior = own(key, **hyper)
    found = elbo(mean, logvar, np.zeros(len(mean)), prior=prior)
    noise = np.random.default_rng(5).normal(size=(40, *mean.shape))
    z = mean + np.exp(0.5 * logvar) * noise
    log_q = -0.5 * (noise**2 + logvar + math.log(2 * math.pi)).sum(axis=-1)
    log_p = np.stack([prior.log_density(part) for part in z])
    error = (log_q - log_p).std() / math.sqrt(len(mean))
    assert found.kl == pytest.approx((log_q - log_p).mean(), abs=5 * error)
    again = np.random.default_rng([0, NOISE_STREAM, 1]).normal(size=mean.shape)
    z = mean + np.exp(0.5 * logvar) * again
    assert found.kl == pytest.approx(prior.kl(mean, logvar, z).mean(), abs=1e-12)


def test_a_prior_must_have_what_is_asked_of_it():
    mean, logvar = posteriors(4)
    with pytest.raises(InputError, match="prior must have the methods kl and log_density"):
        elbo(mean, logvar, np.zeros(4), prior="sparse")


def test_every_prior_of_a_run_has_its_bound(run):
    table = run.score("elbo", quiet=True)
    assert len(table) == 7
    assert np.isfinite(table["elbo"]).all()
    plan = run.folder.plan
    for member, prior in enumerate(plan.members):
        codes = CodeStore(run.folder).load(member)
        mean, logvar = (part.astype(float) for part in (codes.mean, codes.logvar))
        nats = ReconstructionStore(CodeStore(run.folder)).load(member).astype(float)
        weights = {key: one.double() for key, one in run.folder.member_weights(member).items()}
        parts = (torch.from_numpy(mean)[None], torch.from_numpy(logvar)[None])
        built = prior.build_prior().bound(weights)
        drawn = np.random.default_rng([0, NOISE_STREAM, 1]).normal(size=mean.shape)
        z = torch.from_numpy(mean + np.exp(0.5 * logvar) * drawn)[None]
        kl = float((STANDARD if member == 0 else built).kl(*parts, z).mean())
        assert table["elbo"].iloc[member] == pytest.approx(-nats.mean() - kl, rel=1e-5)
    assert OwnPrior.of(run.folder, 0) is None
    learned = OwnPrior.of(run.folder, 1)
    assert learned is not None
    assert {name: part.shape for name, part in learned.weights.items()} == {"prior.logvar": (1, 3)}


def test_each_model_is_scored_by_its_own_degrees_of_freedom(run):
    assert [one.prior_hyper.get("df") for one in run.folder.plan.members][-2:] == [5.0, 9.0]
    names = ["kim_mnih_score:student_t_df=prior,votes=400", "kim_mnih_score:votes=400"]
    table = run.score(names, quiet=True)
    factors = run.dataset.factors(CodeStore(run.folder).load(0).indices)
    for member, df in ((0, None), (4, None), (5, 5.0), (6, 9.0)):
        codes = CodeStore(run.folder).load(member).mean
        wanted = kim_mnih_score(codes, factors, votes=400, student_t_df=df).score
        assert table[names[0]].iloc[member] == wanted
    assert of_prior(names[0], OwnPrior.of(run.folder, 6)) == {"student_t_df": 9.0}
    assert of_prior(names[0], None) == {"student_t_df": None}
    assert of_prior(names[1], OwnPrior.of(run.folder, 6)) == {}


def test_codes_alone_have_no_prior():
    with pytest.raises(InputError, match="`prior` is for models, which know theirs"):
        kim_mnih_score(np.eye(4), np.arange(4)[:, None] % 2, student_t_df="prior")
