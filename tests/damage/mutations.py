# SPDX-License-Identifier: Apache-2.0
"""Checks that are taken out of the package, each where another result must come out of it."""

from __future__ import annotations

import functools
import importlib
import inspect
import textwrap
from dataclasses import dataclass
from typing import Any

from .damages import Damage
from .kinds import OPEN, RESUME, RESUME_SEARCH, SCORE, Verb


@dataclass(frozen=True)
class Mutation:
    """A condition of a function, what stands in its place, and what shows it."""

    function: str
    condition: str
    instead: str
    kind: str
    verb: Verb
    damages: tuple[Damage, ...]
    """Of which one at least must: some bits say nothing, as those of the seconds that a score took.
    """

    def found(self) -> Any:
        """The function, which must have the condition."""
        module, _, name = self.function.partition(":")
        found = functools.reduce(getattr, name.split("."), importlib.import_module(module))
        told = f"{self.function} has changed: it does not say `{self.condition}` once"
        assert inspect.getsource(found).count(self.condition) == 1, told
        return found

    def apply(self) -> None:
        """Take it out, wherever in this process the function was imported to."""
        found, made = self.found(), {}
        source = textwrap.dedent(inspect.getsource(found))
        exec(source.replace(self.condition, self.instead), found.__globals__, made)
        found.__code__ = made[found.__name__].__code__


def _flips(file: str, *shares: float) -> tuple[Damage, ...]:
    return tuple(Damage(file, f"flip at {share}") for share in shares)


def _copy(file: str, source: str) -> tuple[Damage, ...]:
    return (Damage(file, "copy", source),)


SCORE_CODES = Verb("score {f} --metrics hoyer --device cpu")
"""By a metric that is not stored, so that codes are read."""
CODES = [f"codes/member-{member:05d}.safetensors" for member in (0, 1)]
WEIGHTS = [
    f"checkpoint/members-0000{member}-0000{member}.step-000000020.safetensors" for member in (0, 1)
]
BEGUN = "checkpoint/members-00000-00000.step-000000014.safetensors"
STATE = "population/state-000001.safetensors"

MUTATIONS: dict[str, Mutation] = {
    "the checksum of tables": Mutation(
        "unbraid.core.store:_checked_parquet",
        "hashlib.sha256(before + _PLACE_OF_CHECKSUM + after).hexdigest().encode() != promised",
        "False",
        "run",
        SCORE,
        _flips("scores.parquet", *(place / 50 for place in range(5, 20))),
    ),
    "the checksum of tensors": Mutation(
        "unbraid.core.store:read_tensors",
        "found != promised",
        "False",
        "run",
        SCORE_CODES,
        _flips(CODES[1], 0.9, 0.95),  # where numbers lie
    ),
    "the checksum of records": Mutation(
        "unbraid.core.store:read_json",
        "found != promised",
        "False",
        "pbt",
        RESUME_SEARCH,
        _flips("winner.json", *(place / 300 for place in range(44, 56))),  # the score's digits
    ),
    "of which run a table is": Mutation(
        "unbraid.core.store:read_table",
        "found.get(name, value) != value",
        "False",
        "run",
        OPEN,
        _copy("members.parquet", "other/members.parquet"),
    ),
    "of which run codes are": Mutation(
        "unbraid.codes.codes:MemberFiles.read",
        "found.get(name) != value",
        "name != 'plan' and found.get(name) != value",
        "run",
        SCORE_CODES,
        _copy(CODES[0], f"other/{CODES[0]}"),
    ),
    "of which member codes are": Mutation(
        "unbraid.codes.codes:MemberFiles.read",
        "found.get(name) != value",
        "name != 'member' and found.get(name) != value",
        "run",
        SCORE_CODES,
        _copy(*CODES),
    ),
    "of which run weights are": Mutation(
        "unbraid.population.checkpoint:Checkpoints._check_plan",
        'about.get("plan") not in (self.plan_digest, *self.former_digests)',
        "False",
        "stopped-run",
        RESUME,
        _copy(BEGUN, f"other/{BEGUN}"),
    ),
    "of which members weights are": Mutation(
        "unbraid.population.checkpoint:Checkpoints._read",
        'about.get("members") != list(self.members)',
        "False",
        "run",
        OPEN,
        _copy(*WEIGHTS),
    ),
    "of which search a state is": Mutation(
        "unbraid.search.pbt.state:StateFiles._read",
        'about.get("search") != self.search_digest',
        "False",
        "stopped-pbt",
        RESUME,
        _copy(STATE, f"other/{STATE}"),
    ),
    "of which search a page is": Mutation(
        "unbraid.report.page:is_whole_page",
        'told == f"{made_from} -->\\n".encode()',
        "True",
        "pbt",
        RESUME_SEARCH,
        _copy("pbt.html", "other/pbt.html"),
    ),
    "the images that a discovery began with": Mutation(
        "unbraid.commands.discover:resume_folder",
        "dataset.fingerprint() != plan.root.plan.data_fingerprint",
        "False",
        "legacy-discover",
        RESUME,
        _flips("images.npy", 0.5),
    ),
}
