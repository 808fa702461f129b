# SPDX-License-Identifier: Apache-2.0
"""`src/unbraid/commands/names.py`, by which type checkers know every objective and the like."""

from __future__ import annotations

from unbraid.objectives import OBJECTIVES
from unbraid.objectives.priors import PRIORS
from unbraid.objectives.supervision import SUPERVISIONS

HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""Objectives, priors and supervision as names of `unbraid`, for type checkers: `make docs`."""

'''


def names() -> str:
    """The file as it should be."""
    tables = (OBJECTIVES, PRIORS, SUPERVISIONS)
    homes = sorted(home.split(":") for table in tables for home in table.built_in.values())
    return HEAD + "".join(f"from {module} import {name} as {name}\n" for module, name in homes)
