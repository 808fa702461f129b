# SPDX-License-Identifier: Apache-2.0
"""Which files are generated, in whole or between markers, and which of them are stale.

A block of a hand-written page stands between `<!-- NAME: generated -->` and `<!-- end -->`. Pages
of metrics, objectives and studies are generated whole, and the figures of studies.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tools.docs import (
    DocsError,
    choice_pages,
    command_pages,
    measured,
    metric_pages,
    objective_pages,
    package_names,
    study_pages,
    tables,
)
from unbraid.metrics import METRICS
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.priors import PRIORS
from unbraid.objectives.supervision import SUPERVISIONS

RESULTS = Path("benchmarks/results")
NAMES = Path("src/unbraid/commands/names.py")
_BLOCK = re.compile(r"(<!-- ([a-z0-9 ]+): generated -->\n).*?(<!-- end -->)", re.DOTALL)

FROM_RESULTS: dict[str, tuple[str, Callable[[Any], str]]] = {
    "speed": ("cpu_training", measured.cpu_speed),
    "cpu precision": ("cpu_precision", measured.cpu_precision),
    "user rate": ("user_rate", measured.user_rate),
    "network speed": ("throughput", measured.network_speed),
    "gpu speed": ("throughput", measured.gpu_speed),
    "kernels": ("throughput", measured.kernels),
    "precision": ("precision", measured.precision),
    "data speed": ("data", measured.data_speed),
    "perturbation": ("perturbation", measured.perturbation),
    "metric speed": ("metrics", measured.metric_speed),
    "scoring speed": ("scoring", measured.scoring_speed),
    "metric behaviour": ("metric_behaviour", metric_pages.behaviour_table),
    "disentangling": ("disentangling", measured.disentangling),
    "pairs miniature": ("pairs_miniature", measured.pairs_miniature),
    "few labels": ("few_labels", measured.few_labels),
    "decomposition": ("decomposition", measured.decomposition),
    "searches by mig": ("population_search", measured.searches_by_mig),
    "rpu stages": ("population_search", measured.rpu_stages),
    "udr speed": ("udr_batch", measured.udr_speed),
    "discoveries": ("discover", measured.discoveries),
}
"""Blocks made from a file of benchmark results."""

FROM_CODE: dict[str, Callable[[Path], str]] = {
    "studies": lambda root: study_pages.reproductions(),
    "study list": lambda root: study_pages.overview(),
    "choices": lambda root: choice_pages.table_of_choices(),
    "objectives": lambda root: tables.registered(OBJECTIVES, "{name}.md"),
    "priors": lambda root: tables.registered(PRIORS, "#{name}"),
    "supervision": lambda root: tables.registered(SUPERVISIONS, "#{name}"),
    "metrics": lambda root: tables.registered(METRICS, "{name}.md"),
    "networks": lambda root: tables.networks(),
    "drawn data": lambda root: tables.data(drawn=True),
    "published data": lambda root: tables.data(drawn=False),
    "prior sections": lambda root: objective_pages.sections(PRIORS),
    "supervision sections": lambda root: objective_pages.sections(SUPERVISIONS),
    "compositions": lambda root: objective_pages.compositions(),
    "commands": lambda root: command_pages.sections(),
    "verbs": lambda root: command_pages.overview(),
}
"""Blocks made from registries, declarations and docstrings."""


def generated(root: Path) -> dict[Path, str]:
    """Every generated file by its path in the repository, with the text that it should have."""
    scores = _result(root, "metric_behaviour")["scores"]
    for name in metric_pages.names():
        if name not in scores:
            raise DocsError(
                f"{RESULTS / 'metric_behaviour.json'} has no scores of the metric '{name}', which"
                " its page shows. Fix with:"
                f" python benchmarks/metric_behaviour.py {name} && make docs"
            )
    files = {
        Path("docs/metrics", f"{name}.md"): metric_pages.page(name, scores[name])
        for name in metric_pages.names()
    } | {
        Path("docs/objectives", f"{name}.md"): objective_pages.page(name)
        for name in objective_pages.names()
    }
    files |= study_pages.files()
    files[NAMES] = package_names.names()
    for page in [root / "README.md", *sorted(root.glob("docs/**/*.md"))]:
        file = page.relative_to(root)
        if file not in files and page.exists():
            files[file] = fill(page.read_text("utf-8"), root)
    return files


def fill(text: str, root: Path) -> str:
    """*text* with every marked block made anew."""

    def made(match: re.Match[str]) -> str:
        name = match[2]
        if name in FROM_RESULTS:
            result, table = FROM_RESULTS[name]
            return f"{match[1]}{table(_result(root, result))}\n{match[3]}"
        if name not in FROM_CODE:
            raise DocsError(f"no generated block is called '{name}'; known: {', '.join(FROM_CODE)}")
        return f"{match[1]}{FROM_CODE[name](root)}\n{match[3]}"

    return _BLOCK.sub(made, text)


def stale(root: Path) -> dict[Path, str]:
    """The files that are not as they should be, each with what is wrong."""
    found: dict[Path, str] = {}
    for file, text in generated(root).items():
        if not (root / file).exists():
            found[file] = "is missing."
        elif (root / file).read_text("utf-8") != text:
            found[file] = "is out of date."
    return found | dict.fromkeys(_orphans(root), "describes nothing that exists.")


def write(root: Path) -> None:
    """Make every generated file as it should be, and remove pages of what is gone."""
    for file, text in generated(root).items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text, "utf-8")
    for file in _orphans(root):
        (root / file).unlink()


def _orphans(root: Path) -> list[Path]:
    """Pages of what is registered no more, and figures that no study has."""
    known = {
        "metrics": metric_pages.names(),
        "objectives": objective_pages.names(),
        "studies": study_pages.names(),
    }
    pages = [
        page.relative_to(root)
        for folder, names in known.items()
        for page in sorted((root / "docs" / folder).glob("*.md"))
        if page.stem not in (*names, "README")
    ]
    figures = sorted((root / study_pages.FOLDER).glob("*/*.svg"))
    drawn = study_pages.files() if figures else {}
    return pages + [
        figure.relative_to(root) for figure in figures if figure.relative_to(root) not in drawn
    ]


def _result(root: Path, name: str) -> Any:
    file = root / RESULTS / f"{name}.json"
    if not file.exists():
        raise DocsError(
            f"{RESULTS / file.name} is missing, which the docs show."
            f" Fix with: git checkout {RESULTS / file.name}, or the benchmark that writes it"
        )
    return json.loads(file.read_text("utf-8"))
