# SPDX-License-Identifier: Apache-2.0
"""What the pilot says, by the rules of `settings.py`, and whether they have been followed.

    python -m unbraid.studies.zietlow2021.pilot [RESULTS]

The three pools are run one after the other: each is trained with what the one before it has chosen.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from unbraid.studies.zietlow2021 import settings
from unbraid.studies.zietlow2021.extra_factor import preferring
from unbraid.studies.zietlow2021.pools import PILOT_EPSILON, PILOT_RATE, PILOT_STRENGTHS_POOL

if TYPE_CHECKING:
    import pandas as pd

RATE_WITHIN, STEPS_WITHIN = 0.03, 0.02
"""Of rules 1 and 2: by so much a mean MIG may be lower than the best, and than that at the end."""
HALF, MOST = 0.5, 0.5 + 1e-9
ENOUGH_UNITS = settings.SHAPES.latents - 1


def learning_rate(table: pd.DataFrame) -> float | None:
    """Rule 1; None before its pool is trained."""
    rows = _of(table, PILOT_RATE)
    end = rows.loc[rows["steps"] == settings.PILOT_STAGES[-1]]
    means = _over_methods(end, "learning_rate")
    if not {*settings.PILOT_RATES} <= {*means}:
        return None
    return max(one for one, mean in means.items() if mean >= max(means.values()) - RATE_WITHIN)


def steps(table: pd.DataFrame) -> float | None:
    """Rule 2, at the rate of rule 1; None before its pool is trained."""
    rate, rows = learning_rate(table), _of(table, PILOT_RATE)
    if rate is None:
        return None
    means = _over_methods(rows.loc[rows["learning_rate"] == rate], "steps")
    end = means[settings.PILOT_STAGES[-1]]
    return min(one for one, mean in means.items() if mean >= end - STEPS_WITHIN)


def shapes_strength(table: pd.DataFrame, method: str) -> float | None:
    """Rule 3 for one method; None before its pool is trained."""
    rows = _of(table, PILOT_STRENGTHS_POOL, whole=False)
    rows = rows.loc[rows["objective"] == method]
    if not {*settings.PILOT_STRENGTHS} <= {*rows["strength"]}:
        return None
    enough = rows.assign(enough=rows["active_units"] >= ENOUGH_UNITS)
    return _first(enough, "strength", "enough", HALF, settings.PILOT_STRENGTHS[::-1])


def shapes_epsilon(table: pd.DataFrame) -> float | None:
    """Rule 4; None before its pool is trained."""
    rows = preferring(table, PILOT_EPSILON)
    if rows is None or not {*settings.PILOT_EPSILONS} <= {*rows["epsilon"]}:
        return None
    return _first(rows, "epsilon", "preferred", MOST, settings.PILOT_EPSILONS)


def _first(
    rows: pd.DataFrame, column: str, holds: str, share: float, grid: Sequence[float]
) -> float:
    """The first of *grid* at which what *holds* does for that *share* of models or more, else the
    last.
    """
    for one in grid:
        if rows.loc[rows[column] == one, holds].to_numpy(dtype=float).mean() >= share:
            return one
    return grid[-1]


def _of(table: pd.DataFrame, pool: str, *, whole: bool = True) -> pd.DataFrame:
    """Models of a *pool*, without those that diverged where the *whole* training is asked for."""
    rows = table.loc[table["pool"] == pool]
    return rows.loc[rows["status"] == "trained"] if whole else rows


def _over_methods(rows: pd.DataFrame, column: str) -> Mapping[float, float]:
    """Mean MIG over seeds, then over methods, by *column*; of what all methods have."""
    if rows.empty:
        return {}
    means = rows.pivot_table(index=column, columns="objective", values="mig").dropna()
    if means.shape[1] < len(settings.PILOT_METHODS):
        return {}
    return dict(zip(means.index.tolist(), means.to_numpy().mean(axis=1).tolist(), strict=True))


RULES: Mapping[str, tuple[str, Callable[[pd.DataFrame], float | None], float]] = {
    "LEARNING_RATE": (PILOT_RATE, learning_rate, settings.LEARNING_RATE),
    "STEPS": (PILOT_RATE, steps, settings.STEPS),
    "SHAPES_BETA": (
        PILOT_STRENGTHS_POOL,
        lambda table: shapes_strength(table, "beta_vae"),
        settings.SHAPES_BETA,
    ),
    "SHAPES_TC_BETA": (
        PILOT_STRENGTHS_POOL,
        lambda table: shapes_strength(table, "beta_tcvae"),
        settings.SHAPES_TC_BETA,
    ),
    "SHAPES_EPSILON": (PILOT_EPSILON, shapes_epsilon, settings.SHAPES_EPSILON),
}
"""By the constant of `settings.py`: the pool that decides it, its rule, and what it is now."""


def told(table: pd.DataFrame) -> str:
    """A line for each constant, and what to do next."""
    lines = []
    for name, (pool, rule, now) in RULES.items():
        found = rule(table)
        if found is None:
            run = f"unbraid study run zietlow2021 --scale gpu --pool {pool}"
            return "\n".join([*lines, f"{name}: not known yet. Next: {run}"])
        lines.append(f"{name}: {found:g}" + ("" if found == now else f"; settings.py has {now:g}"))
        last = name == [one for one, (own, *_) in RULES.items() if own == pool][-1]
        if last and any("settings.py" in line for line in lines):
            return "\n".join([*lines, "Write this into settings.py before going on."])
    return "\n".join([*lines, "settings.py has what the pilot chose."])


def main() -> None:
    """Print it for the tables in a folder, by default the study's own."""
    from unbraid.studies.results import Results
    from unbraid.studies.zietlow2021 import STUDY

    folder = sys.argv[1] if len(sys.argv) > 1 else None
    print(told(Results(STUDY, "gpu", folder).table()))


if __name__ == "__main__":
    main()
