# SPDX-License-Identifier: Apache-2.0
"""What a metric says about itself: its label, family, paper, result and what it has to be given.

`needs` tells a caller that scores many metrics what to pass:

- `codes`: `(codes,)`;
- `sample`: `(codes, factors)`;
- `split`: `(codes, factors, test_codes, test_factors)`;
- `grid`: `(codes, grid)`, codes of a whole factor grid, or of any rows with their factor values in
  place of the grid;
- `posterior`: `(mean, logvar)`, both `(n, latents)`;
- `elbo`: `(mean, logvar, reconstruction)`, the last `(n,)`, nats of each sample;
- `population`: `(codes, kl)`, `(models, n, latents)` and `(models, latents)`; one score for each
  model.

Except for `population`, which is about many models anyway, every metric also takes a leading member
axis: codes `(members, n, latents)` beside the factors that all members share. It returns `Members`,
one result each.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, ClassVar, Literal, ParamSpec, Protocol, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from unbraid.core.errors import InputError, Problem, Shown, invalid, unknown
from unbraid.core.registry import Citation
from unbraid.metrics._least_samples import LeastSamples
from unbraid.metrics._resampled import ON_REQUEST, STANDARD_ERROR, Resampled
from unbraid.metrics._standardise import Scale

Needs = Literal["codes", "sample", "split", "grid", "posterior", "elbo", "population"]
Family = Literal["supervised", "unsupervised", "usefulness"]
Parameters = ParamSpec("Parameters")
Returned = TypeVar("Returned", covariant=True)

AXES_OF_A_MEMBER = {"codes": 2, "test_codes": 2, "mean": 2, "logvar": 2, "reconstruction": 1}
"""Arguments that differ between members, with one member's number of axes; others are shared."""


@dataclass(frozen=True)
class OnGpu:
    """A metric whose dear part a GPU does for many members together."""

    part: Callable[..., Iterator[Any]]
    """`(splits, device)`, checked splits `(Labelled, Labelled)` of members that share their
    factors, and options by name; a part for each.
    """
    rest: Callable[..., Any] | None = None
    """`(split, part)` and the same options: the result of one member; None where it is the part."""


class Result(Protocol):
    """What every metric returns: a frozen dataclass with a score, its range and the evidence."""

    range: ClassVar[tuple[float, float]]
    higher_is_better: ClassVar[bool]

    @property
    def score(self) -> float:
        """The one number of the metric."""
        ...


class Metric(Protocol[Parameters, Returned]):
    """A function made by `describe`: called as it was written, with its description beside it."""

    __name__: str
    label: str
    needs: Needs
    family: Family
    citation: Citation
    result: type[Result]
    compares_factors: bool
    revision: int
    revision_with: Mapping[str, int]
    on_gpu: OnGpu | None
    likes_dead_codes: bool
    least_samples: LeastSamples | None
    error: Resampled | None
    scale: Scale | None

    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Returned:
        """The result of one member; codes with a leading member axis return `Members` instead."""
        ...


@dataclass(frozen=True)
class Members(Sequence[Any]):
    """The results of a batch of members; an attribute is that of every result, stacked.

    >>> from unbraid.metrics import mig
    >>> factors = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> batch = mig(np.stack([factors * 2.0, factors * 0.0]), factors)
    >>> batch.score
    array([1., 0.])
    >>> batch[0].per_factor
    array([1., 1.])
    """

    results: tuple[Any, ...]

    def __len__(self) -> int:
        return len(self.results)

    def __getitem__(self, place: Any) -> Any:
        return Members(self.results[place]) if isinstance(place, slice) else self.results[place]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.results)

    def __getattr__(self, name: str) -> NDArray[Any]:
        if name.startswith("__") or name == "results":
            raise AttributeError(name)
        values = [np.asarray(getattr(result, name)) for result in self.results]
        if len({value.shape for value in values}) == 1:
            return np.stack(values)
        # Such as lists of latents, longer for some members.
        uneven = np.empty(len(values), dtype=object)
        uneven[:] = values
        return uneven


