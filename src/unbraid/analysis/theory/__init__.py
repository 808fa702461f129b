# SPDX-License-Identifier: Apache-2.0
"""Theorems of the field, computed and compared with what small models do."""
