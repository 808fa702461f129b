# SPDX-License-Identifier: Apache-2.0
"""Codes: one recorded sample, encoded once, the same that a model gives, and made again where a
file is damaged.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unbraid as ub
from unbraid.codes import codes as codes_module
from unbraid.codes.codes import Codes, CodeStore, recorded_sample
from unbraid.codes.reconstructions import ReconstructionStore
from unbraid.commands.run import Run
from unbraid.core.errors import DamagedFileError, InputError
from unbraid.core.store import read_tensors, write_tensors

CPU = torch.device("cpu")


def small_train(out: Path, **options: Any) -> Run:
    usual: dict[str, Any] = {
        "data_options": {"x": 6, "y": 4, "scale": 3, "image_size": 28},
        "network": "mlp",
        "network_options": {"hidden": 16},
        "latents": 3,
        "batch_size": 8,
        "steps": 30,
        "learning_rate": 1e-3,
    }
    return ub.train(
        "sprites",
        ub.BetaVAE(beta=[1, 4]),
        out=out,
        quiet=True,
        device="cpu",
        **{**usual, **options},
    )


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return small_train(tmp_path / "run")


@settings(max_examples=25, deadline=None)
@given(size=st.integers(1, 400), wanted=st.integers(1, 400))
def test_a_recorded_sample_is_distinct_and_the_same_each_time(size: int, wanted: int):
    sample = recorded_sample(size, wanted)
    assert len(sample) == min(size, wanted)
    assert len(set(sample.tolist())) == len(sample)
    assert sample.min() >= 0
    assert sample.max() < size
    np.testing.assert_array_equal(sample, recorded_sample(size, wanted))
    np.testing.assert_array_equal(sample, recorded_sample(size, size)[:wanted])


def test_a_small_set_is_taken_whole_in_random_order():
    sample = recorded_sample(500, 15_000)
    assert sorted(sample.tolist()) == list(range(500))
    assert sample.tolist() != list(range(500))
    # a leading part is a fair sample: its mean is within four standard errors of the middle
    assert abs(sample[:100].mean() - 249.5) < 4 * 144.3 / 10


def test_codes_are_those_of_the_model(run: Run):
    store = CodeStore(run.folder)
    assert store.missing() == []
    for member in (0, 1):
        codes = store.load(member)
        mean, logvar = run.model(member).posterior(run.dataset.images(codes.indices))
        assert codes.mean.shape == (72, 3)
        np.testing.assert_allclose(codes.mean, mean, atol=1e-5)
        np.testing.assert_allclose(codes.logvar, logvar, atol=1e-5)
        np.testing.assert_array_equal(codes.factors, run.dataset.factors(codes.indices))
        np.testing.assert_array_equal(codes.indices, recorded_sample(72, 72))
    assert not np.allclose(store.load(0).mean, store.load(1).mean)


def test_fewer_samples_where_the_plan_says_so(tmp_path: Path):
    run = small_train(tmp_path / "run", code_samples=50)
    codes = CodeStore(run.folder).load(1)
    np.testing.assert_array_equal(codes.indices, recorded_sample(72, 50))
    assert codes.train_count == 33


def test_what_is_encoded_is_not_encoded_again(run: Run, monkeypatch: pytest.MonkeyPatch):
    calls = []
    real = codes_module.encode_members
    monkeypatch.setattr(
        codes_module, "encode_members", lambda *given: calls.append(1) or real(*given)
    )
    store = CodeStore(run.folder)
    store.encode(CPU)
    assert calls == []
    (run.path / "codes" / "member-00001.safetensors").unlink()
    told: list[int] = []
    store.encode(CPU, told.append)
    assert calls == [1]
    assert told == [72]
    assert store.missing() == []


@pytest.mark.parametrize("keep", [0, 50, -3])
def test_a_damaged_file_is_encoded_again(run: Run, keep: int):
    path = run.path / "codes" / "member-00000.safetensors"
    before = read_tensors(path)[0]
    path.write_bytes(path.read_bytes()[:keep])
    store = CodeStore(run.folder)
    assert [member.id for member in store.missing()] == [0]
    store.encode(CPU)
    after = read_tensors(path)[0]
    assert store.missing() == []
    assert all(torch.equal(before[name], after[name]) for name in before)


def test_codes_of_another_plan_count_as_missing(run: Run, tmp_path: Path):
    other = small_train(tmp_path / "other", seeds=[3])
    path = run.path / "codes" / "member-00000.safetensors"
    path.write_bytes((other.path / "codes" / "member-00000.safetensors").read_bytes())
    assert [member.id for member in CodeStore(run.folder).missing()] == [0]


def test_codes_of_another_member_count_as_missing_and_are_made_again(run: Run):
    store, folder = CodeStore(run.folder), run.path / "codes"
    right = store.load(0).mean
    shutil.copy(folder / "member-00001.safetensors", folder / "member-00000.safetensors")
    with pytest.raises(DamagedFileError, match="is of another member"):
        store.load(0)
    assert [member.id for member in store.missing()] == [0]
    store.encode(CPU)
    np.testing.assert_array_equal(store.load(0).mean, right)


def test_a_file_of_another_kind_counts_as_missing(run: Run):
    run.score("elbo", quiet=True)
    folder = run.path / "codes"
    codes, losses = folder / "member-00000.safetensors", folder / "reconstruction-00000.safetensors"
    kept = codes.read_bytes()
    shutil.copy(losses, codes)
    assert [member.id for member in CodeStore(run.folder).missing()] == [0]
    codes.write_bytes(kept)
    shutil.copy(codes, losses)
    found = ReconstructionStore(CodeStore(run.folder))
    assert [member.id for member in found.missing()] == [0]
    with pytest.raises(DamagedFileError, match="is of another kind"):
        found.load(0)


def test_codes_of_earlier_versions_which_did_not_name_their_kind_are_read(run: Run):
    path = run.path / "codes" / "member-00001.safetensors"
    tensors, about = read_tensors(path)
    del about["kind"]
    write_tensors(path, tensors, about)
    assert CodeStore(run.folder).missing() == []


def made(mean: Any, logvar: Any, seed: int = 0) -> Codes:
    mean, logvar = np.asarray(mean, dtype=np.float32), np.asarray(logvar, dtype=np.float32)
    indices = np.arange(len(mean))
    return Codes(indices, np.zeros((len(mean), 1), dtype=np.int64), mean, logvar, seed)


def test_sampled_codes_repeat_and_have_the_posterior_spread():
    mean, logvar = np.full((4000, 2), 3.0), np.tile(np.log([[0.25, 4.0]]), (4000, 1))
    codes = made(mean, logvar)
    sampled = codes.representation("sampled")
    np.testing.assert_array_equal(sampled, codes.representation("sampled"))
    np.testing.assert_array_equal(codes.representation(), codes.mean)
    # four standard errors of a mean and of a standard deviation of 4,000 draws
    np.testing.assert_allclose(sampled.mean(axis=0), [3, 3], atol=4 * 2 / np.sqrt(4000))
    np.testing.assert_allclose(sampled.std(axis=0), [0.5, 2.0], rtol=4 / np.sqrt(2 * 4000))
    assert not np.allclose(sampled, made(mean, logvar, seed=1).representation("sampled"))
    assert sampled.dtype == np.float32


def test_sampling_with_no_variance_gives_the_mean():
    codes = made([[1.0, -2.0]] * 3, np.full((3, 2), -200.0))
    np.testing.assert_array_equal(codes.representation("sampled"), codes.mean)


def test_unknown_representations_are_refused():
    with pytest.raises(InputError) as caught:
        made([[0.0]], [[0.0]]).representation("median")
    (problem,) = caught.value.problems
    found = (problem.name, problem.rule, problem.value)
    assert found == ("representation", "must be one of mean, sampled", "median")


def test_the_kl_of_each_latent_is_the_closed_form():
    codes = made([[0.0, 1.0], [0.0, 3.0]], [[0.0, 0.0], [0.0, np.log(2.0)]])
    # ½(μ² + σ² − ln σ² − 1): 0 and the mean of ½ and ½(9 + 2 − ln 2 − 1)
    np.testing.assert_allclose(
        codes.kl_per_latent(), [0.0, (0.5 + 0.5 * (10 - np.log(2))) / 2], rtol=1e-6
    )


@pytest.mark.parametrize(("count", "train"), [(2, 1), (3, 2), (15_000, 10_000), (1, 1)])
def test_two_thirds_are_for_fitting(count: int, train: int):
    assert made(np.zeros((count, 1)), np.zeros((count, 1))).train_count == train
