# SPDX-License-Identifier: Apache-2.0
"""The generated parts of docs/search.md: what population-based training, UDR, the recursion and
`discover` were measured to do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

SETTINGS = {
    "published": (
        "learning rates and β drawn as published (1e-5 to 1, of which two fifths lie above 0.01,"
        " and 1 to 437)"
    ),
    "wide": "learning rates from 1e-5 to 1e-2, β from 1 to 200",
}
BETAS = {"high": "80 to 437", "low": "2 to 60"}
_ORDER = {"root": 0, "leaf": 1, "final": 2}


def supervised(record: dict[str, Any]) -> str:
    """Population-based training against random search, a table for each setting."""
    parts = []
    for setting, about in SETTINGS.items():
        rows = {
            (row["kind"], row["seed"]): row
            for row in record["supervised"]
            if row["setting"] == setting
        }
        if not rows:
            continue
        seeds = sorted({seed for _, seed in rows})
        lines = [
            (
                "| seed | population-based: MIG | DCI | random: MIG | DCI | winner's learning rate,"
                " β, batch |"
            ),
            "|---|---|---|---|---|---|",
        ]
        for seed in seeds:
            pair = [rows["pbt", seed], rows["random", seed]]
            scores = " | ".join(f"{row['mig']:.3f} | {row['dci']:.3f}" for row in pair)
            values = pair[0]["winner"]["values"]
            told = f"{values['learning_rate']:.2g}, {values['beta']:.3g}, {values['batch_size']:g}"
            lines.append(f"| {seed} | {scores} | {told} |")
        means = " | ".join(
            f"**{np.mean(gaps):.3f}** ± {np.std(gaps, ddof=1):.3f} | {np.mean(others):.3f} ±"
            f" {np.std(others, ddof=1):.3f}"
            for gaps, others in (
                [[rows[kind, seed][name] for seed in seeds] for name in ("mig", "dci")]
                for kind in ("pbt", "random")
            )
        )
        first = rows["pbt", seeds[0]]
        length = f"{first['epochs']} epochs of {first['epoch_images']:,} images each"
        where = f"{first['images']:,} images of dSprites (every second x and y), {first['device']}"
        title = f"{about[0].upper()}{about[1:]}; {first['population']} individuals, {length}:"
        parts += [title, "", *lines, f"| mean | {means} | |", ""]
    return "\n".join([*parts, f"{where}; ± is the standard deviation over seeds."])


def recursion(record: dict[str, Any]) -> str:
    """Stages of the recursions, a table for each range of β."""
    parts = []
    for setting, betas in BETAS.items():
        rows = [row for row in record["stages"] if row["setting"] == setting]
        if not rows:
            continue
        lines = [
            "| seed | stage | images | score | MIG | active latents: what explains most of their"
            " variance | x, y left |"
        ]
        lines.append("|---|---|---|---|---|---|---|")
        for row in sorted(
            rows,
            key=lambda row: (row["seed"], _ORDER[row["stage"].partition("-")[0]], row["stage"]),
        ):
            told = ", ".join(
                f"{max(one, key=one.get)} {max(one.values()):.2f}"
                for one in row["explained"].values()
            )
            left = row.get("variance_left")
            rest = f"{100 * left['x']:.2f}%, {100 * left['y']:.2f}%" if left else ""
            scores = f"{row['winner']['score']:.3f} | {row['mig']:.3f}"
            lines.append(
                f"| {row['seed']} | {row['stage']} | {row['images']:,} | {scores} | {told} |"
                f" {rest} |"
            )
        parts += [f"β from {betas}:", "", *lines, ""]
    return "\n".join(parts[:-1])


def udr_speed(record: dict[str, Any]) -> str:
    """How long the agreement of all groups takes."""
    lines = [
        "| device | method | all groups at once | group by group | peer in a loop |",
        "|---|---|---|---|---|",
    ]
    for device, about in record.items():
        for row in about["rows"]:
            cells = [
                f"{row[name]:.2f} s" if row.get(name) is not None else ""
                for name in ("all_groups_s", "group_by_group_s", "loop_s")
            ]
            lines.append(f"| {device} | {row['what']} | {' | '.join(cells)} |")
    about = "; ".join(f"{device}: {one['machine']}" for device, one in record.items())
    size = next(iter(record.values()))["population"]
    return "\n".join(
        [
            *lines,
            "",
            (
                f"{size}; {about}; the peer is scikit-learn's Lasso or SciPy; `python"
                " benchmarks/udr_batch.py`."
            ),
        ]
    )


def discoveries(record: dict[str, Any]) -> str:
    """What `discover` found in drawn images whose factors it was not shown."""
    lines = [
        "| images | found, with the true factor it follows (rank correlation) | agreement | minutes"
        " | models |"
    ]
    lines.append("|---|---|---|---|---|")
    for row in record["rows"]:
        found = "; ".join(
            f"{one['title']} ({one['factor']} {one['correlation']:.3f})" for one in row["found"]
        )
        where = f"{row['images']:,} of {row['data']}, {row['device']}"
        lines.append(
            f"| {where} | {found} | {row['udr']:.2f} | {row['minutes']:.1f} | {row['models']} |"
        )
    about = (
        "Hues come round: their correlation is that from where the code cuts the circle. `python"
        " benchmarks/discover.py`."
    )
    return "\n".join([*lines, "", about])
