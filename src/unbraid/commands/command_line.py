# SPDX-License-Identifier: Apache-2.0
"""The command line: parse, call, print. Lists are sweeps; bad input is one clear message and exit
code 2.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from unbraid.commands.command_line_search import (
    discover,
    pbt_app,
    print_recursed,
    print_searched,
    reduce,
    rpu_app,
)
from unbraid.commands.data import data_app
from unbraid.commands.options import DeviceOption, ExtraOptions, command_line
from unbraid.core.errors import InputError, Shown, UnbraidError, invalid
from unbraid.core.spelling import (
    as_number,
    as_numbers,
    as_source,
    parse_extra_options,
    split_list,
    split_names,
)

app = typer.Typer(
    name="unbraid",
    help=(
        "A laboratory for disentangled representations: train populations of VAEs, measure and"
        " explain them."
    ),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(data_app, name="data")
app.add_typer(pbt_app, name="pbt")
app.add_typer(rpu_app, name="rpu")
app.command()(discover)
app.command()(reduce)


RunArgument = Annotated[
    Path, typer.Argument(help="A run folder, made by `unbraid train`.", show_default=False)
]
MovedOption = Annotated[
    str | None, typer.Option("--data", help="Where the run's data lies now, if it was moved.")
]


@app.command(
    cls=ExtraOptions, context_settings={"allow_extra_args": True, "ignore_unknown_options": True}
)
def train(
    context: typer.Context,
    data: Annotated[
        str,
        typer.Argument(
            help="A dataset (`unbraid list data`), or a folder of images, .npy or .npz.",
            show_default=False,
        ),
    ],
    objective: Annotated[
        str,
        typer.Argument(help="What to minimise (`unbraid list objectives`); several with commas."),
    ] = "beta_vae",
    seeds: Annotated[
        str, typer.Option(help="How many seeds, or a list of them with commas.")
    ] = "1",
    steps: Annotated[str, typer.Option(help="Training steps of each model.")] = "30000",
    batch_size: Annotated[str, typer.Option(help="Images a step.")] = "64",
    learning_rate: Annotated[
        str,
        typer.Option(
            help="Adam's learning rate; a list is a sweep, cosine(1e-3, 0, 30000) a schedule."
        ),
    ] = "1e-4",
    latents: Annotated[str, typer.Option(help="Size of the code.")] = "10",
    network: Annotated[
        str, typer.Option(help="A network (`unbraid list networks`); options as in mlp:hidden=256.")
    ] = "conv_burgess",
    likelihood: Annotated[
        str | None,
        typer.Option(
            help=(
                "bernoulli, gaussian or laplace, options as in laplace:scale=0.1, the overlap loss"
                " as in gaussian+box31; "
                "by default what suits the data."
            )
        ),
    ] = None,
    prior: Annotated[
        str,
        typer.Option(
            help=(
                "Prior of the latents (`unbraid list priors`), options as in sparse:gamma=0.8;"
                " several with commas."
            )
        ),
    ] = "isotropic",
    standardise: Annotated[
        bool,
        typer.Option("--standardise", help="Give the network samples of mean 0 and variance 1."),
    ] = False,
    convention: Annotated[
        str,
        typer.Option(
            help="sum, or mean for a beta as papers state it that average over pixels and latents."
        ),
    ] = "sum",
    precision: Annotated[
        str, typer.Option(help="float32, bfloat16, or auto: bfloat16 on a GPU, float32 on a CPU.")
    ] = "auto",
    where: Annotated[
        str | None,
        typer.Option(
            help="Train on part of the data: a rule on its factors, as in 'shape != 2 or x < 16'."
        ),
    ] = None,
    code_samples: Annotated[
        str, typer.Option(help="Images to encode for scoring; all of a smaller set.")
    ] = "15000",
    checkpoint_seconds: Annotated[
        str, typer.Option(help="Time between checkpoints; longer where writing one takes seconds.")
    ] = "30",
    out: Annotated[
        Path | None, typer.Option(help="Run folder; by default the next free one under runs/.")
    ] = None,
    device: DeviceOption = "auto",
) -> None:
    """Train a population: every combination of the listed values, times the seeds.

    Options of the objective are given by name, with lists as sweeps: `--beta 1,4,16`; a number may
    change while it trains: `--beta "linear(0, 4, 10000)"`. Options of the data follow its name:
    `sprites:x=16,y=8`, `xysquares:spacing=3`, `my.npz:images=images,resize=64`.
    """
    from unbraid.commands.train import train as run_training

    source, data_options = as_source(data)
    network_name, network_options = as_source(network)
    objectives = split_list(objective)
    run = run_training(
        source,
        objectives,
        out=out,
        device=device,
        data_options=data_options,
        hyper=parse_extra_options(context.args, objectives),
        seeds=as_numbers(seeds, always_list="," in seeds),
        steps=as_number(steps),
        batch_size=as_number(batch_size),
        learning_rate=as_numbers(learning_rate),
        latents=as_number(latents),
        network=network_name,
        network_options={name: as_number(value) for name, value in network_options.items()},
        likelihood=likelihood,
        prior=split_names(prior),
        standardise=standardise,
        convention=convention,
        precision=precision,
        where=where,
        code_samples=as_number(code_samples),
        checkpoint_seconds=as_number(checkpoint_seconds),
        command=command_line(),
    )
    _trained(run)


@app.command()
def resume(run: RunArgument, data: MovedOption = None, device: DeviceOption = "auto") -> None:
    """Go on with a run, search or discovery that was stopped, killed or damaged; a finished one is
    left as it is.
    """
    if not _resumed_search(run, data, device):
        _trained(_opened(run, data, device).resume())


@app.command()
def score(
    context: typer.Context,
    run: Annotated[
        Path | None,
        typer.Argument(help="A run folder, made by `unbraid train`.", show_default=False),
    ] = None,
    metrics: Annotated[
        str,
        typer.Option(
            help=(
                "Names with commas (`unbraid list metrics`), options as in infomec:pruning=tripod;"
                " or usual, supervised, "
                "unsupervised, usefulness, all."
            )
        ),
    ] = "usual",
    representation: Annotated[
        str, typer.Option(help="mean, sampled, or both with a comma.")
    ] = "mean",
    data: MovedOption = None,
    device: DeviceOption = "auto",
    codes: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Instead of a run: your own codes, (n, latents) or (members, n, latents); .npy,"
                " .npz, .csv."
            )
        ),
    ] = None,
    factors: Annotated[
        Path | None, typer.Option(help="Their factors, whole numbers (n, factors).")
    ] = None,
    logvar: Annotated[
        Path | None, typer.Option(help="Their log-variances, for metrics about posteriors.")
    ] = None,
    reconstruction: Annotated[
        Path | None, typer.Option(help="Nats of each sample (n,), for `elbo`.")
    ] = None,
    samples: Annotated[
        str, typer.Option(help="At most so many rows of your own codes are used.")
    ] = "15000",
    seed: Annotated[
        str, typer.Option(help="Which rows of your own codes, and which of them for testing.")
    ] = "0",
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write all scores of your own codes, with their parts, to a .csv or .parquet file."
        ),
    ] = None,
) -> None:
    """Score every model of a run, or your own codes; the scores of a run are kept, and the table is
    printed.
    """
    of_codes = ("codes", "factors", "logvar", "reconstruction", "samples", "seed", "out")
    of_runs = ("representation", "data", "device")
    if run is None and codes is None:
        rule = "needs a run folder, or --codes with your own arrays"
        raise invalid(
            "score", rule, Shown("neither"), "Try: unbraid score --codes z.npy --factors y.npy"
        )
    wrong = of_codes if run is not None else of_runs
    told = [
        f"--{name}"
        for name in wrong
        if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"
    ]
    if told:
        whose = "your own codes" if run is not None else "runs"
        other = (
            f"the run {run}, whose scores are in its scores.parquet"
            if run is not None
            else "--codes"
        )
        raise invalid(
            "score", f"takes {', '.join(told)} for {whose} only", Shown(other), "Leave one out."
        )
    if run is None and codes is not None:
        own = {
            "codes": codes,
            "factors": factors,
            "logvar": logvar,
            "reconstruction": reconstruction,
        }
        _score_own(own, split_names(metrics), as_number(samples), as_number(seed), out)
        return
    opened = _opened(run, data, device)  # pyright: ignore[reportArgumentType]
    table = opened.score(split_names(metrics), representation=split_list(representation))
    if not len(table):
        raise InputError(
            f"nothing that was asked for has a value for any model of {opened.path}; the reasons"
            " stand above."
        )
    _print(_shown(table))
    _print(
        f"\nAll scores, with their parts: {opened.path / 'scores.parquet'}\nLook at them:  unbraid"
        f" report {opened.path}"
    )


def _score_own(
    own: dict[str, Path | None], metrics: list[str], samples: Any, seed: Any, out: Path | None
) -> None:
    from unbraid.core.progress import Progress
    from unbraid.scoring.files import check_table_file, read_array, write_scores
    from unbraid.scoring.own_codes import printed, score_codes

    check_table_file(out)
    arrays = {name: read_array(path, name) for name, path in own.items() if path is not None}
    with Progress("scoring", "scores", 0) as progress:
        progress.say("read " + ", ".join(f"{name} {array.shape}" for name, array in arrays.items()))
        z = arrays.pop("codes")
        table = score_codes(
            z, metrics=metrics, samples=samples, seed=seed, total=progress.total, progress=progress.advance,
            warn=progress.say, **arrays,
        )  # fmt: skip
    _print(printed(table, len(z) if z.ndim == 3 else 1, _line_width()))
    if out is not None:
        write_scores(table, out)
        _print(f"\nAll scores, with their parts: {out}")


@app.command()
def report(run: RunArgument, data: MovedOption = None) -> None:
    """Write the run's report: one HTML file that opens offline."""
    _print(f"Open in a browser: {_opened(run, data, 'auto').report()}")


