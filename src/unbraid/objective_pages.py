# SPDX-License-Identifier: Apache-2.0
"""The generated parts of docs/objectives.md: options of every objective and prior, what goes with
what, and measured results.
"""

from __future__ import annotations

import dataclasses
import inspect
from typing import Any

import numpy as np

from unbraid.core.registry import Registry, summary
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.priors import PRIORS


def pages(registry: Registry) -> str:
    """One section for each entry: what is minimised, what its file says of paper and departures,
    and its options.
    """
    blocks = []
    for name, target in registry.built_in.items():
        kind = registry.load(name)
        file = target.partition(":")[0].replace(".", "/") + ".py"
        about = inspect.cleandoc(inspect.getmodule(kind).__doc__ or "")  # type: ignore[union-attr]
        lines = [
            f"### `{name}`",
            "",
            summary(kind),
            "",
            f"{about}",
            "",
        ]
        fields = dataclasses.fields(kind)
        if fields:
            lines += ["| option | default | values | meaning |", "|---|---|---|---|"]
            lines += [
                f"| `{item.name}` | {_default(item)} | {_values(item)} |"
                f" {_cell(item.metadata['help'])} |"
                for item in fields
            ]
            lines.append("")
        lines.append(f"[{file.rpartition('/')[2]}](../src/{file}); {kind.citation}")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def _default(item: dataclasses.Field[Any]) -> str:
    value = item.default
    return f"{value:g}" if isinstance(value, float) else "none" if value == () else str(value)


def _values(item: dataclasses.Field[Any]) -> str:
    rules = item.metadata
    if rules["kind"] == "choice":
        return ", ".join(rules["options"])
    bounds = [
        *([f"at least {rules['at_least']:g}"] if rules["at_least"] is not None else []),
        *([f"above {rules['above']:g}"] if rules["above"] is not None else []),
        *([f"at most {rules['at_most']:g}"] if rules["at_most"] is not None else []),
    ]
    kind = "whole" if rules["whole"] else "numbers" if rules["kind"] == "vector" else ""
    words = [f"or {word}" for word in rules.get("words", ())]
    return ", ".join(part for part in (kind, *bounds, *words) if part) or "any number"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def compositions() -> str:
    """Which objective goes with which prior; where it does not, the reason is a note below."""
    priors = {name: PRIORS.load(name)() for name in PRIORS.built_in}
    notes: list[str] = []
    lines = [f"| | {' | '.join(f'`{name}`' for name in priors)} |", f"|---|{'---|' * len(priors)}"]
    for name in OBJECTIVES.built_in:
        objective, cells = OBJECTIVES.load(name)(), []
        for prior in priors.values():
            reason = objective.refuses(prior)
            if reason and reason not in notes:
                notes.append(reason)
            cells.append(f"no ({notes.index(reason) + 1})" if reason else "yes")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(
        [
            *lines,
            "",
            "; ".join(f"({number}) {note}" for number, note in enumerate(notes, start=1)) + ".",
        ]
    )


def disentangling(record: dict[str, Any]) -> str:
    """What populations on a GPU reached: medians with the least and the most over seeds."""
    lines = [
        (
            "| data | objective | likelihood | latents | strength | seeds | steps | s for the"
            " population | MIG | DCI |"
        ),
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        data = f"{row['data']['name']}" + (
            f", spacing {row['data']['spacing']}" if "spacing" in row["data"] else ""
        )
        strength = ", ".join(f"{name} {value:g}" for name, value in row["strength"].items())
        told = [
            data,
            f"`{row['objective']}`",
            f"`{row['likelihood']}`",
            row["latents"],
            strength,
            row["members"],
        ]
        told += [
            f"{row['steps']:,}",
            f"{row['seconds']:.0f} ({row['population']} members)",
            _spread(row["mig"]),
            _spread(row["dci"]),
        ]
        lines.append(f"| {' | '.join(map(str, told))} |")
    first = record["rows"][0]
    return "\n".join(
        [
            *lines,
            "",
            (
                f"One {first['device']}, {first['precision']}; `python"
                " benchmarks/disentangling.py`, whose head says the rest."
            ),
        ]
    )


def _spread(values: list[float]) -> str:
    return f"**{np.median(values):.3f}** ({min(values):.3f} to {max(values):.3f})"


def pairs_miniature(record: dict[str, Any]) -> str:
    """MIG of the miniature by spacing."""
    lines = ["| spacing | MIG, mean over seeds | each seed |", "|---|---|---|"]
    lines += [
        f"| {row['spacing']} | {row['mean']:.3f} |"
        f" {', '.join(f'{gap:.3f}' for gap in row['mig'])} |"
        for row in record["rows"]
    ]
    return "\n".join(
        [*lines, "", f"{record['setting']}; {record['machine']}; `{record['command']}`."]
    )


def few_labels(record: dict[str, Any]) -> str:
    """MIG and DCI with labels of different kinds."""
    lines = ["| labels | MIG | DCI |", "|---|---|---|"]
    lines += [
        f"| {row['labels']} | {row['mig_mean']:.3f} | {row['dci_mean']:.3f} |"
        for row in record["rows"]
    ]
    return "\n".join(
        [
            *lines,
            "",
            (
                f"Means over {len(record['rows'][0]['mig'])} seeds. {record['setting']};"
                f" `{record['command']}`."
            ),
        ]
    )


def decomposition(record: dict[str, Any]) -> str:
    """The pinwheel by α and by β, and sparsity of digits by α for both priors."""
    lines = [
        "| pinwheel | KL(p ‖ q(z)), nats, mean over seeds | each seed | posterior deviation |",
        "|---|---|---|---|",
    ]
    for part, name, sign in (("pinwheel_alpha", "alpha", "α"), ("pinwheel_beta", "beta", "β")):
        for row in record[part]["rows"]:
            other = "β = 0" if name == "alpha" else "α = 0"
            seeds = ", ".join(f"{nats:.2f}" for nats in row["kl_nats"])
            std = np.mean(row["posterior_std"])
            lines.append(
                f"| {sign} = {row[name]:g}, {other} | {row['kl_nats_mean']:.3f} | {seeds} |"
                f" {std:.3f} |"
            )
    fall, seconds = record["pinwheel_alpha"], record["pinwheel_alpha"]["wall_s"]
    lines += [
        "",
        (
            f"KL(p ‖ q) falls with every α in {fall['seeds_that_fall']} of {fall['seeds']} seeds;"
            f" these {len(fall['rows']) * fall['seeds']} models took {seconds:.0f} s."
            f" {_capital(record['machine'])}; `{record['command']}`."
        ),
        "",
        "| digits | Hoyer sparsity with γ = 0.8 | with γ = 0 | mean gap |",
        "|---|---|---|---|",
    ]
    rows = record["digits"]["rows"]
    for alpha, gap in zip(
        dict.fromkeys(row["alpha"] for row in rows), record["digits"]["mean_gaps"], strict=True
    ):
        shown = [
            ", ".join(
                f"{row['hoyer']:.3f}"
                for row in rows
                if row["alpha"] == alpha and row["gamma"] == gamma
            )
            for gamma in (0.8, 0)
        ]
        lines.append(f"| α = {alpha:g} | {shown[0]} | {shown[1]} | {gap:.3f} |")
    return "\n".join(
        [*lines, "", f"Least KL of any model {record['digits']['least_kl_nats']:.1f} nats."]
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
