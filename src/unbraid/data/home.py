# SPDX-License-Identifier: Apache-2.0
"""Where datasets that are not drawn are kept: `$UNBRAID_DATA`, else the user's folder for data."""

from __future__ import annotations

import os
from pathlib import Path


def data_home() -> Path:
    """The folder of datasets; it need not exist yet."""
    given = os.environ.get("UNBRAID_DATA")
    if given:
        return Path(given).expanduser().absolute()
    share = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    return Path(share).expanduser().absolute() / "unbraid"
