# SPDX-License-Identifier: Apache-2.0
"""Seeded cases for every parser, reader and command: each is taken or refused, by one message.

Elsewhere than in CI every run tries others; `make fuzz` looks for more, guided by coverage.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator

import pytest
from tests.fuzz import cases
from tests.fuzz.child import Child

SEED = "ci" if os.environ.get("CI") == "true" else str(random.SystemRandom().getrandbits(32))
IN_A_RUN = ("plan", "checkpoint", "code_file", "members_table", "scores_table")
COUNTS = {"command": 110, "published_dsprites": 12} | dict.fromkeys(IN_A_RUN, 8)
"""Where a case takes tenths of a second; else 150, in about half a second."""


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    found = Child()
    yield found
    found.end()


@pytest.mark.skipif(os.name != "posix", reason="forks")
@pytest.mark.parametrize("name", cases.ALL)
def test_every_input_is_taken_or_refused(name: str, child: Child) -> None:
    found = child.run(name, SEED, COUNTS.get(name, 150))
    told = "\n".join(f"{text}\n{why}" for text, why in found["findings"].items())
    assert not told, f"{name}, seed {SEED}:\n{told}"
    assert found["cases"] >= 8