@app.command()
def distances(
    data: Annotated[
        str,
        typer.Argument(
            help="A dataset or your own labelled images, as for `train`; a run knows its own.",
            show_default=False,
        ),
    ] = "",
    loss: Annotated[
        str, typer.Option(help="mse or bce, alone or with a blur: mse+box31, mse+gauss31.")
    ] = "mse",
    run: Annotated[
        Path | None, typer.Option(help="A run folder, to look at one of its models too.")
    ] = None,
    member: Annotated[
        str | None, typer.Option(help="Which model of the run; the first unless told.")
    ] = None,
    pairs: Annotated[
        str,
        typer.Option(help="Pairs of images that each factor gets at least, where it has so many."),
    ] = "50000",
    seed: Annotated[str, typer.Option(help="Chooses the images that are compared.")] = "0",
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the page; by default one under distances/ or in the run."),
    ] = None,
    device: DeviceOption = "auto",
) -> None:
    """How far apart the values of each factor look to a loss, and to a trained model (Michlo et al.
    2023).
    """
    from unbraid.commands.distances import measure_distances, printed

    source, data_options = as_source(data)
    found, page = measure_distances(
        source or None,
        loss,
        data_options=data_options,
        run=run,
        member=None if member is None else as_number(member),
        pairs=as_number(pairs),
        seed=as_number(seed),
        out=out,
        device=device,
        command=command_line(),
    )
    _print(f"{printed(found)}\n\nOpen in a browser: {page}")


