# SPDX-License-Identifier: Apache-2.0
"""The lists show everything registered, with the options as they are typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from unbraid.commands.list import KINDS, entries, listing
from unbraid.core.errors import InputError

HOME = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize("kind", list(KINDS))
def test_everything_registered_is_listed(kind: str):
    rows = entries(kind)
    assert [row.name for row in rows] == list(KINDS[kind])
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
        " scale=logvar" in listing("networks").splitlines()
    )
    assert "  options: bins=20\n" in listing("metrics")
    assert "scale_max=0.2" in listing("data")


def test_all_lists_come_one_after_the_other():
    assert listing() == "\n\n".join(listing(kind) for kind in KINDS)


def test_an_empty_list_says_so(monkeypatch: pytest.MonkeyPatch):
    from unbraid.core.registry import Registry

    monkeypatch.setitem(KINDS, "studies", Registry("study", "unbraid.none", {}))
    assert listing("studies") == "studies\n  none yet"


def test_unknown_lists_are_refused():
    with pytest.raises(InputError) as caught:
        listing("objective")
    assert (
        str(caught.value)
        == "list 'objective' is unknown; did you mean 'objectives'? Known: data, metrics, networks,"
        " objectives, priors, studies."
    )
