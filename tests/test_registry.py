# SPDX-License-Identifier: Apache-2.0
"""Tables load lazily, take in other packages' entry points and say clearly what they cannot find."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint

import pytest

from unbraid.errors import InputError
from unbraid.registry import Citation, Registry

TABLE = {"root": "math:sqrt", "gone": "unbraid.no_such_module:Thing"}


@pytest.fixture
def offer(monkeypatch) -> Callable[..., None]:
    """Pretend that installed packages declare entry points, name by name."""

    def declare(group: str, **targets: str) -> None:
        def entry_points(**wanted):
            assert wanted == {"group": group}
            return [EntryPoint(name, target, group) for name, target in targets.items()]

        monkeypatch.setattr("unbraid.registry.entry_points", entry_points)

    return declare


def test_loading_is_lazy():
    registry = Registry("tool", "unbraid.tools", TABLE)
    assert dict(registry) == TABLE
    assert len(registry) == 2
    assert registry["gone"] == "unbraid.no_such_module:Thing"
    assert registry.load("root") is math.sqrt
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        registry.load("gone")


def test_unknown_name():
    with pytest.raises(InputError) as told:
        Registry("tool", "unbraid.tools", TABLE).load("rot")
    assert str(told.value) == "tool 'rot' is unknown; did you mean 'root'? Known: gone, root."


def test_entry_points_stand_behind_the_table(offer):
    offer("unbraid.tools", cosine="math:cos", root="math:sin")
    registry = Registry("tool", "unbraid.tools", TABLE)
    assert sorted(registry) == ["cosine", "gone", "root"]
    assert registry.load("cosine") is math.cos
    assert registry.load("root") is math.sqrt  # a built-in name cannot be taken over
    assert "cosine" not in registry.built_in
    with pytest.raises(InputError) as told:
        registry.load("cosin")
    assert str(told.value) == "tool 'cosin' is unknown; did you mean 'cosine'? Known: cosine, gone, root."


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("no_such_package.tools:Tool", "No module named 'no_such_package'"),
        ("math:no_such_thing", "module 'math' has no attribute 'no_such_thing'"),
    ],
)
def test_broken_entry_point_is_named(offer, target, why):
    offer("unbraid.tools", broken=target)
    with pytest.raises(InputError) as told:
        Registry("tool", "unbraid.tools", TABLE).load("broken")
    assert str(told.value) == f"tool 'broken' is offered by another package as '{target}', which cannot be loaded ({why})."


def test_entry_point_becomes_an_objective(offer, monkeypatch):
    from unbraid.objectives import OBJECTIVES
    from unbraid.objectives.beta_vae import BetaVAE

    # What was looked up before in this process is set aside for this test.
    monkeypatch.setattr(OBJECTIVES, "__dict__", {key: OBJECTIVES.__dict__[key] for key in ("kind", "group", "built_in")})
    offer("unbraid.objectives", other_vae="unbraid.objectives.beta_vae:BetaVAE")
    assert "other_vae" in OBJECTIVES
    assert OBJECTIVES.load("other_vae") is BetaVAE


def test_other_packages_are_asked_once(monkeypatch):
    asked = []
    monkeypatch.setattr("unbraid.registry.entry_points", lambda **wanted: asked.append(wanted) or [])
    registry = Registry("tool", "unbraid.tools", TABLE)
    for _ in range(3):
        assert list(registry.items()) == list(TABLE.items())
        with pytest.raises(InputError):
            registry.load("rot")
    assert asked == [{"group": "unbraid.tools"}]


def test_attribute_home():
    registry = Registry("tool", "unbraid.tools", TABLE)
    assert registry.attribute_home("sqrt") == "root"
    assert registry.attribute_home("cbrt") is None


def test_citation_reads_as_one_line():
    assert str(Citation("Doe et al.", 2020, "On things", "ICML")) == "Doe et al. (2020). On things. ICML."
    assert str(Citation("Doe", 2021, "More things")) == "Doe (2021). More things."


def test_tables_import_nothing_heavy():
    heavy = "{'torch', 'pandas', 'pyarrow', 'scipy'}"
    tables = "unbraid.objectives, unbraid.networks, unbraid.store, unbraid.grid"
    program = f"import sys, {tables}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
