# SPDX-License-Identifier: Apache-2.0
"""Kernels on machines without a GPU: in Triton's interpreter, or, without Triton, not collected."""

from __future__ import annotations

import importlib.util
import os

import torch

if not torch.cuda.is_available():
    # Triton asks once, when it is imported: without a GPU its kernels run in its interpreter, on
    # CPU tensors.
    os.environ["TRITON_INTERPRET"] = "1"
if importlib.util.find_spec("triton") is None:
    collect_ignore_glob = [
        "src/unbraid/networks/kernels/*",
        "src/unbraid/*_kernel.py",
        "src/unbraid/*/*_kernel.py",
    ]
