# SPDX-License-Identifier: Apache-2.0
"""The README's generated tables: objectives, metrics, data and networks from the registry, speed from the benchmark's file."""

from __future__ import annotations

import json
import re
from pathlib import Path

from unbraid.errors import InputError, UnbraidError, problem
from unbraid.listing import KINDS, Entry, entries

SPEED_FILE = Path("benchmarks/results/cpu_training.json")


def refresh(readme: Path, *, check: bool = False) -> str:
    """Write the tables between their markers anew, or only say whether they are current."""
    if not readme.exists():
        raise InputError(problem("README", "must be in the current folder", str(readme), "Run this in the repository."))
    old = readme.read_text(encoding="utf-8")
    new = fill(old, readme.parent)
    if new == old:
        return f"{readme} is up to date."
    if check:
        raise UnbraidError(f"{readme} is out of date; run `unbraid readme`.")
    readme.write_text(new, encoding="utf-8")
    return f"{readme} was written anew."


def fill(text: str, root: Path) -> str:
    """*text* with every marked block replaced by its table."""
    blocks = {kind: _table(entries(kind)) for kind in KINDS} | {"speed": _speed(root / SPEED_FILE)}
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
        lines.append(f"| [`{row.name}`]({row.file}) | {row.summary.replace('|', chr(92) + '|')} | {paper} |")
    return "\n".join(lines)


def _speed(path: Path) -> str:
    if not path.exists():
        return "Not measured yet."
    record = json.loads(path.read_text(encoding="utf-8"))
    lines = ["| what | model-steps/s | ratio to the plain loop |", "|---|---|---|"]
    lines += [f"| {row['what']} | {row['model_steps_per_second']:.1f} | {row['ratio']:.2f} |" for row in record["rows"]]
    return "\n".join([*lines, "", f"{record['machine']}; {record['setting']}."])
