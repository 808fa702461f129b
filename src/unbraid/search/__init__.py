# SPDX-License-Identifier: Apache-2.0
"""The search for good models: population-based training by any score, recursion on surrogate
labels, discovery without labels.

This sits behind `scoring`, whose metrics score the models while they train, and before everything
that reports.
"""
