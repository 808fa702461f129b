# SPDX-License-Identifier: Apache-2.0
"""Contracts that objectives, priors, networks, metrics and datasets must keep, plug-ins too."""
