# SPDX-License-Identifier: Apache-2.0
"""The processes that score: they end with the one that started them, however that ends."""

from __future__ import annotations

import os
import signal
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_LOOK_SECONDS = 0.5
"""How often a worker looks whether its parent is still there."""


@contextmanager
def worker_processes() -> Iterator[None]:
    """Let the processes that joblib starts in this block follow this one.

    What ends it, such as a full disk, is told by whoever meets it: joblib's advice to whoever wrote
    the loop, that tasks were cancelled, is not for the person who reads that.
    """
    from joblib import parallel_config

    follows = parallel_config("loky", initializer=follow, initargs=(os.getpid(),))
    with follows, warnings.catch_warnings():
        warnings.filterwarnings("ignore", r"\d+ tasks (which|have)", UserWarning)
        yield


def follow(parent: int) -> None:
    """End this process when *parent* has ended; Ctrl-C is left to that.

    A worker whose parent was killed would stay for minutes, with its memory and standard output.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch, args=(parent,), name="unbraid-follow", daemon=True).start()


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_SECONDS)
    os._exit(1)
