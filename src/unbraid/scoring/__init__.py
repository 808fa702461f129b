# SPDX-License-Identifier: Apache-2.0
"""From codes to tables of scores: of every stored member of a run, or of anybody's arrays.

This sits between `metrics`, which know arrays only, and `studies`, which compare members.
"""
