# SPDX-License-Identifier: Apache-2.0
"""The contract of a metric, ours or a plug-in's: `check_metric("my_score")` in a test.

A metric of Unbraid itself also has a row in the table of standard codes: measure it with
`python benchmarks/metric_behaviour.py my_score`, then run `make docs`.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from unbraid.core.grid import FactorGrid
from unbraid.metrics import METRICS
from unbraid.metrics._describe import AXES_OF_A_MEMBER, Family, Needs
from unbraid.testing.checks import check_description, refusal

GRID = FactorGrid(("shape", "size", "place"), (4, 5, 6))
SYMMETRY_TOLERANCE = 0.02
"""How far a score may move when latents change places or signs: predictors break ties by position.
"""

_CHANGES = "{} must give the same score for the same arguments"

Arrays = tuple[NDArray, ...]


def check_metric(name: str, **options: Any) -> None:
    """Assert everything that scoring, tables and reports rely on; messages name what fails.

    *options* may make an expensive metric cheaper: they are passed on in every call.
    """
    described = METRICS.load(name)
    _check_description(name, described)
    metric: Any = functools.update_wrapper(functools.partial(described, **options), described)
    perfect, mixed, noise = (_inputs(metric.needs, kind) for kind in ("perfect", "mixed", "noise"))
    score = _check_call(metric, mixed)
    _check_symmetry(metric, mixed, score)
    _check_refusals(metric, mixed)
    if metric.needs == "population":
        assert metric(*mixed).score == score, _CHANGES.format(name)
        return
    noise_score = metric(*noise).score
    _check_member_axis(metric, (mixed, noise), [score, noise_score])
    if metric.needs in ("sample", "split", "grid"):
        sign = 1.0 if metric.result.higher_is_better else -1.0
        assert sign * metric(*perfect).score > sign * noise_score, (
            f"{name}: perfect codes must score better than noise"
        )


def _check_description(name: str, metric: Any) -> None:
    assert metric.__name__ == name, (
        f"the function of '{name}' must bear its name, not '{metric.__name__}'"
    )
    check_description(name, metric)
    for what, known in (("needs", get_args(Needs)), ("family", get_args(Family))):
        assert getattr(metric, what) in known, (
            f"{what} of {name} must be one of {', '.join(known)}, not {getattr(metric, what)!r}"
        )
    low, high = metric.result.range
    assert low < high, f"the range of {name} must rise, is {metric.result.range}"
    assert isinstance(metric.result.higher_is_better, bool), (
        f"the result of {name} must say whether higher is better"
    )
    assert dataclasses.is_dataclass(metric.result), f"the result of {name} must be a dataclass"


def _inputs(needs: str, kind: str) -> Arrays:
    """Arguments of one kind of code over a small grid; read-only, which a metric must bear."""
    generator = np.random.default_rng(7)

    def codes_of(factors: NDArray[np.int64]) -> NDArray[np.float64]:
        centred = factors / (np.array(GRID.sizes) - 1.0) - 0.5
        jitter = generator.normal(size=(len(factors), 4))
        if kind == "noise":
            return jitter
        plain = np.concatenate([centred * [2.0, -3.0, 4.0], np.zeros((len(factors), 1))], axis=1)
        blend = np.eye(4) if kind == "perfect" else np.eye(4) + 0.4 * np.eye(4, k=1)
        return plain @ blend + (0.01 if kind == "perfect" else 0.2) * jitter

    def part(rows: int) -> Arrays:
        factors = GRID.to_factors(generator.integers(GRID.size, size=rows))
        return codes_of(factors), factors

    grid = GRID.to_factors(np.arange(GRID.size))
    match needs:
        case "codes":
            arguments = part(400)[:1]
        case "sample":
            arguments = part(400)
        case "split":
            arguments = (*part(400), *part(200))
        case "grid":
            arguments = (codes_of(grid), grid)
        case "posterior" | "elbo":
            mean = part(400)[0]
            arguments = (
                mean,
                -1.0 + 0.3 * generator.normal(size=mean.shape),
                50.0 + generator.normal(size=len(mean)) ** 2,
            )
            arguments = arguments if needs == "elbo" else arguments[:2]
        case _:
            factors = GRID.to_factors(generator.integers(GRID.size, size=400))
            arguments = (
                np.stack([codes_of(factors) for _ in range(3)]),
                np.tile([2.0, 1.0, 3.0, 0.5], (3, 1)),
            )
    for array in arguments:
        array.setflags(write=False)
    return arguments


def _check_call(metric: Any, arguments: Arrays) -> float:
    """The score of *arguments*, after all that can be asked of a single call."""
    name = metric.__name__
    before = np.random.get_state(legacy=False)  # noqa: NPY002 -- the global generator is what must stay untouched
    result = metric(*arguments)
    after = np.random.get_state(legacy=False)  # noqa: NPY002
    assert str(before) == str(after), f"{name} must not touch NumPy's global generator"
    assert isinstance(result, metric.result), (
        f"{name} must return {metric.result.__name__}, not {type(result).__name__}"
    )
    assert isinstance(result.score, float), f"the score of {name} must be a float"
    assert math.isfinite(result.score), f"the score of {name} must be finite, is {result.score}"
    low, high = metric.result.range
    assert low <= result.score <= high, (
        f"the score of {name} must lie in {metric.result.range}, is {result.score}"
    )
    if metric.needs == "grid":
        assert metric(arguments[0], GRID).score == result.score, (
            f"{name} must take a FactorGrid for its factor values"
        )
    frozen = False
    try:
        setattr(result, dataclasses.fields(result)[0].name, None)
    except dataclasses.FrozenInstanceError:
        frozen = True
    assert frozen, f"the result of {name} must be frozen"
    return result.score


def _check_symmetry(metric: Any, arguments: Arrays, expected: float) -> None:
    order, sign = np.array([2, 0, 3, 1]), np.array([1.0, -1.0, -1.0, 1.0])
    turned = []
    for name, array in zip(inspect.signature(metric).parameters, arguments, strict=False):
        if name in ("codes", "test_codes", "mean"):
            turned.append(array[..., order] * sign)
        else:
            turned.append(array[..., order] if name in ("logvar", "kl") else array)
    moved = abs(metric(*turned).score - expected)
    allowed = SYMMETRY_TOLERANCE * max(1.0, abs(expected))
    assert moved <= allowed, (
        f"{metric.__name__} moves by {moved:.3f} when latents change places and signs"
    )


def _check_refusals(metric: Any, arguments: Arrays) -> None:
    codes, *rest = arguments
    broken = codes.copy()
    broken[..., 3, 1] = np.nan
    name = metric.__name__
    _refuses(lambda: metric(broken, *rest), "nan at row 3, latent 1", f"{name}: NaN codes")
    _refuses(lambda: metric(codes[..., 0], *rest), f"{codes[..., 0].shape}", f"{name}: flat codes")
    if metric.needs in ("sample", "split", "grid"):
        factors, *rest = rest
        _refuses(
            lambda: metric(codes[:-1], factors, *rest),
            f"{len(codes) - 1} and {len(factors)}",
            f"{name}: unequal lengths",
        )
        _refuses(lambda: metric(codes, factors * 1.0, *rest), "float64", f"{name}: float factors")


def _check_member_axis(metric: Any, both: tuple[Arrays, Arrays], alone: list[float]) -> None:
    """Two members in one call, which share what is not theirs, score as each *alone*."""
    names = list(inspect.signature(metric).parameters)[: len(both[0])]
    stacked = [
        np.stack(pair) if name in AXES_OF_A_MEMBER else pair[0]
        for name, pair in zip(names, zip(*both, strict=True), strict=True)
    ]
    together = metric(*stacked).score.tolist()
    if together != alone:
        assert metric(*both[0]).score == alone[0], _CHANGES.format(metric.__name__)
    assert together == alone, f"{metric.__name__}: two members must score as each alone"


def _refuses(call: Callable[[], object], said: str, what: str) -> None:
    message = refusal(call)
    assert said in message, f"{what} must be an InputError that says '{said}', not '{message}'"
