# SPDX-License-Identifier: Apache-2.0
"""`resume`: go on with a folder of any kind; what each kind is resumed by stands here."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unbraid.commands import options as declared
from unbraid.commands.run import stopped
from unbraid.commands.verb import Option, command
from unbraid.core.errors import invalid
from unbraid.core.folders import check_kind

if TYPE_CHECKING:
    from unbraid.commands.discover import DiscoverResult
    from unbraid.commands.pbt import PbtResult
    from unbraid.commands.rpu import RpuResult
    from unbraid.commands.run import Run


@command
def resume(
    folder: Annotated[
        str | Path, Option("A folder made by `unbraid train`, `pbt`, `rpu` or `discover`.")
    ],
    *,
    steps: Annotated[
        int | None,
        Option("More steps for a run than its plan had, if it was trained with --keep-optimiser."),
    ] = None,
    seeds: Annotated[
        int | None,
        Option("More seeds of every setting of a run; models that it has keep files and scores."),
    ] = None,
    data: declared.MovedData = None,
    device: declared.Devices = "auto",
    on: declared.On = "here",
    address: declared.Address = None,
    quiet: declared.Quiet = False,
) -> Run | PbtResult | RpuResult | DiscoverResult:
    """Go on with a run, search or discovery that was stopped, killed or damaged.

    What is done is not done again; a finished one is opened as it is, trained on with --steps, or
    given more models with --seeds.
    """
    kind = check_kind(folder, "resume")
    given = {"steps": steps, "seeds": seeds, "on": None if on == "here" else on, "address": address}
    more: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    for name, value in more.items():
        if kind != "train":
            remedy = "Leave it out: what is left to do is in the folder."
            raise invalid(name, "can be given for a run of `unbraid train` alone", value, remedy)
    try:
        opener = importlib.import_module(f"unbraid.commands.{kind}")
        return opener.resume_folder(Path(folder), data, device, quiet, **more)
    except KeyboardInterrupt:  # before training starts, or after it
        raise stopped(Path(folder)) from None
