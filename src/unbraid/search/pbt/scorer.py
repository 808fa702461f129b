# SPDX-License-Identifier: Apache-2.0
"""How individuals are scored while they train: any metric, with all labels, a few, or none.

    mig, dci, ...     with all labels (PBT-S-VAE) on up to 50,000 images or on `points` of them, or
                      with N labelled images (1,000-PBT-S)
    udr               without labels (PBT-U-VAE): an individual is a group of models that share
                      hyperparameters, scored by how well they agree on 1,000 images or `points`
    surrogates        the final population of rPU-VAE: MIG with labels that other models made
                      (`search/rpu/surrogate_labels.py`)

Higher is better to the search: scores of metrics where lower is better are negated for it and
recorded as they are.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from unbraid.codes.codes import TRAIN_SHARE, scored_sample
from unbraid.core.checks import is_whole, plain, read_whole_number
from unbraid.core.errors import InputError, Problems, unknown
from unbraid.data.dataset import Dataset
from unbraid.population.devices import explain_oom
from unbraid.scoring.metric_inputs import MetricInputs, evaluate
from unbraid.scoring.metric_names import (
    base,
    higher_is_better,
    metric_names,
    needing_factors,
    needs,
    options,
)
from unbraid.search.pbt.generation import WHEN_FULL
from unbraid.search.rpu.surrogate_labels import read_surrogates, surrogate_gaps

MOST_MODELS = 10_000
"""Of an individual."""
SURROGATES = "surrogates"
MOST_POINTS = 50_000
"""Images on which metrics with labels are computed in training (Estermann et al. 2020)."""
UDR_POINTS = 1_000
LEAST_POINTS, MOST_SAMPLED = 10, 10**7
"""Images that a score may be asked to look at."""
UDR_MODELS = 5
_TRIED_ROWS = 600
Floats = NDArray[np.float32]


@dataclass(frozen=True)
class ModelScore:
    """How one model is scored by its codes."""

    indices: NDArray[np.int64]
    """The images that are encoded."""
    score: Callable[[Floats, Floats, Floats | None], float]
    """From means and log-variances `(n, latents)` of those images, and the nats of their
    reconstructions where it reads them.
    """
    reads_reconstruction: bool = False


@dataclass(frozen=True)
class Scorer:
    """A score by name, the images it is computed on, and how many models an individual has."""

    metric: str
    points: int
    """Images at most: those with labels, where labels are few."""
    models: int = 1
    seed: int = 0
    """Chooses the images."""
    surrogates: str = ""
    """File of surrogate labels, relative to the run folder."""

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @property
    def higher_is_better(self) -> bool:
        """Whether a higher score is the better one."""
        return self.metric == SURROGATES or higher_is_better(self.metric)

    @property
    def compares(self) -> bool:
        """Whether it compares the models of an individual, and so needs no labels."""
        return self.metric != SURROGATES and needs(self.metric) == "population"

    def sample(self, dataset: Dataset) -> NDArray[np.int64]:
        """The images that are looked at."""
        return scored_sample(dataset, self.points, self.seed)

    def better(self, score: float) -> float:
        """*score* as the search ranks it: higher is better."""
        return score if self.higher_is_better else -score

    def known_factors(self, dataset: Dataset, folder: Path) -> int:
        """How many factors that vary it knows of; 0 without labels. Surrogates lie in *folder*."""
        if self.metric == SURROGATES:
            leaves = read_surrogates(folder / self.surrogates)
            return min(sum(labels.values.shape[1] for labels in leaf) for leaf in leaves)
        if not needing_factors([self.metric]):
            return 0
        return sum(size > 1 for size in dataset.factor_sizes)

    def agreements(
        self, on_host: tuple[torch.Tensor, torch.Tensor], device: torch.device
    ) -> NDArray[np.float64]:
        """The score of every model by how well it agrees with the others of its individual.

        *on_host* are means and log-variances `(models, n, latents)`.
        """
        from unbraid.metrics._agreement import agreement_scores, mean_kl

        with explain_oom(device, f"the agreement of {len(on_host[0])} models", WHEN_FULL):
            mean, logvar = (part.to(device, torch.float64) for part in on_host)
            groups = mean.view(-1, self.models, *mean.shape[1:])
            kl = mean_kl(mean, logvar).view(-1, self.models, mean.shape[-1])
            return agreement_scores(groups, kl, **options(self.metric)).flatten().cpu().numpy()

    def of_model(self, dataset: Dataset, folder: Path) -> ModelScore:
        """How a model is scored by itself; surrogate labels lie in *folder*."""
        if self.metric == SURROGATES:
            leaves = read_surrogates(folder / self.surrogates)
            labelled = [labels.indices for leaf in leaves for labels in leaf]
            indices = np.unique(np.concatenate(labelled))
            return ModelScore(indices, lambda mean, *_: surrogate_gaps(mean, indices, leaves))
        indices = self.sample(dataset)
        factors = dataset.factors(indices) if dataset.labelled else None
        train = max(1, round(len(indices) * TRAIN_SHARE))

        def score(mean: Floats, logvar: Floats, nats: Floats | None) -> float:
            inputs = MetricInputs(mean, train, factors, mean, logvar, nats)
            return float(evaluate(self.metric, inputs).score)

        return ModelScore(indices, score, needs(self.metric) == "elbo")


def read_scorer(
    metric: str,
    labels: Any,
    models: Any,
    dataset: Dataset,
    seed: int,
    problems: Problems,
    points: Any = None,
) -> Scorer:
    """The scorer that a request means; what is wrong with it goes to *problems*.

    It looks at *points* images at most, or at the labelled ones where *labels* are a number.
    """
    own = Problems()  # what else is wrong with the request must not hide what is wrong here
    labels, models, points = plain(labels), plain(models), plain(points)
    names = (
        metric_names([metric], own, labelled=dataset.labelled) if isinstance(metric, str) else []
    )
    if not isinstance(metric, str):
        own.add("score", "must be the name of a metric", metric)
    elif len(names) > 1:
        own.add("score", "must be a single metric", metric, f"For example {names[0]}.")
    known = bool(names) and not own.found
    compares = known and needs(metric) == "population"
    if known and not dataset.labelled and needing_factors(names):
        remedy = "Use udr, which needs none, or load the data with factors."
        own.add(
            "score",
            f"cannot be {base(metric)}, since the data has no factors to compare codes with",
            metric,
            remedy,
        )
    elif known and options(metric):
        own.collect(lambda: _try_options(metric))
    if models is None:
        models = UDR_MODELS if compares else 1
    least = 2 if compares else 1
    if not is_whole(models) or models < least:
        rule = f"must be a whole number of at least {least} for the score {metric}"
        own.add("models", rule, models)
    elif models > MOST_MODELS:
        own.add("models", f"must be at most {MOST_MODELS:,}", models)
    if points is None:
        points = UDR_POINTS if compares else MOST_POINTS
    elif labels not in (None, "all"):
        remedy = "Leave one of the two out."
        own.add("points", "is the number of labelled images where that is given", points, remedy)
    else:
        points = read_whole_number(own, "points", points, LEAST_POINTS, MOST_SAMPLED)
    if labels not in (None, "all"):
        if isinstance(labels, bool) or not isinstance(labels, int) or labels < LEAST_POINTS:
            rule = f"must be all, or a whole number of at least {LEAST_POINTS}"
            own.add("labels", rule, labels)
        elif labels > len(dataset):
            own.add("labels", f"must be at most the {len(dataset)} images of the data", labels)
        elif known and not needing_factors(names):
            own.add("labels", f"are not used by {base(metric)}", labels, "Leave them out.")
        else:
            points = labels
    for line in own.found:
        problems.say(line)
    return Scorer(str(metric), points, models if isinstance(models, int) else 1, seed)


def _try_options(metric: str) -> None:
    """Compute *metric* on made-up codes, so that options it refuses come out before training."""
    from unbraid.metrics._agreement import agreement_scores

    generator = np.random.default_rng(0)
    factors = generator.integers(0, 4, (_TRIED_ROWS, 2))
    mean = factors + generator.normal(0.0, 0.1, factors.shape)
    logvar, nats = np.full(mean.shape, -2.0), np.ones(_TRIED_ROWS)
    if needs(metric) == "population":
        known = [
            name
            for name, item in inspect.signature(agreement_scores).parameters.items()
            if item.kind is item.KEYWORD_ONLY
        ]
        for name in options(metric).keys() - known:
            raise InputError(unknown(f"option of {base(metric)} in a search", name, known))
        codes = torch.from_numpy(np.stack([mean, mean])[None])
        agreement_scores(codes, torch.ones(1, 2, 2, dtype=torch.float64), **options(metric))
    else:
        evaluate(
            metric,
            MetricInputs(mean, round(_TRIED_ROWS * TRAIN_SHARE), factors, mean, logvar, nats),
        )
