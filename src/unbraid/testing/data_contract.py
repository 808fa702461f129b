# SPDX-License-Identifier: Apache-2.0
"""The contract of a dataset, ours or a plug-in's: `check_dataset(MyDataset())` in a test."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.core.registry import Citation
from unbraid.data.dataset import Dataset
from unbraid.testing.checks import refusal

if TYPE_CHECKING:
    import torch


def check_dataset(dataset: Dataset) -> None:
    """Assert everything that training, scoring and reports rely on; messages name what fails."""
    _check_facts(dataset)
    spread = np.unique(np.linspace(0, len(dataset) - 1, 9).astype(np.int64))
    _check_grid(dataset, spread)
    _check_factors(dataset, spread)
    _check_images(dataset, spread)
    _check_sampler(dataset, spread)
    _check_repeat(dataset)


def _check_facts(dataset: Dataset) -> None:
    """What `unbraid data info` says of a dataset that is chosen by its name."""
    from unbraid.data import DATA

    if dataset.name in DATA:
        name, text = dataset.name, type(dataset).__doc__ or ""
        assert isinstance(dataset.citation, Citation), f"{name} needs a Citation"
        assert dataset.licence, f"{name} needs a licence, such as licence = 'CC BY 4.0'"
        first = text.partition("\n")[0]
        assert first.endswith("."), f"{name} needs a docstring that opens with one sentence"


def _check_grid(dataset: Dataset, spread: np.ndarray) -> None:
    assert len(dataset) == dataset.grid.size >= 2, (
        f"a dataset needs at least 2 samples, has {len(dataset)}"
    )
    assert np.array_equal(dataset.grid.to_index(dataset.grid.to_factors(spread)), spread), (
        "grid indices must round trip"
    )
    for outside in (-1, len(dataset)):
        for method in (dataset.images, dataset.factors):
            message = refusal(lambda method=method, outside=outside: method([outside]))
            assert str(outside) in message, (
                f"{method.__name__} must refuse index {outside} with an InputError that names it"
            )


def _check_factors(dataset: Dataset, spread: np.ndarray) -> None:
    factors = dataset.factors(spread)
    assert factors.dtype == np.int64, f"factors must be int64, are {factors.dtype}"
    assert factors.shape == (
        len(spread),
        len(dataset.factor_names),
    ), f"factors have shape {factors.shape}"
    assert len(dataset.factor_sizes) == len(dataset.factor_names), "one size for each factor name"
    assert dataset.labelled == bool(dataset.factor_names), "labelled means that factors are known"
    assert (factors >= 0).all(), "factor values start at 0"
    assert (factors < np.array(dataset.factor_sizes, dtype=np.int64)).all(), (
        "factor values must stay below their sizes"
    )


def _check_images(dataset: Dataset, spread: np.ndarray) -> None:
    images = dataset.images(spread)
    assert images.dtype == np.uint8, f"images must be uint8, are {images.dtype}"
    assert images.shape == (
        len(spread),
        *dataset.image_shape,
    ), f"images have shape {images.shape}, not {dataset.image_shape}"
    assert dataset.image_shape[-1] in (
        1,
        3,
    ), f"images have 1 or 3 channels, not {dataset.image_shape[-1]}"
    assert images.max() > images.min(), "images must show something"
    assert np.array_equal(dataset.images(spread[::-1]), images[::-1]), (
        "an image must depend on its index alone"
    )


def _check_sampler(dataset: Dataset, spread: np.ndarray) -> None:
    import torch

    draw = dataset.sampler("cpu")
    samples = draw(torch.from_numpy(spread))
    assert samples.dtype == torch.float32, f"samples must be float32, are {samples.dtype}"
    assert tuple(samples.shape) == (
        len(spread),
        *dataset.sample_shape,
    ), f"samples have shape {tuple(samples.shape)}"
    if dataset.bounded:
        assert 0.0 <= float(samples.min()), "bounded samples lie in [0, 1]"
        assert float(samples.max()) <= 1.0, "bounded samples lie in [0, 1]"
    pair = torch.from_numpy(np.stack([spread, spread[::-1]]))
    both = draw(pair)
    assert tuple(both.shape) == (
        2,
        len(spread),
        *dataset.sample_shape,
    ), "samplers take indices of any shape"
    assert torch.equal(both[0], samples), "a sample must not depend on its neighbours"
    assert torch.equal(both[1].flip(0), samples), "a sample must not depend on its neighbours"
    if dataset.fresh:
        _check_fresh(draw, pair)
    shown = dataset.as_images(samples.numpy()).astype(np.int64)
    assert np.abs(shown - dataset.images(spread)).max() <= 1, (
        "samples and images must agree within one grey level"
    )


def _check_fresh(draw: Any, indices: torch.Tensor) -> None:
    import torch

    first, other = (
        draw(indices, torch.zeros_like(indices)),
        draw(indices, torch.full_like(indices, 2**31 - 1)),
    )
    assert torch.equal(first, draw(indices)), (
        "image 0 of an index is the one shown when none is named"
    )
    assert torch.equal(other, draw(indices, torch.full_like(indices, 2**31 - 1))), (
        "a named image must always be the same"
    )
    assert not torch.equal(first, other), "a fresh dataset must have several images of an index"


def _check_repeat(dataset: Dataset) -> None:
    from unbraid.data import load

    assert json.loads(json.dumps(dataset.options)) == dataset.options, "options must survive JSON"
    digest = dataset.fingerprint()
    assert digest == dataset.fingerprint(), "the fingerprint must be stable"
    if dataset.repeatable:
        again = load(dataset.name, **dataset.options)
        assert again.fingerprint() == digest, "load(name, **options) must make the same dataset"
        assert again.options == dataset.options, "load(name, **options) must keep the options"
