# SPDX-License-Identifier: Apache-2.0
"""Factor grids and the images on them: `load("dsprites")`, `load("folder")`, `load(array)`."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from unbraid.core.registry import Registry
from unbraid.data.official import OFFICIAL

if TYPE_CHECKING:
    from unbraid.data.dataset import Dataset as Dataset
    from unbraid.data.dataset import PixelDataset as PixelDataset
    from unbraid.data.loading import load as load
    from unbraid.data.subset import Subset as Subset

DRAWN = {
    "dsprites": "unbraid.data.drawn.dsprites:DSprites",
    "color_dsprites": "unbraid.data.drawn.color_dsprites:ColorDSprites",
    "noisy_dsprites": "unbraid.data.drawn.noisy_dsprites:NoisyDSprites",
    "scream_dsprites": "unbraid.data.drawn.scream_dsprites:ScreamDSprites",
    "shapes3d_drawn": "unbraid.data.drawn.shapes3d_drawn:Shapes3DDrawn",
    "xysquares": "unbraid.data.drawn.xysquares:XYSquares",
    "xyobject": "unbraid.data.drawn.xyobject:XYObject",
    "xcolumns": "unbraid.data.drawn.xcolumns:XColumns",
    "pinwheel": "unbraid.data.drawn.pinwheel:Pinwheel",
    "species": "unbraid.data.drawn.species:Species",
    "sprites": "unbraid.data.drawn.sprites:Sprites",
}
"""Datasets that need no download."""
# The drawn ones stand first, and dSprites is drawn, though its file can be added too.
DATA = Registry("dataset", "unbraid.data", DRAWN | OFFICIAL.built_in | DRAWN)


_HOMES = {
    "load": "unbraid.data.loading",
    "Dataset": "unbraid.data.dataset",
    "PixelDataset": "unbraid.data.dataset",
    "Subset": "unbraid.data.subset",
}


def __getattr__(name: str) -> Any:
    """Public names, imported when first asked for; a registered class is found by its name too."""
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    registered = DATA.attribute_home(name)
    if registered is not None:
        return DATA.load(registered)
    raise AttributeError(f"module 'unbraid.data' has no attribute '{name}'")
