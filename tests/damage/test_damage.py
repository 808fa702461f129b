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
from .oracle import Place

SAMPLED = 3
"""Cases of each kind in the usual suite."""
Case = tuple[Damage, Verb]


def cases(place: Place) -> list[Case]:
    """Every damage that each command meets."""
    folder = place.master / place.folder.name
    found = damages(folder, place.other, place.files())
    return [(damage, verb) for damage in found for verb in place.kind.verbs]


def told(place: Place, tried: list[Case], patch: str = "") -> list[str]:
    """What is wrong with each of the cases."""
    return [
        f"{place.kind.name}: {damage}: {verb.words}\n    {complaint}"
        for damage, verb in tried
        for complaint in place.complaints(damage, verb, patch)
    ]


@pytest.mark.parametrize("kind", [kind.name for kind in KINDS if not kind.slow])
def test_some_damage_of_each_kind_is_met(kind: str, places: Places) -> None:
    place = places(kind)
    some = random.Random(kind).sample(cases(place), SAMPLED)
    assert not (wrong := told(place, some)), "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.timeout(3 * 3600)
@pytest.mark.parametrize("kind", [kind.name for kind in KINDS])
def test_all_damage_of_each_kind_is_met(kind: str, places: Places) -> None:
    place = places(kind)
    assert not (wrong := told(place, cases(place))), "\n".join(wrong)


@pytest.mark.parametrize(
    ("patch", "file"),
    [
        ("trust_tables", "scores.parquet"),
        ("trust_tensors", "codes/member-00001.safetensors"),
        ("trust_records", "plan.json"),
    ],
)
def test_without_a_checksum_the_harness_complains(patch: str, file: str, places: Places) -> None:
    place = places("run")
    # Some bits say nothing, as those of the seconds that a score took.
    shares = (0.12, 0.5, 0.6, 0.65, 0.9, 0.95, *(place / 50 for place in range(2, 50)))
    flips = [Damage(file, f"flip at {share}") for share in shares]
    score = place.kind.verbs[0]
    seen = next((flip for flip in flips if told(place, [(flip, score)], patch)), None)
    assert seen is not None
    assert not told(place, [(seen, score)]), "else it complains anyway"
