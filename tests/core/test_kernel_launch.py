# SPDX-License-Identifier: Apache-2.0
"""Launches and rehearsals, with a kernel that writes down what is asked of it."""

from __future__ import annotations

import _thread
import subprocess
import sys
import threading

import pytest
import torch

from unbraid.core.kernel_launch import compiling_in_parallel, launch_kernel

CPU = torch.device("cpu")


class Recorder:
    """A kernel that records its launches and compilations."""

    def __init__(self) -> None:
        self.launched: list[tuple] = []
        self.compiled: list[tuple] = []

    def __getitem__(self, grid):
        return lambda *arguments, **options: self.launched.append((grid, arguments, options))

    def warmup(self, *arguments, grid, **options):
        self.compiled.append((grid, arguments, options))


def test_a_launch_hands_everything_on():
    kernel, tensor = Recorder(), torch.zeros(3)
    assert launch_kernel(kernel, (2, 5), tensor, 7, ROWS=16)
    assert kernel.launched == [((2, 5), (tensor, 7), {"ROWS": 16})]
    assert kernel.compiled == []


def test_a_rehearsal_compiles_and_launches_nothing():
    kernel, tensor = Recorder(), torch.zeros(3)
    with compiling_in_parallel(CPU):
        assert not launch_kernel(kernel, (2,), tensor, 7, 0.5, ROWS=16)
    assert kernel.launched == []
    [(grid, (like, number, real), options)] = kernel.compiled
    assert (grid, number, real, options) == ((2,), 7, 0.5, {"ROWS": 16})
    assert like.dtype == tensor.dtype
    assert like.data_ptr() % 16 == tensor.data_ptr() % 16
    assert launch_kernel(kernel, (2,), tensor), "the rehearsal is over"


def test_other_threads_take_no_part_in_a_rehearsal_but_the_librarys_do():
    kernel, tensor, ran, done = Recorder(), torch.zeros(3), [], threading.Event()

    def launch() -> None:
        ran.append(launch_kernel(kernel, (2,), tensor))

    with compiling_in_parallel(CPU):
        thread = threading.Thread(target=launch)
        thread.start()
        thread.join()
        assert ran == [True]
        # A thread that `threading` did not start, as those on which derivatives run.
        _thread.start_new_thread(lambda: (launch(), done.set()), ())
        assert done.wait(10)
    assert ran == [True, False]
    assert len(kernel.launched) == 1


def test_what_is_compiled_alike_is_compiled_once():
    kernel, tensor = Recorder(), torch.zeros(64)
    with compiling_in_parallel(CPU):
        for like, number in ((tensor, 32), (tensor[16:], 48), (tensor[4:], 320)):
            launch_kernel(kernel, (1,), like, number, ROWS=16)
        others = (
            (tensor, 33, 16),
            (tensor, 1, 16),
            (tensor, 2**40, 16),
            (tensor, 32, 32),
            (tensor[1:], 32, 16),
            (tensor.double(), 32, 16),
        )
        for like, number, rows in others * 2:
            launch_kernel(kernel, (1,), like, number, ROWS=rows)
    assert len(kernel.compiled) == 1 + len(others)


def test_what_cannot_be_compiled_is_left_to_the_launch():
    class Broken(Recorder):
        def warmup(self, *arguments, grid, **options):
            raise RuntimeError("no such instruction")

    kernel = Broken()
    with compiling_in_parallel(CPU):
        assert not launch_kernel(kernel, (1,), torch.zeros(3))
    assert kernel.launched == []
    assert launch_kernel(kernel, (1,), torch.zeros(3)), "which is where its error comes out"
    assert len(kernel.launched) == 1


def test_an_error_in_a_rehearsal_ends_it():
    kernel = Recorder()
    with pytest.raises(KeyError, match="mine"), compiling_in_parallel(CPU):
        raise KeyError("mine")
    assert launch_kernel(kernel, (1,), torch.zeros(3))


def test_a_rehearsal_within_another_is_part_of_it():
    kernel = Recorder()
    with compiling_in_parallel(CPU):
        with compiling_in_parallel(CPU):
            launch_kernel(kernel, (1,), torch.zeros(3))
        assert not launch_kernel(kernel, (1,), torch.zeros(3)), "the outer one goes on"
    assert len(kernel.compiled) == 1


STEP = """
import os, sys
os.environ["TRITON_INTERPRET"] = "1"
import torch
from unbraid.networks.kernels import operators
x = torch.rand(1, 1, 4, 4, 16, requires_grad=True)
weight, bias = torch.rand(1, 16, 4, 4, 16, requires_grad=True), torch.rand(1, 16)
operators.conv(x, weight, weight.detach(), bias, False, False).sum().backward()
print([name for name in ("torch._dynamo", "torch._inductor") if name in sys.modules])
"""


def test_layers_do_not_import_the_compiler_of_torch():
    """It takes seconds of a start and does nothing for us."""
    pytest.importorskip("triton")
    done = subprocess.run(
        [sys.executable, "-c", STEP], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stdout.strip() == "[]"
