# SPDX-License-Identifier: Apache-2.0
"""How factors change images, and what perturbed data does to that (Zietlow et al. 2021)."""
