# SPDX-License-Identifier: Apache-2.0
"""What is taken out of the package to see whether the harness notices."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Mutation:
    """A guarantee that is taken out, and which check must notice it where."""

    apply: Callable[[], object]
    check: str
    scenario: str
    fault: tuple[str, int, str] | None = None
    """None where an undisturbed run shows it."""


def _no_file_sync() -> None:
    from unbraid.core import files

    files._sync = lambda path: None


def _no_folder_sync() -> None:
    from unbraid.core import files

    files.sync_folder = lambda folder: None


def _rename_before_sync() -> None:
    from unbraid.core import files

    def put_in_place(beside: Path, path: Path) -> None:
        os.replace(beside, path)
        files._sync(path)
        files.sync_folder(path.parent)

    files.put_in_place = put_in_place


def _written_at_its_place() -> None:
    from unbraid.core import files, store

    def write_bytes(path: Path, content: bytes) -> None:
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        files.sync_folder(path.parent)

    store.write_bytes = write_bytes


def _no_lock(*modules: str) -> Callable[[], None]:
    @contextlib.contextmanager
    def only_one(folder: Path, *given: Any, **options: Any) -> Iterator[None]:
        yield

    def apply() -> None:
        from importlib import import_module

        for module in modules:
            import_module(module).only_one = only_one

    return apply


def _damage_is_an_error() -> None:
    from unbraid.population.checkpoint import Checkpoints

    def load(self: Any, device: Any, warn: Any, width: Any = None) -> Any:
        files = self.files()
        return self._read(*files[0], device, width) if files else None

    Checkpoints.load = load


def _damaged_state_is_an_error() -> None:
    from unbraid.core import store
    from unbraid.search.pbt.state import StateFiles

    load = StateFiles.load

    def strict(self: Any, begin: Any, warn: Any) -> Any:
        for _, path in self.files()[:1]:
            store.read_tensors(path)
        return load(self, begin, warn)

    StateFiles.load = strict


def _leftovers_stay() -> None:
    from unbraid.population.run_folder import RunFolder

    RunFolder.remove_halves = lambda self: None


def _no_chunk_lease() -> None:
    from unbraid.core import lease, lease_holder
    from unbraid.population import chunk_queue

    def take(place: Path, covers: Any, watch: Any, **options: Any) -> Any:
        one = lease.Lease(place, lease_holder.new_name(), 60.0, lambda path: False, False, {})
        one.check = lambda: None  # pyright: ignore
        return one

    setattr(chunk_queue.leases, "take", take)  # noqa: B010


def _halves_of_the_dead_stay() -> None:
    from unbraid.core import lease

    lease._names = lambda place: []


def _from_the_start() -> None:
    from unbraid.population.checkpoint import Checkpoints

    Checkpoints.load = lambda self, device, warn, width=None: None


def _search_from_the_start() -> None:
    from unbraid.search.pbt.state import StateFiles

    StateFiles.load = lambda self, begin, warn: None


def _old_goes_first() -> None:
    from unbraid.core.files import remove
    from unbraid.population.checkpoint import Checkpoints

    save = Checkpoints.save_results

    def save_results(self: Any, tensors: Any, step: int) -> None:
        for _, path in self.files():
            remove(path)
        save(self, tensors, step)

    Checkpoints.save_results = save_results


def _old_array_goes_first() -> None:
    from unbraid.core import store
    from unbraid.core.files import remove
    from unbraid.data.official import add

    put = store.write_json

    def write_json(path: Path, record: Any) -> None:
        for old in path.parent.glob("*.npy"):
            if old.name not in str(record):
                remove(old)
        put(path, record)

    setattr(add.store, "write_json", write_json)  # noqa: B010


def _no_note() -> None:
    from unbraid.commands import discover

    @contextlib.contextmanager
    def before_record(*given: Any) -> Iterator[None]:
        yield

    discover.before_record = before_record


def _errors_pass() -> None:
    from unbraid.core import errors, files

    class Never(OSError):
        pass

    files.UnbraidError = errors.UnbraidError
    files.put.__globals__["OSError"] = Never


MUTATIONS: dict[str, Mutation] = {
    "the sync of a file removed": Mutation(_no_file_sync, "bytes", "train"),
    "the sync of a folder removed": Mutation(_no_folder_sync, "name", "train"),
    "the rename before the sync": Mutation(_rename_before_sync, "bytes", "train"),
    "a file written at its place": Mutation(_written_at_its_place, "beside", "train"),
    "the lock of training forgotten": Mutation(
        _no_lock("unbraid.population.train"), "lock", "train"
    ),
    "the lease of a chunk forgotten": Mutation(_no_chunk_lease, "lock", "train"),
    "halves of a dead holder kept": Mutation(_halves_of_the_dead_stay, "leftovers", "take_over"),
    "the lock of new folders forgotten": Mutation(
        _no_lock("unbraid.population.new_folder"), "lock", "train"
    ),
    "the lock of scores forgotten": Mutation(
        _no_lock("unbraid.scoring.run_scores"), "lock", "score"
    ),
    "the lock of a search forgotten": Mutation(
        _no_lock("unbraid.search.pbt.search"), "lock", "pbt"
    ),
    "the lock of a slice forgotten": Mutation(
        _no_lock("unbraid.studies.run_slices"), "lock", "study"
    ),
    "the lock of a discovery forgotten": Mutation(
        _no_lock("unbraid.commands.discover"), "lock", "discover", ("record.written", 1, "kill")
    ),
    "a checkpoint removed before the next": Mutation(_old_goes_first, "newest", "train"),
    "an array removed before the record of the next": Mutation(
        _old_array_goes_first, "newest", "add_again"
    ),
    "a damaged checkpoint not stepped round": Mutation(
        _damage_is_an_error, "goes on", "train", ("chunk.saved", 1, "damage")
    ),
    "a damaged state not stepped round": Mutation(
        _damaged_state_is_an_error, "goes on", "pbt", ("state.saved", 1, "damage")
    ),
    "leftovers not removed": Mutation(
        _leftovers_stay, "leftovers", "train", ("half.written", 6, "kill")
    ),
    "training from the start": Mutation(
        _from_the_start, "again", "train", ("chunk.saved", 1, "kill")
    ),
    "a search from the start": Mutation(
        _search_from_the_start, "again", "pbt", ("state.saved", 1, "kill")
    ),
    "no note of what is written before the record": Mutation(
        _no_note, "goes on", "discover", ("images.stored", 1, "kill")
    ),
    "errors of the disk not told": Mutation(
        _errors_pass, "half", "train", ("half.written", 1, "EIO")
    ),
}
