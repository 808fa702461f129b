# SPDX-License-Identifier: Apache-2.0
"""MPI3D realistic: published facts and a small file in its format."""

from __future__ import annotations

import numpy as np

from unbraid.data.official.mpi3d import SOURCE_REALISTIC


def test_published_facts():
    assert SOURCE_REALISTIC.grid.sizes == (6, 6, 2, 3, 3, 40, 40)
    assert SOURCE_REALISTIC.files[0].checksum == ("md5", "59a6225b88b635365f70c91b3e52f70f")


def test_images_are_those_of_the_file(small):
    realistic = small("mpi3d_realistic")
    assert realistic.add(realistic.folder)["verified"] == "yes"
    with np.load(realistic.file()) as file:
        assert np.array_equal(realistic.load().images(np.arange(48)), file["images"])
