# SPDX-License-Identifier: Apache-2.0
"""Questions about data and models.

`distances.perceived_distances` (Michlo et al. 2023), `expansiveness.expansiveness` and
`perturbation` (Zietlow et al. 2021); the theory made runnable: `impossibility` (Locatello et al.
2019), `beta_vae_theorems` (Mathieu et al. 2019), `pca_alignment` and `local_axes` (Rolinek et al.
2019, Zietlow et al. 2021), `optimal_rotation`; `pinwheel_decomposition` and `digits_sparsity`
(Mathieu et al. 2019); `log_likelihood` by importance sampling and `aggregate_posterior` of trained
members.
"""
