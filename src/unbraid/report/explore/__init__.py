# SPDX-License-Identifier: Apache-2.0
"""The page on which one moves through trained models and their latents."""
