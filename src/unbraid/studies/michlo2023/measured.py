# SPDX-License-Identifier: Apache-2.0
"""Perceived distances of data sets: `distances.csv`, which comes with the study, or measured now.

    python -m unbraid.studies.michlo2023.measured      # measures all of it again, minutes

A row is a factor of some data under a loss, or its random pairs: mean, deviation and error of
distances, and their rank correlation with the truth, as `unbraid distances` measures them.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from unbraid.core.errors import InputError
from unbraid.core.files import write_bytes
from unbraid.core.spelling import as_source
from unbraid.data import load

if TYPE_CHECKING:
    import pandas as pd

PLACE = Path(__file__).with_name("distances.csv")
PAIRS, QUICK_PAIRS = 50_000, 5_000
"""Of each factor at least, in the file (as in the paper) and where it is measured now."""
MSE, BLUR = "mse", "mse+box31"
XYSQUARES = tuple(f"xysquares:spacing={spacing}" for spacing in range(1, 9))
OURS = (
    *("dsprites", "color_dsprites", "noisy_dsprites", "shapes3d_drawn"),
    *XYSQUARES,
    *("xcolumns", "xyobject", "sprites"),
)
"""Data that need no file."""
MEASURED = (*((data, MSE) for data in OURS), (XYSQUARES[-1], BLUR), ("dsprites", BLUR))
"""What the file has."""


@cache
def distances_of(data: str, loss: str = MSE) -> pd.DataFrame | None:
    """The rows of the data spelled *data* under *loss*, by factor; None where they are not in the
    file and cannot be loaded here, or have no factors to compare.
    """
    every = _file()
    own = every.loc[(every["data"] == data) & (every["loss"] == loss)]
    try:
        found = measure(data, loss, QUICK_PAIRS) if own.empty else own
    except InputError:
        return None
    return found.set_index("factor")


@cache
def _file() -> pd.DataFrame:
    import pandas as pd

    return pd.read_csv(PLACE)


def measure(data: str, loss: str, pairs: int) -> pd.DataFrame:
    """The rows of *data*, random pairs first."""
    import pandas as pd

    from unbraid.analysis.distances.perceived_distances import perceived_distances

    name, options = as_source(data)
    found = perceived_distances(load(name, **options), loss, pairs=pairs)
    weights, order = (
        one.loc[one["level"] == "inputs"].drop(columns=["level", "measure"])
        for one in (found.importance_table(), found.order_table())
    )
    both = weights.drop(columns="traversals").merge(order, on="factor", how="left")
    return pd.DataFrame({"data": data, "loss": loss, **both})


def write(place: Path = PLACE) -> None:
    """Measure all that the file has, and write it."""
    import pandas as pd

    rows = pd.concat([measure(data, loss, PAIRS) for data, loss in MEASURED])
    write_bytes(place, rows.to_csv(index=False).encode())


if __name__ == "__main__":
    write()
