# SPDX-License-Identifier: Apache-2.0
"""Every command in README and docs is one that the command line takes: words, options, names."""

from __future__ import annotations

import dataclasses
import inspect
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from unbraid.commands.command_line import app, describe
from unbraid.core.errors import InputError, Problems
from unbraid.core.registry import Registry
from unbraid.core.spelling import as_source, parse_extra_options, split_names
from unbraid.metrics import METRICS
from unbraid.networks import NETWORKS
from unbraid.objectives import OBJECTIVES
from unbraid.objectives.likelihood_spelling import read_likelihood
from unbraid.objectives.priors import PRIORS
from unbraid.objectives.supervision import SUPERVISIONS
from unbraid.population.resolve import (
    choose_network,
    choose_objectives,
    choose_priors,
    choose_supervisions,
)
from unbraid.scoring.metric_names import FAMILIES

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(ROOT.glob("docs/**/*.md"))]
VERBS = {verb.name: verb for verb in describe()}
NAMED = {"network": NETWORKS, "prior": PRIORS, "supervision": SUPERVISIONS, "metrics": METRICS}
USAGE_ERROR = typer.BadParameter.__bases__[0]
"""What the parser raises."""
GROUPS = {"usual", "all", *FAMILIES}


def lines() -> list[str]:
    """The commands in blocks of code, without comments; those of the usage lines left out."""
    text = "\n".join(page.read_text("utf-8") for page in PAGES).replace("\\\n", " ")
    found = re.findall(r"^(?:    )?unbraid .+", text, re.MULTILINE)
    return [line.strip() for line in found if "[OPTIONS]" not in line]


def inline() -> list[str]:
    """The commands in running text."""
    text = "\n".join(page.read_text("utf-8") for page in PAGES)
    return sorted(set(re.findall(r"`unbraid ([a-z][^`]*)`", text)))


def verb_name(words: list[str]) -> str:
    """The command that *words* begin with."""
    name = " ".join(words[:2]) if " ".join(words[:2]) in VERBS else words[0]
    assert name in VERBS, f"no command 'unbraid {' '.join(words)}'"
    return name


def parsed(line: str) -> tuple[str, typer.Context]:
    """The context that the real parser makes of a line; nothing is executed."""
    words = shlex.split(line, comments=True)[1:]
    name = verb_name(words)
    command: Any = typer.main.get_command(app)
    for word in name.split():
        command = command.commands[word]
    return name, command.make_context(name, words[len(name.split()) :])


def option_names(thing: Any) -> set[str]:
    """The options of something registered: fields of a dataclass, parameters of a function."""
    if dataclasses.is_dataclass(thing):
        return {item.name for item in dataclasses.fields(thing)}
    return set(inspect.signature(thing).parameters)


def check_name(registry: Registry, spelled: str) -> str:
    """Check a name with options, as in mlp:hidden=256; the name."""
    name, options = as_source(spelled)
    assert name in registry, f"no {registry.kind} '{name}'"
    assert set(options) <= option_names(registry.load(name)), spelled
    return name


def check_values(arguments: dict[str, Any], hyper: dict[str, Any]) -> None:
    """Check what `train` would be given, as far as it can be without the data."""
    problems = Problems()
    choose_objectives(arguments.get("objective", "beta_vae"), hyper, problems)
    choose_priors(arguments.get("prior", "isotropic"), {}, problems)
    choose_supervisions(arguments.get("supervision"), problems)
    choose_network(arguments.get("network", "conv_burgess"), {}, problems)
    read_likelihood(arguments.get("likelihood", "bernoulli"))
    assert problems.found == []


def test_there_are_commands_to_check():
    assert len(lines()) >= 50
    assert len(inline()) >= 10


@pytest.mark.parametrize("line", lines())
def test_a_command_in_a_block_of_code_is_taken_by_the_parser(line: str):
    name, context = parsed(line)
    for option, registry in NAMED.items():
        given = context.params.get(option)
        for one in split_names(given) if given else ():
            if one not in GROUPS:
                check_name(registry, one)
    if VERBS[name].objective:
        given = context.params["objective"] or "beta_vae"
        spelled = [given] if isinstance(given, str) else given
        named = [check_name(OBJECTIVES, one) for word in spelled for one in split_names(word)]
        known = set().union(*(option_names(OBJECTIVES.load(one)) for one in named))
        hyper = parse_extra_options(context.args)
        assert set(hyper) <= known, line
        if name == "train":
            words = {one.name: (one, context.params[one.name]) for one in VERBS[name].options}
            given = {key: one.read(text) for key, (one, text) in words.items() if text}
            check_values(given, hyper)
    else:
        assert not context.args


@pytest.mark.parametrize("text", inline())
def test_a_command_in_running_text_exists_with_its_options(text: str):
    verb = VERBS[verb_name(text.split())]
    flags = {one.flag.split()[0] for one in verb.options}
    assert set(re.findall(r"(?<= )--[a-z-]+", text)) <= flags


def test_every_command_has_its_section():
    text = (ROOT / "docs" / "commands.md").read_text("utf-8")
    for name, verb in VERBS.items():
        section = text.split(f"\n## unbraid {name}\n")[1].split("\n## ")[0]
        for one in verb.options:
            assert f"| `{one.flag}` |" in section, (name, one.name)


@pytest.mark.parametrize(
    "line",
    [
        "unbraid trane dsprites",
        "unbraid train dsprites --betta 4",
        "unbraid train dsprites beta_vea",
        "unbraid train dsprites factor_vae:beta=4",
        "unbraid train dsprites --network mlp:hiden=3",
        "unbraid train dsprites --network mlp:hidden=many",
        "unbraid train dsprites --beta -3",
        "unbraid train dsprites --supervision labels:count=few",
        "unbraid train dsprites --likelihood gausian",
        "unbraid report runs/first --steps 3",
        "unbraid train",
    ],
)
def test_a_wrong_command_would_be_noticed(line: str):
    with pytest.raises((AssertionError, InputError, USAGE_ERROR)):
        test_a_command_in_a_block_of_code_is_taken_by_the_parser(line)
