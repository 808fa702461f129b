# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures: where the real images and golden numbers lie, and the command line called in
this process.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import settings

from unbraid.commands import command_line as cli

# A check of a commit must not depend on luck; elsewhere every run looks at other examples.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI") == "true":
    settings.load_profile("ci")


if "PYTEST_XDIST_WORKER" in os.environ:
    # The workers are the parallelism: with threads of their own they take turns on the cores and
    # all take longer.
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real images and reference numbers beside the checkout; missing it fails in CI
    and skips elsewhere.
    """
    beside = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("UNBRAID_SHARED", beside))
    if not folder.is_dir():
        message = f"the shared folder with real images is missing: {folder} (set UNBRAID_SHARED)"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return folder


class Answer(NamedTuple):
    code: int
    out: str
    err: str


Unbraid = Callable[..., Answer]


@pytest.fixture
def unbraid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Unbraid:
    """Calls the command line in this process."""

    def call(*words: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["unbraid", *words])
        before = signal.getsignal(signal.SIGTERM)
        try:
            with pytest.raises(SystemExit) as caught:
                cli.main()
        finally:
            signal.signal(signal.SIGTERM, before)
        return Answer(int(caught.value.code or 0), *capsys.readouterr())

    return call


Pace = Callable[[Callable[[], Any]], float]


@pytest.fixture
def pace() -> Pace:
    """CPU time of a task in units of a fixed piece of work done beside it, the least of three
    tries.

    Machines differ by a factor of four and busy ones by more: a bound in seconds fails by luck, a
    ratio does not.
    """
    array = np.random.default_rng(0).random(400_000)

    def reference_work() -> None:
        for _ in range(8):
            np.sort(np.sqrt(array) * 3 + array)
            sum(number * number for number in range(40_000))

    def seconds(task: Callable[[], Any]) -> float:
        start = time.process_time()
        task()
        return time.process_time() - start

    def units(task: Callable[[], Any]) -> float:
        ratios = []
        for _ in range(3):
            before, taken = seconds(reference_work), seconds(task)
            ratios.append(taken / max(before, seconds(reference_work)))
        return min(ratios)

    return units
