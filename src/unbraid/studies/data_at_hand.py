# SPDX-License-Identifier: Apache-2.0
"""The data of slices: loaded once while slices in a row share them, or made first."""

from __future__ import annotations

from pathlib import Path

from unbraid.core.errors import DamagedFileError, InputError
from unbraid.core.files import make_folder
from unbraid.core.store import digest
from unbraid.data import load
from unbraid.data.dataset import Dataset
from unbraid.studies.pool import Slice
from unbraid.studies.results import Results

MADE = ".data"
"""Where made data lie, beside the slices that are being made."""


class DataAtHand:
    """Data of the slices of *results*; what must be made first is made under *work*."""

    def __init__(self, results: Results, work: Path) -> None:
        self._results, self._work = results, work
        self._plain: tuple[str, Dataset] | None = None
        self._made: tuple[str, Dataset] | None = None
        self._missing: dict[str, str] = {}

    def load(self, one: Slice) -> Dataset:
        """The data of a slice."""
        base = self.base(one)
        if one.made is None:
            return base
        after = one.made.after
        left = self._results.left(after) if after else None
        key = digest([base.fingerprint(), one.made.definition(), left and left[1]])
        if self._made is None or self._made[0] != key:
            folder = self._work / MADE / f"{one.data}-{key[:12]}"
            make_folder(folder)  # another process may have made the same files there
            self._made = key, one.made.make(base, left, folder)
        return self._made[1]

    def base(self, one: Slice) -> Dataset:
        """The data that those of a slice are made from, of the same size and shape."""
        data, options = one.plan["data"], one.plan.get("data_options") or {}
        key = repr((data, options))
        if self._plain is None or self._plain[0] != key:
            self._plain = key, load(data, **options)
        return self._plain[1]

    def missing(self, one: Slice) -> str:
        """Why the data of a slice cannot be loaded here; empty where they can."""
        key = repr((one.plan["data"], one.plan.get("data_options")))
        if key not in self._missing:
            try:
                self.base(one)
                self._missing[key] = ""
            except InputError as error:
                self._missing[key] = str(error)
        return self._missing[key]

    def waits_for(self, one: Slice) -> str:
        """What the data of a slice wait for, in words; empty where they can be made."""
        after = one.made.after if one.made else ""
        if not after:
            return ""
        pool, source = self._results.part(after)
        if not self._results.done(pool, source):
            return f"needs what {after} leaves; make that slice first."
        try:
            self._results.left(after)
        except (InputError, DamagedFileError) as error:
            return str(error)
        return ""
