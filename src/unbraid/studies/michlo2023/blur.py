# SPDX-License-Identifier: Apache-2.0
"""What the overlap loss does for models of XYSquares (figure 11)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pandas as pd

from unbraid.studies.finding import Exhibit, Finding
from unbraid.studies.intervals import leave_out_seeds
from unbraid.studies.michlo2023.models import COLLAPSED, NAMES, by, models
from unbraid.studies.michlo2023.pools import BLUR
from unbraid.studies.michlo2023.published import BY_LOSS

if TYPE_CHECKING:
    from collections.abc import Iterator

SCORES = ("mig", "dci")


def overlap_loss_disentangles(table: pd.DataFrame) -> Finding | None:
    """MIC-F11: scores with squared error and with the overlap loss."""
    found = models(table, [BLUR], (*SCORES, "active_units"))
    if found is None or {*zip(found.rows["kind"], found.rows["loss"], strict=True)} != {*BY_LOSS}:
        return None
    paper = {
        f"{score.upper()} of {NAMES[kind]}, {loss}": value
        for (kind, loss), values in BY_LOSS.items()
        for score, value in zip(SCORES, values, strict=True)
    }
    shown = found.rows.assign(
        x=[
            f"{NAMES[kind]}, {loss}"
            for kind, loss in zip(found.rows["kind"], found.rows["loss"], strict=True)
        ],
        y=found.rows["mig"],
        group=[f"β {beta:g}" for beta in found.rows["beta"]],
    )
    return Finding(
        leave_out_seeds(found.rows, _statistics, paper=paper, within=(-1.0, 1.0)),
        Exhibit(
            "violins",
            pd.DataFrame(shown, columns=["x", "y", "group"]),
            "objective and loss",
            "MIG",
            "Every run on XYSquares at spacing 8, with squared error and with the overlap loss.",
        ),
        found.remark,
    )


def _statistics(rows: pd.DataFrame) -> Mapping[str, float]:
    return dict(_told(rows))


def _told(rows: pd.DataFrame) -> Iterator[tuple[str, float]]:
    """Means over both β, and by β; what the overlap loss adds; how many models collapsed."""
    for score in SCORES:
        values = by(rows, ["kind", "loss"], score)
        for kind, name in NAMES.items():
            of = f"{score.upper()} of {name}"
            with_blur, without = (float(values[kind, one].mean()) for one in ("blur", "mse"))
            yield f"{of}, blur less mse", with_blur - without
            yield f"{of}, blur", with_blur
            yield f"{of}, mse", without
    settings = ["kind", "loss", "beta"]
    for (kind, loss, beta), gaps in sorted(by(rows, settings, "mig").items()):
        yield f"MIG of {NAMES[kind]}, {loss}, β {beta:g}", float(gaps.mean())
    for (kind, loss, beta), active in sorted(by(rows, settings, "active_units").items()):
        collapsed = float((active < COLLAPSED).mean())
        yield f"collapsed share of {NAMES[kind]}, {loss}, β {beta:g}", collapsed
