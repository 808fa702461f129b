# SPDX-License-Identifier: Apache-2.0
"""Writes the explorer as one file that can be mailed, or as a folder for any web host."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

from unbraid.core.errors import InputError, Shown, invalid
from unbraid.core.failpoints import failpoint
from unbraid.core.files import (
    is_unfinished,
    make_folder,
    remove,
    remove_halves,
    remove_halves_in,
    write_bytes,
)
from unbraid.core.folders import check_writable
from unbraid.report.explore.exploration import Exploration
from unbraid.report.explore.page import model_script
from unbraid.report.explore.population import Population, ranked

IN_A_FILE, BYTES_IN_A_FILE = 12, 60_000_000
"""Of the models of one file that nobody chose: so many, or fewer large ones."""
PAGE, MODELS = "index.html", "models"
_MARK = b'<p class="kicker">Unbraid explore'


def is_page(out: Path) -> bool:
    """Whether *out* is a file to be written, and no folder."""
    return out.suffix.lower() in (".html", ".htm")


def check_place(out: Path) -> None:
    """Refuse to write over what is no explorer, or where nothing can be written."""
    if is_page(out):
        check_writable("out", out.parent)
        _check_ours(out)
    else:
        check_writable("out", out)
        _check_our_folder(out)


def write_file(
    path: Path,
    exploration: Exploration,
    keys: Sequence[str] | None = None,
    progress: Callable[[int], None] = lambda models: None,
) -> Path:
    """Write the explorer with the models of *keys* in it as one HTML file, and return its path.

    Without *keys* it has the best, as many as a mail can carry.
    """
    check_place(path)
    models: dict[str, bytes] = {}
    for key in best_models(exploration.population, IN_A_FILE) if keys is None else keys:
        content = exploration.model(key)
        size = sum(map(len, models.values())) + len(content)
        if keys is None and models and size > BYTES_IN_A_FILE:
            break
        models[key] = content
        progress(1)
    return _write(path, exploration.single(models))


def write_folder(
    folder: Path,
    exploration: Exploration,
    keys: Sequence[str],
    progress: Callable[[int], None] = lambda models: None,
) -> Path:
    """Write the explorer as a folder with a script for each model of *keys*; returns the page."""
    check_place(folder)
    page = folder / PAGE
    make_folder(folder / MODELS)
    remove_halves_in(folder)
    places = {row.key: place for place, row in enumerate(exploration.population.rows)}
    written = {folder / MODELS / f"{places[key]:05d}.js": key for key in keys}
    for path, key in written.items():
        write_bytes(path, model_script(key, exploration.model(key)).encode())
        progress(1)
    _write(page, exploration.folder(keys))
    for path in (folder / MODELS).glob("*.js"):  # of an explorer that had more models
        if path not in written:
            remove(path)
    return page


def best_models(population: Population, most: int) -> list[str]:
    """The rows to take where not all fit."""
    rows = [row for row in population.rows if row.key in population.opened]
    return [row.key for row in ranked(population.columns, rows)[:most]]


def chosen_models(population: Population, wanted: Sequence[object]) -> list[str]:
    """The rows that are asked for by their keys; one that cannot be opened is refused."""
    keys = [str(one) for one in wanted]
    if not keys:
        raise invalid("members", "needs at least one model", Shown("none"))
    for key in keys:
        if key not in population.opened:
            known = list(population.opened)
            told = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
            raise invalid("members", f"must be models whose weights are kept: {told}", key)
    return list(dict.fromkeys(keys))


def _check_ours(page: Path) -> None:
    """Refuse to write over what is no explorer."""
    if page.exists() and not (page.is_file() and _MARK in page.read_bytes()):
        raise _other(page)


def _check_our_folder(folder: Path) -> None:
    """The same of a folder; one whose writing was interrupted has models, and no page yet."""
    if not folder.is_dir():
        return
    _check_ours(folder / PAGE)
    names = {one.name for one in folder.iterdir() if not is_unfinished(one)}
    models = [one.name for one in folder.glob(f"{MODELS}/*") if not is_unfinished(one)]
    begun = names <= {MODELS} and all(re.fullmatch(r"\d{5}\.js", name) for name in models)
    if PAGE not in names and not begun:
        raise _other(folder)


def _other(place: Path) -> InputError:
    rule = "must be new, or an explorer that was written before"
    return invalid("out", rule, Shown(str(place)), "Choose another name.")


def _write(path: Path, page: str) -> Path:
    remove_halves(path)
    write_bytes(path, page.encode())
    failpoint("page.written")
    return path
