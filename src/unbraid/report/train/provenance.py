# SPDX-License-Identifier: Apache-2.0
"""How a run was made, as commands that make it again, and what lies in its folder."""

from __future__ import annotations

import inspect
import itertools
import shlex
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from unbraid.core.folders import PAGES
from unbraid.data import DATA
from unbraid.data.dataset import IN_MEMORY
from unbraid.networks import NETWORKS
from unbraid.objectives import OBJECTIVES
from unbraid.population.member import Member
from unbraid.population.plan import Plan, make_plan

_PURPOSES = {
    "plan.json": "everything needed to repeat the run",
    "members.parquet": "one row per model",
    "history.parquet": "training curves",
    "scores.parquet": "scores and their parts",
    "names.json": "names that people gave to latents",
    "checkpoint": "weights and optimiser states",
    "codes": "means and log-variances of the recorded sample",
}


def data_title(plan: Plan) -> str:
    """The data as people call it: its registered name, or where own images came from."""
    source = plan.data_options.get("source")
    if source is None:
        return plan.data
    return "own images" if source == IN_MEMORY else Path(str(source)).name or str(source)


def python_call(plan: Plan) -> str:
    """A call of `unbraid.train` that makes an equal plan, or one for each supervision."""
    groups: dict[str, list[Member]] = {}
    for member in plan.members:
        now = member.current()
        groups.setdefault(repr((now.supervision, now.supervision_hyper)), []).append(member)
    others = {
        tuple(repr((one.current().build(), one.build_prior(), one.seed)) for one in group)
        for group in groups.values()
    }
    # Where not all objectives have all the supervision, a single call cannot say so.
    parts = (
        [plan]
        if len(others) == 1
        else [replace(plan, members=tuple(group)) for group in groups.values()]
    )
    calls = []
    for part in parts:
        lines = [_data_argument(part), _objectives_argument(part), *_options(part)]
        calls.append("run = ub.train(\n" + "".join(f"    {line},\n" for line in lines) + ")")
    return "\n\n".join(["import unbraid as ub", *calls])


def searched_call(path: Path) -> str:
    """Stands for a call where the models won a search: their settings changed as they trained."""
    note = "# the winner of a search; its settings changed on the way"
    return f"import unbraid as ub\n\n{note}\nub.resume({str(path)!r}).lineage"


def following_commands(path: Path, metrics: Sequence[str]) -> list[str]:
    """The commands that score and report a trained run."""
    place = shlex.quote(str(path))
    scored = [f"unbraid score {place} --metrics {','.join(metrics)}"] if metrics else []
    return [*scored, f"unbraid report {place}"]


def folder_files(path: Path) -> list[tuple[str, int, str]]:
    """Name, bytes and purpose of what lies in a run folder; folders are counted as a whole."""
    rows = []
    for item in sorted(path.iterdir()):
        if item.name.startswith(".") or item.name == PAGES["train"]:
            continue
        size = (
            sum(file.stat().st_size for file in item.rglob("*") if file.is_file())
            if item.is_dir()
            else item.lstat().st_size
        )
        rows.append(
            (item.name + ("/" if item.is_dir() else ""), size, _PURPOSES.get(item.name, ""))
        )
    return rows


def _data_argument(plan: Plan) -> str:
    source = plan.data_options.get("source")
    if source is not None:
        return "array" if source == IN_MEMORY else repr(source)
    return repr(plan.data)


def _data_options(plan: Plan) -> dict[str, Any]:
    options = {name: value for name, value in plan.data_options.items() if name != "source"}
    if plan.data not in DATA:
        return options
    parameters = inspect.signature(DATA.load(plan.data)).parameters
    return {
        name: value
        for name, value in options.items()
        if name not in parameters or parameters[name].default != value
    }


def _objectives_argument(plan: Plan) -> str:
    """Objectives with sweeps as lists where members are such a product; else one by one."""
    calls = []
    today = [member.current() for member in plan.members]
    for objective, members in itertools.groupby(today, key=lambda member: member.objective):
        own = [
            {name: _frozen(value) for name, value in (member.hyper | member.given).items()}
            for member in members
        ]
        swept = {name: list(dict.fromkeys(hyper[name] for hyper in own)) for name in own[0]}
        combinations = [
            dict(zip(swept, values, strict=True)) for values in itertools.product(*swept.values())
        ]
        distinct = [hyper for hyper, _ in itertools.groupby(own)]
        if combinations == distinct:
            calls.append(
                _objective_call(
                    objective, {name: _one_or_list(values) for name, values in swept.items()}
                )
            )
        else:
            calls += [_objective_call(objective, hyper) for hyper in distinct]
    return calls[0] if len(calls) == 1 else f"[{', '.join(calls)}]"


