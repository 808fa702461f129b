# SPDX-License-Identifier: Apache-2.0
"""Triton kernels for layers with a member axis, wrapped as torch operators with derivatives."""
