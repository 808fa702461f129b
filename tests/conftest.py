# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures: where the real pictures and golden numbers lie."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real pictures and reference numbers beside the checkout; missing it fails in CI and skips elsewhere."""
    beside = Path(__file__).resolve().parents[2] / "shared"
    folder = Path(os.environ.get("UNBRAID_SHARED", beside))
    if not folder.is_dir():
        message = f"the shared folder with real pictures is missing: {folder} (set UNBRAID_SHARED)"
        if os.environ.get("CI") == "true":
            pytest.fail(message)
        pytest.skip(message)
    return folder
