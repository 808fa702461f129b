# SPDX-License-Identifier: Apache-2.0
"""Published datasets from their authors' files: verified, converted once, mapped when loaded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unbraid.core.registry import Registry

if TYPE_CHECKING:
    from unbraid.data.official.source import Published

OFFICIAL = Registry(
    "published dataset",
    "unbraid.data.official",
    {
        "dsprites": "unbraid.data.official.dsprites:DSpritesFile",
        "shapes3d": "unbraid.data.official.shapes3d:Shapes3D",
        "cars3d": "unbraid.data.official.cars3d:Cars3D",
        "smallnorb": "unbraid.data.official.smallnorb:SmallNORB",
        "mpi3d_toy": "unbraid.data.official.mpi3d:MPI3DToy",
        "mpi3d_realistic": "unbraid.data.official.mpi3d:MPI3DRealistic",
        "mpi3d_real": "unbraid.data.official.mpi3d:MPI3DReal",
        "fashion_mnist": "unbraid.data.official.fashion_mnist:FashionMNIST",
        "celeba": "unbraid.data.official.celeba:CelebA",
    },
)
"""What `unbraid data add` takes; dSprites is here for its file, though `load` draws it without."""


def published(name: str) -> type[Published]:
    """What is known about the published dataset *name*, and how its files are read."""
    return OFFICIAL.load(name)
