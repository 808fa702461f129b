# SPDX-License-Identifier: Apache-2.0
"""The lists show everything registered, with the options as they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from unbraid.commands.list import KINDS, entries, registry
from unbraid.commands.list import list as listing
from unbraid.core.errors import InputError
from unbraid.core.registry import Registry

HOME = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("kind", KINDS)
def test_everything_registered_is_listed(kind: str):
    rows = entries(kind)
    assert [row.name for row in rows] == [*registry(kind)]
    text = listing(kind)
    assert text.splitlines()[0] == kind
    width = max([16, *(len(row.name) for row in rows)]) + 2
    for row in rows:
        assert row.summary.endswith((".", ":")) or len(row.summary) > 20, row
        assert (HOME / row.file).is_file()
        assert f"  {row.name:<{width}}{row.summary}" in text.splitlines()


def test_options_are_shown_with_their_defaults():
    lines = listing("objectives").splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("  beta_vae "))
    assert lines[at + 1].startswith(f"  {'':<18}Higgins et al. (2017). β-VAE: ")
    assert lines[at + 2] == f"  {'':<18}options: beta=4"
    assert (
        f"  {'':<18}options: hidden=1200, encoder_layers=2, decoder_layers=3, activation=tanh,"
        " scale=logvar, decoder_scale=none, start=glorot" in listing("networks").splitlines()
    )
    assert "  options: bins=20\n" in listing("metrics")
    assert "scale_max=0.2" in listing("data")


def test_metrics_that_dead_codes_score_well_by_say_so():
    lines = listing("metrics").splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("  jemmig "))
    assert "dead codes can score well" in "".join(lines[at : at + 4])
    told = sum("dead codes can score well" in line for line in lines)
    assert told == sum(bool(row.remark) for row in entries("metrics")) == 9


def test_all_lists_come_one_after_the_other():
    assert listing() == "\n\n".join(listing(kind) for kind in KINDS)


def test_an_empty_list_says_so(monkeypatch: pytest.MonkeyPatch):
    empty = Registry("study", "unbraid.none", {})
    monkeypatch.setattr("unbraid.studies.STUDIES", empty)
    assert listing("studies") == "studies\n  none yet"


def test_unknown_lists_are_refused(unbraid):
    with pytest.raises(InputError) as caught:
        listing("objective")
    (problem,) = caught.value.problems
    assert (problem.name, problem.value) == ("kind", "objective")
    assert "did you mean 'objectives'?" in problem.sentence
    assert unbraid("list", "objective") == (2, "", f"unbraid: {problem}\n")


def test_the_command_prints_it(unbraid):
    assert unbraid("list", "metrics") == (0, listing("metrics") + "\n", "")
