# SPDX-License-Identifier: Apache-2.0
"""With a guarantee taken out of the package, the check that is for it fails."""

from __future__ import annotations

import pytest

from .mutations import MUTATIONS
from .player import CHECKS, Fault, Player


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_what_is_taken_out_is_noticed(player: Player, mutation: str):
    out = MUTATIONS[mutation]
    assert out.check in CHECKS
    found = player.disturbed(out.scenario, out.fault, mutation)
    assert out.check in {one.check for one in found}


@pytest.mark.parametrize(
    ("scenario", "fault"),
    sorted({(one.scenario, one.fault) for one in MUTATIONS.values() if one.fault}, key=str),
)
def test_with_it_nothing_is_found(player: Player, scenario: str, fault: Fault):
    assert player.disturbed(scenario, fault) == []
