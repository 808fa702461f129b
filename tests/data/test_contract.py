# SPDX-License-Identifier: Apache-2.0
"""Every registered dataset keeps the contract, names its source, and has a test file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from unbraid.data import DATA, DRAWN, load
from unbraid.testing.checks import check_test_file
from unbraid.testing.data_contract import check_dataset


@pytest.fixture(autouse=True)
def painting(tmp_path, monkeypatch):
    """A data folder that holds what cannot be drawn."""
    monkeypatch.setenv("UNBRAID_DATA", str(tmp_path))
    noise = np.random.default_rng(0).integers(0, 256, (120, 100, 3), dtype=np.uint8)
    Image.fromarray(noise).save(tmp_path / "scream.jpg")


@pytest.mark.parametrize("name", DRAWN)
def test_registered_datasets_keep_the_contract(name):
    dataset = load(name)
    assert dataset.name == name
    check_test_file(Path(__file__).parent / "drawn" / f"test_{name}.py")
    check_dataset(dataset)


@pytest.mark.parametrize(("fact", "word"), [("licence", "licence"), ("citation", "Citation")])
def test_the_contract_notices_a_missing_fact(monkeypatch, fact, word):
    dataset = load("sprites", x=4, y=4, scale=1)
    monkeypatch.setattr(type(dataset), fact, None)
    with pytest.raises(AssertionError, match=f"sprites needs a {word}"):
        check_dataset(dataset)


def test_the_contract_notices_a_sampler_that_disagrees():
    dataset = load("sprites", x=4, y=4, scale=1)
    brighter = dataset.sampler("cpu")
    dataset.sampler = lambda device: lambda indices: brighter(indices) * 0.9
    with pytest.raises(AssertionError, match="samples and images must agree within one grey level"):
        check_dataset(dataset)


def test_the_contract_notices_factors_out_of_range():
    dataset = load(np.arange(2 * 64, dtype=np.uint8).reshape(2, 8, 8), factors=[0, 1])
    dataset._table.rows[1] = 2
    with pytest.raises(AssertionError, match="factor values must stay below their sizes"):
        check_dataset(dataset)


def test_importing_the_package_loads_nothing_heavy():
    program = (
        "import sys; from unbraid.data import load; print([m for m in ('torch', 'PIL', 'pandas') if"
        " m in sys.modules])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert shown.stdout.strip() == "[]"


def test_public_names_are_found_by_class_too():
    import unbraid.data

    assert unbraid.data.XYSquares is DATA.load("xysquares")
    with pytest.raises(AttributeError, match=r"module 'unbraid\.data' has no attribute 'Nothing'"):
        _ = unbraid.data.Nothing


@pytest.mark.gpu
@pytest.mark.parametrize("name", DRAWN)
def test_samples_on_the_gpu_are_those_on_the_cpu(name):
    import torch

    dataset = load(name)
    indices = torch.from_numpy(np.random.default_rng(0).integers(0, len(dataset), (3, 16)))
    on_gpu, on_cpu = dataset.sampler("cuda"), dataset.sampler("cpu")
    assert torch.equal(on_gpu(indices.cuda()).cpu(), on_cpu(indices))
    if dataset.fresh:
        numbers = torch.arange(48).reshape(3, 16)
        assert torch.equal(on_gpu(indices.cuda(), numbers.cuda()).cpu(), on_cpu(indices, numbers))


def test_a_dataset_shows_what_it_is():
    factors = "shape 3, scale 6, orientation 40, x 32, y 32"
    assert repr(load("dsprites")) == f"<Dataset dsprites: 737,280 images of 64x64x1, {factors}>"
    assert (
        repr(load(np.zeros((2, 8, 8), np.uint8)))
        == "<Dataset own: 2 images of 8x8x1, no factors known>"
    )