def _frozen(value: Any) -> Any:
    """*value* as the objective holds it: a file gives the numbers of a vector as a list."""
    return tuple(value) if isinstance(value, list) else value


def _objective_call(objective: str, hyper: dict[str, Any]) -> str:
    cls = OBJECTIVES.recall(objective)
    defaults = {item.name: item.default for item in fields(cls)}
    given = ", ".join(
        f"{name}={_shown(value)}" for name, value in hyper.items() if value != defaults.get(name)
    )
    maker = (
        f"ub.{cls.__name__}"
        if objective in OBJECTIVES.built_in
        else f"ub.OBJECTIVES.load({objective!r})"
    )
    return f"{maker}({given})"


def _options(plan: Plan) -> list[str]:
    """Keyword arguments of `train` that differ from its defaults."""
    defaults = {
        name: item.default for name, item in inspect.signature(make_plan).parameters.items()
    }
    network = {item.name: item.default for item in fields(NETWORKS.recall(plan.network))}
    given: dict[str, Any] = {
        "data_options": _data_options(plan) or None,
        "supervision": _one_or_list(_supervisions(plan)),
        "seeds": _seeds(plan.members),
        "steps": plan.steps,
        "batch_size": "all" if plan.full_batch else plan.batch_size,
        "learning_rate": _one_or_list(
            list(dict.fromkeys(member.learning_rate for member in plan.members))
        ),
        "latents": plan.latents,
        "network": plan.network,
        "network_options": (
            {name: value for name, value in plan.network_options.items() if value != network[name]}
            or None
        ),
        "likelihood": None if plan.likelihood == _usual_likelihood(plan) else plan.likelihood,
        "prior": _one_or_list(_priors(plan)),
        "standardise": bool(plan.standardise),
        "convention": "mean" if any(member.given for member in plan.members) else "sum",
        "precision": plan.precision,
        "where": plan.where or None,
        "amsgrad": plan.amsgrad,
        "log_every": None if plan.log_every == max(1, plan.steps // 200) else plan.log_every,
        "checkpoint_seconds": plan.checkpoint_seconds,
        "code_samples": plan.code_samples,
    }
    # Without a precision `train` takes what is usual on the device, which may be another one
    # tomorrow.
    always = ("seeds", "steps", "precision")
    return [
        f"{name}={_shown(value)}"
        for name, value in given.items()
        if value != defaults[name] or name in always
    ]


def _priors(plan: Plan) -> list[str]:
    """The priors of the members as they are spelled, each once."""
    found = []
    for member in plan.members:
        options = ",".join(
            f"{name}={_spelled(value)}" for name, value in member.prior_hyper.items()
        )
        found.append(f"{member.prior}:{options}" if options else member.prior)
    return list(dict.fromkeys(found))


def _supervisions(plan: Plan) -> list[str | None]:
    """The supervision of the members as it is spelled, each once."""
    found: list[str | None] = []
    for member in (one.current() for one in plan.members):
        options = ",".join(
            f"{name}={_spelled(value)}" for name, value in member.unusual_supervision().items()
        )
        found.append(f"{member.supervision}:{options}" if options else member.supervision or None)
    return list(dict.fromkeys(found))


def _spelled(value: Any) -> str:
    """A value as it stands in the spelling of a prior or a supervision, to its last bit."""
    return (
        "/".join(map(_spelled, value))
        if isinstance(value, (list, tuple))
        else str(value).removesuffix(".0")
    )


def _usual_likelihood(plan: Plan) -> str:
    unbounded = plan.data in DATA and not DATA.load(plan.data).bounded
    return "gaussian" if unbounded or plan.standardise else "bernoulli"


def _seeds(members: Sequence[Member]) -> int | list[int]:
    seeds = list(dict.fromkeys(member.seed for member in members))
    return len(seeds) if seeds == list(range(len(seeds))) else seeds


def _one_or_list(values: list[Any]) -> Any:
    return values[0] if len(values) == 1 else values


def _shown(value: Any) -> str:
    """Python source of a value, whole floats without their point."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e6:
        return str(int(value))
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]"
    return repr(value)
