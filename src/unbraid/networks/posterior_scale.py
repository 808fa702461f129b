# SPDX-License-Identifier: Apache-2.0
"""Log-variances of encoders whose second head means something else (Mathieu et al. 2019).

There a posterior's standard deviation is a positive function of the head plus 1e-6, which keeps it
off zero.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

LEAST = 1e-6
"""What the standard deviation cannot fall below."""


def logvar_of_softplus(head: Tensor) -> Tensor:
    """Log-variance where the standard deviation is softplus(head) + 1e-6."""
    return 2.0 * torch.log(F.softplus(head) + LEAST)


def logvar_of_floored(head: Tensor) -> Tensor:
    """Log-variance where the standard deviation is exp(head / 2) + 1e-6.

    The sum is taken in logarithms, without overflow.
    """
    return 2.0 * torch.logaddexp(0.5 * head, torch.full_like(head, math.log(LEAST)))
