# SPDX-License-Identifier: Apache-2.0
"""What trained members say about the data."""
