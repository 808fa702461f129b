# SPDX-License-Identifier: Apache-2.0
"""The README's generated tables: objectives, metrics, data and networks from the registry, speed
from the benchmarks' files.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from unbraid import objective_pages, search_pages
from unbraid.commands.list import KINDS, Entry, entries
from unbraid.core.errors import UnbraidError, invalid
from unbraid.metric_pages import behaviour_table, pages
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.priors import PRIORS

RESULTS = Path("benchmarks/results")
SPEED_FILE = RESULTS / "cpu_training.json"
GPU_FILE = RESULTS / "throughput.json"
PRECISION_FILE = RESULTS / "precision.json"
DATA_FILE = RESULTS / "data.json"
PERTURBATION_FILE = RESULTS / "perturbation.json"
METRICS_FILE = RESULTS / "metrics.json"
BEHAVIOUR_FILE = RESULTS / "metric_behaviour.json"
PAGES = (
    Path("docs/engine.md"),
    Path("docs/data.md"),
    Path("docs/metrics.md"),
    Path("docs/objectives.md"),
    Path("docs/search.md"),
)


def refresh(readme: Path, *, check: bool = False) -> str:
    """Write the tables between their markers anew, here and in the pages of docs, or only say
    whether they are current.
    """
    if not readme.exists():
        raise invalid(
            "README", "must be in the current folder", str(readme), "Run this in the repository."
        )
    said = []
    for page in (readme, *(readme.parent / page for page in PAGES)):
        if not page.exists():
            continue
        old = page.read_text(encoding="utf-8")
        new = fill(old, readme.parent)
        if new != old and check:
            raise UnbraidError(f"{page} is out of date; run `unbraid readme`.")
        if new != old:
            page.write_text(new, encoding="utf-8")
        said.append(f"{page} is up to date." if new == old else f"{page} was written anew.")
    return "\n".join(said)


def fill(text: str, root: Path) -> str:
    """*text* with every marked block replaced by its table."""
    blocks = {kind: _table(entries(kind)) for kind in KINDS}
    blocks |= {
        "compositions": objective_pages.compositions(),
        "objective pages": objective_pages.pages(OBJECTIVES),
        "prior pages": objective_pages.pages(PRIORS),
    }
    tables = {
        "speed": (SPEED_FILE, _speed),
        "gpu speed": (GPU_FILE, _gpu_speed),
        "kernels": (GPU_FILE, _kernels),
        "precision": (PRECISION_FILE, _precision),
        "data speed": (DATA_FILE, _data_speed),
        "perturbation": (PERTURBATION_FILE, _perturbation),
        "metric speed": (METRICS_FILE, _metric_speed),
        "metric behaviour": (BEHAVIOUR_FILE, lambda record: behaviour_table(record["scores"])),
        "metric pages": (BEHAVIOUR_FILE, lambda record: pages(record["scores"])),
        "disentangling": (RESULTS / "disentangling.json", objective_pages.disentangling),
        "pairs miniature": (RESULTS / "pairs_miniature.json", objective_pages.pairs_miniature),
        "few labels": (RESULTS / "few_labels.json", objective_pages.few_labels),
        "decomposition": (RESULTS / "decomposition.json", objective_pages.decomposition),
        "supervised searches": (RESULTS / "population_search.json", search_pages.supervised),
        "recursion stages": (RESULTS / "population_search.json", search_pages.recursion),
        "udr speed": (RESULTS / "udr_batch.json", search_pages.udr_speed),
        "discoveries": (RESULTS / "discover.json", search_pages.discoveries),
    }
    for name, (file, table) in tables.items():
        blocks[name] = (
            table(json.loads((root / file).read_text("utf-8")))
            if (root / file).exists()
            else "Not measured yet."
        )
    for name, table in blocks.items():
        pattern = re.compile(rf"(<!-- {name}: generated -->\n).*?(<!-- end -->)", re.DOTALL)
        text = pattern.sub(lambda match, table=table: f"{match[1]}{table}\n{match[2]}", text)
    return text


def _table(rows: list[Entry]) -> str:
    if not rows:
        return "None yet."
    lines = ["| name | what it is | paper |", "|---|---|---|"]
    for row in rows:
        paper = f"{row.citation.authors} {row.citation.year}" if row.citation else ""
        lines.append(
            f"| [`{row.name}`]({row.file}) | {row.summary.replace('|', chr(92) + '|')} | {paper} |"
        )
    return "\n".join(lines)


def _metric_speed(record: dict[str, Any]) -> str:
    lines = ["| metric | CPU s | disentanglement_lib, CPU s | times faster |", "|---|---|---|---|"]
    for row in record["rows"]:
        note = f" ({row['note']})" if row["note"] else ""
        digits = 4 if row["seconds"] < 0.1 else 2
        lines.append(
            f"| {row['what']}{note} | {row['seconds']:.{digits}f} | {row['theirs']:.2f} |"
            f" {row['faster']:.1f} |"
        )
    members = record["population"]
    return "\n".join(
        [
            *lines,
            "",
            (
                f"{members['members']} members at once, 10,000 samples each, {members['what']}:"
                f" {members['seconds']:.1f} s. {record['machine']}; the other library's recorded"
                f" seconds scaled by {record['scale']:.2f}, the same boosted trees timed on both"
                " machines; `python benchmarks/metrics.py`."
            ),
        ]
    )


def _speed(record: dict[str, Any]) -> str:
    lines = ["| what | model-steps/s | ratio to the plain loop |", "|---|---|---|"]
    lines += [
        f"| {row['what']} | {row['model_steps_per_second']:.1f} | {row['ratio']:.2f} |"
        for row in record["rows"]
    ]
    return "\n".join([*lines, "", f"{record['machine']}; {record['setting']}."])


def _gpu_speed(record: dict[str, Any]) -> str:
    lines = ["| what | model-steps/s | ratio to the plain loop | TFLOP/s |", "|---|---|---|---|"]
    lines += [
        f"| {row['what']} | {row['model_steps_per_second']:,.0f} | {row['ratio']:.1f} |"
        f" {row['tflops']:.1f} |"
        for row in record["rows"]
    ]
    others = ", ".join(
        f"`{row['objective']}` {row['of_beta_vae']:.0%}" for row in record["objectives"]
    )
    codes, ceilings = record["encoding"], record["ceilings"]
    return "\n".join(
        [
            *lines,
            "",
            (
                f"Other objectives, of β-VAE's rate with the same population: {others}. Encoding"
                f" {codes['images']:,} images for {codes['members']} members takes"
                f" {codes['seconds']:.0f} s and {codes['peak_gib']:.1f} GiB of the device's memory."
            ),
            "",
            (
                f"One {record['machine']} (copies at {ceilings['copy'] / 1e12:.1f} TB/s, bfloat16"
                f" products at {ceilings['matrix'] / 1e12:.0f} TFLOP/s, measured in the same run),"
                f" torch {record['torch']}; β-VAE, 64x64, conv_burgess, batch {record['batch']},"
                " bfloat16; ratios to the loop on dSprites; `python benchmarks/throughput.py`."
            ),
        ]
    )


def _kernels(record: dict[str, Any]) -> str:
    lines = [
        "| kernel, population of 128 | ms | floor, ms | times | floor set by |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['kernel']} | {row['ms']:.3f} | {row['floor_ms']:.3f} |"
        f" {row['ms'] / row['floor_ms']:.1f} | {row['floor']} |"
        for row in record["kernels"]
    ]
    setting = (
        f"One {record['machine']}, batch {record['batch']}, bfloat16; `python"
        " benchmarks/throughput.py`."
    )
    return "\n".join([*lines, "", setting])


def _precision(record: dict[str, Any]) -> str:
    last = max(row["step"] for row in record["rows"])
    lines = [
        (
            "| at step | | float32 | bfloat16 | difference, 95% | Mann-Whitney p |"
            " Kolmogorov-Smirnov p |"
        ),
        "|---|---|---|---|---|---|---|",
    ]
    for row in record["rows"]:
        if row["step"] == last:
            a, b, (low, high) = row["float32"], row["bfloat16"], row["difference_95"]
            digits = 2 if row["quantity"] == "elbo" else 4
            lines.append(
                f"| {last:,} | {row['quantity'].upper()} | {a['mean']:.{digits}f} ±"
                f" {a['std']:.{digits}f} | {b['mean']:.{digits}f} ± {b['std']:.{digits}f} |"
                f" {low:+.{digits}f} to {high:+.{digits}f} | {row['mann_whitney_p']:.2f} |"
                f" {row['kolmogorov_smirnov_p']:.2f} |"
            )
    setting = (
        f"{record['seeds']} seeds of β-VAE (β = {record['beta']:g}) on dSprites, mean ± standard"
        " deviation over seeds"
    )
    return "\n".join([*lines, "", f"{setting}; `python benchmarks/precision.py`."])


def _data_speed(record: dict[str, Any]) -> str:
    lines = [
        "| data | device | images/s | ratio to a plain loader | kept in memory |",
        "|---|---|---|---|---|",
    ]
    settings = []
    for device, found in record.items():
        for row in found["rows"]:
            kept = row.get("device_bytes", row["host_bytes"]) / 1e6
            rate = f"{row['images_per_second']:,.0f} | {row['ratio']:,.1f}"
            lines.append(f"| `{row['name']}` | {device} | {rate} | {kept:,.0f} MB |")
        plain = (
            f"the plain loader of XYSquares gives {found['plain']:,.0f} images/s on one core there"
        )
        settings.append(f"{device}: {found['machine']}; {plain}")
    return "\n".join([*lines, "", f"{'. '.join(settings)}. `python benchmarks/data.py`."])


def _perturbation(record: dict[str, Any]) -> str:
    lines = ["| data | β | MIG | active latents |", "|---|---|---|---|"]
    lines += [
        f"| {row['version']} | {row['beta']:g} | {row['mig_mean']:.3f} ± {row['mig_std']:.3f} |"
        f" {row['active']:.1f} |"
        for row in record["rows"]
    ]
    seeds = f"{record['seeds']} seeds (mean ± standard deviation)"
    setting = f"β-VAE on {record['data']}, {seeds}, {record['steps']:,} steps, {record['machine']}"
    return "\n".join([*lines, "", f"{setting}; `python benchmarks/perturbation.py`."])
