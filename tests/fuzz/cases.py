# SPDX-License-Identifier: Apache-2.0
"""The cases of every target: what is kept, and new ones by their seed.

`corpus/` keeps inputs that reach some place no smaller one reaches, as `make fuzz` found them;
`found/` those that once did what they must not. Both have a file for each target and a line for
each input, escaped as in Python.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.fuzz import commands
from tests.fuzz.targets import TARGETS, Target

HERE = Path(__file__).parent
ALL = {**TARGETS, commands.TARGET.name: commands.TARGET}


def read(folder: str, name: str) -> list[bytes]:
    """The kept inputs of a target."""
    path = HERE / folder / f"{name}.txt"
    lines = path.read_text("ascii").splitlines() if path.is_file() else []
    return [line.encode().decode("unicode_escape").encode("latin-1") for line in lines]


def write(folder: str, name: str, inputs: Iterable[bytes]) -> None:
    """Keep the inputs of a target, each once, the short ones first."""
    lines = [
        one.decode("latin-1").encode("unicode_escape").decode("ascii")
        for one in sorted(set(inputs), key=lambda one: (len(one), one))
    ]
    path = HERE / folder / f"{name}.txt"
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines))


def kept(name: str) -> list[bytes]:
    """Every kept input of a target."""
    return [*read("found", name), *read("corpus", name)]


def cases(target: Target, seed: str, count: int) -> Iterator[bytes]:
    """What is kept, then *count* new inputs; the same for the same seed."""
    own = kept(target.name)
    yield from own
    for number in range(count):
        yield target.inputs(random.Random(f"{target.name}/{seed}/{number}"), own)