@app.command()
def perturb(
    data: Annotated[
        str,
        typer.Argument(
            help="A dataset (`unbraid list data`), or a folder of images, .npy or .npz.",
            show_default=False,
        ),
    ],
    run: Annotated[
        Path | None,
        typer.Option("--from", help="A run on the same data; its member of lowest MIG gives s."),
    ] = None,
    epsilon: Annotated[
        str, typer.Option(help="The most that any value may change, above 0 and at most 1.")
    ] = "0.1",
    noise: Annotated[
        str, typer.Option(help="pattern, or uniform for the control, which needs no run.")
    ] = "pattern",
    rows_per_step: Annotated[
        str | None,
        typer.Option(
            help="Rows that the pattern slides for a step of the finest factor; 4 by default."
        ),
    ] = None,
    shift_scale: Annotated[
        str | None, typer.Option(help="The same in rows for each deviation of s.")
    ] = None,
    clip: Annotated[bool, typer.Option(help="Keep values in [0, 1].")] = True,
    seed: Annotated[str, typer.Option(help="Seed of the pattern or the noise.")] = "0",
    member: Annotated[
        str | None, typer.Option(help="Take s from this member rather than the one of lowest MIG.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Folder to write to; by default the next free one under perturbed/."),
    ] = None,
    device: DeviceOption = "auto",
) -> None:
    """Change data by at most epsilon so that VAEs no longer align with its factors (Zietlow et al.
    2021).
    """
    from unbraid.commands.perturb import perturb_data

    source, data_options = as_source(data)
    given: dict[str, Any] = {
        "rows_per_step": rows_per_step,
        "shift_scale": shift_scale,
        "member": member,
    }
    given = {name: None if value is None else as_number(value) for name, value in given.items()}
    made = perturb_data(
        source,
        run,
        out=out,
        epsilon=as_number(epsilon),
        noise=noise,
        clip=clip,
        seed=as_number(seed),
        data_options=data_options,
        device=device,
        **given,
    )
    _print(made.summary())


