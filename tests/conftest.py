# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures: real images, the command line in this process, problems, relative speed."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import settings

from unbraid.commands import command_line as cli
from unbraid.core.errors import InputError
from unbraid.scoring import metric_inputs

# A check of a commit must not depend on luck; elsewhere every run looks at other examples.
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI") == "true":
    settings.load_profile("ci")


@pytest.fixture(scope="session", autouse=True)
def scores_in_this_process() -> None:
    """Starting processes takes longer than the few scores of a test; one test asks for them."""
    metric_inputs.WORTH_PROCESSES = 10**6


@pytest.fixture(scope="session", autouse=True)
def ctrl_c_ends_processes() -> None:
    """A shell has what it runs in the background ignore Ctrl-C, and so would what tests start."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session", autouse=True)
def nobody_waits_for_the_disk() -> None:
    """Nobody cuts the power: a handle must be open, no more. What is synced, tests/faults sees."""
    os.fsync = os.fstat  # type: ignore[assignment]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real images and reference numbers beside the checkout; CI must have it."""
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


@pytest.fixture(autouse=True)
def _signals_as_they_were() -> Iterator[None]:
    """The command line sets what signals do, at its end to nothing, which processes that later
    tests start would inherit.
    """
    names = (name for name in ("SIGTERM", "SIGHUP", "SIGUSR1") if hasattr(signal, name))
    before = {one: signal.getsignal(one) for one in (getattr(signal, name) for name in names)}
    yield
    for one, handler in before.items():
        if signal.getsignal(one) is not handler:
            signal.signal(one, handler)


@pytest.fixture
def unbraid(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Unbraid:
    """Calls the command line in this process."""

    def call(*words: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["unbraid", *words])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        return Answer(int(caught.value.code or 0), *capsys.readouterr())

    return call


Refused = Callable[..., list[tuple[str, str, str]]]


@pytest.fixture(scope="session")
def refused() -> Refused:
    """Calls a function that must raise `InputError`: name, rule and value of each problem."""

    def call(
        function: Callable[..., Any], *given: Any, **options: Any
    ) -> list[tuple[str, str, str]]:
        with pytest.raises(InputError) as caught:
            function(*given, **options)
        return [(one.name, one.rule, str(one.value)) for one in caught.value.problems]

    return call


Pace = Callable[..., float]


@pytest.fixture
def pace() -> Pace:
    """CPU time of a task in units of a fixed piece of work beside it, the least of three tries, or
    the first that is below *enough*.

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

    def units(task: Callable[[], Any], enough: float = 0.0) -> float:
        ratios = [float("inf")]
        while len(ratios) <= 3 and min(ratios) >= enough:
            before, taken = seconds(reference_work), seconds(task)
            ratios.append(taken / max(before, seconds(reference_work)))
        return min(ratios)

    return units
