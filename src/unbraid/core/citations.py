# SPDX-License-Identifier: Apache-2.0
"""Papers that several folders cite."""

from __future__ import annotations

from unbraid.core.registry import Citation

LOCATELLO_2019 = Citation(
    "Locatello et al.",
    2019,
    "Challenging Common Assumptions in the Unsupervised Learning of Disentangled Representations",
    "ICML",
)
MICHLO_2023 = Citation(
    "Michlo et al.",
    2023,
    "Overlooked implications of the reconstruction loss for VAE disentanglement",
    "IJCAI",
)
MATHIEU_2019 = Citation(
    "Mathieu et al.", 2019, "Disentangling Disentanglement in Variational Autoencoders", "ICML"
)
