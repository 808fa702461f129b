# SPDX-License-Identifier: Apache-2.0
"""Damage of every file of every kind of folder: found and named with its remedy, or repaired.

By default a few cases of each kind, always the same; the slow test tries all.
"""

from __future__ import annotations

import random

import pytest

from .conftest import Places
from .damages import Damage, damages
from .kinds import KINDS, Verb
from .mutations import MUTATIONS
from .oracle import Place

SAMPLED = 3
"""Cases of each kind in the usual suite; one is of a file that was copied or swapped."""
Case = tuple[Damage, Verb]


def cases(place: Place) -> list[Case]:
    """Every damage that each command meets."""
    folder = place.master / place.folder.name
    found = damages(folder, place.other, place.files())
    return [(damage, verb) for damage in found for verb in place.kind.verbs]


def told(place: Place, tried: list[Case], mutation: str = "") -> list[str]:
    """What is wrong with each of the cases."""
    return [
        f"{place.kind.name}: {damage}: {verb.words}\n    {complaint}"
        for damage, verb in tried
        for complaint in place.complaints(damage, verb, mutation)
    ]


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS if not kind.slow])
def test_some_damage_of_each_kind_is_met(kind: str, places: Places) -> None:
    place = places(kind)
    chosen, every = random.Random(kind), cases(place)
    moved = [case for case in every if case[0].source]
    some = chosen.sample(every, SAMPLED - 1) + chosen.sample(moved or every, 1)
    assert not (wrong := told(place, some)), "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_all_damage_of_each_kind_is_met(kind: str, places: Places) -> None:
    place = places(kind)
    assert not (wrong := told(place, cases(place))), "\n".join(wrong)


@pytest.mark.parametrize("name", MUTATIONS)
def test_what_is_taken_out_is_noticed_by_another_result(name: str, places: Places) -> None:
    out = MUTATIONS[name]
    assert out.found()
    place = places(out.kind)
    seen = next(
        (one for one in out.damages if is_another_result(place.complaints(one, out.verb, name))),
        None,
    )
    assert seen is not None
    assert not told(place, [(seen, out.verb)]), "else it complains anyway"


def is_another_result(complaints: list[str]) -> bool:
    """Whether that is what is wrong, and nothing failed."""
    results = ("another result", "after the remedy another result")
    files = ("has another content", "is new", "is gone")
    return bool(complaints) and all(
        one.startswith(results) or one.endswith(files) for one in complaints
    )
