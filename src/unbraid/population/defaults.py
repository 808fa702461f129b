# SPDX-License-Identifier: Apache-2.0
"""What a run does where nothing else is asked for: read by `train` and by `make_plan`.

Apart from the plan, so that a command line can show them without importing torch.
"""

OBJECTIVE = "beta_vae"
STEPS = 30_000
BATCH_SIZE = 64
LEARNING_RATE = 1e-4
LATENTS = 10
NETWORK = "conv_burgess"
PRIOR = "isotropic"
CONVENTION = "sum"
CODE_SAMPLES = 15_000
CHECKPOINT_SECONDS = 30.0
