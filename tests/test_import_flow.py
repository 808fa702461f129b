# SPDX-License-Identifier: Apache-2.0
"""Imports flow one way through the house: a module imports its own station or one to the left,
never to the right.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components

SOURCE = Path(__file__).resolve().parents[1] / "src" / "unbraid"

STATIONS = (
    *("core", "data", "networks", "objectives", "population", "codes", "metrics", "scoring"),
    *("search", "analysis", "studies", "report", "commands", "top"),
)
"""From left to right. `top` is the package itself, `__main__` and `testing`."""
NEVER = {"metrics": frozenset({"data", "networks", "objectives", "population", "codes"})}
"""Metrics work on anybody's arrays; they know nothing of where codes come from."""


def station(module: str) -> str:
    """The station of a dotted module name."""
    first = module.split(".")[1] if "." in module else ""
    return first if first in STATIONS else "top"


def imported(
    tree: ast.AST, module: str, *, package: bool, known: frozenset[str]
) -> Iterator[tuple[int, str]]:
    """Line and full name of every unbraid module that a file imports, wherever in it the import
    stands.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "unbraid":
                    yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            parents = module.split(".") if package else module.split(".")[:-1]
            base = ".".join(parents[: len(parents) - node.level + 1]) if node.level else ""
            source = ".".join(part for part in (base, node.module) if part)
            if source.split(".")[0] == "unbraid":
                # A name imported from a package may be one of its modules.
                names = [f"{source}.{alias.name}" for alias in node.names]
                yield from ((node.lineno, name if name in known else source) for name in names)


def wrong_imports(sources: dict[str, str], packages: frozenset[str] = frozenset()) -> list[str]:
    """One line for each import against the flow in *sources*, module name -> text."""
    found = []
    for module, text in sources.items():
        here = station(module)
        for line, target in imported(
            ast.parse(text), module, package=module in packages, known=frozenset(sources)
        ):
            there = station(target)
            if STATIONS.index(there) > STATIONS.index(here) or there in NEVER.get(here, ()):
                found.append(f"{module}:{line} ({here}) imports {target} ({there})")
    return sorted(set(found))


def own_sources() -> tuple[dict[str, str], frozenset[str]]:
    """Text of every module of the package, and which of them are packages."""
    sources, packages = {}, set()
    for path in sorted(SOURCE.rglob("*.py")):
        parts = ("unbraid", *path.relative_to(SOURCE).with_suffix("").parts)
        if parts[-1] == "__init__":
            parts = parts[:-1]
            packages.add(".".join(parts))
        sources[".".join(parts)] = path.read_text()
    return sources, frozenset(packages)


def test_imports_flow_one_way():
    sources, packages = own_sources()
    assert {"unbraid.core.store", "unbraid.metrics.mig", "unbraid.population.train"} <= set(sources)
    assert wrong_imports(sources, packages) == []


def cycles(sources: dict[str, str], packages: frozenset[str]) -> list[list[str]]:
    """Groups of modules that import each other when they are loaded."""
    graph: dict[str, set[str]] = {}
    for module, text in sources.items():
        tree = ast.parse(text)
        # What a function imports when it is called, and what only type checkers read, is no cycle.
        tree.body = [node for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
        found = imported(tree, module, package=module in packages, known=frozenset(sources))
        graph[module] = {target for _, target in found} - {module}
    edges = np.array([[other in graph[one] for other in graph] for one in graph])
    _, parts = connected_components(edges, connection="strong")
    names = list(graph)
    groups = [[names[i] for i in np.flatnonzero(parts == part)] for part in set(parts)]
    return [group for group in groups if len(group) > 1]


def test_no_modules_import_each_other():
    assert cycles(*own_sources()) == []
    pair = {"unbraid.core.a": "import unbraid.core.b", "unbraid.core.b": "import unbraid.core.a"}
    assert cycles(pair, frozenset()) == [["unbraid.core.a", "unbraid.core.b"]]


def test_every_folder_has_a_station_and_nothing_else_is_at_the_root():
    folders = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    assert folders == {*STATIONS, "testing"} - {"top"}
    files = {path.name for path in SOURCE.iterdir() if path.is_file()}
    assert files == {"__init__.py", "__main__.py", "py.typed"}


def test_the_walk_sees_imports():
    sources, packages = own_sources()
    seen = {
        (module, target)
        for module, text in sources.items()
        for _, target in imported(
            ast.parse(text), module, package=module in packages, known=frozenset(sources)
        )
    }
    assert ("unbraid.networks.layout", "unbraid.core.random") in seen  # from unbraid import random
    assert (
        "unbraid.data.dataset",
        "unbraid.core.grid",
    ) in seen  # from unbraid.core.grid import FactorGrid


MODULES = """core core.errors core.store data data.sprites networks objectives population
population.train codes metrics metrics.mig scoring analysis studies report commands commands.train
testing"""
BASE = {f"unbraid.{name}": "" for name in MODULES.split()}


@pytest.mark.parametrize(
    ("module", "text", "told"),
    [
        (
            "data.sprites",
            "from unbraid.population.train import train_run",
            "(data) imports unbraid.population.train (population)",
        ),
        ("data.sprites", "import unbraid.networks", "(data) imports unbraid.networks (networks)"),
        ("core.store", "from unbraid import data", "(core) imports unbraid.data (data)"),
        ("core.store", "from unbraid import load", "(core) imports unbraid (top)"),
        ("metrics.mig", "from unbraid.data import load", "(metrics) imports unbraid.data (data)"),
        ("metrics.mig", "from unbraid import codes", "(metrics) imports unbraid.codes (codes)"),
        (
            "metrics.mig",
            "def f():\n  from unbraid.networks import NETWORKS",
            "(metrics) imports unbraid.networks (networks)",
        ),
        (
            "metrics.mig",
            "from ..objectives import beta_vae",
            "(metrics) imports unbraid.objectives (objectives)",
        ),
        (
            "objectives",
            "if TYPE_CHECKING:\n  from unbraid.population.train import Run",
            "(objectives) imports unbraid.population.train (population)",
        ),
        (
            "codes",
            "try:\n  import unbraid.scoring\nexcept ImportError: pass",
            "(codes) imports unbraid.scoring (scoring)",
        ),
        (
            "scoring",
            "from unbraid.report import build",
            "(scoring) imports unbraid.report (report)",
        ),
        (
            "report",
            "from unbraid.commands.train import Run",
            "(report) imports unbraid.commands.train (commands)",
        ),
        (
            "population",
            "import numpy, unbraid.metrics.mig as mig",
            "(population) imports unbraid.metrics.mig (metrics)",
        ),
        (
            "population.train",
            "from . import missing\nfrom .. import metrics",
            "(population) imports unbraid.metrics (metrics)",
        ),
    ],
)
def test_an_import_against_the_flow_is_found(module, text, told):
    packages = frozenset(
        {"unbraid", "unbraid.data", "unbraid.metrics", "unbraid.population", "unbraid.objectives"}
    )
    (found,) = wrong_imports(BASE | {f"unbraid.{module}": text}, packages)
    line, _, rest = found.removeprefix(f"unbraid.{module}:").partition(" ")
    assert rest == told
    assert "import" in text.splitlines()[int(line) - 1]


@pytest.mark.parametrize(
    ("module", "text"),
    [
        (
            "data.sprites",
            (
                "from unbraid.core.errors import InputError\nfrom unbraid.data import load\nimport"
                " numpy"
            ),
        ),
        (
            "metrics.mig",
            (
                "from unbraid.core.grid import FactorGrid\nfrom unbraid.metrics import"
                " METRICS\nfrom . import mig"
            ),
        ),
        (
            "scoring",
            (
                "from unbraid.metrics import METRICS\nfrom unbraid.codes import CodeStore\nfrom"
                " unbraid.population import train"
            ),
        ),
        (
            "report",
            (
                "from unbraid.analysis import x\nfrom unbraid.studies import y\nfrom"
                " unbraid.scoring import z"
            ),
        ),
        (
            "commands",
            "from unbraid.report import build\nfrom unbraid.commands.train import train",
        ),
        ("testing", "from unbraid.metrics import METRICS\nfrom unbraid.commands.train import Run"),
        ("core.store", "import unbraided\nfrom unbraid.core.errors import UnbraidError"),
    ],
)
def test_imports_with_the_flow_are_fine(module, text):
    assert wrong_imports(BASE | {f"unbraid.{module}": text}, frozenset({"unbraid"})) == []
