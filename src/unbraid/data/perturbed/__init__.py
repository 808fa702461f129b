# SPDX-License-Identifier: Apache-2.0
"""Data changed by at most ε in every value (Zietlow et al. 2021)."""
