# SPDX-License-Identifier: Apache-2.0
"""Threads of parallel tests, and kernels on machines without a GPU."""

from __future__ import annotations

import importlib.util
import os

# What tests compute is small, and workers of pytest-xdist are the parallelism: on a busy machine
# threads that wait for each other take ten times as long as one. Libraries ask once, when they are
# imported.
os.environ.setdefault("OMP_NUM_THREADS", "1")

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
