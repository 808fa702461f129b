# SPDX-License-Identifier: Apache-2.0
"""What a slice keeps of its models beside scores: columns of its table, asked for by name.

- `distances`: what the model makes of perceived distances, level by level (`distances.*`, as
  `analysis/distances/learnt.py` has them).
- `axes`: how the decoder's local axes lie (`axes.*`, `analysis/perturbation/decoder_axes.py`).
- `class_sizes`: mean |z| of each latent by the value of the first factor, row by row (list), NaN
  for a value that the codes have not; and the number of values (`classes`).
- `aggregate`: of q(z) beside the prior, KL(p || q) in nats (`aggregate.kl`), the posteriors' mean
  standard deviation (`aggregate.width`), for a prior of clusters the share of latents nearest to
  the cluster of their own group by the first factor (`aggregate.kept`), and with two latents q(z)
  from -2 to 2 on 41 x 41 points, row by row along the first latent, to three digits
  (`aggregate.density`, list).
- `log_likelihood:samples=500,images=200`: log p(x) by importance sampling, nats an image.
- `traversals:latents=6,frames=9`: images along the latents that move most, for the first seed of
  the slice alone: pixels 0 to 255, latent by latent and frame by frame (`traversals`, list), which
  latents they are (`traversed`, list) and how many frames each has (`traversal_frames`).
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unbraid.analysis.distances import learnt
from unbraid.core.checks import is_whole
from unbraid.core.errors import Problems, unknown
from unbraid.core.spelling import as_named

if TYPE_CHECKING:
    import torch

    from unbraid.population.run_folder import RunFolder

LISTS = ("class_sizes", "aggregate.density", "traversals", "traversed")
"""Columns that hold lists, None where there is none."""
_REVISIONS = {"distances": learnt.REVISION, "aggregate": 2}
"""Of how something is measured, where that has changed."""
REACH, CELLS = 2.0, 41
"""Where and on how many points along each latent q(z) is kept."""
DIGITS = 3
"""Behind the point, of its density: with all of them a table would be sixteen times as large."""
QUANTILES = (0.01, 0.99)
"""Between which a latent is traversed."""

Measured = Mapping[str, Any]


def check_measures(names: Sequence[str], problems: Problems) -> None:
    """Refuse measures that are not known, and options that they have not."""
    for name in names:
        key, options = as_named(name)
        if key not in _MEASURES:
            problems.say(unknown("measure", key, tuple(_MEASURES)))
            continue
        known = _options_of(key)
        for option, value in options.items():
            if option not in known:
                problems.say(unknown(f"option of {key}", option, known))
            elif not is_whole(value) or value < 1:
                problems.add(f"{key}: {option}", "must be a whole number of at least 1", value)


def measure_revision(name: str) -> int:
    """By which version a measure is made; tables of another are made anew."""
    return _REVISIONS.get(as_named(name)[0], 1)


def measured(
    run: RunFolder,
    names: Sequence[str],
    device: torch.device,
    check: Callable[[], None] = lambda: None,
) -> dict[str, list[Any]]:
    """The columns that *names* ask for, a row for each model; nothing of models that diverged.

    *check* is called often, and may raise to stop it.
    """
    healthy = run.members().query("status == 'trained'")["member"].tolist()
    rows: dict[int, dict[str, Any]] = {member.id: {} for member in run.plan.members}
    for name in names if healthy else ():
        key, options = as_named(name)
        if key in _OF_RUNS:
            for member, found in _OF_RUNS[key](run, device, check).items():
                rows[member] |= found
            continue
        for member in healthy:
            check()
            rows[member] |= _OF_MODELS[key](run, member, device, **options)
    columns = dict.fromkeys(name for row in rows.values() for name in row)
    return {name: [row.get(name, _empty(name)) for row in rows.values()] for name in columns}


def _empty(column: str) -> Any:
    return None if column in LISTS else math.nan


def _options_of(key: str) -> list[str]:
    parameters = inspect.signature(_MEASURES[key]).parameters.values()
    return [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]


def _distances(
    run: RunFolder, device: torch.device, check: Callable[[], None]
) -> dict[int, Measured]:
    found = learnt.learnt_distances(run, device=device, progress=lambda done, total: check())
    columns = found.set_index("member").add_prefix("distances.")
    return {int(member): dict(row) for member, row in columns.to_dict("index").items()}


def _axes(run: RunFolder, member: int, device: torch.device) -> Measured:
    from unbraid.analysis.perturbation.decoder_axes import decoder_axes

    return {
        f"axes.{name}": value for name, value in decoder_axes(run, member, device).numbers().items()
    }


def _class_sizes(run: RunFolder, member: int, device: torch.device) -> Measured:
    from unbraid.codes.codes import CodeStore
    from unbraid.metrics import class_sparsity

    codes = CodeStore(run).load(member)
    found = class_sparsity(codes.mean, codes.factors[:, :1])
    size = np.full((run.dataset.factor_sizes[0], codes.mean.shape[1]), np.nan)
    size[[value for _, value in found.classes]] = found.size
    return {"class_sizes": size.ravel().tolist(), "classes": float(len(size))}


def _aggregate(run: RunFolder, member: int, device: torch.device) -> Measured:
    from unbraid.analysis.theory.aggregate_posterior import (
        density_on_grid,
        groups_kept,
        inclusive_kl,
    )
    from unbraid.codes.codes import CodeStore
    from unbraid.objectives.priors.mixture import Mixture

    codes, prior = CodeStore(run).load(member), _prior(run, member)
    found: dict[str, Any] = {
        "aggregate.kl": inclusive_kl(prior, codes.mean, codes.logvar).nats,
        "aggregate.width": float(np.exp(0.5 * codes.logvar.astype(np.float64)).mean()),
    }
    if isinstance(prior, Mixture) and run.dataset.labelled:
        centres = _centres(prior, codes.mean.shape[1])
        drawn = codes.representation("sampled")
        found["aggregate.kept"] = groups_kept(drawn, codes.factors[:, 0], centres)
    if codes.mean.shape[1] == 2:
        line = np.linspace(-REACH, REACH, CELLS)
        density = density_on_grid(codes.mean, codes.logvar, line)
        found["aggregate.density"] = density.round(DIGITS).ravel().tolist()
    return found


def _prior(run: RunFolder, member: int) -> Any:
    """A model's prior in double precision, with what it learned."""
    import torch

    from unbraid.objectives.hyper import stack

    own = run.plan.members[member].build_prior()
    learned = {weight.name for weight in own.weights(run.plan.latents)}
    weights = run.member_weights(member) if learned else {}
    end = torch.tensor(float(run.plan.steps))
    prior = stack([own], "cpu", torch.float64).at(end)
    return prior.bound({name: weights[name].double() for name in learned})


