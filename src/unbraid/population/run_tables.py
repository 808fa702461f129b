# SPDX-License-Identifier: Apache-2.0
"""The tables of a run: how each member's training ended, and its curves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from unbraid.population.checkpoint import Curves
from unbraid.population.kind import quantities
from unbraid.population.member import Member
from unbraid.population.plan import Plan

if TYPE_CHECKING:
    import pandas as pd


def run_tables(
    plan: Plan, trained: Iterable[tuple[tuple[Member, ...], Curves]]
) -> dict[str, pd.DataFrame]:
    """members.parquet and history.parquet of chunks with their curves."""
    import pandas as pd

    rows, curves = {}, {}
    # The usual prior stands in the table only beside others.
    left_out = {"objective"} | (
        {"prior"} if all(member.prior == "isotropic" for member in plan.members) else set()
    )
    for chunk, state in trained:
        for position, member in enumerate(chunk):
            names = quantities(member)
            diverged = int(state.diverged_at[position])
            done = diverged if diverged >= 0 else state.step
            rows[member.id] = (
                {
                    "member": member.id,
                    "label": member.label(),
                    "objective": member.objective,
                    "seed": member.seed,
                }
                | {
                    name: _cell(value)
                    for name, value in member.settings().items()
                    if name not in left_out
                }
                | {f"{name}_given": value for name, value in member.given.items()}
                | {
                    "status": (
                        "diverged"
                        if diverged >= 0
                        else "trained"
                        if done >= plan.steps
                        else "unfinished"
                    ),
                    "steps": done,
                }
            )
            table = pd.DataFrame(
                state.history[position, :, : len(names)].numpy(), columns=list(names)
            )
            table.insert(0, "step", (table.index + 1) * plan.log_every)
            table.insert(0, "member", member.id)
            curves[member.id] = table[table["step"] <= done]
    members = _one_type_per_column(pd.DataFrame([rows[id] for id in sorted(rows)]))
    history = pd.concat([curves[id] for id in sorted(curves)], ignore_index=True)
    return {"members.parquet": members, "history.parquet": history}


def _cell(value: Any) -> Any:
    """A hyperparameter as a table holds it: numbers that belong together as text."""
    return "/".join(f"{one:g}" for one in value) if isinstance(value, (list, tuple)) else value


def _one_type_per_column(table: pd.DataFrame) -> pd.DataFrame:
    """*table* with columns of numbers and words (a number, a schedule) as words throughout."""
    for name in table.columns:
        kinds = {
            type(value)
            for value in table[name]
            if not (isinstance(value, float) and value != value)
        }
        if str in kinds and len(kinds) > 1:
            # A number to its last digit, as a column of numbers would hold it.
            table[name] = [
                value if isinstance(value, str) or value != value else str(value).removesuffix(".0")
                for value in table[name]
            ]
    return table
