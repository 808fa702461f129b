# SPDX-License-Identifier: Apache-2.0
"""`rpu`: rPU-VAE, searches without labels that are repeated on parts of the data."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from unbraid.commands import options as declared
from unbraid.commands.pbt import (
    PbtResult,
    present,
    remark_on,
    say_how_long,
    search_options,
    train_search,
)
from unbraid.commands.run import stopped
from unbraid.commands.verb import Option, command
from unbraid.core.errors import StoppedError
from unbraid.core.folders import PAGES, next_folder
from unbraid.core.progress import Progress
from unbraid.population import defaults as usual
from unbraid.search import defaults

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from unbraid.search.reduce.reduction import ReductionRule
    from unbraid.search.rpu.recursion import Recursion
    from unbraid.search.rpu.stages import Stage

_Reduction = Annotated[
    "ReductionRule | None",
    Option("How a part is cut out of the data; as published by default.", cli=False),
]
_SHORT = 54
"""Characters that the terminal has for why a stage ended, in lines of 120."""


class RpuResult:
    """A finished recursion: its stages, and the final populations."""

    def __init__(self, recursion: Recursion, stages: list[Stage], device: torch.device) -> None:
        self.recursion, self.stages, self.device = recursion, stages, device

    def __repr__(self) -> str:
        """The folder."""
        return f"<RpuResult {self.path}: {len(self.stages)} stages>"

    @property
    def path(self) -> Path:
        """The folder."""
        return self.recursion.path

    def final(self, leaf_runs: int | None = None) -> PbtResult:
        """The final population that used so many leaf-runs; the most by default."""
        return PbtResult(
            self.recursion.final(self.recursion.plan.leaf_runs if leaf_runs is None else leaf_runs),
            self.device,
        )

    @cached_property
    def final_scores(self) -> dict[int, dict[str, float]]:
        """MIG and DCI of the final winners by number of leaf-runs; empty without factors."""
        from unbraid.search.rpu.stages import StageKind

        finals = [stage.leaf_runs for stage in self.stages if stage.kind is StageKind.FINAL]
        if not self.recursion.dataset.labelled:
            return {}
        try:
            winners = {
                count: self.final(count)
                .winner.score(["mig", "dci"], errors="none", quiet=True)
                .iloc[0]
                for count in finals
            }
        except StoppedError:
            raise stopped(self.path) from None
        return {
            count: {name: float(scores[name]) for name in ("mig", "dci")}
            for count, scores in winners.items()
        }

    def table(self) -> pd.DataFrame:
        """One row per stage; MIG and DCI of final populations where the data has factors."""
        import pandas as pd

        from unbraid.search.rpu.stages import StageKind

        rows = []
        for stage in self.stages:
            labelled = math.isfinite(stage.score) and stage.kind is not StageKind.FINAL
            row = {"stage": stage.name, "images": stage.images or None, "score": stage.score}
            row["active"] = len(stage.active) if labelled else None
            rows.append({**row, "ended": stage.ended, **self._known(stage)})
        # Where a number does not apply there is none, which is not 0.
        return pd.DataFrame(rows).astype({"images": "Int64", "active": "Int64"})

    def summary(self) -> str:
        """The stages in lines of at most 120 characters, and what to type next."""
        from unbraid.report.rpu.context import following_commands
        from unbraid.search.rpu.stages import StageKind

        known = ("mig", "dci") if self.final_scores else ()
        rows = [["stage", "images", "score", "active", *known, "ended"]]
        for stage in self.stages:
            scores = [_score(self._known(stage).get(name, math.nan)) for name in known]
            images = f"{stage.images:,}" if stage.images else ""
            active = (
                f"{len(stage.active)}"
                if math.isfinite(stage.score) and stage.kind is not StageKind.FINAL
                else ""
            )
            # The page and `table` have the whole sentence.
            ended = textwrap.shorten(stage.ended.partition(":")[0], _SHORT, placeholder=" ...")
            rows.append([stage.name, images, _score(stage.score), active, *scores, ended])
        stages, *numbers, ends = zip(*rows, strict=True)
        columns = [
            _aligned(stages, str.ljust),
            *(_aligned(column, str.rjust) for column in numbers),
            ends,
        ]
        lines = ["  ".join(cells).rstrip() for cells in zip(*columns, strict=True)]
        for stage, search in self.recursion.searches():
            lines += [f"{stage.name}: {remark}"] if (remark := search.remark()) else []
        command, _ = following_commands(self.path, self.stages)[0]
        lines += [
            f"Every stage is a search of its own, with a {PAGES['pbt']} in its folder.",
            f"Open in a browser: {self.path / PAGES['rpu']}",
        ]
        return "\n".join([*lines, f"Next:  {command}"])

    def page(self) -> Path:
        """Write the page (stages, what leaf-runs add, what was cut) and return its path."""
        from unbraid.report.rpu.context import write_rpu

        return write_rpu(self.recursion, self.stages, self.final_scores, self.device)

    def _known(self, stage: Stage) -> dict[str, float]:
        from unbraid.search.rpu.stages import StageKind

        return self.final_scores.get(stage.leaf_runs, {}) if stage.kind is StageKind.FINAL else {}


@command
def rpu(
    data: declared.Data,
    objective: declared.OneObjective = defaults.OBJECTIVE,
    *,
    leaf_runs: Annotated[
        int, Option("How many parts of the data are searched again; 0 for the root alone.")
    ] = defaults.LEAF_RUNS,
    levels: Annotated[
        int, Option("Levels of labels at most, the root's included.")
    ] = defaults.LEVELS,
    every_final: Annotated[
        bool,
        Option("Train a final population for 0, 1, ... leaf-runs, as figure 6 compares them."),
    ] = False,
    models: Annotated[
        int | None, Option("Models of an individual in searches without labels; 5 by default.")
    ] = None,
    population: Annotated[
        int | None, Option("How many individuals, at least 5; 16 by default.")
    ] = None,
    epochs: Annotated[int | None, Option("Epochs at most; 30 by default.")] = None,
    epoch_images: declared.EpochImages = None,
    points: declared.Points = None,
    together: declared.Together = None,
    leaf_images: Annotated[
        int,
        Option("Images each model sees at least in an epoch of a leaf-run; more of a larger part."),
    ] = defaults.LEAST_EPOCH_IMAGES,
    final_population: Annotated[
        int | None, Option("Individuals of the final population; by default as many as before.")
    ] = None,
    final_epochs: Annotated[
        int | None, Option("Epochs of the final population; by default as many as before.")
    ] = None,
    final_first_factor: Annotated[
        int | None,
        Option(
            "Size of the final population's first epoch, in populations; the best go on.", cli=False
        ),
    ] = None,
    final_labels: Annotated[
        str,
        Option(
            "Which labels select the final population: published (all), weighed (by their images),"
            " confirmed (by other models)."
        ),
    ] = "published",
    active_nats: Annotated[
        float | None, Option("KL from which on a latent is active.", cli=False)
    ] = None,
    reduction: _Reduction = None,
    score: Annotated[str, Option("udr, with options if any.", cli=False)] = defaults.SCORE,
    learning_rate: declared.RateRange = defaults.RATES,
    batch_size: declared.BatchRange = defaults.BATCHES,
    share: declared.Share = defaults.SHARE,
    factors: declared.Factors = None,
    converged_within: declared.ConvergedWithin = None,
    converged_epochs: declared.ConvergedEpochs = None,
    seed: declared.Seed = 0,
    latents: declared.Latents = usual.LATENTS,
    network: declared.NetworkName = usual.NETWORK,
    likelihood: declared.LikelihoodName = None,
    prior: declared.OnePrior = usual.PRIOR,
    supervision: declared.OneSupervision = None,
    standardise: declared.Standardise = False,
    precision: declared.Precision = "auto",
    where: declared.Where = None,
    code_samples: declared.CodeSamples = usual.CODE_SAMPLES,
    checkpoint_seconds: declared.CheckpointSeconds = usual.CHECKPOINT_SECONDS,
    hyper: declared.Hyper = None,
    data_options: declared.DataOptions = None,
    network_options: declared.NetworkOptions = None,
    prior_options: declared.PriorOptions = None,
    out: declared.Out = None,
    device: declared.Device = "auto",
    quiet: declared.Quiet = False,
    command: declared.Command = "",
) -> RpuResult:
    """rPU-VAE: search without labels, reduce the data, search again, train a final population.

    Estermann et al. (2020). The final population is selected by the labels so found. Stopped
    anywhere, `unbraid resume` goes on. Hyperparameters evolve as in `pbt`.
    """
    from unbraid.search.rpu.plan import make_recursion
    from unbraid.search.rpu.recursion import Recursion

    chosen, given = search_options(locals())
    more = present(
        models=models,
        final_population=final_population,
        final_epochs=final_epochs,
        final_first_factor=final_first_factor,
        active_nats=active_nats,
        reduction=reduction,
    )
    plan, dataset = make_recursion(
        leaf_runs=leaf_runs,
        levels=levels,
        every_final=every_final,
        final_labels=final_labels,
        leaf_images=leaf_images,
        score=score,
        share=share,
        **given,
        **more,
    )
    remark_on(plan.root, dataset, quiet)
    folder = Path(out) if out is not None else next_folder(f"{plan.root.plan.data}-rpu")
    return _recursed(Recursion.create(folder, plan, dataset), chosen, quiet)


def resume_folder(folder: Path, data: declared.MovedData, device: str, quiet: bool) -> RpuResult:
    """Go on with the recursion in *folder*."""
    from unbraid.population.devices import choose_device
    from unbraid.search.rpu.recursion import Recursion

    recursion = Recursion.open(folder)
    if data is not None:
        recursion.use(declared.moved_data(data, recursion.plan.root.plan))
    return _recursed(recursion, choose_device(device), quiet)


def _recursed(recursion: Recursion, device: torch.device, quiet: bool) -> RpuResult:
    from unbraid.report.page import is_whole_page
    from unbraid.search.rpu import forecast
    from unbraid.search.rpu.stages import StageKind

    finished = recursion.finished
    if not (quiet or finished or recursion.begun):
        seconds = forecast.at_most(recursion.plan, recursion.dataset, device)
        say_how_long("recursion", seconds, device)
    with Progress("recursion", "stages", 0, quiet) as progress:
        try:
            stages = recursion.train(
                device,
                lambda stage, run: train_search(stage.name, run, device, quiet),
                progress.say,
            )
            if stages is None:
                raise stopped(recursion.path)
            made = RpuResult(recursion, stages, device)
            for stage, search in recursion.searches():
                home = "../" * (stage.name.count("/") + 1) + PAGES["rpu"]
                if not finished or not is_whole_page(search.path / PAGES["pbt"], search.digest):
                    PbtResult(search, device).page(stage.name, home)
            if finished and is_whole_page(recursion.path / PAGES["rpu"], recursion.digest):
                return made
            scored = recursion.dataset.labelled and any(
                stage.kind is StageKind.FINAL for stage in stages
            )
            progress.say(
                "scoring the final winners and writing pages" if scored else "writing pages"
            )
            made.page()
        except KeyboardInterrupt:  # between two stages, or while pages are written
            raise stopped(recursion.path) from None
    return made


def _score(value: float) -> str:
    return f"{value:.4f}" if math.isfinite(value) else ""


def _aligned(column: Sequence[str], to: Callable[[str, int], str]) -> list[str]:
    """Cells of one width."""
    return [to(cell, max(map(len, column))) for cell in column]
