# SPDX-License-Identifier: Apache-2.0
"""Factor grids and the images on them: `load("dsprites")`, `load("folder/of/images")`, `load(array, factors=labels)`."""

from unbraid.registry import Registry

DATA = Registry(
    "dataset",
    "unbraid.data",
    {
        "dsprites": "unbraid.data.dsprites:DSprites",
        "xysquares": "unbraid.data.xysquares:XYSquares",
        "pinwheel": "unbraid.data.pinwheel:Pinwheel",
        "sprites": "unbraid.data.sprites:Sprites",
    },
)
