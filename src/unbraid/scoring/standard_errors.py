# SPDX-License-Identifier: Apache-2.0
"""Standard errors over samples: how far a score would move with other rows of as many.

Half of the rows, drawn without replacement, again and again: the standard deviation of the scores
of such halves estimates that of the score itself over fresh samples of full size (the delete-half
jackknife, Shao and Wu 1989). Training and test part are halved apart. Why not the plain bootstrap,
as many rows drawn with replacement: its duplicates make neighbours and trees look better, medians
and extremes of a latent repeat, and where a metric draws batches itself, that chance comes once
with halves and with any other share more than once.

Rows are drawn from a whole factor grid of `N` where a run has one, each at most once, and then less
is left to chance: of `n` rows `n / (2 - n / N)` are drawn, which has the variance of such samples.
Of a whole grid all rows are drawn, in another order: nothing is left out, the error of a score
without chance of its own is 0, and only what depends on the split or on batches moves. Where noise
was drawn once for each image, for sampled codes and the ELBO, a grid counts as any other sample:
the error is then too large.

Departs from halves:

- Information by counting is too high by `df / 2n`, chi-squared noise that no smaller sample shows
  at its size: halves have twice as much of it, and on top of that of the whole sample, so that an
  entry near 0 would scatter 1.7 times too much, and modularity, which squares such entries, 3.5
  times. So entries `I` are put right before the score is taken of them: `D`, by how much halves
  exceed the whole on average, says what of an entry is chance, `Q = D / n` is the variance of that,
  and a half's deviation is shrunk from its variance `V = L + 3 Q` to `L + Q`. Likewise the sums of
  squared correlations, `total_correlation` and `wasserstein_correlation`, whose `D` has as many
  degrees of freedom as there are pairs: `Q = 2 D^2 / pairs`.
- SAP takes as many rows with replacement: its SVMs weigh their regularisation by the number of
  rows, and a line on one latent does not see duplicates.

Simulated with codes of known distributions (noisy, rotated, mixed, discrete; tests), errors are
within 30 % of the truth on average. They are too large, up to twice, for scores of pure noise and
up to half as much again for scores next to their ceiling, where a score hardly moves and its halves
do; of codes with far outliers, which set the bins and one of two halves lacks, they are too small,
down to half. Of `dci_es` they say little where a factor is hardly predicted: it jumps to -1, for
halves at another place than for the whole. `active_units`, a count that a threshold decides, and
`udr`, which compares models, have none: whether a count flips is no matter of a deviation, and what
makes UDR uncertain is which models were trained.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import InputError, unknown
from unbraid.metrics import METRICS
from unbraid.metrics._information import Information
from unbraid.metrics._resampled import Cost, FromInformation, Resampled
from unbraid.metrics._standardise import varying_latents
from unbraid.scoring.metric_inputs import MetricInputs, arguments, evaluate, metric_for
from unbraid.scoring.metric_names import base, is_cheap, needs, options, resampled

ERRORS = (*get_args(Cost)[:1], "all", "none")
"""Which standard errors can be asked for."""
_MANY_DIGITS = 1e6
"""Numbers from here on are shown by their power of ten."""
_LEAST_SHARE = 1e-9
"""Of a score: an error below it is rounding."""
_FEWEST_ROWS = 20
"""Halves of fewer agree by their small number: of noise in 5 rows every half correlates fully."""


def with_error(names: Iterable[str], errors: str) -> list[str]:
    """Those of the metrics *names* whose standard error *errors* asks for.

    >>> with_error(["mig", "dci", "udr"], "cheap"), with_error(["mig", "dci", "udr"], "all")
    (['mig'], ['mig', 'dci'])
    """
    if errors not in ERRORS:
        raise InputError(unknown("errors", str(errors), ERRORS))
    kept = {"cheap": is_cheap, "all": resampled, "none": lambda name: False}[errors]
    return [name for name in dict.fromkeys(names) if base(name) in METRICS and kept(name)]


def standard_error(name: str, inputs: MetricInputs, *, seed: int, member: int) -> float:
    """The standard error of metric *name* over samples like *inputs*.

    NaN where rows are too few to say. It follows from *seed*, metric and *member*.
    """
    how = resampled(name)
    assert how is not None, f"{name} has no standard error"
    smallest = min(end - begin for begin, end in _blocks(name, inputs))
    if smallest < _FEWEST_ROWS and len(inputs.codes) != inputs.population:
        return float("nan")
    generator = np.random.default_rng([seed, member, zlib.crc32(name.encode())])
    try:
        return _standard_error(name, how, inputs, generator)
    except InputError:
        return float("nan")


def _standard_error(
    name: str, how: Resampled, inputs: MetricInputs, generator: np.random.Generator
) -> float:
    parts = [_drawn(name, how, inputs, generator) for _ in range(how.replicates)]
    if how.information is not None:
        scores = _of_information(name, how.information, inputs, parts)
        return _deviation(scores)
    quick = functools.partial(metric_for(name, inputs), **how.quick)
    scores = np.array([quick(*arguments(name, part)).score for part in parts])
    if how.sum_of_squares:
        latents = int(varying_latents(inputs.codes.astype(np.float64)).sum())
        whole = evaluate(name, inputs).score
        excess = max(float(scores.mean()) - whole, 0.0)
        chance = 2 * excess**2 / max(1, latents * (latents - 1) // 2)
        return _deviation(scores) * float(_shrunk(scores.var(ddof=1), chance))
    if how.with_replacement and inputs.population is not None:
        fitting = options(name).get(how.decided_by_fitting, False)
        deciding = inputs.train if fitting else len(inputs.codes) - inputs.train
        return _deviation(scores) * (1.0 - deciding / inputs.population) ** 0.5
    return _deviation(scores)


def _deviation(scores: NDArray[np.float64]) -> float:
    found = float(scores.std(ddof=1))
    return found if found > _LEAST_SHARE * float(np.abs(scores).max()) else 0.0


def _drawn(
    name: str, how: Resampled, inputs: MetricInputs, generator: np.random.Generator
) -> MetricInputs:
    """A random part of *inputs*."""
    rows = [
        generator.integers(begin, end, size=end - begin)
        if how.with_replacement
        else begin + generator.permutation(end - begin)[: _size(end - begin, inputs.population)]
        for begin, end in _blocks(name, inputs)
    ]
    return inputs.part(np.concatenate(rows), len(rows[0]))


def _blocks(name: str, inputs: MetricInputs) -> list[tuple[int, int]]:
    """Where the rows begin and end that are drawn apart: those for fitting and for testing."""
    whole, cut = len(inputs.codes), inputs.train
    return [(0, cut), (cut, whole)] if needs(name) == "split" else [(0, whole)]


def _size(rows: int, population: int | None) -> int:
    """How many of *rows* to draw, so that such parts differ as fresh samples of *rows* do."""
    share = 0.0 if population is None else min(1.0, rows / population)
    return max(1, round(rows / (2.0 - share)))


def _of_information(
    name: str, how: FromInformation, inputs: MetricInputs, parts: Sequence[MetricInputs]
) -> NDArray[np.float64]:
    """The score of every part, its information put right."""
    given = options(name)
    for_count = {key: given[key] for key in given if key in inspect.signature(how.count).parameters}
    for_score = {key: given[key] for key in given if key in inspect.signature(how.score).parameters}

    def count(one: MetricInputs) -> Information:
        return how.count(*arguments(name, one), **for_count)

    settled = put_right(count(inputs), [count(part) for part in parts], len(inputs.codes))
    return np.array([how.score(one, **for_score).score for one in settled])


def put_right(whole: Information, parts: Sequence[Information], rows: int) -> list[Information]:
    """The information of *parts* with the chance in it that the *whole* of *rows* has."""
    stacked = np.stack([part.mutual for part in parts])
    mean, variance = stacked.mean(axis=0), stacked.var(axis=0, ddof=1)
    excess = np.maximum(mean - whole.mutual, 0.0)
    chance = excess / rows
    sure = np.maximum(variance - 3 * chance, 0.0)
    # What is chance alone has the size of chance, not the one it happens to have here.
    share = np.divide(sure, sure + chance, out=np.ones_like(sure), where=sure + chance > 0)
    centre = excess + share * (whole.mutual - excess)
    mutual = np.maximum(centre + _shrunk(variance, chance) * (stacked - mean), 0.0)

    def around(values: NDArray[np.float64], drawn: list[NDArray[np.float64]]) -> NDArray[Any]:
        return values + np.stack(drawn) - np.mean(drawn, axis=0)

    factors = around(whole.factor_entropy, [part.factor_entropy for part in parts])
    latents = around(whole.latent_entropy, [part.latent_entropy for part in parts])
    return [
        dataclasses.replace(whole, mutual=one, factor_entropy=of_factors, latent_entropy=of_latents)
        for one, of_factors, of_latents in zip(mutual, factors, latents, strict=True)
    ]


def _shrunk(variance: Any, chance: Any) -> NDArray[np.float64]:
    """What deviations shrink to, as a factor, where *chance* is three times in their *variance*."""
    variance = np.asarray(variance)
    right = np.maximum(variance - 2 * chance, np.minimum(chance, variance))
    return np.sqrt(np.divide(right, variance, out=np.ones_like(variance), where=variance > 0))


def shown(value: float, error: float | None, digits: str = ".4g") -> str:
    """A score and its standard error, where that is known.

    >>> shown(0.23142, 0.00412), shown(0.23142, None), shown(0.5, 0.0, ".3f")
    ('0.2314 ±0.0041', '0.2314', '0.500 ±0')
    >>> shown(-12345.6, 345.6), shown(2e54, 2.4e53, ".3f")
    ('-1.235e+04 ±346', '2e+54 ±2.4e+53')
    """
    told = f"{value:{digits if abs(value) < _MANY_DIGITS else '.4g'}}"
    if error is None or not np.isfinite(error):
        return told
    return f"{told} ±" + (f"{error:.0f}" if 100 <= error < _MANY_DIGITS else f"{error:.2g}")
