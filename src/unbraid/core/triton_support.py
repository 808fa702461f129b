# SPDX-License-Identifier: Apache-2.0
"""Whether Triton's kernels can run on a device: installed, CUDA, a working driver.

The driver needs a C compiler.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import threading
import warnings

import torch


def usable(device: torch.device) -> bool:
    """Whether kernels can be launched on *device*."""
    return device.type == "cuda" and torch.version.hip is None and _installed_and_working()


@functools.cache
def _installed_and_working() -> bool:
    if importlib.util.find_spec("triton") is None:
        return False
    try:
        from triton.runtime import driver

        driver.active.get_current_target()
    except Exception as error:  # whatever is wrong, the plain path remains
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        warnings.warn(
            f"Triton is installed but does not work here, so training is much slower: {reason}",
            stacklevel=2,
        )
        return False
    threading.Thread(target=_hash_the_compiler, daemon=True).start()
    return True


def _hash_the_compiler() -> None:
    """Have Triton read and hash itself while data is made: it does so before its first kernel."""
    with contextlib.suppress(Exception):
        from triton.runtime.cache import triton_key

        triton_key()
