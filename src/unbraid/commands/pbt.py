# SPDX-License-Identifier: Apache-2.0
"""`pbt`: population-based training by any score (Jaderberg et al. 2017, Estermann et al. 2020)."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from unbraid.commands import options as declared
from unbraid.commands.options import split_source
from unbraid.commands.run import Run, stopped
from unbraid.commands.verb import Option, command
from unbraid.core.errors import invalid
from unbraid.core.folders import PAGES, next_folder
from unbraid.core.progress import Progress
from unbraid.core.spelling import as_source, split_names
from unbraid.core.words import spoken
from unbraid.objectives import OBJECTIVES
from unbraid.population import defaults as usual
from unbraid.search import defaults

if TYPE_CHECKING:
    import pandas as pd
    import torch

    from unbraid.data.dataset import Dataset
    from unbraid.search.pbt.plan import SearchPlan
    from unbraid.search.pbt.search import SearchOutcome, SearchRun


class PbtResult:
    """A finished search: its lineage, and the winner as a run."""

    def __init__(self, run: SearchRun, device: torch.device) -> None:
        self.run = run
        self.device = device

    def __repr__(self) -> str:
        """The folder and what it was selected by."""
        return (
            f"<PbtResult {self.path}: {self.run.search.population} individuals by"
            f" {self.run.search.scorer.metric}>"
        )

    @property
    def path(self) -> Path:
        """The folder."""
        return self.run.path

    @property
    def lineage(self) -> pd.DataFrame:
        """One row for each individual and epoch: parent, change, hyperparameters, score."""
        return self.run.lineage

    @property
    def score(self) -> float:
        """Of the winner, by the metric of the search."""
        return self.run.winner_record()["score"]

    @property
    def winner(self) -> Run:
        """The models of the best individual of all epochs, as a run like any other."""
        return Run(self.run.winner(), self.device)

    def summary(self) -> str:
        """How the search ended, and what to type next."""
        record = self.run.winner_record()
        values = ", ".join(f"{name} {value:.4g}" for name, value in record["values"].items())
        who = f"in epoch {record['epoch'] + 1} by individual {record['individual']}"
        lines = [
            f"Best {record['metric']} {record['score']:.4f} {who}: {values}",
            *self.remarks(),
            f"Lineage:  {self.path / 'lineage.parquet'}",
            f"Open in a browser: {self.path / PAGES['pbt']}",
        ]
        return "\n".join([*lines, f"Next:  unbraid score {self.path}"])

    def remarks(self) -> list[str]:
        """What must be known of the winner: that it is collapsed, as the search or labels see it.

        A search without labels does not know how many factors vary, and selects without them; one
        that an earlier version began does not look.
        """
        from unbraid.scoring.collapse import REMEDY, least_active
        from unbraid.search.pbt.scorer import SURROGATES

        told, active = self.run.remark(), self.run.winner_record()["active_latents"]
        dataset, scorer = self.run.dataset, self.run.search.scorer
        if told or active is None or not dataset.labelled or scorer.metric == SURROGATES:
            return [told] if told else []
        varying = sum(size > 1 for size in dataset.factor_sizes)
        latents = self.run.search.plan.latents
        if active >= least_active(latents, varying):
            return []
        return [
            f"Collapsed, by what the search did not look at: {active} of the winner's {latents}"
            f" latents {'is' if active == 1 else 'are'} active, fewer than half of the {varying}"
            f" factors that vary. {REMEDY}"
        ]

    def page(self, stage: str = "", home: str = "") -> Path:
        """Write the page (lineage, scores and hyperparameters by epoch) and return its path.

        *stage* says of which stage of a recursion it is, whose page is *home*.
        """
        from unbraid.report.pbt.context import write_pbt
        from unbraid.scoring.collapse import dead_codes_remark
        from unbraid.search.pbt.scorer import SURROGATES

        search, record = self.run.search, self.run.winner_record()
        metric = (
            "gap with surrogate labels"
            if search.scorer.metric == SURROGATES
            else search.scorer.metric
        )
        data = search.plan.data if not stage else f"{stage} of a recursion"
        facts = {
            "Models of an individual": f"{search.models}",
            "Score": ", ".join(filter(None, (metric, dead_codes_remark(metric)))),
            "Images scored on": (
                f"at most {search.scorer.points or 50_000:,}"
                + ("" if search.scorer.points else " per level")
            ),
            "Epoch": f"{search.epoch_images:,} images per model",
            "Data": f"{search.plan.data}, {len(self.run.dataset):,} images",
            "Objective": search.plan.members[0].objective,
            "Network": search.plan.network,
            "Replaced after an epoch": (
                f"{search.rule.share:.0%}" if search.rule.share else "none (random search)"
            ),
            "Seed": f"{search.seed}",
        }
        return write_pbt(
            self.path / PAGES["pbt"],
            title=f"{data} · {search.plan.members[0].objective} · by {metric}",
            lineage=self.lineage,
            made_from=self.run.digest,
            score_label=metric,
            home=home,
            higher_is_better=search.scorer.higher_is_better,
            warnings=self.remarks(),
            winner=(record["epoch"], record["individual"], record["score"]),
            facts=facts,
            commands=[
                (f"unbraid score {self.path}", "scores the winner's models"),
                (f"unbraid report {self.path}", "shows what the winner's latents do to an image"),
            ],
        )


@command
def pbt(
    data: declared.Data,
    objective: declared.OneObjective = defaults.OBJECTIVE,
    *,
    score: Annotated[
        str,
        Option("What to select by: a metric (`unbraid list metrics`), as in dci:backend=sklearn."),
    ] = defaults.SCORE,
    labels: Annotated[
        int | Literal["all"],
        Option("How many labelled images a score that needs labels may see, or all."),
    ] = "all",
    models: Annotated[
        int | None, Option("Models of an individual, which share settings; 5 for udr, else 1.")
    ] = None,
    population: Annotated[
        int | None,
        Option("How many individuals, at least 5; 28 by a score that needs labels, else 16."),
    ] = None,
    epochs: Annotated[
        int | None, Option("Epochs at most; 26 by a score that needs labels, else 30.")
    ] = None,
    epoch_images: declared.EpochImages = None,
    points: declared.Points = None,
    together: declared.Together = None,
    first_factor: Annotated[
        int | None,
        Option(
            "How many times the population trains in the first epoch, of which the best go on;"
            " 2 by a score that needs labels, else 1."
        ),
    ] = None,
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
) -> PbtResult:
    """Population-based training: after every epoch the worst take over from the best.

    Selects by the agreement of models without labels (udr, PBT-U-VAE) or by any other score; by mig
    with labels it is PBT-S-VAE. Hyperparameters of the objective evolve too: `--beta 1..60`; by
    default its strength does.
    """
    from unbraid.search.pbt.make_search import make_search
    from unbraid.search.pbt.search import SearchRun

    chosen, given = search_options(locals())
    search, dataset = make_search(
        score=score,
        labels=labels,
        **given,
        **present(models=models, first_factor=first_factor, share=share),
    )
    remark_on(search, dataset, quiet)
    stem = f"{search.plan.data}-pbt-{search.scorer.metric}"
    folder = Path(out) if out is not None else next_folder(stem)
    return _searched(SearchRun.create(folder, search, dataset), chosen, quiet)


_SHARED = (
    *("population", "epochs", "epoch_images", "learning_rate", "batch_size", "factors"),
    *("converged_within", "converged_epochs", "seed", "latents", "network", "network_options"),
    *(
        "likelihood",
        "prior",
        "prior_options",
        "supervision",
        "standardise",
        "where",
        "code_samples",
    ),
    *("points", "together", "checkpoint_seconds", "command"),
)
"""What `pbt` and `rpu` hand on as it is."""


def search_options(given: dict[str, Any]) -> tuple[torch.device, dict[str, Any]]:
    """The device, and what all searches take, from the parameters of `pbt` or `rpu`."""
    from unbraid.population.devices import choose_device, usual_precision

    chosen = choose_device(given["device"])
    source, data_options = split_source(given["data"], given["data_options"])
    objective, hyper = given["objective"], given["hyper"]
    if isinstance(objective, str):
        if len(split_names(objective, OBJECTIVES)) > 1:
            raise invalid("objective", "must be a single one in a search", objective)
        objective, own = as_source(objective)
        for name in own.keys() & (hyper or {}).keys():
            remedy = f"Say it once: {objective}:{name}={own[name]}"
            raise invalid(name, f"is given with {objective} already", (hyper or {})[name], remedy)
        hyper = {**(hyper or {}), **own}
    precision = given["precision"]
    return chosen, present(
        data=source,
        objective=objective,
        data_options=data_options,
        hyper=hyper,
        precision=usual_precision(chosen) if precision == "auto" else precision,
        **{name: given[name] for name in _SHARED},
    )


def remark_on(search: SearchPlan, dataset: Dataset, quiet: bool) -> None:
    """Say what must be known of the data of a search, and of the score that it selects by."""
    from unbraid.scoring.collapse import dead_codes_remark
    from unbraid.scoring.few_samples import few_samples, few_samples_remark
    from unbraid.scoring.metric_names import needing_factors

    if quiet:
        return
    declared.remark_on(dataset, quiet)
    score, seen = search.scorer.metric, search.scorer.sample(dataset)
    factors = dataset.factors(seen) if needing_factors([score]) else None
    if few := few_samples([score], len(seen), search.plan.latents, factors):
        print(few_samples_remark(few, len(seen), factors), file=sys.stderr, flush=True)
    if remark := dead_codes_remark(score):
        told = "A collapsed individual is copied or kept only where all are"
        print(f"{score}: {remark}. {told}.", file=sys.stderr, flush=True)


def present(**given: Any) -> dict[str, Any]:
    """What was given; what was not has its default where it is used."""
    return {name: value for name, value in given.items() if value is not None}


def resume_folder(folder: Path, data: declared.MovedData, device: str, quiet: bool) -> PbtResult:
    """Go on with the search in *folder*."""
    from unbraid.population.devices import choose_device
    from unbraid.search.pbt.search import SearchRun

    run = SearchRun.open(folder)
    if data is not None:
        run.use(declared.moved_data(data, run.search.plan))
    return _searched(run, choose_device(device), quiet)


def train_search(
    name: str,
    run: SearchRun,
    device: torch.device,
    quiet: bool,
    out_of_time: Callable[[], bool] = lambda: False,
    score: str = "",
    ends: float = math.inf,
) -> SearchOutcome:
    """Train one search with a progress bar called *name* and a line per epoch.

    *score* is what the metric is called in it; *ends* is when *out_of_time* becomes true.
    """
    search = run.search
    with Progress(name, "images", _images(search), quiet, ends) as progress:

        def tell(epoch: dict[str, Any]) -> None:
            progress.say(
                f"{name}: epoch {epoch['epoch'] + 1} of {search.epochs}, best"
                f" {score or search.scorer.metric} {epoch['best']:.3f}"
                f"{', all collapsed' if epoch['collapsed'] else ''}"
            )

        outcome = run.train(
            device, progress.advance, progress.say, out_of_time=out_of_time, on_epoch=tell
        )
        if outcome.finished and outcome.why not in ("found done", "all epochs are done"):
            progress.say(f"{name}: ends since {outcome.why}")
    return outcome


def say_how_long(what: str, seconds: float, device: torch.device) -> None:
    """Say how long a search or recursion will take before it starts; nothing where unknown."""
    from unbraid.population.devices import device_name

    if math.isfinite(seconds):
        told = f"{what}: {spoken(seconds)} at most on {device_name(device)}"
        print(told, file=sys.stderr, flush=True)


def _searched(run: SearchRun, device: torch.device, quiet: bool) -> PbtResult:
    from unbraid.report.page import is_whole_page
    from unbraid.search.pbt import forecast

    if not (quiet or run.begun):
        seconds = forecast.at_most(run.search, run.dataset, device, run.path)
        say_how_long("searching", seconds, device)
    outcome = train_search("searching", run, device, quiet)
    if not outcome.finished:
        raise stopped(run.path)
    made = PbtResult(run, device)
    if outcome.why != "found done" or not is_whole_page(run.path / PAGES["pbt"], run.digest):
        made.page()
    return made


def _images(search: SearchPlan) -> int:
    """How many images all models see if the search takes all its epochs."""
    return search.epoch_images * (
        search.trained_models + (search.epochs - 1) * search.population * search.models
    )