def describe(
    *,
    label: str,
    needs: Needs,
    citation: Citation,
    result: type[Result],
    family: Family = "supervised",
    compares_factors: bool = False,
    revision: int = 1,
    revision_with: Mapping[str, int] = MappingProxyType({}),
    on_gpu: OnGpu | None = None,
    likes_dead_codes: bool = False,
    least_samples: LeastSamples | None = None,
    error: Resampled | None = ON_REQUEST,
    scale: Scale | None = None,
) -> Callable[[Callable[Parameters, Returned]], Metric[Parameters, Returned]]:
    """Make a function a metric: attach its description and let it take a leading member axis.

    *result* is the class it returns. *compares_factors* says that it asks which of the factors a
    latent knows: with a single factor everything would be perfect. *revision* rises when the same
    codes get other numbers, so that stored scores of an earlier revision are not taken for current;
    *revision_with* has that of options with which alone numbers changed. *on_gpu* computes the same
    with a GPU, where the options that are given are among those of its part. *likes_dead_codes*
    says that latents that hold nothing score well, which is then said where the score is shown.
    *least_samples* says how many samples it needs; with fewer the score is shown with a remark.
    *error* says how its standard error over samples is found; None where it would mean nothing.
    *scale* says that the score depends on the scale or offset of the codes.
    """
    for name, word, known in (
        ("needs", needs, get_args(Needs)),
        ("family", family, get_args(Family)),
    ):
        if word not in known:
            raise InputError(unknown(name, word, known))
    for needed in ("range", "higher_is_better"):
        if not hasattr(result, needed):
            raise invalid(
                f"result {result.__name__}", f"must have the class variable {needed}", Shown("none")
            )
    if STANDARD_ERROR in getattr(result, "__dataclass_fields__", ()):
        rule = f"must have no field {STANDARD_ERROR}: tables keep that of the score under this name"
        raise invalid(f"result {result.__name__}", rule, Shown("one"), "Give it another name.")
    about = {"label": label, "needs": needs, "citation": citation, "result": result}
    about |= {"family": family, "compares_factors": compares_factors, "revision": revision}
    about |= {"revision_with": revision_with, "on_gpu": on_gpu, "scale": scale}
    about |= {"likes_dead_codes": likes_dead_codes, "least_samples": least_samples}
    about |= {"error": None if needs == "population" else error}

    def attach(function: Callable[Parameters, Returned]) -> Metric[Parameters, Returned]:
        described: Any = function if needs == "population" else _with_member_axis(function)
        described.__dict__.update(about)
        return described

    return attach


def _with_member_axis(function: Callable[..., Any]) -> Callable[..., Any]:
    """*function*, called for each member where its first argument has one axis more."""
    signature = inspect.signature(function)
    first = next(iter(signature.parameters))

    @functools.wraps(function)
    def for_one_or_many(*given: Any, **options: Any) -> Any:
        leading = given[0] if given else options.get(first)
        if _axes(leading) != AXES_OF_A_MEMBER.get(first, -2) + 1:  # pyright: ignore[reportArgumentType]
            return function(*given, **options)
        arguments = signature.bind(*given, **options).arguments
        apart = {name: value for name, value in arguments.items() if name in AXES_OF_A_MEMBER}
        members = _count_members(apart)
        results = []
        for member in range(members):
            own = {name: value[member] for name, value in apart.items()}
            try:
                results.append(function(**{**arguments, **own}))
            except InputError as error:
                raise InputError(*(of_member(member, one) for one in error.problems)) from error
        return Members(tuple(results))

    return for_one_or_many


def of_member(member: int, problem: Problem) -> Problem:
    """*problem*, saying which member has it."""
    sentence = problem.sentence and f"member {member}: {problem.sentence}"
    return replace(problem, name=f"member {member}: {problem.name}", sentence=sentence)


def _axes(values: Any) -> int:
    """How many axes *values* have; ragged lists, which the metric itself refuses, have none."""
    try:
        return np.ndim(values)
    except (ValueError, RuntimeError):
        return 0


def _count_members(apart: dict[str, Any]) -> int:
    """How many members the arguments hold; all must have the axis, with the same length."""
    lengths = {}
    for name, value in apart.items():
        if np.ndim(value) != AXES_OF_A_MEMBER[name] + 1:
            rule = "must have a leading member axis like the other codes"
            raise invalid(name, rule, Shown(f"shape {tuple(np.shape(value))}"))
        lengths[name] = len(value)
    members = set(lengths.values())
    if len(members) > 1 or 0 in members:
        shown = Shown(", ".join(str(count) for count in lengths.values()))
        raise invalid(" and ".join(lengths), "must hold the same members, at least one", shown)
    return members.pop()
