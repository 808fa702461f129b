# SPDX-License-Identifier: Apache-2.0
"""`perturb`: read s from a trained model, write the data that breaks it (Zietlow et al. 2021).

Of a run's restarts of one objective and strength that use enough latents the one with the lowest
MIG is taken, and of its latents the one with the least noise, that is the lowest posterior variance
averaged over the data: the first principal direction as the model sees it. Departs: none; what the
paper leaves open is in `data/perturbed/pattern.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from unbraid.commands import options as declared
from unbraid.commands.verb import Option, command
from unbraid.core.begun import before_record
from unbraid.core.checks import real, whole
from unbraid.core.errors import Problems, Shown, UnbraidError, unknown
from unbraid.core.folders import next_folder

if TYPE_CHECKING:
    from unbraid.analysis.perturbation.effect import PerturbationReport
    from unbraid.analysis.perturbation.least_noisy import Choice
    from unbraid.commands.run import Run
    from unbraid.data.dataset import Dataset
    from unbraid.data.perturbed.dataset import Perturbed

_Run = Annotated[
    "str | Path | Run | None",
    Option(
        "A run on the same data; of its restarts with enough active latents (as many as factors"
        " less one) that of lowest MIG gives s.",
        kind="PATH",
    ),
]
LEAST_EPSILON = 1e-6
"""A change below 2^-24 is lost in a float32 near 1."""


@dataclass(frozen=True)
class PerturbResult:
    """Perturbed data as it was written, and what was found out about it."""

    data: Perturbed
    report: PerturbationReport
    choice: Choice | None = None
    """Which restart s was read from and why, where it was chosen here."""

    def summary(self) -> str:
        """What was chosen, a table of factors and s, the largest change, and how to go on."""
        told, data, report = self.data.record["provenance"], self.data, self.report
        clipped = "clipped to [0, 1]" if data.clip else "not clipped"
        lines = [f"epsilon {data.epsilon:g}, {data.noise} noise, {clipped}, seed {data.seed}"]
        if data.noise == "pattern":
            mig = "" if self.choice is None else f", {self.choice.told()}"
            noises, rows = (
                told["noise_per_latent"],
                f"{told['rows_per_step']:.3g} for each of {told['steps']} steps",
            )
            if told.get("collapsed"):
                mig += "; it is collapsed, so that s may be no more than rounding"
            lines += [
                f"member {told['member']} ({told['label']}){mig}",
                (
                    f"s from latent {told['latent']}: its mean posterior variance"
                    f" {min(noises):.4g} is the least, others up to {max(noises):.4g}"
                ),
                f"{told['shift_scale']:.4g} rows for each deviation of s, {rows}",
            ]
        if len(table := report.table()):
            sample = "all images" if report.factors.exact else f"{report.factors.images:,} images"
            lines += [
                "",
                table.to_string(float_format=lambda value: f"{value:.4g}"),
                f"(of {sample})",
            ]
        lines += [
            "",
            (
                f"largest |x~ - x| in {report.max_norm_images:,} images: {report.max_norm:.8g} <="
                f" {data.epsilon:g}"
            ),
        ]
        return "\n".join(
            [*lines, f"Written: {data.folder}", f"Next:  unbraid train {data.folder} beta_vae"]
        )


@command
def perturb(
    data: declared.Data,
    *,
    from_: _Run = None,
    epsilon: Annotated[
        float, Option("The most that any value may change, above 0 and at most 1.")
    ] = 0.1,
    noise: Annotated[
        str, Option("pattern, or uniform for the control, which needs no run.")
    ] = "pattern",
    rows_per_step: Annotated[
        float | None,
        Option("Rows that the pattern slides for a step of the finest factor; 4 by default."),
    ] = None,
    shift_scale: Annotated[
        float | None, Option("The same, in rows for each deviation of s.")
    ] = None,
    clip: Annotated[bool, Option("Keep values in [0, 1].")] = True,
    seed: Annotated[int, Option("Seed of the pattern or the noise.")] = 0,
    member: Annotated[
        int | None, Option("Take s from this member rather than the one of lowest MIG.")
    ] = None,
    among: Annotated[
        str | None,
        Option("Of a run with several, the objective and strength: beta_vae:beta=8.", kind="TEXT"),
    ] = None,
    data_options: declared.DataOptions = None,
    out: Annotated[
        str | Path | None,
        Option("Folder to write to; by default the next free one under perturbed/."),
    ] = None,
    device: declared.Device = "auto",
    quiet: declared.Quiet = False,
) -> PerturbResult:
    """Change data by at most epsilon so that VAEs no longer align with its factors.

    Zietlow et al. (2021). `load` and `train` take the folder that is written. The pattern
    moves with s, the code of each image in the least noisy latent of a trained model; with uniform
    noise, the control, no run is needed.
    """
    from unbraid.analysis.perturbation.effect import perturbation_report
    from unbraid.analysis.perturbation.least_noisy import read_s
    from unbraid.data.perturbed.by_pattern import write_by_pattern
    from unbraid.data.perturbed.dataset import Perturbed, check_base
    from unbraid.data.perturbed.folder import NOISES, RECORD, TENSORS, write_perturbed
    from unbraid.population.new_folder import check_free, new_folder

    problems = Problems()
    dataset = problems.collect(lambda: declared.open_data(data, data_options))
    if dataset is not None:
        check_base(problems, dataset)
    out = (
        next_folder(f"{dataset.name if dataset else 'data'}-{noise}", "perturbed")
        if out is None
        else Path(out)
    )
    problems.collect(lambda: check_free(out))
    seed = whole(problems, "seed", seed, 0, 2**62)
    epsilon = real(problems, "epsilon", epsilon, LEAST_EPSILON, 1.0)
    if noise not in NOISES:
        problems.say(unknown("noise", noise, NOISES))
    rows, scale = _rows(problems, rows_per_step, shift_scale)
    opened = None
    if noise == "uniform":
        given = {
            "from_": from_,
            "member": member,
            "among": among,
            "rows_per_step": rows_per_step,
            "shift_scale": shift_scale,
        }
        for name in (name for name, value in given.items() if value is not None):
            problems.add(
                name,
                "belongs to the pattern, and uniform noise has no use for it",
                Shown(str(given[name])),
                "Leave it out.",
            )
    else:
        opened = _open(problems, from_, dataset, device)
        if opened is not None:
            _check_member(problems, opened, member, among)
    problems.raise_if_any()
    assert dataset is not None
    write: Callable[..., None] = write_perturbed
    choice = None
    if opened is not None:
        chosen = member
        if chosen is None:
            choice = _lowest_mig(opened, among, quiet)
            chosen = choice.member
        s, provenance = read_s(
            opened.folder, opened.device, int(chosen), choice=choice, quiet=quiet
        )
        moved = {"rows_per_step": rows, "shift_scale": scale, "provenance": provenance}
        write = functools.partial(write_by_pattern, s=s, **moved)
    with new_folder(out), before_record(out, RECORD, TENSORS):
        write(out, dataset, epsilon=epsilon, clip=clip, seed=seed)
    written = Perturbed(out, base=dataset)
    report = perturbation_report(written)
    if report.max_norm > epsilon:
        raise UnbraidError(
            f"{out} changes a value by {report.max_norm!r}, more than epsilon; please report this,"
            " and do not use it."
        )
    return PerturbResult(written, report, choice)


def _lowest_mig(run: Run, among: str | None, quiet: bool) -> Choice:
    """The restart of lowest MIG; all members are scored, which is kept."""
    from unbraid.analysis.perturbation.least_noisy import lowest_mig
    from unbraid.scoring.collapse import ACTIVE

    scores = run.score("mig", errors="none", quiet=quiet).reset_index()
    members = [int(one) for one in scores["member"]]
    mig = scores["mig"].tolist() if "mig" in scores else [np.nan] * len(members)
    active = [int(one) for one in scores[ACTIVE].fillna(0)]
    return lowest_mig(
        run.folder,
        dict(zip(members, mig, strict=True)),
        dict(zip(members, active, strict=True)),
        among,
    )


def _above_zero(problems: Problems, name: str, value: object, most: float) -> float:
    if (
        isinstance(value, (int, float, np.integer, np.floating))
        and not isinstance(value, bool)
        and 0 < value <= most
    ):
        return float(value)
    problems.add(name, f"must be a number above 0 and at most {most:g}", value)
    return most


def _rows(
    problems: Problems, rows_per_step: float | None, shift_scale: float | None
) -> tuple[float, float | None]:
    from unbraid.data.perturbed.pattern import MOST_SHIFT_SCALE, ROWS_PER_STEP

    if rows_per_step is not None and shift_scale is not None:
        problems.add(
            "rows_per_step", "and shift_scale say the same", Shown("both"), "Give one of them."
        )
    rows = (
        ROWS_PER_STEP
        if rows_per_step is None
        else _above_zero(problems, "rows_per_step", rows_per_step, 64.0)
    )
    return rows, (
        None
        if shift_scale is None
        else _above_zero(problems, "shift_scale", shift_scale, MOST_SHIFT_SCALE)
    )


def _open(
    problems: Problems, run: str | Path | Run | None, dataset: Dataset | None, device: str
) -> Run | None:
    """The run, if its members were trained on *dataset*."""
    from unbraid.commands.run import Run
    from unbraid.population.devices import choose_device
    from unbraid.population.run_folder import RunFolder

    chosen = problems.collect(lambda: choose_device(device))
    if run is None:
        remedy = "Give {from_=FOLDER}, or {noise=uniform} for the control."
        problems.add(
            "from_", "must name a run on the same data, to read s from", Shown("nothing"), remedy
        )
        return None
    folder = run.folder if isinstance(run, Run) else problems.collect(lambda: RunFolder.open(run))
    if folder is None or dataset is None or chosen is None:
        return None
    plan = folder.plan
    if dataset.fingerprint() != plan.data_fingerprint:
        was, given = _apart((plan.data, plan.data_options), (dataset.name, dataset.options))
        remedy = (
            "Give the run's own data."
            if was != given
            else "Its images or factors have changed since."
        )
        problems.add(
            "data", f"must be what {folder.path} was trained on, {was}", Shown(given), remedy
        )
        return None
    folder.use(dataset)
    return Run(folder, chosen)


def _apart(one: tuple[str, dict[str, Any]], other: tuple[str, dict[str, Any]]) -> tuple[str, str]:
    """Two datasets in words: name, and the options in which they differ."""
    differing = [
        key
        for key in one[1] | other[1]
        if one[0] != other[0] or one[1].get(key) != other[1].get(key)
    ]
    shown = []
    for name, options in (one, other):
        told = ",".join(f"{key}={options[key]}" for key in differing if key in options)
        shown.append(f"{name}:{told}" if told and one[0] == other[0] else name)
    return shown[0], shown[1]


def _check_member(problems: Problems, run: Run, member: object, among: str | None) -> None:
    from unbraid.analysis.perturbation.least_noisy import restarts_of

    members = run.folder.plan.members
    if member is None:
        if not run.dataset.labelled:
            remedy = f"Choose one with {{member=}}, in 0..{len(members) - 1}."
            problems.add(
                "member",
                "must be given where the data has no factors, since MIG cannot choose then",
                Shown("none"),
                remedy,
            )
        else:
            problems.collect(lambda: restarts_of(run.folder, among))
        return
    if among is not None:
        rule = "chooses among restarts, and a member is given"
        problems.add("among", rule, Shown(among), "Leave out one of them.")
    chosen = whole(problems, "member", member, 0, len(members) - 1)
    if not members[chosen].build().samples_latents:
        problems.add(
            "member",
            "must have noisy latents, to find the least noisy",
            Shown(members[chosen].label()),
        )
