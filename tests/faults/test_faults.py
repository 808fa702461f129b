# SPDX-License-Identifier: Apache-2.0
"""Killed, cut off or out of disk anywhere, a command is gone on with to the very same files."""

from __future__ import annotations

import os
import random

import pytest

from .player import Player
from .scenarios import SCENARIOS

SEED = int(os.environ.get("UNBRAID_FAULT_SEED", "0"))
CHEAP, DEAR = 6, 1
"""Faults of a scenario in the default suite."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if name == "rpu_same_labels" else name
        for name in SCENARIOS
    ],
)
def test_some_faults_change_no_bit(player: Player, name: str):
    faults = player.faults(name)
    count = min(DEAR if SCENARIOS[name].dear else CHEAP, len(faults))
    for fault in random.Random(f"{SEED} {name}").sample(faults, count):
        assert player.disturbed(name, fault) == [], fault


@pytest.mark.slow
@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("name", SCENARIOS)
def test_no_fault_changes_a_bit(player: Player, name: str):
    wrong = {
        fault: found for fault in player.faults(name) if (found := player.disturbed(name, fault))
    }
    assert not wrong
