# SPDX-License-Identifier: Apache-2.0
"""Undisturbed commands keep to the protocol that makes crashes harmless, as the system sees it."""

from __future__ import annotations

import pytest

from unbraid.core.failpoints import POINTS

from .player import Player
from .scenarios import SCENARIOS

ONLY_AFTER_DAMAGE = {"file.aside"}


@pytest.mark.parametrize("name", SCENARIOS)
def test_files_are_synced_renamed_and_locked(player: Player, name: str):
    played, files = player.undisturbed(name)
    assert (played.status, played.code) == (0, 0), played.said
    assert played.findings == []
    assert files


def test_every_failpoint_is_met(player: Player):
    met = {point for name in SCENARIOS for point in player.undisturbed(name)[0].hits}
    assert met == set(POINTS) - ONLY_AFTER_DAMAGE


def test_a_damaged_checkpoint_is_set_aside_for_good(player: Player):
    assert player.disturbed("extend", ("chunk.done", 1, "damage")) == []
    assert "file.aside" in player.last.hits
