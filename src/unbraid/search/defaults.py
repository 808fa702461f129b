# SPDX-License-Identifier: Apache-2.0
"""What a search does where nothing else is asked for: read by `pbt` and `rpu`, and by their plans.

Apart from the plans, so that a command line can show them without importing torch.
"""

OBJECTIVE = "beta_tcvae"
SCORE = "udr"
RATES = "1e-4..3e-3"
"""Two fifths of the published range lie above 0.01, where such networks usually diverge."""
BATCHES = (32, 64, 128, 256)
SHARE = 0.2
LEAF_RUNS = 3
LEVELS = 3
"""As in the authors' sample script."""
LEAST_EPOCH_IMAGES = 10_000
"""An epoch is a pass over the data, and no shorter than this: as in the authors' leaf-runs."""
