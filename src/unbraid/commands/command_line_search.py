# SPDX-License-Identifier: Apache-2.0
"""Commands that search for good models: `pbt`, `rpu`, `reduce`, `discover`. Parse, call, print."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from unbraid.commands.options import DeviceOption, ExtraOptions, command_line
from unbraid.core.spelling import as_number, as_source, parse_extra_options, split_list

pbt_app = typer.Typer(
    help=(
        "Population-based training: the worst members take over from the best after every epoch"
        " (Jaderberg et al. 2017)."
    ),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
rpu_app = typer.Typer(
    help=(
        "rPU-VAE: search without labels, reduce the data, search again, train a final population"
        " (Estermann et al. 2020)."
    ),
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

_EVOLVES = (
    "a range as in 1e-4..3e-3, a list, or one value, which then does not evolve; `published` for"
    " the paper's."
)
DataArgument = Annotated[
    str,
    typer.Argument(
        help="A dataset (`unbraid list data`), or a folder of images, .npy or .npz.",
        show_default=False,
    ),
]
ObjectiveArgument = Annotated[
    str, typer.Argument(help="What to minimise (`unbraid list objectives`).")
]
PopulationOption = Annotated[
    str | None,
    typer.Option(
        help="How many individuals, at least 5; 28 by a metric that needs labels, else 16.",
        show_default=False,
    ),
]
EpochsOption = Annotated[
    str | None,
    typer.Option(
        help="Epochs at most; 26 by a metric that needs labels, else 30.", show_default=False
    ),
]
ImagesOption = Annotated[
    str | None,
    typer.Option(
        help="Images each model sees in an epoch; by default the whole data, at least 10000."
    ),
]
RateOption = Annotated[str, typer.Option(help=f"Learning rate: {_EVOLVES}")]
BatchOption = Annotated[str, typer.Option(help=f"Batch size: {_EVOLVES}")]
LatentsOption = Annotated[str, typer.Option(help="Size of the code.")]
NetworkOption = Annotated[
    str, typer.Option(help="A network (`unbraid list networks`); options as in mlp:hidden=256.")
]
SeedOption = Annotated[str, typer.Option(help="Of everything that is drawn by chance.")]
ShareOption = Annotated[
    str, typer.Option(help="Share of the population that is replaced; 0 for random search.")
]
FirstOption = Annotated[
    str | None,
    typer.Option(
        help=(
            "So many times the population trains in the first epoch, and the best go on; 2 by a"
            " metric that needs labels, else 1."
        ),
        show_default=False,
    ),
]
SecondsOption = Annotated[
    str, typer.Option(help="Time between checkpoints; longer where writing one takes seconds.")
]
OutOption = Annotated[
    Path | None,
    typer.Option(help="Folder of the search; by default the next free one under runs/."),
]
_EXTRA = {"allow_extra_args": True, "ignore_unknown_options": True}


@pbt_app.command(cls=ExtraOptions, context_settings=_EXTRA)
def supervised(
    context: typer.Context,
    data: DataArgument,
    objective: ObjectiveArgument = "beta_tcvae",
    eval: Annotated[
        str,
        typer.Option(
            help="The score: a metric (`unbraid list metrics`), options as in dci:backend=sklearn."
        ),
    ] = "mig",
    labels: Annotated[
        str, typer.Option(help="all, or how many labelled images the score may see.")
    ] = "all",
    population: PopulationOption = None,
    epochs: EpochsOption = None,
    epoch_images: ImagesOption = None,
    first_factor: FirstOption = None,
    learning_rate: RateOption = "1e-4..3e-3",
    batch_size: BatchOption = "32,64,128,256",
    share: ShareOption = "0.2",
    latents: LatentsOption = "10",
    network: NetworkOption = "conv_burgess",
    seed: SeedOption = "0",
    checkpoint_seconds: SecondsOption = "30",
    out: OutOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Select by a metric that sees labels, all or a few (PBT-S-VAE). Options of the objective
    evolve too: --beta 1..60.
    """
    _evolve(
        context,
        objective,
        locals(),
        score=eval,
        labels=labels if labels == "all" else as_number(labels),
    )


