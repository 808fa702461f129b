# SPDX-License-Identifier: Apache-2.0
"""Tables load lazily, take in other packages' entry points and name what they cannot find."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint

import pytest

from unbraid.core.errors import InputError
from unbraid.core.registry import Citation, Registry, home

TABLE = {"root": "math:sqrt", "gone": "unbraid.no_such_module:Thing"}


@pytest.fixture
def offer(monkeypatch) -> Callable[..., None]:
    """Pretend that installed packages declare entry points, name by name."""

    def declare(group: str, **targets: str) -> None:
        def entry_points(**wanted):
            assert wanted == {"group": group}
            return [EntryPoint(name, target, group) for name, target in targets.items()]

        monkeypatch.setattr("unbraid.core.registry.entry_points", entry_points)

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
    assert (
        str(told.value)
        == "tool 'cosin' is unknown; did you mean 'cosine'? Known: cosine, gone, root."
    )


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
    assert (
        str(told.value)
        == f"tool 'broken' is offered by another package as '{target}', which cannot be loaded"
        f" ({why})."
    )


def test_entry_point_becomes_an_objective(offer, monkeypatch):
    from unbraid.objectives import OBJECTIVES
    from unbraid.objectives.beta_vae import BetaVAE

    # What was looked up before in this process is set aside for this test.
    monkeypatch.setattr(
        OBJECTIVES,
        "__dict__",
        {key: OBJECTIVES.__dict__[key] for key in ("kind", "group", "built_in")},
    )
    offer("unbraid.objectives", other_vae="unbraid.objectives.beta_vae:BetaVAE")
    assert "other_vae" in OBJECTIVES
    assert OBJECTIVES.load("other_vae") is BetaVAE


def test_other_packages_are_asked_once(monkeypatch):
    asked = []
    monkeypatch.setattr(
        "unbraid.core.registry.entry_points", lambda **wanted: asked.append(wanted) or []
    )
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
    assert (
        str(Citation("Doe et al.", 2020, "On things", "ICML"))
        == "Doe et al. (2020). On things. ICML."
    )
    assert str(Citation("Doe", 2021, "More things")) == "Doe (2021). More things."


def test_tables_import_nothing_heavy():
    heavy = "{'torch', 'pandas', 'pyarrow', 'scipy'}"
    tables = "unbraid.objectives, unbraid.networks, unbraid.core.store, unbraid.core.grid"
    program = f"import sys, {tables}; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


class Hammer:
    """A tool of this file."""


def test_what_a_script_registers_stands_beside_the_table(offer):
    offer("unbraid.tools", cosine="math:cos")
    registry = Registry("tool", "unbraid.tools", TABLE)
    assert "hammer" not in registry
    registry.register("hammer", Hammer)
    assert registry.load("hammer") is Hammer
    assert registry["hammer"] == home(Hammer) == f"{__name__}:Hammer"
    assert sorted(registry) == ["cosine", "gone", "hammer", "root"]
    assert len(registry) == 4
    assert "hammer" not in registry.built_in
    with pytest.raises(InputError) as told:
        registry.load("hamer")
    assert (
        str(told.value)
        == "tool 'hamer' is unknown; did you mean 'hammer'? Known: cosine, gone, hammer, root."
    )
    assert sorted(Registry("tool", "unbraid.tools", TABLE)) == [
        "cosine",
        "gone",
        "root",
    ], "other tables are left alone"


def test_registering_again_replaces_as_a_notebook_does():
    registry = Registry("tool", "unbraid.tools", TABLE)

    class Local:
        pass

    registry.register("hammer", Hammer)
    registry.register("hammer", Local)
    assert registry.load("hammer") is Local
    assert registry["hammer"].endswith("<locals>.Local")


@pytest.mark.parametrize(
    ("name", "thing", "told"),
    [
        (
            "root",
            Hammer,
            "tool name must not be that of a built-in tool; got 'root'. Choose another.",
        ),
        (
            "cosine",
            Hammer,
            (
                "tool name must not be that of another package's tool ('math:cos'); got 'cosine'."
                " Choose another."
            ),
        ),
        (
            "my tool",
            Hammer,
            "tool name must be a word of letters, digits and underscores; got 'my tool'.",
        ),
        ("", Hammer, "tool name must be a word of letters, digits and underscores; got ''."),
        (3, Hammer, "tool name must be a word of letters, digits and underscores; got 3."),
        (
            "hammer",
            "math:sqrt",
            "tool 'hammer' must be a class or a function; got 'math:sqrt'. Give the class itself.",
        ),
    ],
)
def test_what_cannot_be_registered(offer, name, thing, told):
    offer("unbraid.tools", cosine="math:cos")
    registry = Registry("tool", "unbraid.tools", TABLE)
    with pytest.raises(InputError) as caught:
        registry.register(name, thing)
    assert str(caught.value) == told
    assert sorted(registry) == ["cosine", "gone", "root"]


def test_a_name_that_a_run_remembers_tells_how_to_get_it_back():
    registry = Registry("tool", "unbraid.tools", TABLE)
    assert registry.recall("root") is math.sqrt
    with pytest.raises(InputError) as told:
        registry.recall("hammer")
    assert (
        str(told.value) == "tool 'hammer' of the run is unknown in this process; "
        "register it first, as the program that trained it did: TOOLS.register('hammer', ...); "
        "or install the package that offers it."
    )
    registry.register("hammer", Hammer)
    assert registry.recall("hammer") is Hammer


def test_a_class_of_a_script_is_found_by_its_home():
    """As `_network_name` and `Objective.key` look it up; such a class has no module that could be
    imported again.
    """
    program = (
        "from dataclasses import dataclass\nfrom unbraid.networks import NETWORKS\nfrom"
        " unbraid.networks.mlp import Mlp\n@dataclass(frozen=True)\nclass Own(Mlp):\n    hidden:"
        " int = 3\nNETWORKS.register('own', Own)\nassert [name for name, target in NETWORKS.items()"
        " if target == '__main__:Own'] == ['own']\nprint(NETWORKS.load('own')())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("Own(hidden=3")


def test_only_what_belongs_into_a_table_is_registered_there():
    import unbraid as ub

    with pytest.raises(InputError) as caught:
        ub.OBJECTIVES.register("my_prior", ub.Sparse)
    assert str(caught.value).startswith(
        "objective 'my_prior' must be a class derived from unbraid.objectives.objective.Objective;"
        " got <class"
    )
    assert "my_prior" not in ub.OBJECTIVES


def test_a_table_of_objects_takes_objects_of_its_class(refused):
    table = Registry("citation", "unbraid.none", {}, "unbraid.core.registry:Citation", objects=True)
    one = Citation("A", 2026, "B")
    table.register("mine", one)
    assert table.load("mine") is one
    assert table["mine"] == "unbraid.core.registry:Citation"
    ((name, rule, _),) = refused(table.register, "other", "text")
    assert (name, rule) == (
        "citation 'other'",
        "must be an object of unbraid.core.registry.Citation",
    )
    assert refused(table.register, "other", Citation)[0][0] == "citation 'other'"
