# SPDX-License-Identifier: Apache-2.0
"""What slices keep of their models beside scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

import unbraid as ub
from unbraid.analysis.distances import learnt
from unbraid.analysis.log_likelihood import log_likelihood
from unbraid.analysis.theory.aggregate_posterior import density_on_grid, inclusive_kl
from unbraid.codes.codes import CodeStore
from unbraid.codes.model import Model
from unbraid.core.errors import InputError, Problems
from unbraid.scoring.score_table import stored_scores
from unbraid.studies.definition import definition
from unbraid.studies.measures import CELLS, DIGITS, REACH, check_measures, measured
from unbraid.studies.pool import Slice
from unbraid.studies.results import stacked
from unbraid.studies.slice_table import slice_table

CPU = torch.device("cpu")
POINTS: dict[str, Any] = {
    **{"data_options": {"points": 20}, "network": "mlp:hidden=8", "latents": 2, "steps": 40},
    **{"batch_size": "all", "learning_rate": 1e-2, "quiet": True},
}
IMAGES: dict[str, Any] = {
    "data_options": {"x": 5, "y": 3, "scale": 1, "image_size": 28},
    **{"network": "mlp:hidden=8", "latents": 3, "batch_size": 8, "steps": 20, "quiet": True},
}


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    place = tmp_path_factory.mktemp("points") / "run"
    wanted = ub.Decomposition(beta=[0.5, 2.0], alpha=1.0)
    prior = ["mixture", "isotropic"]
    return ub.train("pinwheel", wanted, prior=prior, seeds=[3, 4], out=place, **POINTS).folder


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    place = tmp_path_factory.mktemp("images") / "run"
    run = ub.train("sprites", "vae", prior="pca_learned", seeds=[5, 6], out=place, **IMAGES)
    run.score("elbo", quiet=True)
    return run.folder


def test_settings_are_those_of_each_model(points):
    CodeStore(points).encode(CPU)
    names = ("beta", "alpha", "prior", "prior_radius")
    options: dict[str, Any] = {"pool": "p", "name": "s", "settings": names}
    found = slice_table(points, stored_scores(points), [], [], **options).to_dict("list")
    assert found["beta"] == [0.5] * 4 + [2.0] * 4
    assert found["alpha"] == [1.0] * 8
    assert found["prior"] == (["mixture"] * 2 + ["isotropic"] * 2) * 2
    assert found["prior_radius"][:2] == [1.0, 1.0]
    assert all(map(math.isnan, found["prior_radius"][2:4]))


def test_the_aggregate_is_that_of_the_codes(points):
    CodeStore(points).encode(CPU)
    found = measured(points, ["aggregate"], CPU)
    codes = CodeStore(points).load(0)
    prior = points.plan.members[0].build_prior()
    wanted = inclusive_kl(prior, codes.mean, codes.logvar).nats
    assert found["aggregate.kl"][0] == pytest.approx(wanted, rel=1e-6)
    assert found["aggregate.width"][0] == pytest.approx(np.exp(codes.logvar / 2).mean(), rel=1e-5)
    line = np.linspace(-REACH, REACH, CELLS)
    density = np.reshape(found["aggregate.density"][0], (CELLS, CELLS))
    whole = density_on_grid(codes.mean, codes.logvar, line)
    assert density == pytest.approx(whole, abs=0.5001 * 10**-DIGITS)
    assert 0.25 <= found["aggregate.kept"][0] <= 1.0
    assert math.isnan(found["aggregate.kept"][2])


def test_sizes_by_class_and_log_likelihood(images):
    names = ["class_sizes", "log_likelihood:samples=20,images=6"]
    found = measured(images, names, CPU)
    codes = CodeStore(images).load(1)
    for value in range(5):
        own = np.abs(codes.mean[codes.factors[:, 0] == value]).mean(axis=0)
        size = np.reshape(found["class_sizes"][1], (-1, 3))[value]
        assert size == pytest.approx(own, rel=1e-5)
    wanted = log_likelihood(images, 1, samples=20, images=6, device="cpu").nats_per_image
    assert found["log_likelihood"][1] == wanted


def test_traversals_of_the_first_seed(images):
    found = measured(images, ["traversals:latents=2,frames=5"], CPU)
    assert found["traversals"][1] is found["traversed"][1] is None
    pixels = np.reshape(found["traversals"][0], (2, 5, 28, 28, 1))
    mean = CodeStore(images).load(0).mean
    moving = np.argsort(-mean.std(axis=0))[:2]
    assert found["traversed"][0] == moving.tolist()
    ends = np.quantile(mean[:, moving[0]], [0.01, 0.99])
    model = Model(images, 0)
    every = np.repeat(mean, 2, axis=0)
    every[:, moving[0]] = np.tile(ends, len(mean))
    decoded = model.decode(every).astype(int).reshape(len(mean), 2, 28, 28, 1)
    away = np.abs(decoded - pixels[0, [0, -1]]).max(axis=(1, 2, 3, 4))
    assert away.min() <= 1


def test_columns_come_into_tables_and_lists_stay_lists(points):
    CodeStore(points).encode(CPU)
    options: dict[str, Any] = {"pool": "p", "name": "s", "by_latent": False}
    more = measured(points, ["aggregate"], CPU)
    own = slice_table(points, stored_scores(points), [], [], more=more, **options)
    plain = slice_table(points, stored_scores(points), [], [], **options)
    both = stacked([own, plain])
    assert len(both["aggregate.density"][0]) == CELLS**2
    assert both["aggregate.density"][8] is None


def test_a_definition_tells_measures_where_there_are_some():
    plan = {"data": "pinwheel", "network": "mlp", "steps": 5}
    assert "measures" not in definition(Slice("a", plan, ("mig",)))
    one = Slice("a", plan, ("mig",), measures=("distances", "log_likelihood:samples=3"))
    assert definition(one)["measures"] == {
        "distances": learnt.REVISION,
        "log_likelihood:samples=3": 1,
    }
    assert "amsgrad" not in definition(one)
    assert definition(Slice("a", plan | {"amsgrad": True}, ("mig",)))["amsgrad"] is True


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("aggregates", "did you mean 'aggregate'"),
        ("traversals:rows=3", "option of traversals 'rows' is unknown"),
        ("traversals:frames=0", "traversals: frames must be a whole number of at least 1"),
        ("axes:x=1", "option of axes 'x' is unknown"),
    ],
)
def test_bad_measures_are_refused(name, told):
    problems = Problems()
    check_measures([name], problems)
    with pytest.raises(InputError, match=told):
        problems.raise_if_any()
