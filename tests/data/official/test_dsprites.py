# SPDX-License-Identifier: Apache-2.0
"""The published dSprites file: added as packed rows."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unbraid.core.errors import InputError
from unbraid.data import load
from unbraid.data.drawn import dsprites
from unbraid.data.drawn.dsprites_drawing import draw_some
from unbraid.data.official.dsprites import SOURCE, added_rows

NAME = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"
PAGE = "https://github.com/google-deepmind/dsprites-dataset"


def test_published_facts():
    from unbraid.data.drawn.dsprites import DSprites

    assert SOURCE.grid == DSprites().grid
    assert SOURCE.files[0].checksum == ("md5", "7da33b31b13a06f4b04a70402ce90c2e")


def test_rows_are_packed_and_mapped(small):
    sprites = small("dsprites")
    assert sprites.add(sprites.file())["verified"] == "yes"
    rows = added_rows()
    assert isinstance(rows, np.memmap)
    assert (rows.shape, rows.dtype) == ((2048, 64), np.uint64)
    assert np.array_equal(rows, draw_some(np.arange(2048)))


def test_without_the_file_the_drawing_is_offered(small):
    small("dsprites")
    with pytest.raises(InputError) as caught:
        added_rows()
    assert str(caught.value).endswith(
        f"Get {NAME} from {PAGE} and type: unbraid data add dsprites {NAME}. `dsprites` is drawn"
        " without it."
    )


def test_a_wrong_file_is_refused_by_the_reader_of_the_npz(small):
    sprites = small("dsprites")
    with np.load(sprites.file(), allow_pickle=False) as file:
        images, classes = file["imgs"], file["latents_classes"]
    np.savez(sprites.file(), imgs=images[:, ::-1], latents_classes=classes)
    assert "needs the published images (at most 4 pixels from the drawn ones)" in sprites.refusal()
    np.savez(sprites.file(), imgs=images, latents_classes=classes[::-1])
    assert "needs latents_classes in grid order, row 0 = [0, 0, 0, 0, 0, 0]" in sprites.refusal()
    sprites.file().write_bytes(b"PK")
    assert "must be an .npz (zip) file; got a file of 2 bytes that is not one" in sprites.refusal()


def test_the_dataset_uses_the_added_file_when_asked_to(small, monkeypatch):
    sprites = small("dsprites")
    with np.load(sprites.file(), allow_pickle=False) as file:
        images, classes = file["imgs"], file["latents_classes"]
    images[1500, 0, 0] = 1
    np.savez(sprites.file(), imgs=images, latents_classes=classes)
    sprites.add(unverified=True)
    monkeypatch.setattr(dsprites, "GRID", sprites.source.grid)
    dataset = load("dsprites", file="added")
    assert dataset.options == {"file": "added"}
    assert np.array_equal(dataset.images(np.arange(2048))[..., 0], images * np.uint8(255))
    assert np.array_equal(
        dataset.sampler("cpu")(torch.arange(1490, 1510)).numpy()[:, 0], images[1490:1510]
    )
