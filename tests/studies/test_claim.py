# SPDX-License-Identifier: Apache-2.0
"""Claims are read whole or refused with every mistake; a verdict is clear or undecided."""

from __future__ import annotations

from pathlib import Path

import pytest

from unbraid.studies.claim import Claim, Rule, read_claims
from unbraid.studies.finding import Estimate, Finding

from .toy_study import CLAIMS


def estimate(low: float, high: float, name: str = "rho") -> Estimate:
    return Estimate(name, (low + high) / 2, low, high, 10)


@pytest.mark.parametrize(
    ("side", "low", "high", "verdict"),
    [
        ("above", 0.6, 0.8, "reproduced"),
        ("above", 0.4, 0.8, "undecided"),
        ("above", 0.1, 0.4, "not reproduced"),
        ("above", 0.5, 0.8, "undecided"),
        ("below", 0.1, 0.4, "reproduced"),
        ("below", 0.4, 0.8, "undecided"),
        ("below", 0.6, 0.8, "not reproduced"),
        ("above", float("nan"), float("nan"), "undecided"),
    ],
)
def test_a_rule_is_clear_where_the_whole_interval_is_on_one_side(side, low, high, verdict):
    assert Rule("rho", side, 0.5, "95%").verdict(estimate(low, high)) == verdict


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ((0.6, 0.7), (0.1, 0.2), "reproduced"),
        ((0.6, 0.7), (0.1, 0.9), "undecided"),
        ((0.6, 0.7), (0.6, 0.9), "not reproduced"),
        ((0.4, 0.7), (0.6, 0.9), "not reproduced"),
    ],
)
def test_a_claim_needs_all_its_rules(first, second, verdict):
    rules = (Rule("a", "above", 0.5, "95%"), Rule("b", "below", 0.5, "95%"))
    claim = Claim("X", "page 1", "So.", "0.7", "text", "it", rules)
    found = Finding((estimate(*first, name="a"), estimate(*second, name="b")))
    assert claim.verdict(found) == verdict
    assert claim.verdict(None) == "not run"


def test_claims_are_read_in_order(tmp_path: Path):
    (tmp_path / "claims.toml").write_text(CLAIMS)
    first, second, third = read_claims(tmp_path / "claims.toml")
    assert [first.id, second.id, third.id] == ["TOY-1", "TOY-2", "TOY-3"]
    assert second.rules == (Rule("mig", "below", 0.5, "the range"),)
    assert (second.pools, second.data, third.data) == (("cars",), ("cars3d",), ())


def test_every_mistake_in_a_file_of_claims_is_told(tmp_path: Path, refused):
    path = tmp_path / "claims.toml"
    text = CLAIMS.replace('id = "TOY-2"', 'id = "TOY-1"').replace('side = "above"', 'side = "up"')
    text = text.replace('place = "page 3"\n', "").replace('source = "text"', 'sauce = "text"')
    path.write_text(text + '\n[[claim]]\nid = "TOY-4"\nplace = "page 4"\nscale = "big"\n')
    told = "\n".join(" ".join(one) for one in refused(read_claims, path))
    for words in ("must have no 'sauce'", "must be one of above, below up", "must have place"):
        assert words in told
    assert "claim TOY-4" in told
    assert "must be one of small, gpu, paper big" in told
    assert "must have at least one [[claim.rule]]" in told


def test_an_id_is_used_once(tmp_path: Path, refused):
    path = tmp_path / "claims.toml"
    path.write_text(CLAIMS.replace('id = "TOY-2"', 'id = "TOY-1"'))
    ((name, rule, _),) = refused(read_claims, path)
    assert (name, rule) == (f"claim TOY-1 of {path}", "must have an id of its own")


def test_a_file_that_is_no_toml_is_named(tmp_path: Path, refused):
    (tmp_path / "claims.toml").write_text("[[claim")
    ((name, rule, _),) = refused(read_claims, tmp_path / "claims.toml")
    assert (name, rule) == (str(tmp_path / "claims.toml"), "must be TOML")
