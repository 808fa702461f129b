# SPDX-License-Identifier: Apache-2.0
"""How far apart the values of each factor look to a loss or a model (Michlo et al. 2023)."""
