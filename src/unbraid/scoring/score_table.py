# SPDX-License-Identifier: Apache-2.0
"""The table of a run's scores on disk: which of it count, and how rows are added."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from unbraid.core.errors import DamagedFileError
from unbraid.core.failpoints import failpoint
from unbraid.core.files import remove_halves
from unbraid.core.folders import check_still_there
from unbraid.core.store import read_about_table, read_table, write_table
from unbraid.metrics import METRICS
from unbraid.population.run_folder import RunFolder
from unbraid.scoring.metric_inputs import COLUMNS
from unbraid.scoring.metric_names import base, needs, revision

if TYPE_CHECKING:
    import pandas as pd

SCORES = "scores.parquet"
_KINDS = {"member": "i", "metric": "O", "representation": "O", "quantity": "O", "value": "f"}
"""What the table has at least, with the kinds of NumPy."""
_WRITING_SHARE = 20
"""Between two writings of the table lies so many times what one takes: a kill loses little."""


def stored_scores(run: RunFolder) -> pd.DataFrame:
    """Every score on disk, with the columns of `COLUMNS`, but those of an earlier revision."""
    import pandas as pd

    path, about = run.path / SCORES, run.about_table(SCORES)
    try:
        found = read_about_table(path).get("plan")
        fewer = run.had(0, found)  # before the run was given more seeds
        table = read_table(path, {**about, "plan": found} if fewer else about, _KINDS)
        if not set(table["member"]) <= {member.id for member in run.plan.members}:
            raise DamagedFileError(f"{path} has scores of members that the run does not have.")
    except FileNotFoundError:
        return pd.DataFrame({name: [] for name in COLUMNS}).astype({"member": int})
    except DamagedFileError as error:
        run.check_unchanged()  # or they may be those of more seeds
        raise DamagedFileError(f"{error} Remove it and score again; the codes are kept.") from error
    if fewer:  # models that are compared have others to be compared with now
        together = {name for name in set(table["metric"]) if base(name) in METRICS}
        together = {name for name in together if needs(name) == "population"}
        table = table[~table["metric"].isin(list(together))]
    if "revision" not in table:
        table["revision"] = 1  # as all metrics were before they had revisions
    current = {name: revision(name) for name in set(table["metric"]) if base(name) in METRICS}
    pairs = zip(table["metric"], table["revision"], strict=True)
    return table.loc[
        [made_by == current.get(name, made_by) for name, made_by in pairs]
    ].reset_index(drop=True)


class ScoreTable:
    """The scores on disk, with rows added as they come; written seldom enough to cost little."""

    def __init__(self, run: RunFolder, stored: pd.DataFrame) -> None:
        self.path, self.table = run.path / SCORES, stored
        self._about = run.about_table(SCORES)
        self._rows: list[tuple[object, ...]] = []
        self._next_write = 0.0

    def __enter__(self) -> ScoreTable:
        remove_halves(self.path)
        return self

    def __exit__(self, *error: object) -> None:
        """Whatever ends the scoring, what is computed is kept."""
        self._write()

    def add(self, rows: list[tuple[object, ...]]) -> None:
        """Take more rows, those of the same quantity taking the place of earlier ones."""
        self._rows += rows
        if time.monotonic() >= self._next_write:
            self._write()

    def _write(self) -> None:
        import pandas as pd

        if not self._rows:
            return
        began = time.monotonic()
        new = pd.DataFrame(self._rows, columns=COLUMNS)
        table = pd.concat([self.table, new], ignore_index=True) if len(self.table) else new
        # Models that are compared get their scores together, those of them included that had
        # theirs.
        self.table = table.drop_duplicates(COLUMNS[:4], keep="last", ignore_index=True)
        check_still_there(self.path.parent)
        write_table(self.path, self.table, self._about)
        failpoint("scores.stored")
        self._rows = []
        self._next_write = time.monotonic() + _WRITING_SHARE * (time.monotonic() - began)
