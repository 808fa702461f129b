# SPDX-License-Identifier: Apache-2.0
"""Perturbed data: equal to the formula, never further than ε, a pure function of the index, and
whole or refused.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unbraid.core.errors import DamagedFileError, InputError, Problems
from unbraid.core.store import read_json, write_json
from unbraid.data import load
from unbraid.data.dataset import Dataset
from unbraid.data.perturbed.dataset import Perturbed, check_base
from unbraid.data.perturbed.folder import is_perturbed, write_perturbed
from unbraid.data.perturbed.pattern import amplitude, half_rows, make_pattern, standardised
from unbraid.testing.data_contract import check_dataset

GREY = {"x": 5, "y": 4, "scale": 2, "image_size": 16}
COLOUR = {"x": 3, "y": 2, "scale": 1, "hue": 4, "channels": 3, "image_size": 16}
KINDS = ("pattern", "uniform")


def written(folder: Path, base: Dataset, kind: str = "pattern", **options: Any) -> Perturbed:
    """*base* with s running along a slanted line through its factors."""
    usual: dict[str, Any] = {"epsilon": 0.1, "clip": True, "seed": 0, **options}
    found: dict[str, Any] = {}
    if kind == "pattern":
        s = standardised(
            base.factors(np.arange(len(base))) @ np.arange(1.0, len(base.factor_names) + 1)
        )[0]
        halves = half_rows(9.0 * s)
        pattern = make_pattern(
            usual["seed"], *base.image_shape[:2], int(halves.min()), int(halves.max())
        )
        found = {
            "pattern": pattern,
            "half_rows": halves,
            "s": s,
            "provenance": {"shift_scale": 9.0, "rows_per_step": 4.0},
        }
    write_perturbed(folder, base, **usual, **found)
    return load("perturbed", source=folder)


def samples(data: Dataset) -> np.ndarray:
    return data.sampler("cpu")(torch.arange(len(data))).numpy()


def told(make: Any, kind: type[Exception] = InputError) -> str:
    with pytest.raises(kind) as caught:
        make()
    return str(caught.value)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [GREY, COLOUR])
def test_the_contract_is_kept(tmp_path, options, kind, clip):
    base = load("sprites", **options)
    data = written(tmp_path / "p", base, kind, clip=clip)
    assert data.bounded is clip
    assert (data.name, data.noise, data.fresh) == ("perturbed", kind, False)
    assert data.options == {"source": str(tmp_path / "p")}
    check_dataset(data)


@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("options", [GREY, COLOUR])
def test_the_pattern_is_the_formula(tmp_path, options, clip):
    base = load("sprites", **options)
    data = written(tmp_path / "p", base, clip=clip, epsilon=0.2)
    assert data.pattern is not None
    assert data.half_rows is not None
    assert data.s is not None
    assert np.array_equal(data.half_rows, half_rows(9.0 * data.s.astype(np.float64)))
    frames = data.pattern.frames(data.half_rows)[:, None].astype(np.float32)
    expected = samples(base) + np.float32(amplitude(0.2)) * frames
    assert np.array_equal(samples(data), np.clip(expected, 0.0, 1.0) if clip else expected)
    grey = np.rint(np.clip(expected, 0.0, 1.0) * 255).astype(np.uint8)
    assert np.array_equal(data.images(np.arange(len(data))), np.moveaxis(grey, 1, -1))


@settings(max_examples=25, deadline=None)
@given(
    st.floats(0, 1, exclude_min=True),
    st.integers(0, 2**62),
    st.booleans(),
    st.sampled_from(KINDS),
    st.sampled_from([GREY, COLOUR]),
)
def test_nothing_moves_further_than_epsilon(epsilon, seed, clip, kind, options):
    base = load("sprites", **options)
    with tempfile.TemporaryDirectory() as folder:
        data = written(Path(folder), base, kind, epsilon=epsilon, seed=seed, clip=clip)
    # Float64 holds the difference of these float32 numbers exactly.
    apart = np.abs(samples(data).astype(np.float64) - samples(base).astype(np.float64))
    assert apart.max() <= epsilon
    if clip:
        assert samples(data).min() >= 0.0
        assert samples(data).max() <= 1.0
    elif kind == "pattern":
        assert apart.min() >= epsilon - 2.0**-21
    everything = np.arange(len(base))
    assert np.array_equal(data.factors(everything), base.factors(everything))
    assert (data.factor_names, data.factor_sizes, data.grid) == (
        base.factor_names,
        base.factor_sizes,
        base.grid,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_a_image_depends_on_its_index_and_the_seed_alone(tmp_path, kind):
    base = load("sprites", **GREY)
    data, again, other = (
        written(tmp_path / str(at), base, kind, seed=seed) for at, seed in enumerate((0, 0, 1))
    )
    draw, whole = data.sampler("cpu"), torch.from_numpy(samples(data))
    indices = torch.tensor([[3, 17, 3], [39, 0, 8]])
    assert torch.equal(draw(indices), whole[indices])
    assert torch.equal(draw(torch.tensor(7)), whole[7])
    assert draw(torch.empty(0, dtype=torch.int64)).shape == (0, 1, 16, 16)
    assert torch.equal(draw(indices.to(torch.int32).long()), whole[indices])
    assert np.array_equal(samples(again), whole.numpy())
    assert again.fingerprint() == data.fingerprint()
    assert not np.array_equal(samples(other), whole.numpy())
    assert other.fingerprint() != data.fingerprint()


def test_uniform_noise_is_uniform_and_independent(tmp_path):
    base = load("sprites", **COLOUR)
    data = written(tmp_path / "p", base, "uniform", clip=False, epsilon=0.3)
    noise = (samples(data) - samples(base)).reshape(len(base), -1) / 0.3
    assert noise.mean() == pytest.approx(0.0, abs=0.02)
    assert noise.var() == pytest.approx(1 / 3, abs=0.01)
    assert np.histogram(noise, bins=10, range=(-1, 1))[0] / noise.size == pytest.approx(
        0.1, abs=0.01
    )
    between_images, between_channels = (
        np.corrcoef(noise),
        np.corrcoef(noise.reshape(-1, 3, 256).transpose(1, 0, 2).reshape(3, -1)),
    )
    for correlation in (between_images, between_channels):
        assert np.abs(correlation - np.eye(len(correlation))).max() < 0.15


def test_fingerprints_tell_everything_that_matters(tmp_path, monkeypatch):
    base = load("sprites", **GREY)
    variants = [
        {},
        {"epsilon": 0.11},
        {"clip": False},
        {"seed": 1},
        {"kind": "uniform"},
        {"kind": "uniform", "seed": 1},
    ]
    data = [written(tmp_path / str(at), base, **options) for at, options in enumerate(variants)]
    assert len({one.fingerprint() for one in data}) == len(variants)
    shutil.move(tmp_path / "0", tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    moved = load("perturbed", source="moved")
    assert moved.fingerprint() == data[0].fingerprint()
    assert moved.options == {"source": str(tmp_path / "moved")}
    gone = told(lambda: load("perturbed", **data[0].options))
    assert (
        gone
        == "perturbed data must be a folder made by `unbraid perturb`, with a perturbed.json in"
        f" it; got {tmp_path / '0'}. Where it was moved, give its new place; for a run on it:"
        " data=NEW_PLACE."
    )


def test_it_is_loaded_by_path_and_by_name(tmp_path, monkeypatch):
    data = written(tmp_path / "p", load("sprites", **GREY))
    monkeypatch.chdir(tmp_path)
    for again in (load(tmp_path / "p"), load("p"), load("./p"), load("perturbed", **data.options)):
        assert isinstance(again, Perturbed)
        assert again.fingerprint() == data.fingerprint()
    refused = (
        "perturbed data takes no options but its folder; got resize. Give them to `unbraid"
        " perturb`."
    )
    assert told(lambda: load("p", resize=32)) == refused
    assert (
        told(lambda: load("perturbed"))
        == "source must be a folder made by `unbraid perturb`; got None."
    )


def test_damage_is_noticed(tmp_path):
    whole = tmp_path / "whole"
    data = written(whole, load("sprites", **GREY))
    other = written(tmp_path / "other", load("sprites", **GREY), seed=5)

    def copy(name: str) -> Path:
        shutil.copytree(whole, tmp_path / name)
        return tmp_path / name

    def flip(path: Path, at: int) -> None:
        content = bytearray(path.read_bytes())
        content[at] ^= 4
        path.write_bytes(content)

    flip((copy("a") / "perturbed.json"), 40)
    assert "is damaged" in told(lambda: load("perturbed", source=tmp_path / "a"), DamagedFileError)
    flip((copy("b") / "perturbation.safetensors"), -7)
    shown = told(lambda: load("perturbed", source=tmp_path / "b"), DamagedFileError)
    assert (
        shown
        == f"{tmp_path / 'b' / 'perturbation.safetensors'} is damaged: its content does not match"
        " its checksum. Perturb the data again."
    )
    (copy("c") / "perturbation.safetensors").unlink()
    shown = told(lambda: load("perturbed", source=tmp_path / "c"), DamagedFileError)
    assert (
        shown
        == f"{tmp_path / 'c' / 'perturbation.safetensors'} is missing. Perturb the data again."
    )
    (copy("d") / "perturbed.json").unlink()
    assert is_perturbed(tmp_path / "d")
    shown = told(lambda: load("perturbed", source=tmp_path / "d"), DamagedFileError)
    assert (
        shown == f"{tmp_path / 'd'} has no perturbed.json: writing it was not finished, or it was"
        " lost. Put a copy of it back, or remove the folder and perturb again."
    )
    shutil.copy(other.folder / "perturbed.json", copy("e") / "perturbed.json")
    shown = told(lambda: load("perturbed", source=tmp_path / "e"), DamagedFileError)
    assert "does not belong to the perturbed.json beside it" in shown
    write_json(copy("f") / "perturbed.json", {**data.record, "format": 9})
    shown = told(lambda: load("perturbed", source=tmp_path / "f"))
    assert (
        shown
        == f"{tmp_path / 'f' / 'perturbed.json'} is not a record of perturbed data this version can"
        " read: format must be 1; got 9. Perturb again with this version."
    )
    assert data.pattern is not None
    write_perturbed(
        tmp_path / "g",
        data.base,
        epsilon=0.1,
        clip=True,
        seed=0,
        pattern=data.pattern,
        half_rows=data.half_rows[1:],
        s=data.s,
    )
    shown = told(lambda: load("perturbed", source=tmp_path / "g"), DamagedFileError)
    assert shown.endswith("is damaged: its pattern does not fit the data. Perturb the data again.")


def test_an_original_that_changed_or_went_away_is_noticed(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (12, 8, 8), dtype=np.uint8)
    np.save(tmp_path / "own.npy", images)
    folder = written(tmp_path / "p", load(tmp_path / "own.npy"), "uniform").folder
    check_dataset(load("perturbed", source=folder))
    np.save(tmp_path / "own.npy", images[::-1])
    changed = (
        f"the original data of {folder} has changed since it was perturbed: 'own' has another"
        " fingerprint. Perturb it again."
    )
    assert told(lambda: load("perturbed", source=folder)) == changed
    (tmp_path / "own.npy").unlink()
    assert told(lambda: load("perturbed", source=folder)).startswith(
        f"the original data of {folder} cannot be opened: data must be an existing"
    )


def test_what_cannot_be_perturbed_is_told(tmp_path):
    def complaints(base: Dataset) -> list[str]:
        problems = Problems()
        check_base(problems, base)
        return [str(one) for one in problems.found]

    base = load("sprites", **GREY)
    assert complaints(base) == []
    assert complaints(load("pinwheel")) == [
        "data must be images with values in [0, 1]; got 'pinwheel'."
    ]
    (twice,) = complaints(written(tmp_path / "p", base))
    assert (
        twice
        == f"data must not be perturbed already; got {tmp_path / 'p'}. Perturb the original, with a"
        " larger epsilon."
    )
    (array,) = complaints(load(np.arange(128, dtype=np.uint8).reshape(2, 8, 8)))
    assert array.startswith(
        "data must be found again by name or path; got an array in memory. Save it with numpy.savez"
    )
    base.fresh = True  # type: ignore[misc]
    assert complaints(base) == [
        "data must show one image for each index, and this set draws them anew each time; got"
        " 'sprites'."
    ]


def test_the_record_says_how_it_was_made(tmp_path):
    data = written(tmp_path / "p", load("sprites", **GREY), epsilon=0.25, seed=3)
    record = read_json(tmp_path / "p" / "perturbed.json")
    assert record == data.record
    assert (record["epsilon"], record["seed"], record["clip"], record["noise"]) == (
        0.25,
        3,
        True,
        "pattern",
    )
    assert record["base"]["name"] == "sprites"
    assert (
        load(record["base"]["name"], **record["base"]["options"]).fingerprint()
        == record["base"]["fingerprint"]
    )


@pytest.mark.gpu
@pytest.mark.parametrize("clip", [True, False])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("options", [GREY, COLOUR])
def test_samples_on_the_gpu_are_those_on_the_cpu_also_in_a_graph(tmp_path, options, kind, clip):
    data = written(tmp_path / "p", load("sprites", **options), kind, clip=clip)
    indices = torch.from_numpy(np.random.default_rng(0).integers(0, len(data), (3, 16)))
    expected = data.sampler("cpu")(indices)
    draw = data.sampler("cuda")
    static = torch.zeros_like(indices, device="cuda")
    assert torch.equal(draw(indices.cuda()).cpu(), expected)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = draw(static)
    static.copy_(indices)
    graph.replay()
    assert torch.equal(out.cpu(), expected)
