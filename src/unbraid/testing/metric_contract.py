# SPDX-License-Identifier: Apache-2.0
"""The contract of a metric, for ours and for those of other packages: call
`check_metric("my_score")` in a test.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import InputError
from unbraid.core.grid import FactorGrid
from unbraid.core.registry import Citation
from unbraid.metrics import METRICS
from unbraid.metrics._describe import AXES_OF_A_MEMBER, Family, Needs

GRID = FactorGrid(("shape", "size", "place"), (4, 5, 6))
SYMMETRY_TOLERANCE = 0.02
"""How far a score may move when latents change places or signs: predictors break ties by position.
"""

Arrays = tuple[NDArray, ...]


def check_metric(name: str) -> None:
    """Assert everything that scoring, tables and reports rely on; names the broken promise
    otherwise.
    """
    metric = METRICS.load(name)
    _check_description(name, metric)
    perfect, mixed, noise = (_inputs(metric.needs, kind) for kind in ("perfect", "mixed", "noise"))
    _check_result(metric, mixed)
    if metric.needs in ("sample", "split", "grid"):
        sign = 1.0 if metric.result.higher_is_better else -1.0
        assert sign * metric(*perfect).score > sign * metric(*noise).score, (
            f"{name}: perfect codes must score better than noise"
        )
    _check_symmetry(metric, mixed)
    _check_refusals(metric, mixed)
    if metric.needs != "population":
        _check_member_axis(metric, mixed, noise)


def _check_description(name: str, metric: Any) -> None:
    assert metric.__name__ == name, (
        f"the function of '{name}' must bear its name, not '{metric.__name__}'"
    )
    first = (metric.__doc__ or "").strip().split("\n\n")[:1]
    assert first, f"{name} needs a docstring; its first paragraph is the table's description"
    assert first[0].endswith("."), (
        f"the first docstring paragraph of {name} must be one sentence, is {first[0]!r}"
    )
    assert metric.label, f"{name} needs a label"
    assert isinstance(metric.citation, Citation), f"{name} needs a Citation"
    for told, known in (("needs", get_args(Needs)), ("family", get_args(Family))):
        assert getattr(metric, told) in known, (
            f"{told} of {name} must be one of {', '.join(known)}, not {getattr(metric, told)!r}"
        )
    low, high = metric.result.range
    assert low < high, f"the range of {name} must rise, is {metric.result.range}"
    assert metric.result.higher_is_better in (
        True,
        False,
    ), f"the result of {name} must say whether higher is better"
    assert dataclasses.is_dataclass(metric.result), f"the result of {name} must be a dataclass"


def _inputs(needs: str, kind: str) -> Arrays:
    """Arguments of one kind of code over a small grid; read-only, so that a metric that writes into
    them fails.
    """
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


def _check_result(metric: Any, arguments: Arrays) -> None:
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
    assert metric(*arguments).score == result.score, (
        f"{name} must give the same score for the same arguments"
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


def _named(metric: Any, arguments: Arrays) -> dict[str, NDArray]:
    return dict(zip(inspect.signature(metric).parameters, arguments, strict=False))


def _check_symmetry(metric: Any, arguments: Arrays) -> None:
    expected = metric(*arguments).score
    order, sign = np.array([2, 0, 3, 1]), np.array([1.0, -1.0, -1.0, 1.0])
    turned = []
    for name, array in _named(metric, arguments).items():
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


def _check_member_axis(metric: Any, arguments: Arrays, others: Arrays) -> None:
    names = list(_named(metric, arguments))
    apart = [name in AXES_OF_A_MEMBER for name in names]
    both = [
        np.stack(pair) if own else pair[0]
        for pair, own in zip(zip(arguments, others, strict=True), apart, strict=True)
    ]
    second = [
        other if own else mine for mine, other, own in zip(arguments, others, apart, strict=True)
    ]
    together = metric(*both)
    alone = [metric(*arguments).score, metric(*second).score]
    assert together.score.tolist() == alone, (
        f"{metric.__name__}: two members together must score as each alone"
    )


def _refuses(call: Callable[[], object], told: str, what: str) -> None:
    message = ""
    try:
        call()
    except InputError as error:
        message = str(error)
    assert told in message, f"{what} must be an InputError that says '{told}', not '{message}'"
