# SPDX-License-Identifier: Apache-2.0
"""What a study's tables say of its claims: findings, verdicts, and why something was not run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unbraid.studies.claim import Claim, Verdict
from unbraid.studies.finding import Finding
from unbraid.studies.results import Results

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Judged:
    """A claim, what was found and what follows."""

    claim: Claim
    finding: Finding | None
    verdict: Verdict
    why: str = ""
    """Of one that was not run, why; of any other, the data that it lacks."""


def judge(results: Results, table: pd.DataFrame | None = None) -> tuple[Judged, ...]:
    """Every claim of the study with its verdict by *table*, by default that of *results*."""
    models = results.table() if table is None else table
    return tuple(_judged(results, claim, models) for claim in results.study.claims)


def within_reach(results: Results) -> tuple[Claim, ...]:
    """The claims that a scale can speak of once all of its slices are made, at most: it has some of
    their pools, or their data where they need no models. Whether what is there suffices says the
    analysis alone, and only then.
    """
    pools = {pool.name for pool in results.pools}
    data = {one.data for _, one in results.slices()}
    return tuple(
        claim
        for claim in results.study.claims
        if claim.scale in ("", results.scale)
        and (pools & {*claim.pools} if claim.pools else data.issuperset(claim.data))
    )


def _judged(results: Results, claim: Claim, table: pd.DataFrame) -> Judged:
    analysis = results.study.analyses.get(claim.id)
    lacking = _lacking(results, claim, table)
    if analysis is None:
        return Judged(claim, None, "not run", "It has no analysis yet.")
    if claim.scale not in ("", results.scale):
        why = f"Only the scale `{claim.scale}` trains what it asks for. {lacking}".rstrip()
        return Judged(claim, None, "not run", why)
    own = table.loc[table["pool"].isin(list(claim.pools))]
    if claim.pools and own.empty:
        return Judged(claim, None, "not run", lacking or _no_tables(results, claim.pools))
    if unfinished := _unfinished(results, claim, own):
        return Judged(claim, None, "not run", unfinished)
    finding = analysis(table)
    if finding is None:
        places = [f"pool {', '.join(claim.pools)}"]
        places += [f"the tables of {name}" for name in claim.beside]
        on = f" on {', '.join(claim.data)}" if claim.beside else ""
        why = lacking or f"The models it needs{on} are not in {' or not in '.join(places)}."
        return Judged(claim, None, "not run", why)
    return Judged(claim, finding, claim.verdict(finding), lacking)


def _unfinished(results: Results, claim: Claim, own: pd.DataFrame) -> str:
    """How much of its pools is trained where that is a part: its rule is for all of them."""
    there = {*zip(own["pool"], own["slice"], strict=True)}
    begun = [
        pool
        for pool in results.pools
        if pool.name in claim.pools
        and (not pool.needs or any((pool.name, one.name) in there for one in pool.slices))
    ]
    planned = [(pool.name, one) for pool in begun for one in pool.slices]
    named = [part for part in planned if part[1].data in claim.data] or planned
    done = sum((pool, one.name) in there for pool, one in named)
    if not 0 < done < len(named):
        return ""
    command = run_command(results, results.scale, [*dict.fromkeys(pool for pool, _ in named)])
    made = {one.data for pool, one in named if (pool, one.name) in there}
    without = [one.data for _, one in named if one.data not in made]
    none = f", none on {', '.join(dict.fromkeys(without))}" if without else ""
    return f"{done} of {len(named)} slices are made{none}: {command}"


def _lacking(results: Results, claim: Claim, table: pd.DataFrame) -> str:
    """The claim's data without models, and what they wait for; empty where none is lacking."""
    own = table.loc[table["pool"].isin(list(claim.pools))] if claim.pools else table
    absent = [name for name in claim.data if name not in set(own["data"])]
    pools = [pool for pool in results.pools if pool.name in claim.pools]
    waiting = [pool for pool in results.pools if pool.needs]
    needed = {one.data for pool in waiting for one in pool.slices}
    planned = {one.data for pool in pools for one in pool.slices} - needed
    published = [
        need
        for pool in waiting
        for need in pool.needs
        if any(one.data in absent for one in pool.slices)
    ]
    others = [name for name in absent if name in planned]
    never = [name for name in absent if name not in needed | planned]
    said = []
    if never:
        said.append(f"The scale {results.scale} trains none on {', '.join(never)}.")
    if published:
        word = "file" if len(published) == 1 else "files"
        said.append(f"Needs the published {word} of {', '.join(published)}.")
    if others:
        free = [pool.name for pool in pools if not pool.needs]
        said.append(_no_tables(results, free or claim.pools, f" on {', '.join(others)}"))
    return " ".join(said)


def _no_tables(results: Results, pools: Sequence[str], data: str = "") -> str:
    command = run_command(results, results.scale, pools)
    return f"No models of {','.join(pools)}{data} yet: {command}"


def run_command(results: Results, scale: str, pools: Sequence[str]) -> str:
    """What makes the tables of some *pools*, or of all, of the same seeds in the same folder."""
    words = f"unbraid study run {results.study.name} --scale {scale}"
    words += f" --pool {','.join(pools)}" if pools else ""
    seeds = f" --first-seed {results.first_seed}" if results.first_seed else ""
    return words + results.place_given + seeds
