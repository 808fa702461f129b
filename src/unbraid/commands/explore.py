# SPDX-License-Identifier: Apache-2.0
"""`explore`: a page on which one moves through a population and its latents by hand."""

from __future__ import annotations

import os
import sys
import threading
import webbrowser
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from unbraid.commands import options as declared
from unbraid.commands.verb import Option, command
from unbraid.core.checks import read_whole
from unbraid.core.errors import InputError, Problem, UnbraidError, invalid
from unbraid.core.folders import check_not_above, given_path, kind_of, meant
from unbraid.core.progress import Progress
from unbraid.core.words import count

if TYPE_CHECKING:
    from unbraid.data.dataset import Dataset
    from unbraid.report.explore.exploration import Exploration
    from unbraid.report.explore.population import Population
    from unbraid.report.explore.server import Server


@dataclass
class Explorer:
    """A page of a population: served until `close` is called, or written to a file."""

    url: str = ""
    """Where it is served; empty where it was written."""
    page: Path | None = None
    """Where it was written."""
    _server: Server | None = field(default=None, repr=False)
    _tables: TablesOfDiscovery | None = field(default=None, repr=False)

    def wait(self) -> None:
        """Serve until Ctrl-C."""
        try:
            threading.Event().wait()
        except KeyboardInterrupt:
            pass
        finally:
            self.close()

    def close(self) -> None:
        """Serve no more; names that were given are kept."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._server = None
        if self._tables is not None:
            self._tables.finish()

    def summary(self) -> str:
        """Where the page is."""
        return f"Open in a browser: {self.page}" if self.page else "The explorer has ended."


@command
def explore(
    folder: Annotated[
        str | Path,
        Option(
            "A folder made by `unbraid train`, `pbt`, `rpu` or `discover`, or the name of a study."
        ),
    ],
    *,
    out: Annotated[
        str | Path | None,
        Option(
            "Write it instead of serving it: to an .html file with its models in it, to be mailed;"
            " or to a folder, for a disk or any web host."
        ),
    ] = None,
    members: Annotated[
        Sequence[int | str] | None,
        Option(
            "Which models are written, by their numbers, with commas; by default all into a"
            " folder, and the best 12 into a file.",
            kind="NAMES",
        ),
    ] = None,
    port: Annotated[int, Option("Where it is served on 127.0.0.1; 0 for any that is free.")] = 0,
    browser: Annotated[bool, Option("Open it in a browser, where there is a screen.")] = True,
    scale: Annotated[str, Option("Of a study: whose tables, small, gpu or paper.")] = "gpu",
    results: Annotated[
        str | Path | None, Option("Of a study: folder of its tables; by default its own.")
    ] = None,
    data: declared.MovedData = None,
    quiet: declared.Quiet = False,
    wait: Annotated[bool, Option("Serve until Ctrl-C; else return at once.", cli=False)] = True,
) -> Explorer:
    """Look into a population: every model a dot, and each opens with its latents under sliders.

    The models run in the page itself. It is served to this machine alone, or written to be kept.
    """
    from unbraid.report.explore.exploration import Exploration

    read_whole("port", port, 0, 65_535)
    if members is not None and out is None:
        remedy = "Give the file or folder, too: {out=first.html}."
        raise invalid("members", "are chosen where the page is written", members, remedy)
    place = None if out is None else _place(out)
    population = _population(folder, data, scale, results)
    keys = None if members is None else _chosen(population, members)
    exploration = Exploration(population)
    if place is not None:
        return Explorer(page=_written(place, exploration, keys, quiet))
    explorer = _served(Path(folder), exploration, port)
    if not quiet:
        end = "   (Ctrl-C ends it)" if wait else ""
        print(f"Open in a browser: {explorer.url}{end}", file=sys.stderr, flush=True)
    if browser and wait and _has_screen():
        webbrowser.open(explorer.url)
    if wait:
        explorer.wait()
    return explorer


def _population(
    folder: str | Path,
    data: declared.MovedData,
    scale: str,
    results: str | Path | None,
) -> Population:
    from unbraid.report.explore.sources import of_results, open_population
    from unbraid.studies import STUDIES

    path = given_path("folder", folder)
    if not path.exists() and str(folder) in STUDIES:
        from unbraid.studies.results import Results

        return of_results(Results(STUDIES.load(str(folder)), scale, results))
    check_not_above(path, "explore")
    if not path.is_dir() or kind_of(path) is None:
        remedy = f"{'' if path.exists() else meant(path)} Studies: {', '.join(STUDIES)}.".lstrip()
        rule = "must be a folder made by `unbraid train`, `pbt`, `rpu` or `discover`, or a study"
        raise InputError(Problem("folder", rule, str(folder), remedy))
    return open_population(path, _dataset(path, data))


def _dataset(path: Path, data: declared.MovedData) -> Dataset | None:
    """The data where it was moved; else what the folder began with is found by itself."""
    from unbraid.data.dataset import Dataset
    from unbraid.population.run_folder import RunFolder

    if data is None or isinstance(data, Dataset):
        return data
    if kind_of(path) == "train":
        return declared.moved_data(data, RunFolder.open(path).plan)
    return declared.open_data(data, None)


def _place(out: str | Path) -> Path:
    from unbraid.report.explore.context import check_place

    place = given_path("out", out)
    check_place(place)
    return place


def _chosen(population: Population, members: Sequence[int | str] | str) -> list[str]:
    from unbraid.core.spelling import split_list
    from unbraid.report.explore.context import chosen_models

    wanted = split_list(members) if isinstance(members, str) else members
    return chosen_models(population, wanted)


def _written(out: Path, exploration: Exploration, keys: list[str] | None, quiet: bool) -> Path:
    from unbraid.report.explore.context import is_page, write_file, write_folder

    there = list(exploration.population.opened)
    if is_page(out):
        kept: list[int] = []
        page = write_file(out, exploration, keys, kept.append)
        if keys is None and len(kept) < len(there) and not quiet:
            size = page.stat().st_size / 1e6
            print(
                f"{len(kept)} of {count(len(there), 'model')} are kept with this page ({size:.0f}"
                " MB). --members chooses others; a folder as --out holds all.",
                file=sys.stderr,
                flush=True,
            )
        return page
    keys = there if keys is None else keys
    with Progress("writing", "models", len(keys), quiet) as progress:
        return write_folder(out, exploration, keys, lambda one: progress.advance(one, False))


def _served(folder: Path, exploration: Exploration, port: int) -> Explorer:
    from unbraid.report.explore.server import Server

    population = exploration.population
    found = population.kind == "discover"
    tables = TablesOfDiscovery(folder, population.dataset) if found else None
    try:
        server = Server(exploration, port, tables.renamed if tables else lambda key: None)
    except OSError as error:
        rule = f"must be one that can be used ({error.strerror})"
        raise invalid("port", rule, port, "Give another, or 0 for any that is free.") from error
    server.begin()
    return Explorer(url=server.url, _server=server, _tables=tables)


class TablesOfDiscovery:
    """Writes the table of codes and the page of a discovery again when a latent has been named."""

    def __init__(self, folder: Path, dataset: Dataset | None) -> None:
        self.folder, self.dataset = folder, dataset
        self._turn, self._named = threading.Lock(), False
        self._writing: list[threading.Thread] = []

    def renamed(self, key: str) -> None:
        """A latent of the model *key* has another name."""
        self._named = True
        thread = threading.Thread(target=self._write, name="unbraid-names")
        self._writing.append(thread)
        thread.start()

    def finish(self) -> None:
        """Wait until what was named is written."""
        for thread in self._writing:
            thread.join()

    def _write(self) -> None:
        from unbraid.commands.discover import resume_folder

        with self._turn:
            if not self._named:  # by whoever came before
                return
            self._named = False
            try:
                resume_folder(self.folder, self.dataset, "cpu", True)
            except UnbraidError as error:
                print(f"unbraid: {error}", file=sys.stderr, flush=True)


def _has_screen() -> bool:
    """Whether somebody sits before this machine, so that a browser can be shown."""
    shown = os.name == "nt" or sys.platform == "darwin" or bool(os.environ.get("DISPLAY"))
    return shown and sys.stdout.isatty()


def shown(verb: str, made: Explorer, given: dict[str, object]) -> str:
    """Where the page is, or that it has ended."""
    return made.summary()
