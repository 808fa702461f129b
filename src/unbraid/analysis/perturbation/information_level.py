# SPDX-License-Identifier: Apache-2.0
"""How much the latent that encodes a factor knows: 1 - E[σ²] (Zietlow et al. 2021, section 5).

0 is a latent whose posterior is the prior whatever the image, 1 one without noise. Which latent
encodes a factor is left open; here it is the one with the largest mutual information with it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unbraid.core.errors import Shown, invalid


def information_levels(variances: ArrayLike, mutual_information: ArrayLike) -> NDArray[np.float64]:
    """The level of each factor's latent, by mean posterior *variances* `(latents,)` and
    *mutual_information* `(factors, latents)`.

    >>> information_levels([0.1, 0.75], [[1.0, 0.2], [0.0, 0.3]])
    array([0.9 , 0.25])
    """
    noise = np.asarray(variances, dtype=np.float64)
    shared = np.asarray(mutual_information, dtype=np.float64)
    if noise.ndim != 1 or shared.ndim != 2 or shared.shape[1] != len(noise) or not len(noise):
        rule = "must have a row for each factor and a column for each of the variances"
        raise invalid("mutual_information", rule, Shown(f"{shared.shape} and {noise.shape}"))
    return 1.0 - noise[shared.argmax(axis=1)]
