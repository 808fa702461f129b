# SPDX-License-Identifier: Apache-2.0
"""Studies: papers whose claims anybody can put to the test again."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unbraid.commands import options as declared
from unbraid.commands.on_ray import check_on, ray_kind, study_on_ray
from unbraid.commands.verb import Option, command
from unbraid.core.checks import above_zero, read_whole
from unbraid.core.errors import InputError, Problem, StoppedError, invalid
from unbraid.core.folders import check_exists
from unbraid.core.spelling import split_list

if TYPE_CHECKING:
    import torch

    from unbraid.studies.results import Results
    from unbraid.studies.run_slices import Ended, Part
    from unbraid.studies.standing import Standing
    from unbraid.studies.study import Study
    from unbraid.studies.verdicts import Judged

Name = Annotated[str, Option("A study (`unbraid study list`).")]
ScaleName = Annotated[
    str,
    Option(
        "small: minutes on two cores, to see it work; gpu: the committed tables; paper: all of it."
    ),
]
ResultsFolder = Annotated[
    str | Path | None, Option("Folder of the tables; by default the study's own.")
]


@dataclass(frozen=True)
class StudyRun:
    """What a call of `run` did, and how far the study is now."""

    ended: Ended
    standing: Standing
    claims: str = ""
    """At the scale small, of how many claims its tables speak."""

    def summary(self) -> str:
        """What was made, what was left and why, and what to type next."""
        from unbraid.core.words import spoken

        ended, left = self.ended, self.standing.left()
        lines = [f"Made: {', '.join(ended.made)}" if ended.made else "No table was made."]
        for words, names in (
            ("Stopped by the time limit, with a checkpoint", ended.unfinished),
            ("Another process works at", ended.elsewhere),
            ("Too long for the time limit", ended.too_long),
        ):
            if names:
                lines.append(f"{words}: {', '.join(names)}")
        for name, why in ended.waiting.items():
            lines.append(f"{name} {why}")
        for why in dict.fromkeys(ended.without_data.values()):
            names = (name for name, told in ended.without_data.items() if told == why)
            lines.append(f"No data for {', '.join(names)}: {why}")
        if ended.too_long and not ended.made and not ended.unfinished:
            times = [one.seconds for one in left if one.state != "at work"]
            if times:  # else another process has begun them meanwhile
                lines.append(f"The shortest that is left takes about {spoken(min(times))}.")
        lines.append(self.standing.summary().partition("\n")[0])
        return "\n".join([*lines, self.claims] if self.claims else lines)


@command
def run(
    name: Name,
    *,
    scale: ScaleName = "gpu",
    minutes: Annotated[
        float | None,
        Option(
            "Stop then, and begin no slice that would not end by then; what is begun goes on, and"
            " keeps what it reaches. By default no limit."
        ),
    ] = None,
    pool: Annotated[
        str | Sequence[str] | None, Option("Only these pools, with commas; by default all.")
    ] = None,
    slices: Annotated[
        str | Sequence[str] | None, Option("Only these slices, with commas; by default all.")
    ] = None,
    first_seed: Annotated[
        int, Option("Seeds from this number on; fresh ones need a results folder of their own.")
    ] = 0,
    results: ResultsFolder = None,
    work: Annotated[
        str | Path | None,
        Option("Folder for unfinished slices; by default a hidden one beside the tables."),
    ] = None,
    keep_models: Annotated[
        bool,
        Option(
            "Keep the models of each slice beside its table, so that `unbraid explore` can open"
            " them: as large as a run."
        ),
    ] = False,
    device: declared.Device = "auto",
    on: declared.On = "here",
    address: declared.Address = None,
    list: Annotated[
        bool, Option("Say what is done, what is left and how long it will take; run nothing.")
    ] = False,
    yes: Annotated[bool, Option("Start a study at the scale of its paper.")] = False,
    quiet: declared.Quiet = False,
    command: declared.Command = "",
) -> StudyRun | Standing:
    """Train and score the next slices of a study; each ends as one table.

    What was stopped or killed goes on with the same command, from its last checkpoint. Several
    processes may share a results folder.
    """
    from unbraid.population.devices import choose_device
    from unbraid.studies.run_slices import run_slices
    from unbraid.studies.standing import standing

    study = _study(name)
    where, seed = _own_results(study, results, read_whole("first_seed", first_seed, 0))
    limit = None if minutes is None else above_zero("minutes", minutes)
    tables = _results(study, scale, where, seed)
    parts = _parts(tables, _names(pool), _names(slices))
    if check_on(on, address) and not list:
        if limit is not None:
            raise invalid("minutes", "is no limit for a cluster", minutes, "Leave it out.")
        return _on_ray(tables, parts, device, address, work, keep_models, quiet)
    chosen = choose_device(device)
    small = tables.scale == "small"
    if list:
        return standing(tables, parts, chosen, work)
    if small and not quiet:
        _tell_reach(tables, standing(tables, parts, chosen, work))
    if tables.scale == "paper":
        _tell_cost(tables, parts, chosen, yes)
    go_on = f"Go on with: {command}" if command else "The same call goes on."
    options: dict[str, Any] = {"work": work, "minutes": limit, "quiet": quiet}
    ended = run_slices(tables, parts, chosen, keep_models=keep_models, go_on=go_on, **options)
    told = _told_claims(tables) if small else ""
    return StudyRun(ended, standing(tables, parts, chosen, work), told)


def _on_ray(
    tables: Results,
    parts: Sequence[Part],
    device: str,
    address: str | None,
    work: str | Path | None,
    keep_models: bool,
    quiet: bool,
) -> StudyRun:
    from unbraid.population.devices import choose_device
    from unbraid.studies.data_at_hand import DataAtHand
    from unbraid.studies.run_slices import Ended, lacking, name_of, work_folder
    from unbraid.studies.standing import standing

    kind, ended = ray_kind(device), Ended()
    data = DataAtHand(tables, work_folder(tables, work))
    there = []
    for part in parts:
        name, left = name_of(*part), not tables.done(*part)
        if left and (why := data.missing(part[1]) or lacking(tables, part, work)):
            ended.without_data[name] = why
        elif left and (why := data.waits_for(part[1])):
            ended.waiting[name] = why
        else:
            there.append(part)
    try:
        ended.made = study_on_ray(tables, there, kind, address, work, keep_models, quiet)
    except KeyboardInterrupt:
        told = "stopped; what every slice had reached is kept. The same command goes on."
        raise StoppedError(told) from None
    return StudyRun(ended, standing(tables, parts, choose_device("cpu"), work))


@command
def check(
    name: Name, *, scale: ScaleName = "gpu", results: ResultsFolder = None
) -> tuple[Judged, ...]:
    """Say of every claim of a study what the paper has, what we have, and the verdict."""
    from unbraid.studies.verdicts import judge

    return judge(_tables(name, scale, results))


@command
def report(
    name: Name,
    *,
    scale: ScaleName = "gpu",
    results: ResultsFolder = None,
    out: Annotated[
        str | Path | None, Option("File of the page; by default NAME-SCALE.html, here.")
    ] = None,
) -> Path:
    """Write a study's page, one HTML file that opens offline, from its tables; returns its path."""
    from unbraid.report.study.context import write_study

    tables = _tables(name, scale, results)
    return write_study(_page_place(out, f"{tables.study.name}-{tables.scale}.html"), tables)