def _centres(prior: Any, latents: int) -> NDArray[np.float64]:
    """The centres of clusters, 0 beyond their plane: `(clusters, latents)`."""
    import torch

    plane = prior.centres(torch.zeros(1, 1, dtype=torch.float64)).reshape(-1, 2).numpy()
    return np.pad(plane, ((0, 0), (0, latents - 2)))


def _log_likelihood(
    run: RunFolder, member: int, device: torch.device, *, samples: int = 500, images: int = 200
) -> Measured:
    from unbraid.analysis.log_likelihood import log_likelihood

    found = log_likelihood(run, member, samples=samples, images=images, device=str(device))
    return {"log_likelihood": found.nats_per_image}


def _traversals(
    run: RunFolder, member: int, device: torch.device, *, latents: int = 6, frames: int = 9
) -> Measured:
    """Along a latent from an image of the class that uses it most, in the middle of that class."""
    from unbraid.codes.codes import CodeStore
    from unbraid.codes.model import Model
    from unbraid.codes.traversals import traverse, typical_image

    plan = run.plan
    if plan.members[member].seed != min(one.seed for one in plan.members):
        return {}
    codes, model = CodeStore(run).load(member), Model(run, member)
    moving = np.argsort(-codes.mean.std(axis=0), kind="stable")[:latents].tolist()
    pixels = []
    for latent in moving:
        here = _most_used_by(codes.mean[:, latent], codes.factors)
        start = codes.mean[here][typical_image(codes.mean[here], moving)]
        along = traverse(start, latent, codes.mean[:, latent], frames, QUANTILES)
        pixels.append(model.decode(along).ravel())
    return {
        "traversals": np.concatenate(pixels).astype(np.int64).tolist(),
        "traversed": moving,
        "traversal_frames": float(frames),
    }


def _most_used_by(code: NDArray[np.float32], factors: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which samples are of the class whose codes are the largest; all without classes."""
    if not factors.shape[1]:
        return np.ones(len(code), dtype=bool)
    column = factors[:, 0]
    size = [np.abs(code[column == value]).mean() for value in np.unique(column)]
    return column == np.unique(column)[int(np.argmax(size))]


_OF_RUNS = {"distances": _distances}
_OF_MODELS: dict[str, Callable[..., Measured]] = {
    "axes": _axes,
    "class_sizes": _class_sizes,
    "aggregate": _aggregate,
    "log_likelihood": _log_likelihood,
    "traversals": _traversals,
}
_MEASURES: dict[str, Callable[..., Any]] = {**_OF_RUNS, **_OF_MODELS}
