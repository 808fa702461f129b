# SPDX-License-Identifier: Apache-2.0
"""MPI3D real: published facts, and a file of another of the three sets is told apart by its
checksum.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from unbraid.data.official.mpi3d import SOURCE_REAL


def test_published_facts():
    assert SOURCE_REAL.grid.sizes == (6, 6, 2, 3, 3, 40, 40)
    assert SOURCE_REAL.files[0].checksum == ("md5", "0f33f609918fb5c97996692f91129802")
    assert SOURCE_REAL.licence == "CC BY 4.0"


def test_images_are_those_of_the_file(small):
    real = small("mpi3d_real")
    assert real.add(real.file())["verified"] == "yes"
    with np.load(real.file()) as file:
        assert np.array_equal(real.load().images(np.arange(48)), file["images"])


def test_the_file_of_another_set_is_named(small):
    real, realistic = small("mpi3d_real"), small("mpi3d_realistic")
    renamed = realistic.file().rename(real.folder / "downloaded.npz")
    wanted = real.source.files[0]
    # As in the published sets, only the checksum gives it away.
    real.source = replace(real.source, files=(replace(wanted, size=None),))
    assert (
        real.refusal(renamed, unverified=False)
        == f"mpi3d_real file {renamed} must have the published sha256 {wanted.sha256}; got that of"
        f" mpi3d_realistic.npz. Type: unbraid data add mpi3d_realistic {renamed}."
    )
