# SPDX-License-Identifier: Apache-2.0
"""Searches for good models: pbt (by any score), rpu (recursive), discover, reduce.

This sits behind `scoring`, whose metrics score the models while they train, and before everything
that reports.
"""