def _page_place(out: str | Path | None, usual: str) -> Path:
    """Where the page goes; a file that is no such page is not written over."""
    from unbraid.report.page import is_page

    page = Path(usual) if out is None else Path(out)
    remedy = f"Give a file, as in {{out={usual}}}."
    if page.is_dir():
        raise invalid("out", "must be a file", str(page), remedy)
    nearest = next((place for place in page.parents if place.exists()), page.parent)
    if not nearest.is_dir():
        raise invalid("out", "must lie in a folder", str(page), remedy)
    if page.exists() and not is_page(page, "study"):
        raise invalid("out", "must not be a file of another kind", str(page), remedy)
    return page


@command
def list() -> str:
    """List the studies there are, with their papers."""
    from unbraid.commands.list import list as listing

    return listing("studies")


def _study(name: str) -> Study:
    from unbraid.studies import STUDIES

    return STUDIES.load(name)


def _results(study: Study, scale: str, folder: str | Path | None, seed: int | None) -> Results:
    from unbraid.studies.results import Results

    return Results(study, scale, folder, seed)


def _tables(name: str, scale: str, folder: str | Path | None) -> Results:
    """The tables of a study, in a folder that must be there where one is named."""
    study = _study(name)
    if folder is not None:
        check_exists("results", folder)
    return _results(study, scale, folder, None)


