# SPDX-License-Identifier: Apache-2.0
"""When kernels are used, and what is said where Triton is there and does not work."""

from __future__ import annotations

import importlib.util

import pytest
import torch

from unbraid.core import triton_support

CUDA = torch.device("cuda")


@pytest.fixture(autouse=True)
def asked_afresh():
    triton_support._installed_and_working.cache_clear()
    yield
    triton_support._installed_and_working.cache_clear()


def test_only_on_cuda():
    assert not triton_support.usable(torch.device("cpu"))


def test_without_triton_nothing_is_said(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not triton_support.usable(CUDA)


def test_a_triton_that_does_not_work_is_told_once_and_not_used(monkeypatch: pytest.MonkeyPatch):
    driver = pytest.importorskip("triton.runtime").driver

    class Broken:
        def get_current_target(self) -> None:
            raise RuntimeError(
                "Failed to find C compiler. Please specify via CC environment variable.\nmore"
            )

    monkeypatch.setattr(driver, "_active", Broken())
    message = (
        "Triton is installed but does not work here, so training is much slower: Failed to find C"
        " compiler."
    )
    with pytest.warns(UserWarning, match=f"^{message}"):
        assert not triton_support.usable(CUDA)
    assert not triton_support.usable(CUDA)  # a second warning would be an error


def test_a_triton_that_works_is_used(monkeypatch: pytest.MonkeyPatch):
    driver = pytest.importorskip("triton.runtime").driver

    class Working:
        def get_current_target(self) -> str:
            return "cuda 90"

    monkeypatch.setattr(driver, "_active", Working())
    assert triton_support.usable(CUDA)
