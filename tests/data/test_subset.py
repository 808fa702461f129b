# SPDX-License-Identifier: Apache-2.0
"""Part of a dataset: the whole's images, factors and samples at the chosen indices, trained on and
scored like any dataset.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unbraid as ub
from unbraid.codes.codes import Codes, CodeStore
from unbraid.core.errors import InputError
from unbraid.data import Subset, load
from unbraid.testing.data_contract import check_dataset

GREY = {"x": 5, "y": 4, "scale": 2, "image_size": 16}


@pytest.fixture(scope="module")
def sprites():
    return load("sprites", **GREY)


def told(make) -> str:
    with pytest.raises(InputError) as caught:
        make()
    return str(caught.value)


def saved(folder: Path, indices, name: str = "some.npy") -> Path:
    np.save(folder / name, np.asarray(indices))
    return folder / name


def codes_of(run: ub.Run) -> Codes:
    store = CodeStore(run.folder)
    store.encode(torch.device("cpu"))
    return store.load(0)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sprites", GREY),
        ("dsprites", {}),
        ("noisy_dsprites", {"seed": 3}),
        ("shapes3d_drawn", {}),
        ("xysquares", {"spacing": 3}),
        ("pinwheel", {}),
    ],
)
def test_the_contract_is_kept_in_memory_and_from_a_file(tmp_path, name, options):
    base = load(name, **options)
    indices = np.random.default_rng(0).permutation(len(base))[:30]
    data = Subset(base, indices)
    check_dataset(data)
    assert (data.name, data.repeatable, data.fresh) == ("subset", False, base.fresh)
    kept = load("subset", of=name, of_options=options, indices=saved(tmp_path, indices))
    check_dataset(kept)
    assert kept.repeatable
    assert kept.options == {
        "of": name,
        "of_options": base.options,
        "indices": str(tmp_path / "some.npy"),
    }
    assert kept.fingerprint() == data.fingerprint()
    for attribute in (
        "citation",
        "licence",
        "factor_meanings",
        "bounded",
        "sample_shape",
        "image_shape",
        "factor_names",
    ):
        assert getattr(data, attribute) == getattr(base, attribute)
    assert data.device_bytes == base.device_bytes + 8 * 30
    assert data.about == [("Part of", f"{name}: 30 of {len(base):,} images"), *base.about]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(0, 39), min_size=2, max_size=40, unique=True), st.data())
def test_a_position_shows_the_image_of_its_index(indices, draw):
    base = load("sprites", **GREY)
    data = Subset(
        base, np.array(indices, dtype=draw.draw(st.sampled_from(["u1", "i2", "i8", "u8"])))
    )
    at = np.array(draw.draw(st.lists(st.integers(0, len(indices) - 1), min_size=1, max_size=6)))
    chosen = np.array(indices)[at]
    assert np.array_equal(data.images(at), base.images(chosen))
    assert np.array_equal(data.factors(at), base.factors(chosen))
    samples, of_whole = data.sampler("cpu"), base.sampler("cpu")
    assert torch.equal(
        samples(torch.from_numpy(at)[None]), of_whole(torch.from_numpy(chosen)[None])
    )
    assert (data.factor_sizes, data.grid.names, len(data)) == (
        base.factor_sizes,
        ("sample",),
        len(indices),
    )
    inner = np.array(draw.draw(st.permutations(range(len(indices)))))[: max(2, len(indices) // 2)]
    composed, direct = Subset(data, inner), Subset(base, np.array(indices)[inner])
    assert composed.base is base
    assert np.array_equal(composed.indices, direct.indices)
    assert composed.fingerprint() == direct.fingerprint()


def test_labels_keep_the_values_they_were_given_with():
    images = np.arange(4 * 64, dtype=np.uint8).reshape(4, 8, 8)
    data = Subset(load(images, factors=[[10], [20], [40], [20]], factor_names=["size"]), [3, 1])
    assert data.factors([0, 1]).tolist() == [[1], [1]]
    assert data.factor_sizes == (3,)
    assert [values.tolist() for values in data.factor_values] == [[10, 20, 40]]
    assert not Subset(load(images), [3, 1]).labelled


def test_a_fresh_dataset_is_told_which_image_is_meant():
    base = load("noisy_dsprites")
    data = Subset(base, [70_000, 5])
    at, numbers = torch.tensor([[1, 0]]), torch.tensor([[7, 9]])
    expected = base.sampler("cpu")(torch.tensor([[5, 70_000]]), numbers)
    assert torch.equal(data.sampler("cpu")(at, numbers), expected)
    assert not torch.equal(data.sampler("cpu")(at), expected)


def test_it_is_not_changed_by_the_array_it_came_from(sprites):
    indices = np.arange(5)
    data = Subset(sprites, indices)
    digest = data.fingerprint()
    indices[:] = 9
    assert data.indices.tolist() == [0, 1, 2, 3, 4]
    assert data.fingerprint() == digest
    with pytest.raises(ValueError, match="read-only"):
        data.indices[0] = 1


def test_fingerprints_tell_order_choice_and_whole(sprites):
    other = load("sprites", **{**GREY, "scale_max": 0.3})
    variants = [
        Subset(sprites, [1, 2, 3]),
        Subset(sprites, [3, 2, 1]),
        Subset(sprites, [1, 2, 4]),
        Subset(other, [1, 2, 3]),
    ]
    assert len({one.fingerprint() for one in variants} | {sprites.fingerprint()}) == 5


def test_indices_that_choose_nothing_sensible_are_refused_by_name(sprites):
    def message(indices) -> str:
        return told(lambda: Subset(sprites, indices))

    assert message([0, 1, 40]) == "subset indices must lie in 0..39, the images of sprites; got 40."
    assert message([3, -1]) == "subset indices must lie in 0..39, the images of sprites; got -1."
    assert (
        message([7, 3, 3, 7])
        == "subset indices must name every image once; got 3 more than once. Use"
        " numpy.unique(indices)."
    )
    assert message([]) == "subset indices must choose at least 2 images; got 0."
    assert message([4]) == "subset indices must choose at least 2 images; got 1."
    assert (
        message([0.0, 1.0])
        == "subset indices must be whole numbers; got dtype float64. Use indices.astype(int)."
    )
    assert (
        message(np.ones(40, bool))
        == "subset indices must be whole numbers; got dtype bool. Use numpy.flatnonzero(mask) for a"
        " mask."
    )
    assert (
        message([[0, 1], [2, 3]])
        == "subset indices must be a flat array; got shape (2, 2). Use indices.reshape(-1)."
    )
    assert (
        told(lambda: Subset("sprites", [0, 1]))
        == "base must be a Dataset; got str. Make one with unbraid.load."
    )


def test_what_load_cannot_make_is_refused_by_name(tmp_path, sprites):
    def message(**options) -> str:
        return told(lambda: load("subset", **options))

    example = (
        "Name the dataset it is part of, as in load('subset', of='dsprites', indices='some.npy')."
    )
    assert message() == f"subset needs of=; got none. {example}"
    assert (
        message(of="sprites")
        == "subset needs indices=; got none. Give the path of an .npy of whole numbers."
    )
    assert (
        message(of="sprites", indices="a.npy", of_options=3)
        == "of_options must be a dictionary of the other dataset's options; got 3. For example"
        " of_options={'spacing': 3}."
    )
    gone = tmp_path / "gone.npy"
    assert (
        message(of="sprites", indices=gone)
        == f"subset indices must be an existing .npy file; got {gone}. Write it with numpy.save."
    )
    (tmp_path / "cut.npy").write_bytes(saved(tmp_path, [1, 2, 3]).read_bytes()[:-5])
    assert message(of="sprites", indices=tmp_path / "cut.npy").startswith(
        f"{tmp_path / 'cut.npy'} must be a complete numpy file"
    )
    assert (
        message(whole="sprites")
        == "subset option 'whole' is unknown. Known: indices, of, of_options."
    )
    assert message(of="sprite", indices="a.npy").startswith(
        "dataset 'sprite' is unknown; did you mean 'sprites'?"
    )
    in_memory = Subset(sprites, [0, 1]).options
    assert in_memory == {"of": "sprites", "of_options": sprites.options, "indices": "array"}
    assert (
        message(**in_memory)
        == "subset indices were an array in memory and cannot be loaded again; got 'array'. "
        "Pass the dataset itself, data=Subset(base, indices), or save the indices with numpy.save."
    )


def test_a_part_of_a_part_and_of_own_images_is_loaded_again(tmp_path):
    images = np.random.default_rng(0).integers(0, 256, (12, 8, 8), dtype=np.uint8)
    np.save(tmp_path / "own.npy", images)
    first = load(
        "subset", of=tmp_path / "own.npy", indices=saved(tmp_path, [2, 3, 5, 7], "first.npy")
    )
    second = Subset(first, saved(tmp_path, [3, 0], "second.npy"))
    check_dataset(second)
    assert second.repeatable
    assert second.options["of"] == "subset"
    assert np.array_equal(second.images([0, 1])[..., 0], images[[7, 2]])
    assert not Subset(load(images), tmp_path / "first.npy").repeatable
    assert not Subset(Subset(first, [0, 1, 2, 3]), tmp_path / "second.npy").repeatable
    assert load(
        "subset",
        of="own",
        of_options={"source": str(tmp_path / "own.npy")},
        indices=tmp_path / "first.npy",
    ).fingerprint() == (first.fingerprint())


def test_a_run_on_part_of_the_data_trains_encodes_scores_and_opens_again(tmp_path, sprites):
    indices = np.random.default_rng(1).permutation(40)[:24]
    options = {
        "steps": 3,
        "batch_size": 4,
        "latents": 3,
        "network": "mlp",
        "device": "cpu",
        "quiet": True,
    }
    data = Subset(sprites, saved(tmp_path, indices))
    run = ub.train(data, "beta_vae", out=tmp_path / "run", **options)
    scores = run.score(["mig"])
    assert np.isfinite(scores.to_numpy(dtype=float)).all()
    again = ub.open_run(tmp_path / "run", device="cpu")
    codes = codes_of(again)
    assert sorted(codes.indices.tolist()) == list(range(24))
    assert np.array_equal(codes.factors, sprites.factors(indices[codes.indices]))
    # The same images in an array of their own give the same model: nothing but the chosen images is
    # seen.
    alone = ub.train(
        load(data.images(np.arange(24))), "beta_vae", out=tmp_path / "alone", **options
    )
    assert np.array_equal(codes_of(alone).mean, codes.mean)


def test_a_run_on_indices_in_memory_is_opened_with_the_dataset_alone(tmp_path, sprites):
    data = Subset(sprites, [1, 4, 9, 16, 25])
    options = {
        "steps": 1,
        "batch_size": 2,
        "latents": 2,
        "network": "mlp",
        "device": "cpu",
        "quiet": True,
    }
    ub.train(data, "beta_vae", out=tmp_path / "run", **options)
    assert "were an array in memory" in told(
        lambda: codes_of(ub.open_run(tmp_path / "run", device="cpu"))
    )
    again = ub.open_run(tmp_path / "run", data=Subset(sprites, [1, 4, 9, 16, 25]), device="cpu")
    assert codes_of(again).mean.shape == (5, 2)


@pytest.mark.gpu
def test_samples_on_the_gpu_are_those_on_the_cpu_also_in_a_graph(sprites):
    data = Subset(sprites, np.random.default_rng(0).permutation(40)[:17])
    indices = torch.from_numpy(np.random.default_rng(1).integers(0, 17, (3, 16)))
    expected = data.sampler("cpu")(indices)
    draw, static = data.sampler("cuda"), torch.zeros_like(indices, device="cuda")
    assert torch.equal(draw(static).cpu(), data.sampler("cpu")(torch.zeros_like(indices)))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = draw(static)
    static.copy_(indices)
    graph.replay()
    assert torch.equal(out.cpu(), expected)
