# SPDX-License-Identifier: Apache-2.0
"""The generated parts of docs/search.md: what population-based training, UDR, the recursion and `discover` were measured to do."""

from __future__ import annotations

from typing import Any

import numpy as np


def supervised(record: dict[str, Any]) -> str:
    """Population-based training against random search."""
    lines = ["| search | seed | MIG | DCI | winner's learning rate, β, batch | seconds |", "|---|---|---|---|---|---|"]
    for row in sorted(record["supervised"], key=lambda row: (row["kind"], row["seed"])):
        values = row["winner"]["values"]
        told = f"{values['learning_rate']:.2g}, {values['beta']:.3g}, {values['batch_size']:g}"
        lines.append(f"| {_kind(row)} | {row['seed']} | {row['mig']:.3f} | {row['dci']:.3f} | {told} | {row['seconds']:.0f} |")
    for kind in ("pbt", "random"):
        gaps = [row["mig"] for row in record["supervised"] if row["kind"] == kind]
        name = _kind({"kind": kind})
        lines.append(f"| **{name}, mean** | | **{np.mean(gaps):.3f}** ± {np.std(gaps, ddof=1):.3f} | | | |")
    first = record["supervised"][0]
    about = (
        f"{first['population']} individuals, {first['epochs']} epochs of {first['epoch_pictures']:,} pictures each, "
        f"{first['pictures']:,} pictures of dSprites (every second x and y), {first['device']}; ± is the standard deviation over "
        "seeds. The first search of a session compiles kernels."
    )
    return "\n".join([*lines, "", about])


def recursion(record: dict[str, Any]) -> str:
    """Stages of the recursions."""
    lines = [
        "| seed | stage | pictures | score | MIG | active latents: the factor that explains most of their variance | x, y left |"
    ]
    lines.append("|---|---|---|---|---|---|---|")
    order = {"root": 0, "leaf": 1, "final": 2}
    for row in sorted(record["stages"], key=lambda row: (row["seed"], order[row["stage"].partition("-")[0]], row["stage"])):
        told = ", ".join(f"{max(one, key=one.get)} {max(one.values()):.2f}" for one in row["explained"].values())
        left = row.get("variance_left")
        rest = f"{100 * left['x']:.2f}%, {100 * left['y']:.2f}%" if left else ""
        scores = f"{row['winner']['score']:.3f} | {row['mig']:.3f}"
        lines.append(f"| {row['seed']} | {row['stage']} | {row['pictures']:,} | {scores} | {told} | {rest} |")
    return "\n".join(lines)


def udr_speed(record: dict[str, Any]) -> str:
    """How long the agreement of all groups takes."""
    lines = ["| device | method | all groups at once | group by group | peer in a loop |", "|---|---|---|---|---|"]
    for device, about in record.items():
        for row in about["rows"]:
            cells = [
                f"{row[name]:.2f} s" if row.get(name) is not None else "" for name in ("all_groups_s", "group_by_group_s", "loop_s")
            ]
            lines.append(f"| {device} | {row['what']} | {' | '.join(cells)} |")
    about = "; ".join(f"{device}: {one['machine']}" for device, one in record.items())
    size = next(iter(record.values()))["population"]
    return "\n".join([*lines, "", f"{size}; {about}; the peer is scikit-learn's Lasso or SciPy; `python benchmarks/udr_batch.py`."])


def discoveries(record: dict[str, Any]) -> str:
    """What `discover` found in drawn pictures whose factors it was not shown."""
    lines = ["| pictures | found, with the true factor it follows (rank correlation) | agreement | minutes | models |"]
    lines.append("|---|---|---|---|---|")
    for row in record["rows"]:
        found = "; ".join(f"{one['title']} ({one['factor']} {one['correlation']:.3f})" for one in row["found"])
        lines.append(
            f"| {row['pictures']:,} of {row['data']} | {found} | {row['udr']:.2f} | {row['minutes']:.1f} | {row['models']} |"
        )
    return "\n".join([*lines, "", f"{record['rows'][0]['device']}; `python benchmarks/discover.py`."])


def _kind(row: dict[str, Any]) -> str:
    return {"pbt": "population-based", "random": "random"}[row["kind"]]
