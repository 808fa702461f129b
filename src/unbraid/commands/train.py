# SPDX-License-Identifier: Apache-2.0
"""`train`: a population from a dataset and objectives."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from unbraid.commands import options as declared
from unbraid.commands.on_ray import check_on, ray_kind
from unbraid.commands.options import split_source
from unbraid.commands.run import Run, open_run
from unbraid.commands.verb import Option, command
from unbraid.core.checks import read_whole_number
from unbraid.core.errors import Problems, invalid
from unbraid.core.folders import next_folder
from unbraid.core.ray_tasks import ray_module
from unbraid.population import defaults


@command
def train(
    data: declared.Data,
    objective: declared.Objectives = defaults.OBJECTIVE,
    *,
    seeds: declared.Seeds = 1,
    steps: Annotated[int, Option("Training steps of each model.")] = defaults.STEPS,
    batch_size: Annotated[
        int | str, Option("Images per training step; all for every image at every step.")
    ] = defaults.BATCH_SIZE,
    learning_rate: declared.Rates = defaults.LEARNING_RATE,
    latents: declared.Latents = defaults.LATENTS,
    network: declared.NetworkName = defaults.NETWORK,
    likelihood: declared.LikelihoodName = None,
    prior: declared.Priors = defaults.PRIOR,
    supervision: declared.Supervisions = None,
    standardise: declared.Standardise = False,
    initialisation: Annotated[
        str | None,
        Option("How weights start, in place of the network's own rule: xavier_normal."),
    ] = None,
    convention: Annotated[
        str,
        Option("sum, or mean for a beta of papers that average over pixels and latents."),
    ] = defaults.CONVENTION,
    precision: declared.Precision = "auto",
    where: declared.Where = None,
    amsgrad: Annotated[bool, Option("Adam with the largest of its squares so far.")] = False,
    code_samples: declared.CodeSamples = defaults.CODE_SAMPLES,
    checkpoint_seconds: declared.CheckpointSeconds = defaults.CHECKPOINT_SECONDS,
    keep_optimiser: declared.KeepOptimiser = False,
    log_every: declared.LogEvery = None,
    hyper: declared.Hyper = None,
    data_options: declared.DataOptions = None,
    network_options: declared.NetworkOptions = None,
    prior_options: declared.PriorOptions = None,
    score: declared.ScoresToo = None,
    out: declared.Out = None,
    device: declared.Devices = "auto",
    on: declared.On = "here",
    address: declared.Address = None,
    processes: declared.Processes = 1,
    begin: Annotated[
        bool,
        Option(
            "Train now; else only the plan is written, and who trains first (`unbraid work`)"
            " decides which models train together."
        ),
    ] = True,
    quiet: declared.Quiet = False,
    command: declared.Command = "",
) -> Run:
    """Train a population: every combination of the listed values, times the seeds.

    Hyperparameters go with their objective, and lists are sweeps: `factor_vae:gamma=10,20`, in
    Python `FactorVAE(gamma=[10, 20])`. One that only one of the objectives has may be a flag:
    `--beta 1,4,16`. A number may change while it trains: `--beta "linear(0, 4, 10000)"`.
    """
    from unbraid.population.devices import (
        choose_devices,
        chunk_size,
        device_type,
        usual_precision,
    )
    from unbraid.population.new_folder import check_free
    from unbraid.population.plan import make_plan
    from unbraid.population.run_folder import RunFolder
    from unbraid.scoring.metric_names import asked
    from unbraid.scoring.run_scores import check_metrics

    problems = Problems()
    if score is not None and not begin:
        raise invalid("score", "needs models that are trained", score, "Train first: {begin=True}.")
    for name, given in (
        ("hyper", hyper),
        ("data_options", data_options),
        ("network_options", network_options),
        ("prior_options", prior_options),
    ):
        if given is not None and not isinstance(given, dict):
            problems.add(name, "must be a dictionary", given, f"For example {name}={{'x': 3}}.")
    problems.raise_if_any()
    read_whole_number(problems, "processes", processes, 1, declared.MOST_PROCESSES)
    problems.raise_if_any()
    on_ray = check_on(on, address)
    if on_ray:
        ray_module()  # which is told before anything is written
    here = begin and not on_ray
    chosen, places = choose_devices(declared.device_name(device) if here else "cpu")
    source, source_options = split_source(data, data_options)
    plan, dataset = make_plan(
        source,
        objective,
        data_options=source_options,
        hyper=hyper,
        seeds=seeds,
        steps=steps,
        batch_size=batch_size,
        learning_rate=learning_rate,  # pyright: ignore[reportArgumentType]
        latents=latents,
        network=network,
        network_options=network_options,
        likelihood=likelihood,
        prior=prior,
        prior_options=prior_options,
        supervision=supervision,
        standardise=standardise,
        initialisation=initialisation,
        convention=convention,
        precision=usual_precision(chosen) if precision == "auto" else precision,
        where=where,
        amsgrad=amsgrad,
        log_every=log_every,
        checkpoint_seconds=checkpoint_seconds,
        code_samples=code_samples,
        command=command,
    )
    stem = f"{plan.data}-{plan.members[0].objective}"
    folder = Path(out) if out is not None else next_folder(stem)
    metrics = [] if score is None else asked(score)
    names = (
        []
        if score is None
        else check_metrics(folder, metrics, problems, labelled=dataset.labelled, option="score")
    )
    problems.raise_if_any()
    if not quiet:
        for line in dict.fromkeys(
            line for member in plan.members for line in member.remarks(plan.steps)
        ):
            print(f"{line}.", file=sys.stderr, flush=True)
    check_free(folder)
    declared.remark_on(dataset, quiet)
    how: dict[str, Any] = {"keep_optimiser": keep_optimiser, "processes": processes}
    if not here:
        how |= {"precision_is_open": precision == "auto"}
        run = Run(RunFolder.create(folder, plan, 0, dataset, **how), chosen, places)
        if on_ray and begin:
            run.train_on_ray(ray_kind(device), address, quiet, metrics)
        return run
    size = chunk_size(plan, dataset, chosen, places, processes)
    made = RunFolder.create(folder, plan, size, dataset, device=device_type(chosen), **how)
    run = Run(made, chosen, places)
    if score is None:
        return run.resume(quiet=quiet)
    run.train_and_score(metrics, names, quiet)
    return run


def shown(verb: str, run: Run, given: dict[str, Any]) -> str:
    """What was trained, its scores where they were asked for, and what to type next."""
    from unbraid.commands.score import shown as shown_scores

    if given.get("begin") is False:
        return f"Planned: {run.path}\nNext:  unbraid work {run.path}"
    if "score" not in given:
        return run.summary()
    trained, _, _ = run.summary().rpartition("\n")
    table = run.score(given["score"], quiet=True)
    return f"{trained}\n\n{shown_scores('score', table, {'folder': run.path})}"


def resume_folder(
    folder: Path,
    data: declared.MovedData,
    device: str,
    quiet: bool,
    steps: int | None = None,
    seeds: int | None = None,
    on: str = "here",
    address: str | None = None,
) -> Run:
    """Go on with the run in *folder*."""
    if check_on(on, address):
        ray_module()
        run = open_run(folder, data=data, device="cpu")
        run.more(steps, seeds, quiet)
        run.train_on_ray(ray_kind(device), address, quiet)
        return run
    run = open_run(folder, data=data, device=device)
    return run.resume(steps=steps, seeds=seeds, quiet=quiet)