@app.command(name="list")
def list_(
    kind: Annotated[
        str,
        typer.Argument(
            help="objectives, priors, metrics, data, networks or studies; all when left out."
        ),
    ] = "",
) -> None:
    """List what there is to choose from."""
    from unbraid.commands.list import listing

    _print(listing(kind))


@app.command()
def demo(
    out: Annotated[
        Path | None, typer.Option(help="Run folder; by default the next free one under runs/.")
    ] = None,
    seeds: Annotated[
        str, typer.Option(help="How many seeds, or a list of them with commas.")
    ] = "3",
) -> None:
    """Train, score and report a small population in a few minutes on a CPU."""
    from unbraid.commands.demo import run_demo

    run_demo(out, as_numbers(seeds, always_list="," in seeds), _print)


@app.command()
def gallery(
    out: Annotated[
        Path | None,
        typer.Option(help="Folder of the page, which is gallery.html; by default gallery/."),
    ] = None,
    seed: Annotated[str, typer.Option(help="Of everything that is drawn by chance.")] = "0",
) -> None:
    """The theory of disentanglement, computed and drawn on one HTML page in under two minutes on a
    CPU.
    """
    from unbraid.commands.gallery import make_gallery

    _print(make_gallery(out, seed=as_number(seed), command=command_line()).summary())


@app.command()
def readme(
    check: Annotated[
        bool, typer.Option("--check", help="Only say whether the tables are up to date.")
    ] = False,
) -> None:
    """Write the README's generated tables anew (run in the repository)."""
    from unbraid.readme import refresh

    _print(refresh(Path("README.md"), check=check))


def _resumed_search(run: Path, data: str | None, device: str) -> bool:
    """Go on with a folder that is more than a run; False where it is a run or nothing known."""
    if (run / "discovery.json").is_file():
        from unbraid.commands.discover import resume_discovery

        _print(resume_discovery(run, data=data, device=device).summary())
        return True
    if not (run / "recursion.json").is_file() and not (run / "search.json").is_file():
        return False
    from unbraid.commands.pbt import Recursed, resume_search
    from unbraid.data import load

    source, options = as_source(data) if data is not None else (None, {})
    made = resume_search(
        run, data=None if source is None else load(source, **options), device=device
    )
    print_recursed(made) if isinstance(made, Recursed) else print_searched(made)
    return True


def _opened(run: Path, data: str | None, device: str) -> Any:
    from unbraid.commands.train import open_run
    from unbraid.data import load

    if data is None:
        return open_run(run, device=device)
    source, options = as_source(data)
    return open_run(run, data=load(source, **options), device=device)


def _trained(run: Any) -> None:
    members = run.members
    trained = int((members["status"] == "trained").sum())
    rule = run.folder.plan.where
    if rule:
        from unbraid.data.where_rule import count_images

        _print(
            f"Trained on {count_images(rule, run.dataset):,} of {len(run.dataset):,} images: {rule}"
        )
    _print(f"Trained {trained} of {len(members)} models: {run.path}")
    _print(f"Next:  unbraid score {run.path}")


def _shown(table: Any) -> str:
    """The table best first, by MIG or else by the first metric, without settings that are the same
    for all.
    """
    from unbraid.metrics import METRICS
    from unbraid.scoring.metric_names import base, higher_is_better

    scores = [name for name in table.columns if base(name) in METRICS]
    same = [
        name
        for name in table.columns
        if name not in scores and name != "seed" and table[name].nunique(dropna=False) == 1
    ]
    table = table.drop(columns=same) if len(table) > 1 else table
    if scores:
        decides = "mig" if "mig" in scores else scores[0]
        table = table.sort_values(decides, ascending=not higher_is_better(decides))
    return table.to_string(
        max_rows=60, float_format=lambda value: f"{value:.4g}", line_width=_line_width()
    )


def _line_width() -> int:
    import shutil

    return max(80, shutil.get_terminal_size((132, 24)).columns)


def _print(text: str) -> None:
    print(text, flush=True)


def _stop(signum: int, frame: Any) -> None:
    raise KeyboardInterrupt


def main() -> None:
    """Run the command line; foreseen failures are one message on standard error."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        app()
    except InputError as error:
        print(f"unbraid: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except UnbraidError as error:
        print(f"unbraid: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        print("unbraid: stopped.", file=sys.stderr)
        raise SystemExit(130) from None
    except BrokenPipeError:
        raise SystemExit(0) from None
