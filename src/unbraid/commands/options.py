# SPDX-License-Identifier: Apache-2.0
"""Parameters that several commands share: how they are declared, and what data and devices they
mean.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from unbraid.commands.verb import Option
from unbraid.core.errors import invalid
from unbraid.core.spelling import as_source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unbraid.data.dataset import Dataset
    from unbraid.networks.network import Network
    from unbraid.objectives.objective import Objective
    from unbraid.objectives.priors.prior import Prior
    from unbraid.objectives.schedule import Schedule
    from unbraid.objectives.supervision.supervision import Supervision
    from unbraid.population.plan import Plan


def split_source(data: Any, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
    """A dataset as `load` takes it: its name or path, and the options that followed a colon."""
    if not isinstance(data, str):
        return data, options or {}
    source, spelled = as_source(data)
    return source, {**spelled, **(options or {})}


def open_data(data: Any, options: dict[str, Any] | None = None) -> Dataset:
    """The dataset that a parameter `data` means."""
    from unbraid.data.dataset import Dataset
    from unbraid.data.loading import load

    source, options = split_source(data, options)
    return source if isinstance(source, Dataset) else load(source, **options)


def moved_data(data: Any, plan: Plan) -> Dataset:
    """What a folder with *plan* began with, now found at *data*: options need not be repeated."""
    from unbraid.data import DATA
    from unbraid.data.dataset import IN_MEMORY

    source, given = split_source(data, None)
    own = not isinstance(source, str) or source not in DATA
    kept = plan.data_options if own == (plan.data == "own") and (own or source == plan.data) else {}
    kept = {name: one for name, one in kept.items() if name != "source" and one != IN_MEMORY}
    if plan.data_options.get("factors") == IN_MEMORY and "factors" not in given:
        kept.pop("factor_names", None)
    return open_data(source, {**kept, **given})


def remark_on(dataset: Dataset, quiet: bool) -> None:
    """Say what must be known of data before anything is trained on it."""
    from unbraid.data.own.image_sizes import SHAPE
    from unbraid.data.statistics import all_alike

    if quiet:
        return
    told = dict(dataset.about).get(SHAPE, "")
    if all_alike(dataset):
        told = f"{len(dataset):,} images that are all the same: models can learn nothing from them."
    if told:
        print(told, file=sys.stderr, flush=True)


def device_name(device: Any) -> str:
    """A device as text; torch's own object is one too."""
    if isinstance(device, str):
        return device
    if type(device).__module__ == "torch" and type(device).__name__ == "device":
        return str(device)
    remedy = "For example {device=cuda:0}."
    raise invalid("device", "must be auto, cpu, cuda or cuda:NUMBER", device, remedy)


