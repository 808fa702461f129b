# SPDX-License-Identifier: Apache-2.0
"""Names that people gave to latents of a run's members: names.json, bound to the run's plan.

Pages and tables of codes show them beside a latent's number. They say what a person saw, and no
score knows of them.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from unbraid.core.errors import DamagedFileError, InputError, invalid
from unbraid.core.files import only_one
from unbraid.core.folders import check_still_there
from unbraid.core.records import from_record, read_object
from unbraid.core.store import write_json
from unbraid.population.run_folder import RunFolder

NAMES = "names.json"
LOCK = ".names.lock"
"""Held while names.json is written: naming need not wait for a training."""
LONGEST = 60
_PATIENCE = 2.0
"""Seconds to wait for another process that names latents."""
_TURN = threading.Lock()
_REMEDY = "Remove it, and give the names again: unbraid explore."


@dataclass(frozen=True)
class _Record:
    """What names.json says."""

    plan: str
    names: dict[str, dict[str, str]]


def latent_names(run: RunFolder) -> dict[int, dict[int, str]]:
    """The names of latents by member and latent; empty where nobody gave any."""
    path = run.path / NAMES
    try:
        record = read_object(
            path, "a list of names", lambda one: from_record(_Record, one), _REMEDY
        )
    except (FileNotFoundError, NotADirectoryError):
        return {}
    if record.plan not in run.digests:
        raise DamagedFileError(f"{path} has the names of another run. {_REMEDY}")
    try:
        names = {
            int(member): {int(latent): text for latent, text in own.items()}
            for member, own in record.names.items()
        }
        for member, own in names.items():
            for latent in own:
                _check_place(run, member, latent)
    except ValueError as error:  # InputError is one
        raise DamagedFileError(
            f"{path} has names of latents that the run does not have. {_REMEDY}"
        ) from error
    return names


def name_latent(run: RunFolder, member: int, latent: int, name: str) -> dict[int, dict[int, str]]:
    """Keep *name* for a latent, or forget its name where it is empty; all names are returned."""
    _check_place(run, member, latent)
    text = checked_name(name)
    check_still_there(run.path)
    with _alone(run.path):
        names = latent_names(run)
        own = {**names.get(member, {}), latent: text}
        names[member] = {place: words for place, words in sorted(own.items()) if words}
        _write(run.path / NAMES, run.plan.digest(), names)
    return {number: own for number, own in names.items() if own}


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Hold names.json, waiting a moment for others who name latents just now."""
    with _TURN, ExitStack() as held:
        until = time.monotonic() + _PATIENCE
        while True:
            try:
                held.enter_context(only_one(folder, LOCK))
                break
            except InputError:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)
        yield


def checked_name(name: str) -> str:
    """A name without blanks around it and on one line; one that cannot be shown is refused."""
    if not isinstance(name, str):
        raise invalid("name", "must be text", name)
    text = " ".join(name.split())
    plain = text.replace("\u200c", "").replace("\u200d", "")  # joiners of letters and signs
    if len(text) > LONGEST or not plain.isprintable():
        raise invalid("name", f"must be at most {LONGEST} letters that can be printed", name)
    return text


def _check_place(run: RunFolder, member: int, latent: int) -> None:
    if not 0 <= member < len(run.plan.members):
        raise invalid("member", f"must be one of 0..{len(run.plan.members) - 1}", member)
    if not 0 <= latent < run.plan.latents:
        raise invalid("latent", f"must be one of 0..{run.plan.latents - 1}", latent)


def _write(path: Path, plan: str, names: Mapping[int, Mapping[int, str]]) -> None:
    record = {
        str(member): {str(latent): text for latent, text in own.items()}
        for member, own in sorted(names.items())
        if own
    }
    write_json(path, {"plan": plan, "names": record})
