# SPDX-License-Identifier: Apache-2.0
"""`report`: the page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unbraid.commands import options as declared
from unbraid.commands.options import command
from unbraid.commands.train import open_run


@command
def report(folder: declared.RunFolderPath, *, data: declared.MovedData = None) -> Path:
    """Write the run's report, one HTML file that opens offline; returns its path."""
    return open_run(folder, data=data).report()


def shown(verb: str, page: Path, given: dict[str, Any]) -> str:
    """Where the page is."""
    return f"Open in a browser: {page}"