Data = Annotated[
    "str | os.PathLike[str] | NDArray[Any] | Dataset",
    Option(
        "A dataset (`unbraid list data`) with options as in sprites:x=16,y=8, a folder of images,"
        " .npy or .npz; in Python an array or a Dataset too."
    ),
]
MovedData = Annotated[
    "str | os.PathLike[str] | NDArray[Any] | Dataset | None",
    Option("Where the data lies now, if it was moved; options as in my.npz:resize=64."),
]
DataOptions = Annotated[
    dict[str, Any] | None,
    Option("Options of data that is given by name or path, as a dictionary.", cli=False),
]
Objectives = Annotated[
    "str | Objective | Sequence[str | Objective]",
    Option(
        "What to minimise (`unbraid list objectives`), one or several; options as in"
        " factor_vae:gamma=10,20, where a list is a sweep.",
        kind="LIST",
    ),
]
OneObjective = Annotated[
    "str | Objective",
    Option("What to minimise (`unbraid list objectives`); options as in beta_tcvae:beta=1..60."),
]
Hyper = Annotated[
    dict[str, Any] | None,
    Option("Hyperparameters of objectives that are given by name.", cli=False),
]
Rates = Annotated[
    "float | str | Schedule | Sequence[float | str | Schedule]",
    Option(
        "Adam's learning rate; a list is a sweep, cosine(1e-3, 0, 30000) a schedule.", kind="LIST"
    ),
]
Latents = Annotated[int, Option("Size of the code.")]
NetworkName = Annotated[
    "str | Network",
    Option(
        "A network (`unbraid list networks`); options as in mlp:hidden=256, eight times as fast on"
        " a CPU as mlp is by itself."
    ),
]
NetworkOptions = Annotated[
    dict[str, Any] | None,
    Option("Options of a network that is given by name, as a dictionary.", cli=False),
]
LikelihoodName = Annotated[
    str | None,
    Option(
        "bernoulli, gaussian or laplace, options as in laplace:scale=0.1, the overlap loss as in"
        " gaussian+box31; by default bernoulli for images and gaussian for points."
    ),
]
Priors = Annotated[
    "str | Prior | Sequence[str | Prior]",
    Option(
        "Prior of the latents (`unbraid list priors`), options as in sparse:gamma=0.8; several"
        " with commas.",
        kind="NAMES",
    ),
]
OnePrior = Annotated[
    "str | Prior",
    Option("Prior of the latents (`unbraid list priors`), options as in sparse:gamma=0.8."),
]
PriorOptions = Annotated[
    dict[str, Any] | None,
    Option("Options of priors that are given by name, as a dictionary.", cli=False),
]
Supervisions = Annotated[
    "str | Supervision | Sequence[str | Supervision | None] | None",
    Option(
        "What is known beside images (`unbraid list supervisions`), with any objective, as in"
        " labels:count=1000; several with commas.",
        kind="NAMES",
    ),
]
OneSupervision = Annotated[
    "str | Supervision | None",
    Option("What is known beside images (`unbraid list supervisions`), as in labels:count=1000."),
]
Standardise = Annotated[bool, Option("Give the network samples of mean 0 and variance 1.")]
Precision = Annotated[
    str, Option("float32, bfloat16, or auto: bfloat16 where the GPU or processor has it.")
]
Where = Annotated[
    str | None,
    Option("Train on part of the data: a rule on its factors, as in 'shape != 2 or x < 16'."),
]
CodeSamples = Annotated[int, Option("Images to encode for scoring; all of a smaller set.")]
MetricNames = Annotated[
    str | Sequence[str],
    Option(
        "Names with commas (`unbraid list metrics`), options as in infomec:pruning=tripod; or"
        " usual, supervised, unsupervised, usefulness, all."
    ),
]
ScoresToo = Annotated[
    str | Sequence[str] | None,
    Option(
        "Score the models too, as `unbraid score` does: names with commas, or usual; on a large GPU"
        " while it trains."
    ),
]
CheckpointSeconds = Annotated[
    float, Option("Time between checkpoints; longer where writing one takes seconds.")
]
KeepOptimiser = Annotated[
    bool,
    Option("Keep the optimiser's state of a trained run, several times its size, to train it on."),
]
LogEvery = Annotated[
    int | None,
    Option("Training steps between two points of the curves; by default 200 points.", cli=False),
]
Seeds = Annotated[int | Sequence[int], Option("How many seeds, or a list of them with commas.")]
Seed = Annotated[int, Option("Seed of everything that is drawn by chance.")]
Device = Annotated[str, Option("auto, cpu, cuda or cuda:NUMBER.")]
Devices = Annotated[
    str, Option("auto, cpu, cuda for all GPUs, or cuda:NUMBERS for some, as in cuda:0,2.")
]
On = Annotated[
    str, Option("here, or ray: chunks are tasks of a Ray cluster whose nodes share the disk.")
]
Address = Annotated[
    str | None,
    Option("Of a Ray cluster, or auto for the one of this machine; by default one is begun here."),
]
MOST_PROCESSES = 100_000
Processes = Annotated[
    int,
    Option(
        "How many processes will train it together (`unbraid work`), so that there is something for"
        " each; in a SLURM array at least as many as it has jobs."
    ),
]
Out = Annotated[
    str | Path | None, Option("Folder to write to; by default the next free one under runs/.")
]
Quiet = Annotated[bool, Option("Show no progress.", cli=False)]
Command = Annotated[str, Option("The command as it was typed, for the record.", cli=False)]
RunFolderPath = Annotated[str | Path, Option("A run folder, made by `unbraid train`.")]

_EVOLVES = (
    "a range as in 1e-4..3e-3, a list, or one value, which then does not evolve; `published` for"
    " the paper's."
)
RateRange = Annotated[
    str | float | Sequence[float], Option(f"Learning rate: {_EVOLVES}", kind="RANGE")
]
BatchRange = Annotated[str | int | Sequence[int], Option(f"Batch size: {_EVOLVES}", kind="RANGE")]
EpochImages = Annotated[
    int | None,
    Option("Images each model sees in an epoch; by default the whole data, at least 10000."),
]
Points = Annotated[
    int | None,
    Option("Images that a score is computed on in training; by default 1000 for udr, else 50000."),
]
Together = Annotated[
    int | None,
    Option(
        "Models that train side by side, always so many, so that no search rounds otherwise than"
        " another: for comparisons on a GPU; by default as many as fit."
    ),
]
Share = Annotated[
    float, Option("Share of the population that is replaced after an epoch; 0 for random search.")
]
ConvergedWithin = Annotated[
    float | None,
    Option(
        "End when the best score changed by less in each of several epochs; 0 for never; by"
        " default 0.005 for udr.",
        cli=False,
    ),
]
ConvergedEpochs = Annotated[
    int | None, Option("How many epochs that means; 6 by default.", cli=False)
]
Factors = Annotated[
    Sequence[float] | None,
    Option("By which hyperparameters are multiplied when they move.", cli=False),
]
