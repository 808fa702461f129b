# SPDX-License-Identifier: Apache-2.0
"""Results of a study with models that never were: most claims true, and most of them false."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
import pytest

from unbraid.studies import STUDIES
from unbraid.studies.results import Results
from unbraid.studies.verdicts import Judged, judge

from ...studies.locatello2019_world import write_world


@dataclass(frozen=True)
class World:
    """Tables of the study in a folder, and what they say."""

    results: Results
    table: pd.DataFrame
    judged: tuple[Judged, ...]


def make_world(folder, true: bool) -> World:
    results = Results(STUDIES.load("locatello2019"), "gpu", folder)
    write_world(results, true)
    table = results.table()
    return World(results, table, judge(results, table))


@pytest.fixture(scope="session")
def true_world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("true"), True)


@pytest.fixture(scope="session")
def false_world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("false"), False)
