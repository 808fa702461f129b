# SPDX-License-Identifier: Apache-2.0
"""Questions about data and models.

`distances.perceived_distances` (Michlo et al. 2023), `expansiveness.expansiveness` and `perturbation` (Zietlow et al. 2021).
"""
