# SPDX-License-Identifier: Apache-2.0
"""Contract checks that any objective, metric or dataset must pass; shipped for packages that add
their own.
"""
