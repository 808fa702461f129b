# SPDX-License-Identifier: Apache-2.0
"""`src/unbraid/commands/names.py`, by which type checkers know every objective and prior."""

from __future__ import annotations

from unbraid.objectives import OBJECTIVES
from unbraid.objectives.priors import PRIORS

HEAD = '''# SPDX-License-Identifier: Apache-2.0
"""Objectives and priors as names of the package, for type checkers; made by `make docs`."""

'''


def names() -> str:
    """The file as it should be."""
    homes = sorted(
        home.split(":") for table in (OBJECTIVES, PRIORS) for home in table.built_in.values()
    )
    return HEAD + "".join(f"from {module} import {name} as {name}\n" for module, name in homes)
