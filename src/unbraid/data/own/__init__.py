# SPDX-License-Identifier: Apache-2.0
"""The user's own images: folders, arrays and their labels."""
