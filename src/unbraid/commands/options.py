# SPDX-License-Identifier: Apache-2.0
"""How a command declares its parameters, and the declarations that several commands share.

A command is a function of `commands/<verb>.py` whose parameters are `Annotated` with an `Option`:
its type, its default and its help text are written once. From them `command` makes the docstring,
`commands/command_line.py` the command line, and `tools/` the docs. Parameters before the `*` are
arguments of the command line, the others are flags.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

from unbraid.core.errors import InputError, flag, invalid, unknown
from unbraid.core.folders import given_path
from unbraid.core.spelling import as_number, as_numbers, as_source

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from unbraid.data.dataset import Dataset
    from unbraid.networks.network import Network
    from unbraid.objectives.objective import Objective
    from unbraid.objectives.priors.prior import Prior
    from unbraid.objectives.schedule import Schedule
    from unbraid.objectives.supervision.supervision import Supervision
    from unbraid.population.plan import Plan

_Function = TypeVar("_Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Option:
    """What a parameter means, for Python, the command line and the docs."""

    help: str
    kind: str = ""
    """How its value is written on the command line; by default as its type says."""
    cli: bool = True
    """False for what only Python can give."""


@dataclass(frozen=True)
class Parameter:
    """One parameter of a command."""

    name: str
    option: Option
    kind: str
    default: Any
    argument: bool

    @property
    def required(self) -> bool:
        """Whether it has no default."""
        return self.default is inspect.Parameter.empty

    @property
    def cli(self) -> bool:
        """Whether the command line has it."""
        return self.option.cli

    @property
    def many(self) -> bool:
        """Whether it is an argument that may be given several times."""
        return self.argument and self.kind == "LIST"

    @property
    def flag(self) -> str:
        """As it is written on the command line."""
        if self.argument:
            shown = self.name.upper() + "..." * self.many
            return shown if self.required else f"[{shown}]"
        shown = flag(self.name)
        if self.kind:
            return f"{shown} {self.kind}"
        return f"{shown} / --no-{shown[2:]}" if self.default is True else shown

    @property
    def usual(self) -> str:
        """The default as it would be typed; empty where there is none to show."""
        if self.required or not self.kind or self.default in (None, "", ()):
            return ""
        if isinstance(self.default, (list, tuple)):
            return ",".join(map(str, self.default))
        return f"{self.default:g}" if isinstance(self.default, float) else str(self.default)

    @property
    def text(self) -> str:
        """The help text and the default."""
        return self.option.help + (f" [default: {self.usual}]" if self.usual else "")

    def as_given(self, value: Any) -> Any:
        """A *value* from Python as the function takes it: of a path ~ is the home."""
        # Where something else may be given, an array or a run, the kind is written out.
        other = self.option.kind and not isinstance(value, (str, os.PathLike))
        if self.kind != "PATH" or other or (value is None and not self.required):
            return value
        return given_path(self.name, value)

    def read(self, text: Any) -> Any:
        """The value that *text* on a command line stands for.

        What is not of the kind stays text, for whoever checks it to refuse by name.
        """
        if self.many:
            return list(text)
        if self.kind == "PATH":
            return given_path(self.name, text)
        return _READERS[self.kind](text)


_READERS: dict[str, Callable[[Any], Any]] = {
    "": lambda flag: flag,
    "TEXT": lambda text: text,
    "RANGE": lambda text: text,
    "NAMES": lambda text: text,
    "INTEGER": as_number,
    "FLOAT": as_number,
    "LIST": lambda text: as_numbers(text, always_list=text.endswith(",")),
}
"""Kinds of value by the word that a help text shows for them."""


@dataclass(frozen=True)
class Verb:
    """A command as its function declares it."""

    name: str
    function: Callable[..., Any] = field(repr=False)
    summary: str
    details: str
    parameters: tuple[Parameter, ...] = field(repr=False)

    @property
    def options(self) -> tuple[Parameter, ...]:
        """What the command line takes."""
        return tuple(one for one in self.parameters if one.cli)

    @property
    def objective(self) -> bool:
        """Whether hyperparameters of an objective are flags too."""
        return any(one.name == "hyper" for one in self.parameters)

    @property
    def search(self) -> bool:
        """Whether hyperparameters are ranges that evolve."""
        return any(one.kind == "RANGE" for one in self.parameters)


def command(function: _Function) -> _Function:
    """Make *function* a command: its parameters are described in its docstring."""
    summary, _, details = inspect.cleandoc(function.__doc__ or "").partition("\n\n")
    verb = Verb(
        function.__name__,
        function,
        " ".join(summary.split()),
        details,
        tuple(_parameters(function)),
    )
    function.__doc__ = "\n\n".join(
        part for part in (verb.summary, details, _parameter_section(verb)) if part
    )
    known = {one.name: one for one in verb.parameters}

    @functools.wraps(function)
    def checked(*given: Any, **options: Any) -> Any:
        for name in options.keys() - known.keys():
            remedy = "Hyperparameters go into the objective, as in BetaVAE(beta=[1, 4])."
            told = remedy if verb.objective else ""
            raise InputError(unknown(f"parameter of {verb.name}", name, known, told))
        first = [one.as_given(value) for one, value in zip(verb.parameters, given, strict=False)]
        named = {name: known[name].as_given(value) for name, value in options.items()}
        return function(*first, *given[len(first) :], **named)

    setattr(checked, "verb", verb)  # noqa: B010
    return cast(_Function, checked)


def verb_of(function: Callable[..., Any]) -> Verb:
    """The declaration of a command."""
    return getattr(function, "verb")  # noqa: B009


def _parameters(function: Callable[..., Any]) -> list[Parameter]:
    names = vars(sys.modules[function.__module__])
    found = []
    for one in inspect.signature(function).parameters.values():
        # Not `get_type_hints`: types that would import torch are names in quotes, and stay so.
        given, option = typing.get_args(eval(one.annotation, dict(names)))
        kind = option.kind or _kind(given)
        argument = one.kind is one.POSITIONAL_OR_KEYWORD
        found.append(Parameter(one.name, option, kind, one.default, argument))
    return found


def _kind(hint: Any) -> str:
    """How values of a type are written: "" for a flag."""
    parts = typing.get_args(hint) if _is_union(hint) else (hint,)
    lists = [part for part in parts if typing.get_origin(part) is Sequence]
    if lists:
        return "NAMES" if typing.get_args(lists[0]) == (str,) else "LIST"
    for part, kind in ((bool, ""), (Path, "PATH"), (int, "INTEGER"), (float, "FLOAT")):
        if part in parts:
            return kind
    return "TEXT"


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _parameter_section(verb: Verb) -> str:
    """The parameters for `help`, each with its meaning and its default."""
    lines = ["Parameters:"]
    for one in verb.parameters:
        usual = "" if one.required or one.default is None else f" [default: {one.default!r}]"
        lines += textwrap.wrap(
            f"{one.name}: {one.option.help}{usual}",
            96,
            initial_indent="    ",
            subsequent_indent="        ",
            break_long_words=False,
            break_on_hyphens=False,
        )
    return "\n".join(lines)


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
    from unbraid.data.statistics import all_alike

    if not quiet and all_alike(dataset):
        told = f"{len(dataset):,} images that are all the same: models can learn nothing from them."
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
    "str | Network", Option("A network (`unbraid list networks`); options as in mlp:hidden=256.")
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
