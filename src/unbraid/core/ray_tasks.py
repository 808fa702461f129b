# SPDX-License-Identifier: Apache-2.0
"""Functions as tasks of a Ray cluster, one a GPU or one a CPU core; all state is on a shared disk.

Ray only says where a function runs. A task whose process or node dies is run again, up to three
times, and goes on from what is on the disk; an error is no reason to try again and is told. Ray's
statistics and its upload of the working directory are switched off.
"""

from __future__ import annotations

import importlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from unbraid.core.errors import UnbraidError, invalid

_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # which packs the working directory and ships it
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "1",  # a task without a GPU sees none
}
_RETRIES = 3
_LOOK_SECONDS = 2.0
_SAVE_SECONDS = 120.0
"""As long a task has to write a checkpoint after Ctrl-C."""


@dataclass(frozen=True)
class Task:
    """A function of an installed module, which every node finds by its name."""

    name: str
    function: Callable[..., Any]
    given: tuple[Any, ...]
    gpus: int = 0
    then: Callable[[Any], Task | None] = field(default=lambda result: None)
    """What comes after it, given what it returned."""


def ray_module() -> ModuleType:
    """Ray, or what to type where it is not installed."""
    for name, value in _QUIET.items():
        os.environ.setdefault(name, value)
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        remedy = "Install it on every node: pip install 'unbraid[ray]'"
        raise invalid("on", "needs Ray, which is not installed", "ray", remedy) from error


@contextmanager
def cluster(address: str | None) -> Iterator[ModuleType]:
    """Ray, connected to the cluster at *address*, by default to one of this machine alone, which
    ends with the block.
    """
    ray = ray_module()
    begun = not ray.is_initialized()
    if begun:
        own: dict[str, Any] = {} if address else {"include_dashboard": False}
        try:
            with _own_signals():
                ray.init(address=address, log_to_driver=False, logging_level="error", **own)
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            rule, remedy = "must be that of a Ray cluster that runs", "Begin one: ray start --head"
            raise invalid("address", rule, address or "local", f"{error}. {remedy}") from error
    try:
        yield ray
    finally:
        if begun:
            ray.shutdown()


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep what a signal does here: Ray would end the process without a word on SIGTERM."""
    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    yield
    if threading.current_thread() is threading.main_thread():
        for one, handler in before.items():
            signal.signal(one, handler)


def gpus_of(ray: ModuleType) -> int:
    """How many GPUs the cluster has."""
    return int(ray.cluster_resources().get("GPU", 0))


def run_tasks(ray: ModuleType, tasks: Iterable[Task], look: Callable[[], object]) -> None:
    """Run *tasks*, and what comes after them; *look* is called now and then.

    Errors are raised once all others are done. After Ctrl-C each task is interrupted as if it had
    been typed there, and waited for, so that it can save.
    """
    waiting: dict[Any, Task] = {}
    errors: list[str] = []

    def begin(task: Task) -> None:
        options: dict[str, Any] = {"num_cpus": 1, "max_retries": _RETRIES, "name": task.name}
        options |= {"num_gpus": task.gpus} if task.gpus else {}
        remote = ray.remote(_told).options(retry_exceptions=False, **options)
        waiting[remote.remote(task.function, task.given)] = task

    try:
        for task in tasks:
            begin(task)
        while waiting:
            done, _ = ray.wait(list(waiting), num_returns=1, timeout=_LOOK_SECONDS)
            for reference in done:
                task = waiting.pop(reference)
                result, error = _result(ray, reference)
                if error:
                    errors.append(f"{task.name}: {error}")
                elif (after := task.then(result)) is not None:
                    begin(after)
            look()
    except KeyboardInterrupt:
        for reference in waiting:
            ray.cancel(reference)
        if waiting:
            ray.wait(list(waiting), num_returns=len(waiting), timeout=_SAVE_SECONDS)
        raise
    if errors:
        raise UnbraidError("\n".join(errors))


def _told(function: Callable[..., Any], given: tuple[Any, ...]) -> tuple[Any, str]:
    """What *function* returns, and what went wrong as text: errors of ours need not be known to
    whoever waits.
    """
    try:
        return function(*given), ""
    except UnbraidError as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        return None, str(error)


def _result(ray: ModuleType, reference: Any) -> tuple[Any, str]:
    try:
        return ray.get(reference)
    except ray.exceptions.WorkerCrashedError:
        return None, f"its process died {_RETRIES + 1} times."
    except ray.exceptions.RayError as error:
        lines = [line for line in str(error).splitlines() if line.strip()]
        return None, lines[-1].strip() if lines else type(error).__name__