def _own_results(
    study: Study, results: str | Path | None, first_seed: int
) -> tuple[str | Path | None, int]:
    """Refuse fresh seeds for the tables that come with a study."""
    own = study.folder / "results"
    if first_seed and (results is None or Path(results).absolute() == own.absolute()):
        rule = "can be other than 0 with a results folder of its own alone"
        remedy = "Fresh seeds must not mix with those of the study: give {results=FOLDER}."
        raise invalid("first_seed", rule, first_seed, remedy)
    return results, first_seed


def _names(given: str | Sequence[str] | None) -> tuple[str, ...]:
    return tuple(split_list(given) if isinstance(given, str) else given or ())


def _parts(results: Results, pools: Sequence[str], slices: Sequence[str]) -> Sequence[Part]:
    """The slices that are asked for; unknown names are refused, all at once."""
    from unbraid.core.errors import Problems, unknown

    problems = Problems()
    known = {pool.name for pool in results.pools}
    for name in pools:
        if name not in known:
            problems.say(unknown("pool", name, known))
    parts = [part for part in results.slices() if not pools or part[0].name in pools]
    found = {one.name for _, one in parts}
    for name in slices:
        if name not in found and parts:
            problems.say(unknown("slice", name, found))
    problems.raise_if_any()
    return [part for part in parts if not slices or part[1].name in slices]


def _tell_cost(results: Results, parts: Sequence[Part], device: torch.device, yes: bool) -> None:
    """Say what a whole paper takes, and start it only if that was agreed to."""
    from unbraid.studies.standing import cost

    told = f"{results.study.name} at scale paper is {cost(results, parts, device)}."
    if not yes:
        rule = "must be given to start a study at the scale of its paper"
        raise InputError(Problem("yes", rule, False, "Start it with {yes=True}.", told))
    print(told, file=sys.stderr, flush=True)


def _tell_reach(results: Results, found: Standing) -> None:
    """Say what a run at the scale small takes, and of how many claims it can speak."""
    from unbraid.studies.verdicts import within_reach

    reach, claims = len(within_reach(results)), len(results.study.claims)
    told = f"At this scale {reach} of {claims} claims can be judged at most."
    print(f"{found.summary().partition(chr(10))[0]}. {told}", file=sys.stderr, flush=True)


def _told_claims(results: Results) -> str:
    """Of how many claims the tables that are there speak."""
    from unbraid.studies.verdicts import judge

    judged = [one.verdict != "not run" for one in judge(results)]
    return f"These tables speak of {sum(judged)} of {len(judged)} claims. {_OF_SMALL}"


_OF_SMALL = "Scale small tests the machinery: its verdicts say nothing about the paper."


def shown(verb: str, made: Any, given: dict[str, Any]) -> str:
    """What was made or found, and what to type next."""
    if verb == "list":
        return made
    if verb == "check":
        small = given.get("scale") == "small"
        return _verdicts(made) + (f"\n{_OF_SMALL}" if small else "")
    if verb == "report":
        return f"Open in a browser: {made}"
    options = [
        word
        for key in ("scale", "results")
        if key in given
        for word in (f"--{key}", str(given[key]))
    ]
    next_words = shlex.join(["unbraid", "study", "check", str(given["name"]), *options])
    return made.summary() + ("" if given.get("list") else f"\nNext:  {next_words}")


def _verdicts(judged: Sequence[Judged]) -> str:
    """Each claim as paper, ours and verdict, and the number of each verdict."""
    from unbraid.studies.claim import VERDICTS

    blocks = []
    for one in judged:
        claim = one.claim
        lines = [f"{claim.id}: {one.verdict}", f"  {claim.statement} ({claim.place})"]
        lines.append(f"  paper: {claim.paper}")
        for rule in claim.rules if one.finding else ():
            ours = one.finding.estimate(rule.statistic)  # pyright: ignore[reportOptionalMemberAccess]
            lines.append(
                f"  ours:  {ours.name} {ours.value:.3g} [{ours.low:.3g}, {ours.high:.3g}] of"
                f" {ours.count}; must be {rule.side} {rule.threshold:g}"
            )
        remark = one.finding.remark if one.finding else ""
        lines += [f"  {text}" for text in (one.why, remark) if text]
        blocks.append("\n".join(lines))
    counts = {verdict: sum(one.verdict == verdict for one in judged) for verdict in VERDICTS}
    total = ", ".join(f"{count} {verdict}" for verdict, count in counts.items())
    return "\n\n".join([*blocks, f"{len(judged)} claims: {total}"])
