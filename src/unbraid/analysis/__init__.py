# SPDX-License-Identifier: Apache-2.0
"""Questions about data and models.

`theory/` makes papers' theorems runnable: `impossibility` (Locatello et al. 2019),
`beta_vae_theorems`, `pinwheel_decomposition`, `digits_sparsity` and `aggregate_posterior` (Mathieu
et al. 2019), `pca_alignment`, `optimal_rotation` and `local_axes` (Rolinek et al. 2019).
`distances/` holds perceived distances (Michlo et al. 2023), `perturbation/` how much each factor
changes an image and what a perturbed dataset does to that (Zietlow et al. 2021). `log_likelihood`
is of trained members, by importance sampling (Burda et al. 2016).
"""
