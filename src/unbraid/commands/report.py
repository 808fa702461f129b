# SPDX-License-Identifier: Apache-2.0
"""`report`: the page of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from unbraid.commands import options as declared
from unbraid.commands.run import open_run
from unbraid.commands.verb import Option, command
from unbraid.core.folders import check_not_above, given_path


@command
def report(
    folder: declared.RunFolderPath,
    *,
    data: declared.MovedData = None,
    out: Annotated[
        str | Path | None,
        Option("An .html file, or a folder for it; by default report.html in the run."),
    ] = None,
) -> Path:
    """Write the run's report, one HTML file that opens offline; returns its path."""
    check_not_above(given_path("folder", folder), "report")
    return open_run(folder, data=data).report(out)


def shown(verb: str, page: Path, given: dict[str, Any]) -> str:
    """Where the page is."""
    return f"Open in a browser: {page}"
