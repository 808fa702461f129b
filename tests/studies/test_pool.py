# SPDX-License-Identifier: Apache-2.0
"""Pools and slices have file names of their own, and stages that rise to the last step."""

from __future__ import annotations

import pytest

from unbraid.studies.pool import Pool, Slice, check_pools


def part(name: str = "one", stages: tuple[int, ...] = ()) -> Slice:
    return Slice(name, {"data": "sprites", "steps": 20}, ("mig",), stages=stages)


def test_good_pools_are_fine():
    pools = (Pool("a", "", (part("x-1_b", (5, 10)), part("two"))), Pool("b", "", (part("two"),)))
    check_pools(pools)


@pytest.mark.parametrize("stages", [(5, 5), (10, 5), (0, 5), (5, 20), (30,)])
def test_stages_rise(stages: tuple[int, ...], refused):
    ((name, _, value),) = refused(check_pools, [Pool("a", "", (part("one", stages),))])
    assert (name, value) == ("stages of slice one", str(stages))


def test_settings_are_columns_of_their_own(refused):
    one = Slice("one", {"data": "sprites"}, ("mig",), settings=("spacing", "data", "seed"))
    ((name, _, value),) = refused(check_pools, [Pool("a", "", (one,))])
    assert (name, value) == ("settings of slice one", "data, seed")


def test_names_are_file_names_of_their_own(refused):
    pools = [Pool("a", "", (part("one"), part("one"), part("../up"))), Pool("a", "", ())]
    found = refused(check_pools, pools)
    assert [(name, value) for name, _, value in found] == [
        ("name of a slice of pool a", "one"),
        ("name of a slice of pool a", "../up"),
        ("name of a pool", "a"),
    ]
