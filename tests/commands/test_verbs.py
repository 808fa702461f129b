# SPDX-License-Identifier: Apache-2.0
"""One verb, one name: command = function = file = docs = record = page, and one declaration."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import unbraid as ub
from unbraid.commands.command_line import GROUPS, VERBS, app, describe
from unbraid.commands.verb import verb_of
from unbraid.core.errors import InputError, flag
from unbraid.core.folders import PAGES, RECORDS
from unbraid.report.page import page_place

HOME = Path(__file__).resolve().parents[2]
DOCS = HOME / "docs" / "commands.md"
COMMANDS = HOME / "src" / "unbraid" / "commands"
NOT_VERBS = {"__init__", "command_line", "names", "on_ray", "options", "run", "verb"}
COMMAND = typer.main.get_command(app)


def test_every_file_is_a_verb_and_every_verb_a_file():
    files = {path.stem for path in COMMANDS.glob("*.py")} - NOT_VERBS
    assert files == {*VERBS, *GROUPS}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_is_a_command_a_function_and_a_section_of_the_docs(verb: str):
    function = getattr(ub, verb)
    assert function is getattr(importlib.import_module(f"unbraid.commands.{verb}"), verb)
    assert verb in COMMAND.commands  # pyright: ignore[reportAttributeAccessIssue]
    assert f"\n## unbraid {verb}\n" in DOCS.read_text(), "docs/commands.md is stale: make docs"


@pytest.mark.parametrize(("group", "word"), [(g, word) for g in GROUPS for word in GROUPS[g]])
def test_a_word_of_a_group_is_a_command_a_function_and_a_section(group: str, word: str):
    module = importlib.import_module(f"unbraid.commands.{group}")
    assert getattr(ub, group) is module
    assert verb_of(getattr(module, word)).name == word
    assert word in COMMAND.commands[group].commands  # pyright: ignore[reportAttributeAccessIssue]
    assert f"\n## unbraid {group} {word}\n" in DOCS.read_text(), "stale: make docs"


@pytest.mark.parametrize("verb", sorted(PAGES))
def test_a_verb_with_a_page_has_a_folder_of_the_report(verb: str):
    assert verb in VERBS
    assert (HOME / "src" / "unbraid" / "report" / verb / "context.py").is_file()
    if verb in RECORDS and verb != "train":
        assert RECORDS[verb].record == f"{verb}.json"
        assert hasattr(importlib.import_module(f"unbraid.commands.{verb}"), "resume_folder")


@pytest.mark.parametrize("verb", describe(), ids=lambda verb: verb.name)
def test_every_parameter_is_declared_once_with_a_help_text(verb):
    parameters = inspect.signature(verb.function).parameters
    assert [one.name for one in verb.parameters] == list(parameters)
    flags = {name for one in command_of(verb.name).params for name in one.opts}
    for one in verb.parameters:
        assert one.option.help.endswith("."), one.name
        assert f"    {one.name}: " in (verb.function.__doc__ or "")
        assert parameters[one.name].default == one.default
        assert (flag(one.name) in flags) == (one.cli and not one.argument)
    assert len(verb.summary) <= 90
    assert verb.summary.endswith(".")


def command_of(name: str) -> typer.core.TyperCommand:
    found: object = COMMAND
    for word in name.split():
        found = found.commands[word]  # pyright: ignore[reportAttributeAccessIssue]
    assert isinstance(found, typer.core.TyperCommand)
    return found


def test_the_packages_of_a_commands_name_are_still_packages():
    program = (
        "import unbraid as ub, unbraid.data, unbraid.report.page\n"
        "from unbraid.data import load\n"
        "from unbraid.report.page import __file__ as page\n"
        "assert callable(ub.report) and callable(ub.data.info) and ub.data.load is load\n"
        "assert page.endswith('report/page.py')"
    )
    assert subprocess.run([sys.executable, "-c", program]).returncode == 0


def test_every_verb_takes_a_home_for_what_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for ask in (
        ub.open_run,
        ub.resume,
        ub.score,
        ub.report,
        lambda folder: ub.distances(run=folder),
        lambda folder: ub.perturb("sprites", from_=folder, out=tmp_path / "p"),
    ):
        with pytest.raises(InputError) as caught:
            ask("~/none")
        assert str(tmp_path / "none") in str(caught.value)


@pytest.mark.parametrize("given", [3, 2.5, ["runs/a"]])
def test_what_is_no_path_is_refused_by_name(given: object):
    for name, ask in (
        ("folder", ub.resume),
        ("folder", ub.report),
        ("run", ub.open_run),
        ("out", lambda out: ub.train("sprites", out=out)),
        ("out", lambda out: page_place(out, "report.html", "report")),
    ):
        with pytest.raises(InputError) as caught:
            ask(given)
        (problem,) = caught.value.problems
        assert (problem.name, problem.rule, problem.value) == (name, "must be a path", given)
    with pytest.raises(InputError, match=r"^folder must be a path; got None"):
        ub.resume(None)
