# SPDX-License-Identifier: Apache-2.0
"""Where datasets that are not drawn are kept: `$UNBRAID_DATA`, else the user's folder for data."""

from __future__ import annotations

import os
from pathlib import Path

from unbraid.core.errors import invalid


def data_home() -> Path:
    """The folder of datasets; it need not exist yet."""
    given = os.environ.get("UNBRAID_DATA")
    place = (
        Path(given)
        if given
        else Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "unbraid"
    )
    try:
        return place.expanduser().absolute()
    except RuntimeError as error:  # a home that cannot be found out
        raise invalid(
            "UNBRAID_DATA", "must be a folder for datasets", str(place), str(error)
        ) from error