@pbt_app.command(cls=ExtraOptions, context_settings=_EXTRA)
def unsupervised(
    context: typer.Context,
    data: DataArgument,
    objective: ObjectiveArgument = "beta_tcvae",
    eval: Annotated[
        str, typer.Option(help="udr, udr:method=spearman, or another metric without labels.")
    ] = "udr",
    models: Annotated[
        str | None, typer.Option(help="Models of an individual, which share settings; 5 for udr.")
    ] = None,
    population: PopulationOption = None,
    epochs: EpochsOption = None,
    epoch_images: ImagesOption = None,
    first_factor: FirstOption = None,
    learning_rate: RateOption = "1e-4..3e-3",
    batch_size: BatchOption = "32,64,128,256",
    share: ShareOption = "0.2",
    latents: LatentsOption = "10",
    network: NetworkOption = "conv_burgess",
    seed: SeedOption = "0",
    checkpoint_seconds: SecondsOption = "30",
    out: OutOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Select by the agreement of models that differ by their seed alone (PBT-U-VAE): no labels are
    used.
    """
    refuse_labels(eval)
    _evolve(
        context,
        objective,
        locals(),
        score=eval,
        models=None if models is None else as_number(models),
    )


@rpu_app.command(cls=ExtraOptions, context_settings=_EXTRA)
def run(
    context: typer.Context,
    data: DataArgument,
    objective: ObjectiveArgument = "beta_tcvae",
    leaf_runs: Annotated[
        str,
        typer.Option(help="How many parts of the data are searched again; 0 for the root alone."),
    ] = "3",
    levels: Annotated[
        str, typer.Option(help="Levels of labels at most, the root's included.")
    ] = "3",
    every_final: Annotated[
        bool,
        typer.Option(
            "--every-final",
            help="Train a final population for 0, 1, ... leaf-runs, as figure 6 compares them.",
        ),
    ] = False,
    models: Annotated[
        str, typer.Option(help="Models of an individual in searches without labels.")
    ] = "5",
    population: Annotated[str, typer.Option(help="How many individuals, at least 5.")] = "16",
    epochs: Annotated[str, typer.Option(help="Epochs at most.")] = "30",
    epoch_images: ImagesOption = None,
    leaf_images: Annotated[
        str,
        typer.Option(
            help=(
                "Images each model sees at least in an epoch of a leaf-run; more where its part has"
                " more."
            )
        ),
    ] = "10000",
    final_population: Annotated[
        str | None,
        typer.Option(help="Individuals of the final population; as many as the others by default."),
    ] = None,
    final_epochs: Annotated[
        str | None,
        typer.Option(help="Epochs of the final population; as many as the others by default."),
    ] = None,
    learning_rate: RateOption = "1e-4..3e-3",
    batch_size: BatchOption = "32,64,128,256",
    latents: LatentsOption = "10",
    network: NetworkOption = "conv_burgess",
    seed: SeedOption = "0",
    checkpoint_seconds: SecondsOption = "30",
    out: OutOption = None,
    device: DeviceOption = "auto",
) -> None:
    """Root, leaf-runs and final populations; stopped anywhere, `unbraid resume` goes on."""
    from unbraid.commands.pbt import recurse

    given = _common(context, objective, locals())
    made = recurse(
        given.pop("data"), objective, leaf_runs=as_number(leaf_runs), levels=as_number(levels), every_final=every_final,
        models=as_number(models), leaf_images=as_number(leaf_images), **given,
        **_told({"final_population": final_population, "final_epochs": final_epochs}),
    )  # fmt: skip
    print_recursed(made)


def reduce(
    labels: Annotated[
        Path,
        typer.Argument(
            help=(
                "Codes or other numbers of each image: .npy, .npz, .csv or .parquet, as `discover`"
                " writes."
            ),
            show_default=False,
        ),
    ],
    columns: Annotated[
        str | None,
        typer.Option(
            help="Which columns of a table are the codes, as in a,b; by default all numbers in it."
        ),
    ] = None,
    index: Annotated[
        str, typer.Option(help="Which of the candidates to keep, counted from 0.")
    ] = "0",
    images: Annotated[
        str | None, typer.Option(help="The images, in the same order, for examples on the page.")
    ] = None,
    published: Annotated[
        bool,
        typer.Option(
            "--published",
            help="The paper's rule alone, which takes chance gaps of noise for steps.",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write to; by default the next free one under reductions/."),
    ] = None,
) -> None:
    """Cut a dataset down to images for which given labels hardly vary, and draw how (Estermann et
    al. 2020, figure 3).
    """
    from unbraid.commands.reduce import reduce_labels
    from unbraid.search.reduce.reduction import USUAL, ReductionRule

    source, options = as_source(images) if images else (None, {})
    rule = ReductionRule(chance=None) if published else USUAL
    made = reduce_labels(
        labels, columns=columns, index=as_number(index), rule=rule, images=source, data_options=options, out=out,
        command=command_line(),
    )  # fmt: skip
    print(made.summary(), flush=True)


def discover(
    images: Annotated[
        str,
        typer.Argument(
            help="A folder of images, .npy or .npz (or a dataset's name).", show_default=False
        ),
    ],
    minutes: Annotated[
        str | None, typer.Option(help="How long it may take; 15 unless told.")
    ] = None,
    steps: Annotated[
        str | None, typer.Option(help="Training steps of each model, instead of minutes.")
    ] = None,
    resize: Annotated[
        str | None,
        typer.Option(help="Scale images to this side; by default 32 on a CPU and 64 on a GPU."),
    ] = None,
    population: Annotated[
        str | None, typer.Option(help="Groups of models, at least 5; more on a GPU by default.")
    ] = None,
    models: Annotated[
        str | None, typer.Option(help="Models of a group; 3 on a CPU, 5 on a GPU.")
    ] = None,
    leaf_runs: Annotated[
        str | None,
        typer.Option(
            help=(
                "Search again in so many parts where the first finds hardly vary; 0 on a CPU, 1 on"
                " a GPU."
            )
        ),
    ] = None,
    latents: LatentsOption = "10",
    seed: SeedOption = "0",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write to; by default the next free one under runs/."),
    ] = None,
    device: DeviceOption = "auto",
) -> None:
    """Find what varies in your images, without labels: a report with images, and a table of codes
    for your own analysis.
    """
    from unbraid.commands.discover import discover as run_discovery

    source, options = as_source(images)
    given = {
        "minutes": minutes,
        "steps": steps,
        "resize": resize,
        "population": population,
        "models": models,
    }
    given["leaf_runs"] = leaf_runs
    made = run_discovery(
        source, out=out, latents=as_number(latents), seed=as_number(seed), data_options=options, device=device,
        command=command_line(), **_told(given),
    )  # fmt: skip
    print(made.summary(), flush=True)


def refuse_labels(metric: str) -> None:
    """Refuse a metric that compares codes with factors, where no labels are to be used."""
    from unbraid.core.errors import invalid
    from unbraid.scoring.metric_names import needing_factors

    if needing_factors([metric]):
        rule = "must be a metric without labels, such as udr"
        raise invalid("eval", rule, metric, "Select by labels with: unbraid pbt supervised")


def print_searched(made: Any) -> None:
    """How a search ended, and what to do next."""
    record = made.run.winner_record()
    values = ", ".join(f"{name} {value:.4g}" for name, value in record["values"].items())
    who = f"in epoch {record['epoch'] + 1} by individual {record['individual']}"
    told = f"Best {record['metric']} {record['score']:.4f} {who}: {values}"
    print(
        f"{told}\nLineage:  {made.path / 'lineage.parquet'}\nOpen in a browser:"
        f" {made.path / 'pbt.html'}",
        flush=True,
    )
    print(f"Next:  unbraid score {made.path}", flush=True)


def print_recursed(made: Any) -> None:
    """The stages in short, where the page is, and what to do next."""
    print(made.summary(), flush=True)


def _evolve(context: typer.Context, objective: str, given: dict[str, Any], **more: Any) -> None:
    from unbraid.commands.pbt import evolve

    options = _common(context, objective, given)
    options |= {
        "share": as_number(given["share"]),
        **_told({"first_factor": given["first_factor"]}),
    }
    print_searched(evolve(options.pop("data"), objective, **options, **more))


def _common(context: typer.Context, objective: str, given: dict[str, Any]) -> dict[str, Any]:
    """What all searches take, from the words of the command line."""
    source, data_options = as_source(given["data"])
    network, network_options = as_source(given["network"])
    numbers = _told(
        {
            name: given[name]
            for name in ("population", "epochs", "latents", "seed", "checkpoint_seconds")
        }
    )
    return {
        "data": source,
        "data_options": data_options,
        "hyper": parse_extra_options(context.args, split_list(objective)),
        "epoch_images": None if given["epoch_images"] is None else as_number(given["epoch_images"]),
        "learning_rate": given["learning_rate"],
        "batch_size": given["batch_size"],
        "network": network,
        "network_options": {name: as_number(value) for name, value in network_options.items()},
        "out": given["out"],
        "device": given["device"],
        "command": command_line(),
        **numbers,
    }


def _told(given: dict[str, str | None]) -> dict[str, Any]:
    """The numbers that were given; what was not has its default where it is used."""
    return {name: as_number(value) for name, value in given.items() if value is not None}
