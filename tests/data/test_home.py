# SPDX-License-Identifier: Apache-2.0
"""Where datasets are kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from unbraid.core.errors import InputError
from unbraid.data.home import data_home


def test_the_environment_decides(tmp_path, monkeypatch):
    monkeypatch.setenv("UNBRAID_DATA", str(tmp_path / "here"))
    assert data_home() == tmp_path / "here"
    monkeypatch.delenv("UNBRAID_DATA")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert data_home() == tmp_path / "unbraid"
    monkeypatch.setenv("XDG_DATA_HOME", "")
    assert data_home() == Path.home() / ".local" / "share" / "unbraid"


def test_a_home_of_nobody_is_refused(monkeypatch):
    monkeypatch.setenv("UNBRAID_DATA", "~nobody-of-this-name/data")
    with pytest.raises(
        InputError,
        match="UNBRAID_DATA must be a folder for datasets; got '~nobody-of-this-name/data'",
    ):
        data_home()
