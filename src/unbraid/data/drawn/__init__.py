# SPDX-License-Identifier: Apache-2.0
"""Datasets drawn from code: nothing needs a download."""
