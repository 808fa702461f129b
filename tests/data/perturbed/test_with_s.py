# SPDX-License-Identifier: Apache-2.0
"""A dataset times an independent s: the bound, independence, and the original where s is unseen."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import unbraid as ub
from unbraid.codes.codes import recorded_sample
from unbraid.core.errors import InputError
from unbraid.data.perturbed.with_s import WithS

BASE = {"image_size": 16, "x": 4, "y": 3, "scale": 2}


def made(**options: object) -> WithS:
    found = ub.load("with_s", of="sprites", of_options=BASE, **options)
    assert isinstance(found, WithS)
    return found


@pytest.mark.parametrize("epsilon", [0.05, 0.1, 0.3])
@pytest.mark.parametrize("clip", [True, False])
def test_no_value_changes_by_more_than_epsilon_and_all_of_it_is_used(epsilon: float, clip: bool):
    data = made(epsilon=epsilon, clip=clip)
    places = torch.arange(len(data))
    changed = data.sampler("cpu")(places).double()
    change = changed - data.base.sampler("cpu")(places // data.steps).double()
    assert float(change.abs().max()) <= epsilon
    assert float(change.abs().max()) == pytest.approx(epsilon, abs=1e-6)
    assert (0 <= float(changed.min()) and float(changed.max()) <= 1) == clip
    assert data.bounded == clip


def test_every_image_occurs_with_every_s():
    data = made(steps=5)
    factors = data.factors(np.arange(len(data)))
    assert data.factor_names == ("scale", "x", "y", "s")
    assert data.factor_sizes == (2, 4, 3, 5)
    assert np.array_equal(factors, data.grid.to_factors(np.arange(len(data))))
    assert np.array_equal(factors[::5, :-1], data.base.factors(np.arange(len(data.base))))


def test_what_s_shows_is_the_same_for_every_image_and_another_for_every_s():
    data = made(epsilon=0.2, clip=False, steps=6)
    draw = data.sampler("cpu")
    places = torch.arange(len(data)).view(-1, 6)
    change = draw(places) - data.base.sampler("cpu")(torch.arange(len(data.base)))[:, None]
    assert float((change - change[:1]).abs().max()) < 1e-6
    apart = (change[0, 1:] - change[0, :-1]).abs().amax(dim=(1, 2, 3))
    assert float(apart.min()) > 0.39  # some sign is turned round at every step


def test_it_is_made_again_by_its_options():
    data = made(epsilon=0.07, steps=9, rows_per_step=2.0, seed=4)
    again = ub.load(data.name, **data.options)
    assert again.fingerprint() == data.fingerprint()
    assert made(epsilon=0.08).fingerprint() != made(epsilon=0.07).fingerprint()
    assert np.array_equal(again.images([3, 8]), data.images([3, 8]))


def test_it_trains_and_is_scored_like_any_other(tmp_path):
    run = ub.train(
        "with_s", "beta_vae", data_options={"of": "sprites", "of_options": BASE}, steps=10,
        network="mlp", network_options={"hidden": 8}, latents=4, batch_size=8, quiet=True,
        out=tmp_path / "run", device="cpu",
    )  # fmt: skip
    assert np.isfinite(run.score("mig", quiet=True)["mig"]).all()
    assert ub.open_run(tmp_path / "run").dataset.fingerprint() == run.dataset.fingerprint()


def test_bad_options_are_told_at_once(tmp_path):
    with pytest.raises(InputError) as told:
        made(epsilon=0.0, steps=1, rows_per_step=100)
    assert str(told.value).splitlines() == [
        "epsilon must be a number from 1e-06 to 1; got 0.0.",
        "steps must be a whole number in 2..1024; got 1.",
        "rows_per_step must be a number from 0.01 to 64; got 100.",
    ]
    np.save(tmp_path / "own.npy", np.zeros((8, 16, 16, 1), np.uint8))
    with pytest.raises(InputError, match="data must have factors that s can be compared with"):
        ub.load("with_s", of=str(tmp_path / "own.npy"))
    with pytest.raises(InputError, match="must have no factor called s already"):
        ub.load("with_s", of=made())
    with pytest.raises(InputError, match="must show one image for each index"):
        ub.load("with_s", of="noisy_dsprites")
    with pytest.raises(InputError, match="with_s option 'epsilom' is unknown"):
        made(epsilom=0.1)


def test_of_a_huge_set_the_sample_is_drawn_without_ordering_it_all():
    size = 24_000_000
    found = recorded_sample(size, 15_000)
    assert len(np.unique(found)) == len(found) == 15_000
    assert np.array_equal(found[:100], recorded_sample(size, 15_000)[:100])
    assert 0 <= found.min() < size / 1000
    assert size * 0.999 < found.max() < size
    # Deciles hold equal shares: chi square of 9 degrees of freedom, 99.9%.
    counts = np.bincount(found * 10 // size, minlength=10)
    assert ((counts - 1500) ** 2 / 1500).sum() < 27.9
    assert not np.array_equal(found, recorded_sample(size, 15_000, seed=1))
