# SPDX-License-Identifier: Apache-2.0
"""A toy study in a folder of its own, registered for the tests of studies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from unbraid.studies import STUDIES
from unbraid.studies.results import Results
from unbraid.studies.study import Study

from .toy_study import make_study


@pytest.fixture
def toy(tmp_path: Path) -> Iterator[Study]:
    """The toy study, as `unbraid study run toy` finds it."""
    study = make_study(tmp_path / "toy")
    STUDIES.register("toy", study)
    yield study
    STUDIES._registered.pop("toy")
    STUDIES.__dict__.pop("_all", None)


@pytest.fixture
def results(toy: Study) -> Results:
    """Its results at the small scale."""
    return Results(toy, "small")
