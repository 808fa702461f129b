# SPDX-License-Identifier: Apache-2.0
"""From a search that is over to rows of a study's table.

`stage` is `search`, or of a recursion `root`, `leaf-0/level-2`, ..., `final-3`. `row` is
`individual`, one for each of each epoch, with its lineage: `epoch`, `individual`, `parent`,
`copied`, `score` (what the search selects by), `batch_size`, `active_latents`, `collapsed`,
`images` (that each of its models has seen); or `winner`, one for each model of the best individual,
which has the scores of the slice's metrics too, except in leaf-runs, and `model`, `chosen` (the one
whose latents are labels; of a single one itself), `stage_images` (of the data of the stage) and
`labels` (how many latents are). `left.<factor>` is the share of its variance that a factor has left
in the part of a leaf-run, NaN where it never varied. Of the chosen one of a search without labels
`label_latents` are the latents, `label_peaks` the steps of their sorted codes by the rule that
chance alone seldom passes, `sorted_labels` their codes at 200 places from lowest to highest, label
by label, and `explained` the adjusted R² of every label by every factor and then by every pair of
factors together, label by label. A search that came to nothing has a single row, `none`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from unbraid.codes.codes import recorded_sample
from unbraid.data.dataset import Dataset
from unbraid.population.run_folder import RunFolder
from unbraid.scoring.score_table import stored_scores
from unbraid.search.pbt.generation import updates_of_epoch
from unbraid.search.pbt.lineage import is_collapsed
from unbraid.search.pbt.search import SearchRun
from unbraid.search.reduce.reduction import reduce
from unbraid.search.rpu.labelling import Labelling
from unbraid.studies.intervals import variance_explained
from unbraid.studies.slice_table import slice_table

if TYPE_CHECKING:
    import pandas as pd

PLACES = 200
"""At which sorted labels are kept."""
MOST_EXPLAINED = 20_000
"""Images by which labels are explained."""


@dataclass(frozen=True)
class Part:
    """One stage of a search that is over."""

    stage: str
    search: SearchRun
    winner: RunFolder
    labelling: Labelling | None
    """Of a search without labels."""
    metrics: tuple[str, ...]
    """By which its winner is scored."""
    subset: NDArray[np.int64] | None = None
    """Of a leaf-run: its images in the whole data."""


def search_table(
    parts: Sequence[Part],
    whole: Dataset,
    *,
    pool: str,
    name: str,
    data: str,
    seed: int,
    stage: str = "",
) -> pd.DataFrame:
    """Rows of every individual and winner of *parts*, whose images are those of *whole* or some;
    without any a row of the *stage* that there should be.
    """
    import pandas as pd

    from unbraid.studies.results import stacked

    shared = {"pool": pool, "slice": name, "data": data, "seed": seed}
    tables = []
    for part in parts:
        tables += [_individuals(part), _winners(part, whole, pool, name)]
    if not tables:
        nothing = {"objective": "", "strength": math.nan, "strength_name": "", "steps": 0}
        nothing |= {"learning_rate": math.nan, "status": "diverged", "stage": stage, "row": "none"}
        tables = [pd.DataFrame([nothing])]
    return stacked([one.assign(**shared) for one in tables])


def _individuals(part: Part) -> pd.DataFrame:
    """A row for each individual of each epoch."""
    import pandas as pd

    search = part.search.search
    rows = []
    for one in part.search.lineage.to_dict("records"):
        values = {name: one[name] for name in search.evolved}
        rows.append(
            _settings(part, values, int(one["epoch"]))
            | {
                "status": "diverged" if one["diverged"] else "trained",
                "stage": part.stage,
                "row": "individual",
                **{key: float(one[key]) for key in ("epoch", "individual", "parent", "copied")},
                "score": _number(one["score"]),
                "active_latents": _number(one.get("active_latents")),
                "collapsed": float(is_collapsed(one)),
                "images": float(one["images"]),
            }
        )
    return pd.DataFrame(rows)


def _settings(part: Part, values: dict[str, Any], epoch: int) -> dict[str, Any]:
    """What an individual with these evolved *values* is, at the end of *epoch*."""
    search = part.search.search
    member, batch = search.plan.members[0], search.batch_size(values)
    strength = member.build().strength
    return {
        "objective": member.objective,
        "strength": _number(search.settings(values).get(strength)) if strength else math.nan,
        "strength_name": strength or "",
        "learning_rate": _number(search.settings(values)["learning_rate"]),
        "batch_size": float(batch),
        "steps": (epoch + 1) * updates_of_epoch(search.epoch_images, batch),
    }


def _number(value: Any) -> float:
    known = isinstance(value, (int, float, np.integer, np.floating))
    return float(value) if known else math.nan


def _winners(part: Part, whole: Dataset, pool: str, name: str) -> pd.DataFrame:
    """A row for each model of the winner, with its scores."""
    table = slice_table(
        part.winner,
        stored_scores(part.winner),
        list(part.metrics),
        [],
        pool=pool,
        name=name,
        by_latent=True,
    )
    record, count = part.search.winner_record(), len(table)
    labelling = part.labelling
    chosen = 0 if labelling is None else labelling.model
    about = _settings(part, record["values"], record["epoch"]) | {
        "stage": part.stage,
        "row": "winner",
        "epoch": float(record["epoch"]),
        "individual": float(record["individual"]),
        "score": _number(record["score"]),
        "active_latents": _number(record["active_latents"]),
        "collapsed": float(record["collapsed"]),
        "images": float((record["epoch"] + 1) * part.search.search.epoch_images),
        "stage_images": float(len(part.search.dataset)),
        "labels": math.nan if labelling is None else float(len(labelling.latents)),
        **_variance_left(part, whole),
    }
    models = {
        "model": np.arange(count, dtype=float),
        "chosen": (np.arange(count) == chosen).astype(float),
    }
    table = table.assign(**about, **models)
    lists = _of_labels(labelling, part.search.dataset) if labelling is not None else {}
    return table.assign(
        **{
            key: [cell if at == chosen else None for at in range(count)]
            for key, cell in lists.items()
        }
    )


def _variance_left(part: Part, whole: Dataset) -> dict[str, float]:
    """Of every factor in the images of a leaf-run."""
    if part.subset is None or not whole.labelled:
        return {}
    every = whole.factors(np.arange(len(whole))).var(axis=0)
    own = whole.factors(part.subset).var(axis=0)
    left = np.divide(own, every, out=np.full(len(every), np.nan), where=every > 0)
    return {
        f"left.{name}": float(share) for name, share in zip(whole.factor_names, left, strict=True)
    }


def _of_labels(labelling: Labelling, dataset: Dataset) -> dict[str, list[Any]]:
    """What the labels of a search look like when sorted, and what explains them in *dataset*."""
    values = labelling.values
    peaks, curves = [], []
    if values.shape[1] and len(values) > 1:
        peaks = [len(one.peaks) for one in reduce(values).latents]
        at = np.linspace(0, len(values) - 1, PLACES).round().astype(int)
        curves = np.sort(values, axis=0)[at].T.ravel().astype(float).tolist()
    return {
        "label_latents": list(labelling.latents),
        "label_peaks": peaks,
        "sorted_labels": curves,
        "explained": _explained(values, dataset) if dataset.labelled else [],
    }


def _explained(values: NDArray[np.floating], dataset: Dataset) -> list[float]:
    """Adjusted R² of each column of *values* by each factor, then by each pair; NaN where there are
    as many groups as images.
    """
    some = recorded_sample(len(values), MOST_EXPLAINED)
    codes, factors = values[some].astype(np.float64), dataset.factors(some)
    columns = [*factors.T]
    sizes = dataset.factor_sizes
    pairs = combinations(range(len(columns)), 2)
    groups = columns + [columns[one] * sizes[other] + columns[other] for one, other in pairs]
    return [variance_explained(label, group) for label in codes.T for group in groups]
